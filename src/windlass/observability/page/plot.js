// A plot: one figure over time, as steps. It is drawn in pixels, so that a period of any length takes the same time.

import { el, setText } from "./dom.js";
import { count, money, share, whole } from "./format.js";

const ENDS = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10];
const COLOURS = 10;
const MOST_TOLD = 12; // curves in the summary for those who do not see them
let made = 0;

/** How values of a unit are written. */
const SPELLED = { count: (value) => whole(value), share: (value) => share(value), money: (value) => money(value) };

/** An element of a picture. */
export function makeSvg(kind, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A round end of an axis that includes this value. */
function roundEnd(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return ENDS.map((end) => end * power).find((end) => end >= value * (1 - 1e-9)) ?? 10 * power;
}

export class Plot {
  /** `chart`: { title, unit, isStacked } */
  constructor(chart) {
    this.chart = chart;
    const id = `h-plot-${made++}-title`;
    this.title = makeSvg("title", { id });
    this.bands = makeSvg("path", { class: "h-band" });
    this.grid = makeSvg("path", { class: "h-grid" });
    this.lines = makeSvg("g");
    this.rug = makeSvg("path", { class: "h-rug" });
    this.svg = makeSvg("svg", { role: "img", "aria-labelledby": id, preserveAspectRatio: "none" });
    this.svg.append(this.title, this.bands, this.grid, this.lines, this.rug);
    this.keys = el("div.h-keys");
    this.most = el("span.h-most", { "aria-hidden": "true" });
    this.note = el("small.h-note");
    this.element = el(`figure.h-figure${chart.isStacked ? ".h-stacked" : ""}`, {},
      el("figcaption", {}, el("h3", {}, chart.title), this.note, this.keys), el("div.h-plot", {}, this.most, this.svg));
  }

  /** `curves`: [{ name, colour, isBound, values }], `times` of the values, `marks`: times of decisions, `bands`: periods. */
  draw({ axis, times, curves, marks, bands, note, wide, high, mostKeys }) {
    [this.times, this.curves] = [times, curves];
    const first = Math.max(countUntil(times, axis.from) - 1, 0), last = countUntil(times, axis.to);
    const stacks = this.chart.isStacked ? stack(curves, first, last) : new Map();
    const most = this.chart.unit === "share" ? 1 : roundEnd(findMost(curves, stacks, first, last));
    const x = (time) => Math.min(Math.max(axis.share(time), 0), 1) * wide;
    const y = (value) => Math.round((1 - Math.min(value / most, 1)) * (high - 2) * 2) / 2 + 1;
    const end = times.length ? x(Math.min(axis.end, axis.to)) : 0;
    const walk = (values) => steps(times, values, first, x, y, end);
    setText(this.note, note);
    setText(this.most, SPELLED[this.chart.unit](most));
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    this.grid.setAttribute("d", `M0 1H${wide}M0 ${high / 2}H${wide}M0 ${high - 0.5}H${wide}`);
    this.bands.setAttribute("d", bands.map(([from, to]) => `M${x(from)} 0H${x(to)}V${high}H${x(from)}Z`).join(""));
    this.rug.setAttribute("d", ticks(marks, axis, wide, high));
    this.#drawCurves(curves.map((curve) => {
      const edges = stacks.get(curve), kind = edges ? "h-area" : curve.isBound ? "h-bound" : "h-line";
      const path = edges ? area(walk(edges.above), walk(edges.below)) : join(walk(curve.values.slice(first, last)));
      return [kind, colourOf(curve), path];
    }));
    this.#drawKeys(mostKeys);
    setText(this.title, this.#describe(first, last));
  }

  #drawCurves(paths) {
    while (this.lines.childElementCount > paths.length) this.lines.lastElementChild.remove();
    while (this.lines.childElementCount < paths.length) this.lines.append(makeSvg("path"));
    paths.forEach(([kind, colour, path], place) => {
      this.lines.children[place].setAttribute("class", `${kind} ${colour}`);
      this.lines.children[place].setAttribute("d", path);
    });
  }

  #drawKeys(most) {
    const names = this.curves.map((curve) => `${curve.name}/${curve.colour}`).join();
    if (this.named === names) return;
    this.named = names;
    this.values = this.curves.map(() => el("b"));
    this.keys.replaceChildren(...this.curves.slice(0, most).map((curve, place) => el("span", {},
      el(`i.${curve.isBound ? "h-bound" : colourOf(curve)}`, { "aria-hidden": "true" }),
      el("span.h-name-of", { title: curve.name }, `${curve.name} `), this.values[place])));
  }

  /** The values at a time; null: none are shown. */
  point(at) {
    this.curves?.forEach((curve, place) => setText(this.values[place], at === null ? "" : this.#spell(this.valueAt(curve, at))));
  }

  valueAt(curve, at) {
    const place = countUntil(this.times, at) - 1;
    return place < 0 ? null : curve.values[place];
  }

  /** What is at a time, in words: Nodes 66. */
  tell(at) {
    if (!this.curves) return "";
    const shown = this.curves.filter((curve) => !curve.isBound).slice(0, 6);
    const told = shown.map((curve) => `${shown.length > 1 ? `${curve.name} ` : ""}${this.#spell(this.valueAt(curve, at))}`);
    return `${this.chart.title}: ${told.join(", ")}`;
  }

  #spell(value) { return value == null ? "–" : SPELLED[this.chart.unit](value); }

  /** For those who do not see the lines. */
  #describe(first, last) {
    if (first >= last) return `${this.chart.title}: nothing is known of this period`;
    const told = this.curves.slice(0, MOST_TOLD).map((curve) => {
      let low = Infinity, high = -Infinity;
      for (let i = first; i < last; i++) [low, high] = [Math.min(low, curve.values[i]), Math.max(high, curve.values[i])];
      const range = `${this.#spell(low)}${high > low ? ` to ${this.#spell(high)}` : ""}`;
      return `${curve.name} ${range}, at the end ${this.#spell(curve.values[last - 1])}`;
    });
    const more = this.curves.length > MOST_TOLD ? `; and ${count(this.curves.length - MOST_TOLD, "more line")}` : "";
    return `${this.chart.title}: ${told.join("; ")}${more}`;
  }
}

const colourOf = (curve) => `c${curve.colour % COLOURS}`;

/** How many times are at or before this one. The times are in order. */
export function countUntil(times, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1; else high = middle;
  }
  return low;
}

