// The map: a card for each group, and in it a cell for each node. One canvas a card: thousands of cells are one element.

import { Card } from "./card.js";
import * as cells from "./cells.js";
import { $, el, reconcile } from "./dom.js";
import { Stamps } from "./field.js";
import { later, soon } from "./turns.js";

const WAYS = [["", "max(cpu, mem)"], ["cpu", "cpu"], ["memory", "memory"], ["gpu", "gpu"]];
const WIDE = 26000; // square pixels of the cells of a group, from which on all cards take the whole width
const NARROW = 0.7 * WIDE; // and below which they no longer do: a node more or less moves no card
/** Cells are as large as their number allows. */
const SIZES = [[60, 24], [250, 18], [900, 14], [3000, 11], [7000, 8], [Infinity, 6]];

export class Map_ {
  constructor(store, explain, say) {
    this.store = store;
    this.explain = explain;
    this.say = say;
    this.by = "";
    this.wanted = this.group = "";
    this.isWide = false;
    this.ink = cells.readInk();
    this.cards = new Map();
    this.#offerWays();
    this.#drawLegend();
    store.listen(({ groups }) => {
      for (const card of this.cards.values()) if (!groups || groups.has(card.id)) card.isStale = true;
      later(this.render);
    });
    $("groups").addEventListener("pointerleave", () => { $("tip").hidden = true; });
  }

  /** Other colours: everything is drawn anew. */
  recolour() {
    this.ink = cells.readInk();
    this.stamps = null;
    this.#choose();
    this.#drawLegend();
    this.#redraw();
  }

  /** Groups that do not match are not shown; nodes that do not match are faint. */
  filterBy(filter) {
    const { group, text } = filter;
    if (this.group === group && this.wanted === text) return;
    [this.group, this.wanted] = [group, text];
    soon(this.render);
    this.#redraw();
  }

  colourNext() {
    const at = WAYS.findIndex(([way]) => way === this.by);
    this.colourBy(WAYS[(at + 1) % WAYS.length][0]);
  }

  colourBy(way) {
    this.by = way;
    for (const input of $("colour").querySelectorAll("input")) input.checked = input.value === way;
    this.#redraw();
  }

  /** Callers wait until all of it is done. */
  #redraw() {
    soon(() => {
      this.#choose();
      for (const card of this.cards.values()) card.render();
    });
  }

  /** Cards that came and went at once, the others' content card by card. */
  render = () => {
    if (!this.store.cluster) return;
    const isOther = this.#choose();
    const ids = [...this.store.groups.keys()].filter((id) => !this.group || id === this.group);
    if (this.store.members.has("") && !this.group) ids.push("");
    reconcile($("groups"), ids, (id) => id || "-", (id) => this.#add(id), (child, id) => {
      const card = this.cards.get(id);
      if (card.isStale || isOther) later(card.render);
    });
    const known = new Set(ids);
    for (const id of this.cards.keys()) if (!known.has(id)) this.cards.delete(id);
  };

  /** The size of cells, and how they look. Is it another than before? */
  #choose() {
    const size = SIZES.find(([most]) => this.store.nodes.size <= most)[1], ratio = devicePixelRatio || 1;
    const isOther = this.#widen(size);
    if (this.stamps?.size === size && this.stamps.ratio === ratio) return isOther;
    this.stamps = new Stamps(this.ink, size, ratio);
    return true;
  }

  /** All cards are as wide as the largest group needs. Is it another width than before? */
  #widen(size) {
    let most = 0;
    for (const [id, { target_size }] of this.store.groups) {
      most = Math.max(most, target_size, this.store.members.get(id)?.length ?? 0);
    }
    const needed = most * (size + 2) ** 2, isWide = needed > (this.isWide ? NARROW : WIDE);
    if (isWide === this.isWide) return false;
    this.isWide = isWide;
    return true;
  }

  #add(id) {
    const card = new Card(this, id);
    this.cards.set(id, card);
    return card.element;
  }

  #offerWays() {
    for (const [way, name] of WAYS) {
      const input = el("input", { type: "radio", name: "colour", value: way, checked: way === this.by,
        onchange: () => this.colourBy(way) });
      $("colour").append(el("label", {}, input, el("span", {}, name)));
    }
  }

  #drawLegend() {
    const ramp = el("span.key", {}, "0 %", this.#sample(90, (context, high) => {
      for (let x = 0; x < 90; x++) {
        context.fillStyle = this.ink.ramp[Math.round((x / 89) * 100)];
        context.fillRect(x, 1, 1, high - 2);
      }
    }), "100 %");
    const shown = (state) => cells.look({ state, cpu: 0.3, memory: 0.3, gpu: null }, "", false);
    const states = Object.keys(cells.STATES).slice(1).map((state) => el("span.key", {}, this.#sample(14, (context) =>
      cells.draw(context, this.ink, shown(state), 14)), state));
    $("legend").replaceChildren(ramp, ...states);
  }

  #sample(wide, paint, high = 14) {
    const canvas = el("canvas", { "aria-hidden": "true" }), ratio = devicePixelRatio || 1;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    paint(context, high);
    return canvas;
  }
}
