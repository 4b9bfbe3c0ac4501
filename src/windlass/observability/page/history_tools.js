// The tools above the history: which period is shown, and what is filtered by.

import { el, setText } from "./dom.js";
import { period, setZone, short, whole } from "./format.js";
import { KINDS } from "./history_filter.js";

const LAST = ["1h", "6h", "all"];
const SAID_MS = 3000;

/** A button with a glyph; its name is its label. */
function button(text, label, act) {
  return el("button.h-button", { type: "button", title: label, "aria-label": label, onclick: act }, text);
}

/** Period, zoom, zone, and a link to what is shown. */
export class PeriodTools {
  /** `moved` is called after a change of the axis, `zoned` after one of the zone. */
  constructor(axis, state, { moved, zoned, cursor }) {
    Object.assign(this, { axis, state, zoned });
    const change = (act) => () => { act(); moved(); };
    this.last = Object.fromEntries(LAST.map((last) => [last, el("button.h-button",
      { type: "button", "aria-pressed": "false", onclick: change(() => axis.showLast(last)) }, last)]));
    this.period = el("output.h-period", { "aria-live": "off" });
    this.zone = el("button.h-button",
      { type: "button", title: "UTC, or the zone of this browser", onclick: () => this.#changeZone() });
    this.copied = el("span.h-copied", { role: "status" });
    this.element = el("div.h-tools", { role: "group", "aria-label": "Period" },
      ...Object.values(this.last),
      button("◀", "Earlier", change(() => axis.pan(-0.5))),
      button("▶", "Later", change(() => axis.pan(0.5))),
      button("+", "Zoom in", change(() => axis.zoom(0.5, cursor()))),
      button("−", "Zoom out", change(() => axis.zoom(2, cursor()))),
      this.period, this.zone,
      el("button.h-button", { type: "button", onclick: () => this.#copy() }, "Copy link"), this.copied);
  }

  render() {
    const { axis } = this;
    setText(this.period, period(axis.from, axis.to));
    setText(this.zone, this.state.get("zone") === "local" ? "local time" : "UTC");
    for (const [last, pressed] of Object.entries(this.last)) pressed.setAttribute("aria-pressed", `${axis.last === last}`);
  }

  #changeZone() {
    const zone = this.state.get("zone") === "local" ? "" : "local";
    setZone(zone || "utc");
    this.zoned(zone);
  }

  async #copy() {
    let said = "link copied";
    try { await navigator.clipboard.writeText(this.state.link); } catch { said = "the link is in the address bar"; }
    setText(this.copied, said);
    setTimeout(() => setText(this.copied, ""), SAID_MS);
  }
}

/** Kinds of decisions, group, namespace and text. */
export class FilterTools {
  /** `find`: the field of the text, which may be elsewhere on the page; `changed(changes)`. */
  constructor(state, find, changed) {
    Object.assign(this, { state, find, changed });
    this.kinds = Object.keys(KINDS);
    this.boxes = this.#perKind((kind) => el("input.unseen",
      { type: "checkbox", value: kind, onchange: () => this.#changeKinds() }));
    this.counts = this.#perKind(() => el("span.h-count"));
    this.selects = { group: this.#makeSelect("group", "Node group"), namespace: this.#makeSelect("namespace", "Namespace") };
    this.clear = button("Clear", "Clear all filters", () => changed({ kind: "", group: "", namespace: "", text: "" }));
    const ownFind = find ? null : el("input.h-find", { type: "search", placeholder: "Text…",
      "aria-label": "Text in decisions and groups", autocomplete: "off", spellcheck: "false" });
    this.find = find ?? ownFind;
    this.find.addEventListener("input", () => changed({ text: this.find.value.trim() }));
    this.chips = this.kinds.map((kind) => this.#makeChip(kind));
    this.element = el("div.h-tools", { role: "group", "aria-label": "Filter" },
      ...this.chips, this.selects.group, this.selects.namespace, ownFind, this.clear);
  }

  #perKind(make) { return Object.fromEntries(this.kinds.map((kind) => [kind, make(kind)])); }

  #makeChip(kind) {
    const [glyph, name] = KINDS[kind];
    return el(`label.h-kind.kind-${kind}`, { title: `Show no other kind than: ${name}` }, this.boxes[kind],
      el("span.glyph", { "aria-hidden": "true" }, glyph), ` ${name} `, this.counts[kind]);
  }

  #makeSelect(name, label) {
    return el("select", { "aria-label": label, onchange: ({ target }) => this.changed({ [name]: target.value }) });
  }

  #changeKinds() { this.changed({ kind: this.kinds.filter((kind) => this.boxes[kind].checked).join(",") }); }

  /** What can be chosen. */
  offer({ groups, namespaces, decisions }) {
    const named = new Set([...namespaces, ...decisions.flatMap((one) => one.namespaces)]);
    this.#offer("group", groups.filter(Boolean), "all groups", short);
    this.#offer("namespace", [...named].filter(Boolean).sort(), "all namespaces", String);
  }

  #offer(name, values, all, spell) {
    const select = this.selects[name], offered = values.join();
    if (select.offered === offered) return;
    select.offered = offered;
    select.replaceChildren(el("option", { value: "" }, all), ...values.map((value) => el("option", { value }, spell(value))));
    this.#choose(select, this.state.get(name));
  }

  /** A link may name what is not there any more: it stays chosen, so that it can be seen and cleared. */
  #choose(select, value) {
    const isOffered = [...select.options].some((option) => option.value === value);
    if (!isOffered) select.append(el("option", { value }, short(value)));
    select.value = value;
  }

  /** Show what the address says. */
  adopt() {
    for (const kind of this.kinds) this.boxes[kind].checked = this.state.list("kind").includes(kind);
    for (const [name, select] of Object.entries(this.selects)) this.#choose(select, this.state.get(name));
    if (this.find.value.trim() !== this.state.get("text")) this.find.value = this.state.get("text");
  }

  /** `shown`: decisions of the period by kind. */
  render(shown, isOn) {
    for (const kind of this.kinds) setText(this.counts[kind], whole(shown[kind].length));
    this.clear.disabled = !isOn;
  }
}
