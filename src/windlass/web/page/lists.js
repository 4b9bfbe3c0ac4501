// Pending pods and decisions, as lists of buttons.

import { countDecisions } from "./decision_detail.js";
import { $, el, reconcile, setText } from "./dom.js";
import * as format from "./format.js";
import { KINDS } from "./history_filter.js";
import { Holding } from "./holding.js";
import { later } from "./turns.js";

const SHOWN = 120;

const HELP = {
  helped: ["▲", "nodes are coming"],
  room: ["→", "there is room"],
  later: ["…", "in a later loop"],
  nowhere: ["✕", "no group helps"],
  waiting: ["·", "not evaluated yet"],
};

export class Lists {
  constructor(store, explain, tell) {
    this.store = store;
    this.explain = explain;
    this.tell = tell;
    [this.filter, this.shown, this.known] = [null, [], 0];
    store.listen((what) => {
      if (what.pending || what.isWhole) later(this.renderPending);
      else later(this.renderAges);
    });
    this.held = {};
    for (const [id, render] of [["pending", this.renderPending], ["timeline", this.renderDecisions]]) {
      $(id).addEventListener("keydown", move);
      this.held[id] = new Holding($(id), $(`${id}-held`), () => later(render));
    }
  }

  /** `shown`: decisions of the period that match; `known`: how many there were in all. */
  filterBy(filter, shown, known) {
    [this.filter, this.shown, this.known] = [filter, shown, known];
    later(this.renderPending);
    later(this.renderDecisions);
  }

  #isWanted(one) {
    const { group, namespace, text } = this.filter ?? {};
    const nodeGroups = one.nodes.map((name) => this.store.nodes.get(name)?.group);
    const groups = [...one.groups, ...one.upcoming, ...nodeGroups, ...one.reasons.map((reason) => reason.group)];
    const words = [one.pod, one.owner, ...one.groups, ...one.upcoming, ...one.nodes];
    return (!namespace || one.pod.startsWith(`${namespace}/`)) && (!group || groups.includes(group))
      && (!text || words.join(" ").toLowerCase().includes(text));
  }

  renderPending = () => {
    this.#fill("pending", this.store.pending.filter((one) => this.#isWanted(one)), {
      keyOf: (one) => one.pod,
      make: () => el("li", {}, this.#makePending()),
      update: (item, one) => this.#showPending(item, one),
      none: this.store.pending.length ? "No pending pods match." : "No pending pods.",
    });
    this.renderAges();
  };

  /** Make the rows those of `items`. While the list is held they stay, and those that went are crossed out. */
  #fill(id, items, { keyOf, make, update, none }) {
    const list = $(id), held = this.held[id], rows = [...list.children];
    if (held.isHeld) {
      const shown = new Set(rows.map((item) => item.dataset.key)), kept = new Set(items.map(keyOf));
      for (const item of rows) item.classList.toggle("gone", !kept.has(item.dataset.key));
      held.tell(kept.difference(shown).size, shown.difference(kept).size);
      return;
    }
    held.free();
    for (const item of rows) item.classList.remove("gone");
    keepFocus(list, () => {
      reconcile(list, items, keyOf, make, update);
      if (!items.length) list.replaceChildren(el("li.none", { "data-key": "none" }, none));
    });
  }

  #makePending() {
    const button = el("button.row", { type: "button", onclick: () => this.explain("pod", button.pending.pod) },
      el("span.glyph"), el("span.what"), el("span.age"), el("span.why"));
    return button;
  }

  #showPending(item, one) {
    const button = item.firstChild, [glyph, what, , why] = button.children;
    button.pending = one;
    button.className = `row help-${one.help}`;
    setText(glyph, HELP[one.help][0]);
    setText(what, `${one.count > 1 ? `${format.whole(one.count)} × ` : ""}${one.owner || one.pod}`);
    what.title = one.pod;
    setText(why, `${HELP[one.help][1]}${reasons(one)} · ${format.requests(one.requests)}`);
  }

  renderAges = () => {
    const { cluster } = this.store;
    setText($("pending-count"), cluster?.pending ? format.whole(cluster.pending) : "");
    for (const item of $("pending").children) {
      const button = item.firstChild;
      if (button.pending) setText(button.children[2], format.lasting(cluster.at_s - button.pending.since_s));
    }
  };

  renderDecisions = () => {
    const told = this.shown.slice(-SHOWN).reverse();
    setText($("timeline-count"), this.known ? countDecisions(this.shown.length, this.known) : "");
    this.#fill("timeline", told, {
      keyOf: (one) => `${one.number}`,
      make: (one) => el("li", {}, this.#makeDecision(one)),
      update: (item, one) => setText(item.querySelector("time"), format.clock(one.at_s)),
      none: this.known ? "No decisions in this period match." : "Nothing was decided yet.",
    });
  };

  #makeDecision(one) {
    const [glyph, spoken] = KINDS[one.kind] ?? ["·", one.kind];
    return el(`button.row.kind-${one.kind}`, { type: "button", onclick: () => this.tell(one) },
      el("span.glyph", { role: "img", "aria-label": spoken }, glyph), el("span.what", {}, one.said),
      el("time.age", { title: format.moment(one.at_s) }, format.clock(one.at_s)), el("span.why", {}, one.why));
  }
}

/** Why no group helps, the most common reason first, or which one does. */
function reasons(one) {
  if (one.help === "helped") return ` in ${one.groups.map(format.short).join(", ")}`;
  if (one.help === "room") {
    const places = [...one.nodes, ...one.upcoming.map((id) => `an upcoming node of ${format.short(id)}`)];
    return ` on ${places.slice(0, 2).join(", ") || "a node"}`;
  }
  const counted = new Map();
  for (const { texts } of one.reasons) for (const text of texts) counted.set(text, (counted.get(text) ?? 0) + 1);
  const told = [...counted].sort((a, b) => b[1] - a[1]).map(([text, times]) => times > 1 ? `${text} (${times} groups)` : text);
  return told.length ? `: ${told.join(", ")}` : "";
}

/** If the focused row is removed, focus moves to the row in its place. */
function keepFocus(list, change) {
  const at = [...list.children].findIndex((item) => item.contains(document.activeElement));
  change();
  if (at < 0 || list.contains(document.activeElement)) return;
  const next = list.children[Math.min(at, list.children.length - 1)];
  (next.querySelector("button") ?? list.closest("section").querySelector("h2")).focus({ preventScroll: true });
}

/** Up and down go from row to row, as in any list. */
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const item = document.activeElement?.closest("li");
  if (!step || !item) return;
  const next = step > 0 ? item.nextElementSibling : item.previousElementSibling;
  next?.querySelector("button")?.focus();
  event.preventDefault();
}
