// The history: decisions and figures over one time axis, with a cursor, zoom, and filters that touch every panel.

import { DecisionLanes } from "./decision_lanes.js";
import { el, setText } from "./dom.js";
import { clock, day, hourMinute, moment, setZone, zoneName } from "./format.js";
import { CHARTS, COMPARED, MOST_KEYS } from "./history_curves.js";
import { Filter, KINDS } from "./history_filter.js";
import { FilterTools, PeriodTools } from "./history_tools.js";
import { Plot, countUntil } from "./plot.js";
import { StoryMarks } from "./story_marks.js";
import { TimeAxis } from "./time_axis.js";
import { soon } from "./turns.js";
import { readTime, writeTime } from "./view_state.js";

const HIGH = 54, STACKED_HIGH = 152; // as in history.css
const TICK_PX = 90; // at least, from label to label
const DRAG_PX = 5; // a shorter move is a click
const KEY_PX = 4; // that an arrow key moves the cursor
const TIP_PX = 320; // as wide as the tip gets

const NOTHING = { samples: [], groups: [], namespaces: [], decisions: [], steps: [], count: 0, from_s: 0, at_s: 1 };

export class HistoryView {
  /**
   * `open(decision)` shows one. `changed(filter, shown)` is called after the filter or the period changed. `find` is the field
   * for the text, where the page has one. Of several runs (`isCompared`) there are curves, but no decisions.
   */
  constructor(root, { state, open, changed, find = null, isCompared = false }) {
    Object.assign(this, { root, state, open, changed, data: NOTHING, times: [], at: null, isPinned: false });
    this.axis = new TimeAxis();
    this.plots = (isCompared ? COMPARED : CHARTS).map((chart) => new Plot(chart));
    this.lanes = new DecisionLanes();
    this.story = new StoryMarks();
    this.period = new PeriodTools(this.axis, state, {
      moved: () => this.#remember(), zoned: (zone) => this.#change({ zone }), cursor: () => this.at ?? undefined,
    });
    this.tools = new FilterTools(state, find, (changes) => this.#change(changes));
    this.#makePanels();
    root.classList.toggle("h-compared", isCompared);
    if (isCompared) for (const part of [...this.lanes.elements, ...this.tools.chips]) part.hidden = true;
    root.append(this.period.element, this.tools.element, this.panels, this.said);
    // The browser tells the width after its own layout; asking for it would make it lay everything out at once.
    new ResizeObserver(([{ contentRect }]) => {
      this.wide = contentRect.width;
      soon(this.render);
    }).observe(this.slider);
    this.adopt = () => { this.#adopt(); soon(this.render); };
    state.listen(this.adopt);
    state.share(this.adopt);
    this.#adopt();
  }

  setData(data) {
    this.data = data;
    this.times = data.samples.map((sample) => sample[0]);
    this.axis.extend(data.from_s, data.at_s);
    this.tools.offer(data);
    this.#filter();
    soon(this.render);
  }

  /** Decisions that match and are shown, oldest first. */
  get shown() { return this.filter.decisions.filter((one) => this.axis.has(one.at_s)); }

  // What is in the address

  #adopt() {
    const { state, axis } = this, [from, to] = [readTime(state.get("from")), readTime(state.get("to"))];
    if (from < to) axis.set(from, to); else axis.showLast(state.get("last") || this.root.dataset.period);
    const at = readTime(state.get("at"));
    this.at = Number.isFinite(at) ? at : null;
    this.isPinned = this.at !== null;
    setZone(state.get("zone") === "local" ? "local" : "utc");
    this.tools.adopt();
    this.#filter();
  }

  #remember() {
    const { axis } = this, isUsual = axis.last === this.root.dataset.period;
    const shown = axis.last
      ? { last: isUsual ? "" : axis.last, from: "", to: "" }
      : { last: "", from: writeTime(axis.from), to: writeTime(axis.to) };
    this.#change({ ...shown, at: this.isPinned && this.at !== null ? writeTime(this.at) : "" });
  }

