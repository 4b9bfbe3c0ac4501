// The steps of a scenario, as texts above the time axis: what was done to the cluster, and when.

import { el } from "./dom.js";

const LINES = 5, LINE_PX = 14, PADDING_PX = 4;
const LETTER_PX = 5.8, MARGIN_PX = 12; // texts are not measured: that would lay out the page once more

export class StoryMarks {
  constructor() { this.element = el("div.h-story", { hidden: true }); }

  /** Each text is on the first line that has room for it; with too many, on the one that is free first. */
  draw(steps, axis, wide) {
    const ends = [], marks = [];
    for (const step of steps) {
      if (step.at_s > axis.to || step.at_s + step.lasts_s < axis.from) continue;
      const x = Math.max(axis.share(step.at_s), 0) * wide, length = step.text.length * LETTER_PX + MARGIN_PX;
      const isLate = x + length > wide, left = isLate ? Math.max(x - length, 0) : x;
      const free = ends.findIndex((end) => end <= left);
      const line = free >= 0 ? free : ends.length < LINES ? ends.length : ends.indexOf(Math.min(...ends));
      ends[line] = left + length;
      const mark = el(`span${isLate ? ".late" : ""}`, {}, step.text);
      Object.assign(mark.style, { left: `${left}px`, top: `${line * LINE_PX}px`, width: isLate ? `${length}px` : "" });
      marks.push(mark);
    }
    this.element.hidden = !steps.length;
    this.element.style.height = `${Math.max(ends.length, 1) * LINE_PX + PADDING_PX}px`;
    this.element.replaceChildren(...marks);
  }
}
