// The report: its histories share one time axis and one filter, which are in the address. All data is in the page.

import { countDecisions, renderDecision } from "./decision_detail.js";
import { el, setText } from "./dom.js";
import { clock, moment, setCurrency, short } from "./format.js";
import { KINDS } from "./history_filter.js";
import { HistoryView } from "./history_view.js";
import { ViewState, readTime, writeTime } from "./view_state.js";

const SHOWN = 100;
const state = new ViewState();
const sections = [...document.querySelectorAll("section:has(> script.data)")].map((section) =>
  ({ section, data: JSON.parse(section.querySelector(":scope > script.data").textContent) }));
const runs = sections.filter(({ data }) => !data.runs);
setCurrency(runs[0].data.currency);

// The detail of one decision

const title = el("h2", { id: "detail-title", tabindex: -1 }), kind = el("p.kind"), answer = el("div.answer");
const closing = el("button.h-button", { type: "button", "aria-label": "Close (Escape)", onclick: () => close() }, "×");
const detail = el("aside.h-detail", { role: "dialog", "aria-labelledby": "detail-title", hidden: true },
  el("div.h-head", {}, el("div", {}, kind, title), closing), answer);
document.body.append(detail);
let from = null;

function open(one, number) {
  from = detail.hidden ? document.activeElement : from;
  const { data } = runs[number];
  setText(kind, runs.length > 1 ? `decision of ${String.fromCharCode(65 + number)}` : "decision");
  setText(title, one.said);
  const told = { decision: one, detail: one.detail ?? undefined, outcomes: one.outcomes };
  const name = (what, id) => el("span", {}, what === "group" ? short(id) : id); // nothing to be linked in a report
  answer.replaceChildren(...renderDecision(told, { ...data, link: name, links: (text) => [text] }));
  detail.hidden = false;
  detail.scrollTop = 0;
  title.focus({ preventScroll: true });
  state.set({ open: `decision/${number}-${one.number}@${writeTime(one.at_s)}` });
}

function close() {
  if (detail.hidden) return;
  detail.hidden = true;
  state.set({ open: "" });
  from?.isConnected && from.focus();
}

addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });

/** Open what the link names. */
function follow() {
  const [, number, place, at] = /^decision\/(\d+)-(\d+)@(.+)$/.exec(state.get("open")) ?? [];
  const one = runs[number]?.data.decisions[place];
  if (one && Math.abs(one.at_s - readTime(at)) < 1) open(one, Number(number)); else close();
}

// Decisions as a list

class DecisionList {
  constructor(root, number, total) {
    [this.number, this.total, this.most] = [number, total, SHOWN];
    this.count = el("span.hint");
    this.list = el("ol.h-list");
    this.more = el("button.h-button", { type: "button", onclick: () => { this.most *= 4; this.render(); } }, "Show more");
    root.append(el("h3.h-title", {}, "Decisions ", this.count), this.list, this.more);
  }

  show(decisions) {
    this.decisions = decisions;
    this.render();
  }

  render() {
    setText(this.count, countDecisions(this.decisions.length, this.total));
    this.more.hidden = this.decisions.length <= this.most;
    this.list.replaceChildren(...this.decisions.slice(0, this.most).map((one) => el("li", {}, this.#makeRow(one))));
    if (this.decisions.length) return;
    this.list.append(el("li.hint", {}, this.total ? "No decisions in this period match." : "Nothing was decided."));
  }

  #makeRow(one) {
    const [glyph, name] = KINDS[one.kind];
    return el(`button.h-row.kind-${one.kind}`, { type: "button", onclick: () => open(one, this.number) },
      el("span.glyph", { role: "img", "aria-label": name }, glyph), el("time", { title: moment(one.at_s) }, clock(one.at_s)),
      el("span", {}, one.said), el("span.why", {}, one.why));
  }
}

for (const { section, data } of sections) {
  const root = section.querySelector(":scope > .history");
  if (data.runs) {
    const view = new HistoryView(root, { state, open: () => {}, changed: () => {}, isCompared: true });
    const times = new Set(runs.flatMap((run) => run.data.samples.map((sample) => sample[0])));
    const samples = [...times].sort((one, other) => one - other).map((at) => [at]);
    view.setData({ ...runs[0].data, decisions: [], samples, runs: runs.map((run) => run.data) });
    continue;
  }
  const number = runs.findIndex((run) => run.data === data);
  const list = new DecisionList(root.insertAdjacentElement("afterend", el("div")), number, data.count);
  const view = new HistoryView(root, { state, open: (one) => open(one, number), changed: (_, shown) => list.show(shown) });
  view.setData(data);
}
state.listen(follow);
follow();
