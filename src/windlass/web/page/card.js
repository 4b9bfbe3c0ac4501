// A card: a group in figures, and its nodes as cells.

import * as cells from "./cells.js";
import { $, el, setText } from "./dom.js";
import { Field } from "./field.js";
import * as format from "./format.js";
import { soon } from "./turns.js";

const REQUESTED = { state: "booting", cpu: 0, memory: 0, gpu: null, cordoned: false };

export class Card {
  constructor(map, id) {
    this.map = map;
    this.id = id;
    this.isStale = true;
    this.at = -1;
    /** Nodes as they are drawn: what is published may be ahead by a moment. */
    this.shown = [];
    this.called = id ? format.short(id) : "no group";
    // Named from the beginning: a screen reader may reach a card before it is drawn.
    this.title = el("button.title", { type: "button", title: id, onclick: () => id && map.explain("group", id) },
      id ? this.called : "not autoscaled");
    this.size = el("span.size");
    this.gauge = el("span.gauge", { "aria-hidden": "true" }, el("i.now"), el("i.least"));
    this.facts = el("p.states");
    this.note = el("p.note", { hidden: true });
    this.canvas = el("canvas.cells", { tabindex: 0, hidden: true, role: "application", "aria-roledescription": "map of nodes",
      "aria-label": `nodes of ${this.called}`,
      onpointermove: (event) => this.#point(event), onpointerleave: () => this.#leave(),
      onclick: (event) => this.#click(event), onkeydown: (event) => this.#press(event), onfocus: () => this.#go(Math.max(this.at, 0)) });
    this.ring = el("i.ring", { "aria-hidden": "true", hidden: true });
    this.field = new Field(this.canvas);
    this.top = el("div.top", {}, el("h3", {}, this.title), this.size, this.facts, this.note);
    this.element = el("article.card", {}, this.top, id ? this.gauge : null, el("div.field", {}, this.canvas, this.ring));
    if (!id) this.title.disabled = true;
    // The browser tells the width after its own layout; asking for it would make it lay everything out at once.
    new ResizeObserver(([{ contentRect }]) => {
      if (this.wide === contentRect.width) return;
      this.wide = contentRect.width;
      soon(this.render);
    }).observe(this.top);
  }

  get members() { return this.map.store.members.get(this.id) ?? []; }
  get group() { return this.map.store.groups.get(this.id); }

  render = () => {
    this.isStale = false;
    this.shown = [...this.members];
    this.expected = this.group ? Math.max(this.group.target_size - this.shown.length, 0) : 0;
    this.#describe();
    this.#draw();
    this.#follow();
  };

  #describe() {
    const group = this.group;
    const counted = {};
    for (const node of this.shown) counted[node.state] = (counted[node.state] ?? 0) + 1;
    const told = Object.keys(cells.STATES).filter((state) => counted[state]).map((state) => `${counted[state]} ${state}`);
    if (this.expected) told.push(`${this.expected} requested`);
    if (group?.cost_per_hour != null) told.push(`${format.money(group.cost_per_hour)}/h`);
    if (group) told.push(...placesOf(group));
    setText(this.facts, told.join(" · ") || "no nodes");
    this.canvas.setAttribute("aria-label",
      `${format.count(this.shown.length, "node")} of ${this.called}; arrow keys move, Enter explains`);
    if (!group) return;
    setText(this.size, `${group.target_size}`);
    this.size.title = `target ${group.target_size}, between ${group.min_size} and ${group.max_size}`;
    this.size.dataset.bounds = ` / ${group.max_size}`;
    const most = Math.max(group.max_size, group.target_size, 1);
    this.gauge.firstChild.style.width = `${(group.target_size / most) * 100}%`;
    this.gauge.lastChild.style.left = `${(group.min_size / most) * 100}%`;
    this.#note(group);
  }

  #note(group) {
    const said = [];
    if (!group.is_healthy) said.push("unhealthy: too many of its nodes are not ready");
    if (group.backoff) said.push(`backs off until ${format.clock(group.backoff.until_s)}: ${group.backoff.code || "it failed"}`);
    if (group.replicas_owner) said.push(group.replicas_owner);
    if (group.target_size >= group.max_size && group.max_size > 0) said.push("at its largest size");
    this.note.hidden = !said.length;
    this.note.classList.toggle("bad", !group.is_healthy || Boolean(group.backoff || group.replicas_owner));
    setText(this.note, said.join(" · "));
  }

