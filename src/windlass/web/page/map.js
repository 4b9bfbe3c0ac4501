// The map: a card for each group, and in it a cell for each node. One canvas a card: thousands of cells are one element.

import * as cells from "./cells.js";
import { $, el, reconcile, setText, soon } from "./dom.js";
import * as format from "./format.js";

const WAYS = [["", "highest"], ["cpu", "cpu"], ["memory", "memory"], ["gpu", "gpu"]];
/** Cells are as large as their number allows. */
const SIZES = [[60, 24], [250, 18], [900, 14], [3000, 11], [7000, 8], [Infinity, 6]];

export class Map_ {
  constructor(store, explain, say) {
    this.store = store;
    this.explain = explain;
    this.say = say;
    this.by = "";
    this.wanted = "";
    this.ink = cells.readInk();
    this.cards = new Map();
    this.#offerWays();
    this.#drawLegend();
    store.listen(({ groups }) => {
      for (const card of this.cards.values()) if (!groups || groups.has(card.id)) card.isStale = true;
      soon(this.render);
    });
    new ResizeObserver(() => this.redraw()).observe($("groups"));
    $("groups").addEventListener("pointerleave", () => { $("tip").hidden = true; });
  }

  /** Everything anew: other colours, another width, another way to look at it. */
  redraw() {
    this.ink = cells.readInk();
    this.#drawLegend();
    for (const card of this.cards.values()) card.isStale = true;
    soon(this.render);
  }

  find(text) {
    this.wanted = text.toLowerCase();
    this.redraw();
  }

  colourNext() {
    const at = WAYS.findIndex(([way]) => way === this.by);
    this.colourBy(WAYS[(at + 1) % WAYS.length][0]);
  }

  colourBy(way) {
    this.by = way;
    for (const input of $("colour").querySelectorAll("input")) input.checked = input.value === way;
    this.redraw();
  }

  render = () => {
    if (!this.store.cluster) return;
    const ids = [...this.store.groups.keys()];
    if (this.store.members.has("")) ids.push("");
    const size = SIZES.find(([most]) => this.store.nodes.size <= most)[1];
    reconcile($("groups"), ids, (id) => id || "-", (id) => this.#add(id), (child, id) => {
      const card = this.cards.get(id);
      if (card.size !== size) { card.size = size; card.isStale = true; }
      if (card.isStale) card.render();
    });
    for (const id of this.cards.keys()) if (!ids.includes(id)) this.cards.delete(id);
  };

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
    const states = Object.keys(cells.STATES).slice(1).map((state) => el("span.key", {}, this.#sample(14, (context) =>
      cells.draw(context, this.ink, { state, cpu: 0.3, memory: 0.3, gpu: null }, "", 0.5, 0, 14)), state));
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

class Card {
  constructor(map, id) {
    this.map = map;
    this.id = id;
    this.isStale = true;
    this.at = -1;
    this.title = el("button.title", { type: "button", onclick: () => id && map.explain("group", id) });
    this.size_ = el("span.size");
    this.gauge = el("span.gauge", { "aria-hidden": "true" }, el("i.now"), el("i.least"));
    this.facts = el("p.states");
    this.note = el("p.note", { hidden: true });
    this.canvas = el("canvas.cells", { tabindex: 0, role: "application", "aria-roledescription": "map of nodes",
      onpointermove: (event) => this.#point(event), onpointerleave: () => this.#leave(),
      onclick: (event) => this.#click(event), onkeydown: (event) => this.#press(event),
      onfocus: () => this.#focus(), onblur: () => { this.isFocused = false; this.#paint(); } });
    const head = el("h3", {}, this.title);
    this.element = el("article.card", {}, el("div.top", {}, head, this.size_, this.facts, this.note), id ? this.gauge : null,
      this.canvas);
    if (!id) this.title.disabled = true;
  }

  get members() { return this.map.store.members.get(this.id) ?? []; }
  get group() { return this.map.store.groups.get(this.id); }
  get expected() { return this.group ? Math.max(this.group.target_size - this.members.length, 0) : 0; }

  render() {
    this.isStale = false;
    this.#follow();
    this.#describe();
    this.#lay();
    this.#paint();
  }

  #describe() {
    const group = this.group, members = this.members;
    setText(this.title, this.id ? format.short(this.id) : "not autoscaled");
    this.title.title = this.id;
    const counted = {};
    for (const node of members) counted[node.state] = (counted[node.state] ?? 0) + 1;
    const told = Object.keys(cells.STATES).filter((state) => counted[state]).map((state) => `${counted[state]} ${state}`);
    if (this.expected) told.push(`${this.expected} asked for`);
    if (group?.cost_per_hour != null) told.push(`${format.money(group.cost_per_hour)}/h`);
    setText(this.facts, told.join(" · ") || "no nodes");
    this.canvas.setAttribute("aria-label",
      `${format.count(members.length, "node")} of ${this.id ? format.short(this.id) : "no group"}; arrow keys move, Enter explains`);
    if (!group) return;
    setText(this.size_, `${group.target_size}`);
    this.size_.title = `target ${group.target_size}, between ${group.min_size} and ${group.max_size}`;
    this.size_.dataset.bounds = ` / ${group.max_size}`;
    const most = Math.max(group.max_size, group.target_size, 1);
    this.gauge.firstChild.style.width = `${(group.target_size / most) * 100}%`;
    this.gauge.lastChild.style.left = `${(group.min_size / most) * 100}%`;
    this.#note(group);
  }

  /** What is pointed at stays so, though others come and go before it. */
  #follow() {
    const at = this.members.findIndex((node) => node.name === this.name);
    this.at = at >= 0 ? at : Math.min(this.at, this.members.length - 1);
  }