  #change(changes) {
    this.state.set(changes, this.adopt);
    this.tools.adopt();
    this.#filter();
    soon(this.render);
  }

  #filter() {
    this.filter = new Filter(this.state, this.data.decisions, this.data.groups);
    this.changed(this.filter, this.shown);
  }

  // Panels

  #makePanels() {
    this.ticks = el("div.h-ticks", { "aria-hidden": "true" });
    this.slider = el("div.h-slider",
      { role: "slider", tabindex: 0, "aria-label": "Time", onkeydown: (event) => this.#press(event) }, this.ticks);
    this.cursor = el("div.h-cursor", { "aria-hidden": "true", hidden: true }, el("span"));
    this.brush = el("div.h-brush", { "aria-hidden": "true", hidden: true });
    this.overlay = el("div.h-overlay", { "aria-hidden": "true" }, this.cursor, this.brush);
    this.body = el("div.h-body", {
      onpointermove: (event) => this.#move(event), onpointerleave: () => this.#leave(),
      onpointerdown: (event) => this.#down(event), onpointerup: (event) => this.#up(event), onpointercancel: () => this.#cancel(),
      ondblclick: () => { this.axis.showLast("all"); this.#remember(); },
    }, this.story.element, ...this.lanes.elements, ...this.plots.map((plot) => plot.element));
    this.tip = el("div.h-tip", { hidden: true });
    this.panels = el("div.h-panels", {}, this.body, el("div.h-axis", {}, this.slider), this.overlay, this.tip);
    this.said = el("p.unseen", { "aria-live": "polite" });
  }

  render = () => {
    if (!this.wide || this.data === NOTHING) return;
    const { axis, data, filter, wide } = this;
    const bands = data.steps.filter((step) => step.lasts_s).map((step) => [step.at_s, step.at_s + step.lasts_s]);
    const marks = filter.decisions.map((one) => one.at_s);
    for (const plot of this.plots) {
      const { curves, note } = plot.chart.curves(data, filter), high = plot.chart.isStacked ? STACKED_HIGH : HIGH;
      plot.draw({ axis, times: this.times, curves, marks, bands, note, wide, high, mostKeys: MOST_KEYS });
    }
    const byKind = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, []]));
    for (const one of this.shown) byKind[one.kind]?.push(one);
    this.lanes.draw(byKind, axis, wide);
    this.story.draw(data.steps, axis, wide);
    this.#drawAxis();
    this.period.render();
    this.tools.render(byKind, filter.isOn);
    this.#point(this.at);
  };

  #drawAxis() {
    const { axis } = this, shift = zoneName(axis.from) === "UTC" ? 0 : -new Date(axis.from * 1000).getTimezoneOffset() * 60;
    const { step, ticks } = axis.ticks(Math.max(Math.floor(this.wide / TICK_PX), 2), shift);
    let before = "";
    this.ticks.replaceChildren(...ticks.map((at) => {
      const today = day(at), time = step < 60 ? clock(at) : hourMinute(at);
      const label = el("span", {}, step >= 86400 ? today : today !== before ? `${today} ${time}` : time);
      before = today;
      const share = axis.share(at);
      label.style.left = `${share * 100}%`;
      if (share > 0.94) label.className = "late"; else if (share < 0.05) label.className = "early";
      return label;
    }));
    this.slider.setAttribute("aria-valuemin", Math.round(axis.from));
    this.slider.setAttribute("aria-valuemax", Math.round(axis.to));
  }

  // The cursor

  /** Show what was at a time, in all panels; null: nothing. */
  #point(at) {
    const { axis } = this, isShown = at !== null && axis.has(at), told = at ?? axis.to;
    this.at = at;
    this.cursor.hidden = !isShown;
    for (const plot of this.plots) plot.point(isShown ? at : null);
    this.slider.setAttribute("aria-valuenow", Math.round(told));
    const words = [moment(told), this.#tellNear(told), ...this.plots.map((plot) => plot.tell(told))];
    this.slider.setAttribute("aria-valuetext", words.filter(Boolean).join(". "));
    if (!isShown) return;
    const share = axis.share(at);
    this.cursor.style.transform = `translateX(${share * this.wide}px)`;
    this.cursor.classList.toggle("late", share > 0.5);
    setText(this.cursor.firstChild, moment(at));
  }

  #tellNear(at) {
    const near = this.shown.filter((one) => Math.abs(one.at_s - at) <= (this.axis.to - this.axis.from) / 200);
    return near.slice(0, 3).map((one) => one.said).join(", ") + (near.length > 3 ? ` and ${near.length - 3} more` : "");
  }

  // The pointer

  #timeOf(event) {
    const box = this.overlay.getBoundingClientRect();
    return this.axis.time(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
  }

  #isOnPlots(event) { return event.clientX >= this.overlay.getBoundingClientRect().left - DRAG_PX; }

  #move(event) {
    if (!this.wide || !this.#isOnPlots(event)) return;
    if (this.from) { this.#drag(event); return; }
    if (!this.isPinned) this.#point(this.#timeOf(event));
    this.#showTip(event, this.lanes.find(event.target, this.#timeOf(event)));
  }

  #showTip(event, one) {
    this.body.classList.toggle("h-on", Boolean(one));
    this.tip.hidden = !one;
    if (!one) return;
    this.tip.replaceChildren(el("b", {}, one.said), el("span", {}, moment(one.at_s)), el("p", {}, one.why));
    const box = this.panels.getBoundingClientRect(), x = event.clientX - box.left;
    this.tip.style.left = `${Math.min(Math.max(x - TIP_PX / 2, 0), Math.max(box.width - TIP_PX, 0))}px`;
    this.tip.style.top = `${event.clientY - box.top + 18}px`;
  }

  #leave() {
    this.tip.hidden = true;
    if (!this.isPinned && !this.from) this.#point(null);
  }

  #down(event) {
    if (event.button !== 0 || !this.#isOnPlots(event)) return;
    const { axis } = this;
    this.from = { x: event.clientX, at: this.#timeOf(event), isPan: event.shiftKey };
    Object.assign(this.from, { first: axis.from, length: axis.to - axis.from });
    // A finger may be about to scroll the page instead.
    if (event.pointerType !== "touch") this.body.setPointerCapture(event.pointerId);
  }

  /** Drag selects a period; with Shift it moves the axis. */
  #drag(event) {
    const { x, at, isPan, first, length } = this.from;
    if (Math.abs(event.clientX - x) < DRAG_PX && !this.from.isDragged) return;
    this.from.isDragged = true;
    this.tip.hidden = true;
    if (isPan) {
      this.axis.place(first + ((x - event.clientX) / this.wide) * length, length);
      soon(this.render);
      return;
    }
    const now = this.#timeOf(event);
    const [left, right] = [Math.min(at, now), Math.max(at, now)].map((time) => this.axis.share(time) * this.wide);
    this.brush.hidden = false;
    this.brush.style.left = `${left}px`;
    this.brush.style.width = `${right - left}px`;
    this.#point(now);
  }

  #up(event) {
    const begun = this.from;
    this.#cancel();
    if (!begun) return;
    const at = this.#timeOf(event);
    if (begun.isDragged) {
      if (!begun.isPan) this.axis.show(Math.min(begun.at, at), Math.max(begun.at, at));
      this.#letGo();
    } else if (this.lanes.has(event.target)) {
      const one = this.lanes.find(event.target, at);
      if (one) this.open(one);
      return;
    } else {
      // A click holds the cursor, so that its time is in the link; another one lets it go.
      const isSame = this.isPinned && Math.abs(this.axis.share(this.at) - this.axis.share(at)) * this.wide < DRAG_PX;
      if (isSame) this.#letGo(); else this.#hold(Math.round(at));
    }
    this.#remember();
  }

  #cancel() {
    this.from = null;
    this.brush.hidden = true;
  }

  #hold(at) {
    this.isPinned = true;
    this.#point(at);
  }

  #letGo() {
    this.isPinned = false;
    this.#point(null);
  }

  // Keys

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { axis } = this, at = this.at !== null && axis.has(this.at) ? this.at : axis.to;
    const step = ((axis.to - axis.from) / Math.max(this.wide, 1)) * KEY_PX;
    const acts = {
      ArrowLeft: () => event.shiftKey ? axis.pan(-0.25) : this.#go(at - step),
      ArrowRight: () => event.shiftKey ? axis.pan(0.25) : this.#go(at + step),
      ArrowUp: () => this.#jump(at, -1), "[": () => this.#jump(at, -1),
      ArrowDown: () => this.#jump(at, 1), "]": () => this.#jump(at, 1),
      PageUp: () => axis.pan(-0.8), PageDown: () => axis.pan(0.8),
      Home: () => this.#go(axis.from), End: () => this.#go(axis.to),
      "+": () => axis.zoom(0.5, at), "=": () => axis.zoom(0.5, at), "-": () => axis.zoom(2, at),
      1: () => axis.showLast("1h"), 6: () => axis.showLast("6h"), 0: () => axis.showLast("all"),
      Enter: () => this.#openAt(at), Escape: () => this.#letGo(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
    this.#remember();
  }

  #go(at) {
    this.#hold(Math.min(Math.max(at, this.axis.begin), this.axis.end));
    this.axis.reveal(this.at);
  }

  /** To the next decision that matches, or the one before. */
  #jump(at, step) {
    const { decisions } = this.filter, times = decisions.map((one) => one.at_s);
    const next = this.chosen?.at_s === at && decisions.includes(this.chosen) ? decisions.indexOf(this.chosen) + step
      : step > 0 ? countUntil(times, at) : times.findLastIndex((time) => time < at);
    const one = decisions[next];
    setText(this.said, one ? "" : "no more decisions");
    if (!one) return;
    this.chosen = one;
    this.#go(one.at_s);
  }

  #openAt(at) {
    const far = (one) => Math.abs(one.at_s - at);
    const nearest = this.shown.reduce((best, one) => !best || far(one) < far(best) ? one : best, null);
    const one = this.chosen?.at_s === at ? this.chosen : nearest;
    if (one) this.open(one);
  }
}
