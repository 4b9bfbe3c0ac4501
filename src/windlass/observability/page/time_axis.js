// The time axis that all panels share: what period is shown, and where in it a time is.

const SHORTEST_S = 30;
const WEEK_S = 604800;
const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, WEEK_S, 2 * WEEK_S];
const PERIODS = { "1h": 3600, "6h": 21600, all: Infinity };

export class TimeAxis {
  constructor() {
    [this.begin, this.end] = [0, 1]; // of what is known
    this.last = "6h"; // "1h", "6h", "all"; null for a fixed period
    [this.from, this.to] = [0, 1];
  }

  /** More is known. A period that ends now moves along. */
  extend(begin, end) {
    [this.begin, this.end] = [begin, Math.max(end, begin + SHORTEST_S)];
    if (this.last) this.showLast(this.last);
  }

  /** "1h", "6h" or "all"; anything else is all. */
  showLast(last) {
    this.last = last in PERIODS ? last : "all";
    [this.from, this.to] = [Math.max(this.end - PERIODS[this.last], this.begin), this.end];
  }

  /** A fixed period, within what is known where that is possible. */
  show(from, to) {
    const length = Math.min(Math.max(to - from, SHORTEST_S), Math.max(this.end - this.begin, to - from, SHORTEST_S));
    this.last = null;
    // Whole seconds, as they stand in a link.
    [this.from, this.to] = [Math.round(from), Math.round(from + length)];
  }

  /** Exactly this period: a link may be to a time that is not known. */
  set(from, to) {
    this.last = null;
    [this.from, this.to] = [from, Math.max(to, from + 1)];
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    const length = Math.max((this.to - this.from) * factor, SHORTEST_S);
    if (length >= this.end - this.begin) { this.showLast("all"); return; }
    const share = (at - this.from) / (this.to - this.from);
    this.place(at - share * length, length);
  }

  pan(share) {
    const length = this.to - this.from;
    if (length >= this.end - this.begin) return;
    this.place(this.from + share * length, length);
  }

  /** Show a time that is not shown. */
  reveal(at) {
    if (this.has(at)) return;
    const length = Math.min(this.to - this.from, this.end - this.begin);
    this.place(at - length / 2, length);
  }

  /** A period of this length, moved to within what is known. */
  place(from, length) {
    const first = Math.min(Math.max(from, this.begin), Math.max(this.end - length, this.begin));
    this.show(first, first + length);
  }

  has(at) { return at >= this.from && at <= this.to; }
  share(at) { return (at - this.from) / (this.to - this.from); }
  time(share) { return this.from + share * (this.to - this.from); }

  /** Round times, at most as many as fit. `shift` is the zone's distance from UTC in seconds. */
  ticks(most, shift = 0) {
    const length = this.to - this.from;
    const step = STEPS_S.find((one) => length / one <= most) ?? Math.ceil(length / most / WEEK_S) * WEEK_S;
    const found = [];
    for (let at = Math.ceil((this.from + shift) / step) * step - shift; at <= this.to; at += step) found.push(at);
    return { step, ticks: found };
  }
}
