// Pending pods and decisions, as lists of buttons.

import { $, el, reconcile, setText } from "./dom.js";
import * as format from "./format.js";
import { later } from "./turns.js";

const SHOWN = 120;

const HELP = {
  helped: ["▲", "nodes are coming"],
  room: ["→", "there is room"],
  later: ["…", "in a later loop"],
  nowhere: ["✕", "no group helps"],
  waiting: ["·", "not looked at yet"],
};
const KINDS = { up: ["▲", "scale up"], down: ["▼", "scale down"], trouble: ["!", "trouble"], wait: ["✕", "left waiting"] };

export class Lists {
  constructor(store, explain, tell) {
    this.store = store;
    this.explain = explain;
    this.tell = tell;
    store.listen((what) => {
      if (what.pending || what.isWhole) later(this.renderPending);
      else later(this.renderAges);
      if (what.decisions.length || what.isWhole) later(this.renderDecisions);
    });
    for (const id of ["pending", "timeline"]) $(id).addEventListener("keydown", move);
  }

  renderPending = () => {
    const { pending, cluster } = this.store;
    setText($("pending-count"), cluster.pending ? format.whole(cluster.pending) : "");
    reconcile($("pending"), pending, (one) => `${one.pod} ${one.help}`, () => el("li", {}, this.#makePending()), (item, one) => this.#showPending(item, one));
    if (!pending.length) $("pending").replaceChildren(el("li.none", { "data-key": "none" }, "No pod waits."));
    this.renderAges();
  };

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
    const told = this.store.decisions.slice(-SHOWN).reverse();
    setText($("timeline-count"), told.length ? format.whole(this.store.decisions.at(-1).number + 1) : "");
    reconcile($("timeline"), told, (one) => `${one.number}`, (one) => el("li", {}, this.#makeDecision(one)), () => {});
    if (!told.length) $("timeline").replaceChildren(el("li.none", { "data-key": "none" }, "Nothing was decided yet."));
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
  if (one.help === "room") return ` on ${one.nodes[0]}${one.nodes.length > 1 ? " and others" : ""}`;
  const counted = new Map();
  for (const { texts } of one.reasons) for (const text of texts) counted.set(text, (counted.get(text) ?? 0) + 1);
  const told = [...counted].sort((a, b) => b[1] - a[1]).map(([text, times]) => times > 1 ? `${text} (${times} groups)` : text);
  return told.length ? `: ${told.join(", ")}` : "";
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
