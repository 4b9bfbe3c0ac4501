// The lanes of decisions: one per kind, with a mark for each decision of the period. Empty lanes stay: nothing moves.

import { el, setText } from "./dom.js";
import { count, whole } from "./format.js";
import { KINDS } from "./history_filter.js";
import { makeSvg } from "./plot.js";

const HIGH = 12;
const NEAR_PX = 8; // a mark is hit from so far

export class DecisionLanes {
  constructor() {
    this.lanes = Object.entries(KINDS).map(([kind, [glyph, name]]) => this.#make(kind, glyph, name));
    this.elements = this.lanes.map(({ element }) => element);
  }

  #make(kind, glyph, name) {
    const total = el("span.h-count"), path = makeSvg("path"), svg = makeSvg("svg", { role: "img", preserveAspectRatio: "none" });
    svg.append(path);
    const title = el("span.h-name", { "aria-hidden": "true" }, el("span.glyph", {}, glyph), ` ${name} `, total);
    const element = el(`div.h-lane.kind-${kind}`, {}, title, el("div.h-plot", {}, svg));
    return { kind, name, svg, path, total, element };
  }

  /** `shown`: decisions of the period by kind. */
  draw(shown, axis, wide) {
    Object.assign(this, { shown, axis, wide });
    for (const { kind, name, svg, path, total } of this.lanes) {
      svg.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
      svg.setAttribute("aria-label", `${name}: ${count(shown[kind].length, "decision")} in this period`);
      path.setAttribute("d", shown[kind].map((one) => `M${Math.round(axis.share(one.at_s) * wide)} 0V${HIGH}`).join(""));
      setText(total, whole(shown[kind].length));
    }
  }

  has(target) { return this.elements.some((element) => element.contains(target)); }

  /** The decision whose mark is nearest to a time in the lane that was hit; null: none is near. */
  find(target, at) {
    const lane = this.lanes.find(({ element }) => element.contains(target));
    if (!lane || !this.wide) return null;
    const far = (one) => Math.abs(one.at_s - at);
    const reach = (NEAR_PX / this.wide) * (this.axis.to - this.axis.from);
    return this.shown[lane.kind].reduce((best, one) => far(one) <= (best ? far(best) : reach) ? one : best, null);
  }
}