  #note(group) {
    const said = [];
    if (!group.is_healthy) said.push("unhealthy: too many of its nodes are not ready");
    if (group.backoff) said.push(`backs off until ${format.clock(group.backoff.until_s)}: ${group.backoff.code || "it failed"}`);
    if (group.target_size >= group.max_size && group.max_size > 0) said.push("at its largest size");
    this.note.hidden = !said.length;
    this.note.classList.toggle("bad", !group.is_healthy || Boolean(group.backoff));
    setText(this.note, said.join(" · "));
  }

  #lay() {
    const total = this.members.length + this.expected;
    this.element.classList.toggle("wide", total * (this.size + 2) ** 2 > 26000);
    const wide = this.canvas.clientWidth || this.element.clientWidth - 24;
    this.columns = Math.max(Math.floor((wide + 1) / (this.size + 1)), 1);
    const rows = Math.ceil(total / this.columns), high = Math.max(rows * (this.size + 1) - 1, 0);
    const ratio = devicePixelRatio || 1;
    this.canvas.hidden = !total;
    if (this.wide === wide && this.high === high && this.ratio === ratio) return;
    [this.wide, this.high, this.ratio] = [wide, high, ratio];
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = Math.round(high * ratio);
    this.canvas.style.height = `${high}px`;
  }

  #paint() {
    const context = this.canvas.getContext("2d"), { ink, by, wanted } = this.map, step = this.size + 1;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.wide, this.high);
    this.members.forEach((node, at) => {
      context.globalAlpha = !wanted || matches(node, wanted) ? 1 : 0.15;
      cells.draw(context, ink, node, by, (at % this.columns) * step, Math.floor(at / this.columns) * step, this.size);
    });
    context.globalAlpha = wanted ? 0.15 : 1;
    for (let more = 0; more < this.expected; more++) {
      const at = this.members.length + more;
      cells.draw(context, ink, { state: "booting", cpu: 0, memory: 0, gpu: null }, by, (at % this.columns) * step, Math.floor(at / this.columns) * step, this.size);
    }
    context.globalAlpha = 1;
    if (this.isFocused && this.at >= 0 && this.at < this.members.length) this.#ring(context, ink, this.at);
  }

  #ring(context, ink, at) {
    const step = this.size + 1, x = (at % this.columns) * step, y = Math.floor(at / this.columns) * step;
    context.lineWidth = 2;
    context.strokeStyle = ink.surface;
    context.strokeRect(x - 0.5, y - 0.5, this.size, this.size);
    context.strokeStyle = ink.accent;
    context.strokeRect(x + 0.5, y + 0.5, this.size - 2, this.size - 2);
  }

  /** The node at a place of the canvas. */
  #find(event) {
    const box = this.canvas.getBoundingClientRect(), step = this.size + 1;
    const column = Math.floor((event.clientX - box.left) / step), row = Math.floor((event.clientY - box.top) / step);
    const at = row * this.columns + column;
    return column < this.columns && at < this.members.length ? at : -1;
  }

  #point(event) {
    const at = this.#find(event), tip = $("tip");
    this.canvas.classList.toggle("on", at >= 0);
    if (at < 0) { tip.hidden = true; return; }
    tip.replaceChildren(...describe(this.members[at], this.map.store.cluster.at_s));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.transform = `translate(${Math.max(x, 4)}px, ${y}px)`;
  }

  #leave() { $("tip").hidden = true; this.canvas.classList.remove("on"); }

  #click(event) {
    const at = this.#find(event);
    if (at < 0) return;
    this.at = at;
    this.name = this.members[at].name;
    this.map.explain("node", this.name);
  }

  #focus() {
    this.isFocused = true;
    if (this.at < 0) this.at = 0;
    this.#go(this.at);
  }

  #press(event) {
    const last = this.members.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    if (event.key in steps) {
      const to = this.at + steps[event.key];
      this.#go(to < 0 || to > last ? this.at : to);
    } else if (event.key === "Home") this.#go(0);
    else if (event.key === "End") this.#go(last);
    else if (event.key === "Enter" || event.key === " ") {
      if (this.at >= 0 && this.at <= last) this.map.explain("node", this.members[this.at].name);
    } else return;
    event.preventDefault();
  }

  #go(to) {
    this.at = Math.min(Math.max(to, 0), this.members.length - 1);
    this.#paint();
    const node = this.members[this.at];
    this.name = node?.name;
    if (node) this.map.say([...describe(node, this.map.store.cluster.at_s)].map((line) => line.textContent).join(", "));
  }
}

const matches = (node, wanted) => node.name.toLowerCase().includes(wanted) || node.state.includes(wanted);

/** A node in a few lines. */
function describe(node, now_s) {
  const shares = [`cpu ${format.share(node.cpu)}`, `memory ${format.share(node.memory)}`];
  if (node.gpu != null) shares.push(`gpu ${format.share(node.gpu)}`);
  const since = node.since_s ? ` for ${format.lasting(now_s - node.since_s)}` : "";
  const lines = [el("b", {}, node.name), el("span", {}, `${cells.STATES[node.state]}${since}${node.cordoned ? ", cordoned" : ""}`)];
  lines.push(el("span", {}, `${shares.join(", ")}, ${format.count(node.pods, "pod")}`));
  if (node.why) lines.push(el("span.dim", {}, node.why));
  return lines;
}
