// The figures at the top, each with its line over time.

import { $, el, setText } from "./dom.js";
import * as format from "./format.js";
import { later } from "./turns.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 120, HIGH = 30, POINTS = 120;

/** Name, value, note, and the sample's place for its line. */
const FIGURES = [
  ["nodes", (one) => format.whole(one.nodes), (one) => one.ready === one.nodes ? "all ready" : `${format.whole(one.ready)} ready`, 1],
  ["pending", (one) => format.whole(one.pending), (one) => `${format.whole(one.pods)} pods run`, 2],
  ["cpu", (one) => format.share(one.cpu), () => "asked for", 3],
  ["memory", (one) => format.share(one.memory), () => "asked for", 4],
  ["cost / h", (one) => isPriced(one) ? format.money(one.cost.per_hour) : "–", (one) => spent(one), 5],
];

const isPriced = ({ cost, nodes }) => cost.unpriced < nodes || !nodes;

/** What it came to, as far as prices are known. */
function spent(one) {
  if (!isPriced(one)) return "no prices are known";
  const { spent, since_s, unpriced } = one.cost;
  const sum = since_s ? `${format.money(spent)} in ${format.lasting(one.at_s - since_s)}` : "";
  return unpriced ? `${sum}, without ${format.count(unpriced, "node")}` : sum;
}

export class Figures {
  constructor(store) {
    this.store = store;
    this.parts = FIGURES.map(([name]) => this.#make(name));
    $("figures").append(...this.parts.map(({ element }) => element));
    store.listen(() => later(this.render));
  }

  #make(name) {
    const value = el("b"), note = el("small");
    const line = document.createElementNS(SVG, "svg"), stroke = document.createElementNS(SVG, "path"), area = document.createElementNS(SVG, "path");
    line.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
    line.setAttribute("preserveAspectRatio", "none");
    line.setAttribute("aria-hidden", "true");
    area.setAttribute("class", "area");
    stroke.setAttribute("class", "stroke");
    line.append(area, stroke);
    return { element: el("div.figure", {}, el("span.name", {}, name), value, note, line), value, note, stroke, area };
  }

  render = () => {
    const { cluster, samples } = this.store;
    if (!cluster) return;
    FIGURES.forEach(([, value, note, place], at) => {
      const part = this.parts[at];
      setText(part.value, value(cluster));
      setText(part.note, note(cluster));
      const path = trace(samples, place, place === 3 || place === 4);
      if (part.path === path) return;
      part.path = path;
      part.stroke.setAttribute("d", path);
      part.area.setAttribute("d", path && `${path}V${HIGH}H0Z`);
    });
  };
}

/** Steps, because what is shown stays as it is until it changes. */
function trace(samples, place, isShare) {
  if (samples.length < 2) return "";
  const first = samples[0][0], lasts = samples.at(-1)[0] - first || 1;
  const every = Math.max(Math.ceil(samples.length / POINTS), 1);
  let most = isShare ? 1 : 0;
  for (const sample of samples) if (sample[place] > most) most = sample[place];
  let path = "";
  for (let at = 0; at < samples.length; at += every) {
    let highest = samples[at][place];
    for (let more = at; more < Math.min(at + every, samples.length); more++) highest = Math.max(highest, samples[more][place]);
    const x = (((samples[at][0] - first) / lasts) * WIDE).toFixed(1), y = (HIGH - 1 - (highest / (most || 1)) * (HIGH - 3)).toFixed(1);
    path += path ? `H${x}V${y}` : `M${x} ${y}`;
  }
  return `${path}H${WIDE}`;
}