/** Lower and upper edges of stacked curves, of the samples that are shown. Bounds are not stacked. */
function stack(curves, first, last) {
  let below = new Float64Array(Math.max(last - first, 0));
  const edges = new Map();
  for (const curve of curves) {
    if (curve.isBound) continue;
    const above = below.map((value, i) => value + curve.values[first + i]);
    edges.set(curve, { below, above });
    below = above;
  }
  return edges;
}

/** The highest that is drawn. */
function findMost(curves, stacks, first, last) {
  let most = 0;
  for (const curve of curves) {
    for (const value of stacks.get(curve)?.above ?? curve.values.slice(first, last)) most = Math.max(most, value);
  }
  return most;
}

/** Corners of the steps, [x, y] each; of many values within a pixel the last counts. */
function steps(times, values, first, x, y, end) {
  const corners = [];
  for (let i = 0; i < values.length; i++) {
    const across = Math.round(x(times[first + i]) * 2) / 2, down = y(values[i]), before = corners.at(-1);
    if (before && before[0] === across) before[1] = down;
    else if (!before || before[1] !== down) corners.push([across, down]);
  }
  if (corners.length) corners.push([Math.max(end, corners.at(-1)[0]), corners.at(-1)[1]]);
  return corners;
}

const join = (corners) => corners.map(([x, y], place) => place ? `H${x}V${y}` : `M${x} ${y}`).join("");

/** Along the upper steps, and back along the lower ones from right to left. */
function area(above, below) {
  if (!above.length) return "";
  let path = join(above);
  for (let i = below.length - 1; i >= 0; i--) {
    const [x, y] = below[i];
    path += i < below.length - 1 ? `V${y}H${x}` : `L${x} ${y}`;
  }
  return `${path}Z`;
}

/** Short lines at the bottom: when something was decided. */
function ticks(marks, axis, wide, high) {
  let path = "", before = -1;
  for (const at of marks) {
    const x = Math.round(axis.share(at) * wide);
    if (x < 0 || x > wide || x === before) continue;
    path += `M${x} ${high}V${high - 5}`;
    before = x;
  }
  return path;
}