  #draw() {
    const { by, wanted, stamps } = this.map, total = this.shown.length + this.expected;
    this.element.classList.toggle("wide", this.map.isWide);
    this.canvas.hidden = !total || !this.wide;
    if (!this.wide) return; // the browser has not said yet
    const looks = new Int16Array(total).fill(cells.look(REQUESTED, by, Boolean(wanted)), this.shown.length);
    for (let at = 0; at < this.shown.length; at++) {
      const node = this.shown[at];
      looks[at] = cells.look(node, by, Boolean(wanted) && !matches(node, wanted));
    }
    this.field.show(looks, stamps, this.wide);
  }

  /** What is pointed at stays so, though others come and go before it. */
  #follow() {
    const at = this.name ? this.shown.findIndex((node) => node.name === this.name) : -1;
    this.at = at >= 0 ? at : Math.min(this.at, this.shown.length - 1);
    this.#mark();
  }

  /** Put the ring around what the keys are at; it is seen while the cells have the focus. */
  #mark() {
    this.ring.hidden = this.at < 0 || !this.wide;
    if (this.ring.hidden) return;
    const [x, y] = this.field.place(this.at), { size } = this.map.stamps;
    this.ring.style.transform = `translate(${x}px, ${y}px)`;
    this.ring.style.width = this.ring.style.height = `${size - 1}px`;
  }

  /** The node at a place of the canvas. */
  #find(event) {
    const at = this.wide ? this.field.find(event.offsetX, event.offsetY) : -1;
    return at < this.shown.length ? at : -1;
  }

  #point(event) {
    const at = this.#find(event), tip = $("tip");
    this.canvas.classList.toggle("on", at >= 0);
    if (at < 0) { tip.hidden = true; return; }
    if (this.pointed !== this.shown[at] || tip.hidden) tip.replaceChildren(...describe(this.shown[at], this.map.store.cluster.at_s));
    this.pointed = this.shown[at];
    this.aim = [event.clientX, event.clientY];
    tip.hidden = false;
    // On the side where there is room, so that no measurement is needed.
    const left = event.clientX < innerWidth / 2, above = event.clientY > innerHeight * 0.75;
    tip.style.transform = `translate(${event.clientX + (left ? 14 : -14)}px, ${event.clientY + (above ? -12 : 18)}px)`
      + ` translate(${left ? 0 : -100}%, ${above ? -100 : 0}%)`;
  }

  #leave() { $("tip").hidden = true; this.canvas.classList.remove("on"); this.aim = null; }

  /** Has the pointer stayed where the tip named a node? Another may have taken that place since. */
  #isAimed({ clientX, clientY }) { // of clicks browsers tell whole pixels
    return Boolean(this.aim) && Math.abs(this.aim[0] - clientX) < 1 && Math.abs(this.aim[1] - clientY) < 1 && !$("tip").hidden;
  }

  #click(event) {
    const name = this.#isAimed(event) ? this.pointed.name : this.shown[this.#find(event)]?.name;
    if (!name) return;
    this.name = name;
    this.#follow();
    this.map.explain("node", name);
  }

  #press(event) {
    const last = this.shown.length - 1, row = this.field.columns;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row };
    if (event.key in steps) {
      const to = this.at + steps[event.key];
      this.#go(to < 0 || to > last ? this.at : to);
    } else if (event.key === "Home") this.#go(0);
    else if (event.key === "End") this.#go(last);
    else if (event.key === "Enter" || event.key === " ") {
      if (this.name) this.map.explain("node", this.name); // which was said, though it may be gone
    } else return;
    event.preventDefault();
  }

  #go(to) {
    this.at = Math.min(Math.max(to, 0), this.shown.length - 1);
    this.#mark();
    const node = this.shown[this.at];
    this.name = node?.name;
    if (node) this.map.say(describe(node, this.map.store.cluster.at_s).map((line) => line.textContent).join(", "));
  }
}

/** Zones and machine types, by name where there is one of each. */
function placesOf({ zones, machine_types }) {
  const told = zones.length > 1 ? [format.count(zones.length, "zone")] : zones.map((zone) => `zone ${zone}`);
  return [...told, ...(machine_types.length > 1 ? [format.count(machine_types.length, "machine type")] : machine_types)];
}

const matches = (node, wanted) => node.name.toLowerCase().includes(wanted) || node.state.includes(wanted);

/** A node in a few lines. */
function describe(node, now_s) {
  const shares = [`cpu ${format.share(node.cpu)}`, `memory ${format.share(node.memory)}`];
  if (node.gpu != null) shares.push(`gpu ${format.share(node.gpu)}`);
  const since = node.since_s ? ` for ${format.lasting(now_s - node.since_s)}` : "";
  const lines = [el("b", {}, node.name), el("span", {}, `${cells.STATES[node.state]}${since}${node.cordoned ? ", cordoned" : ""}`)];
  lines.push(el("span", {}, `${shares.join(", ")}, ${format.count(node.pods, "pod")}`));
  const age = node.created_s ? `${format.lasting(now_s - node.created_s)} old` : "";
  const place = [node.zone && `zone ${node.zone}`, node.machine_type, age].filter(Boolean);
  if (place.length) lines.push(el("span", {}, place.join(", ")));
  if (node.why) lines.push(el("span.dim", {}, node.why));
  return lines;
}
