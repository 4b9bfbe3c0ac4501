// The figures at the top: now. How they came about is in the history.

import { $, el, setText } from "./dom.js";
import * as format from "./format.js";
import { later } from "./turns.js";

/** Name, value and note. */
const FIGURES = [
  ["nodes", (one) => format.whole(one.nodes), (one) => one.ready === one.nodes ? "all ready" : `${format.whole(one.ready)} ready`],
  ["pending pods", (one) => format.whole(one.pending), (one) => `${format.whole(one.pods)} running`],
  ["cpu", (one) => format.share(one.cpu), () => "requested"],
  ["memory", (one) => format.share(one.memory), () => "requested"],
  ["cost / h", (one) => isPriced(one) ? format.money(one.cost.per_hour) : "–", (one) => spent(one)],
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
    return { element: el("div.figure", {}, el("span.name", {}, name), value, note), value, note };
  }

  render = () => {
    const { cluster } = this.store;
    if (!cluster) return;
    FIGURES.forEach(([, value, note], at) => {
      setText(this.parts[at].value, value(cluster));
      setText(this.parts[at].note, note(cluster));
    });
  };
}
