// The history of the dashboard: what the server keeps of the past, fetched once and then only what is new.

import { $ } from "./dom.js";
import { HistoryView } from "./history_view.js";
import { later } from "./turns.js";

const PAUSE_MS = 2000; // between two questions
const MOST_SAMPLES = 2880, MOST_DECISIONS = 1000; // as observability/history.py and status_publisher.py have them

/** Fields that the wire leaves out at their defaults. */
const decided = (found) => ({ why: "", groups: [], nodes: [], reason: "", namespaces: [], ...found });

export class History {
  constructor(store, state, { open, changed }) {
    this.store = store;
    this.data = null;
    this.view = new HistoryView($("history"), { state, open, changed, find: $("find") });
    this.asked_ms = -PAUSE_MS;
    store.listen((what) => {
      // A new status may be of another process, which knows another past.
      if (what.isWhole) this.data = null;
      this.#askSoon();
    });
  }

  #askSoon() {
    if (this.isAsking || this.timer) return;
    const wait = Math.max(this.asked_ms + PAUSE_MS - performance.now(), 0);
    this.timer = setTimeout(() => { this.timer = null; this.#ask(); }, wait);
  }

  async #ask() {
    this.isAsking = true;
    this.asked_ms = performance.now();
    const known = this.data;
    try {
      const answer = await fetch(`published/history${known ? `?after=${known.after_s}` : ""}`);
      if (answer.ok && known === this.data) {
        const found = await answer.json();
        later(() => { if (known === this.data) this.#put(found); });
      }
    } catch { /* the stream tells that the connection is lost */ }
    this.isAsking = false;
  }

  #put(found) {
    const known = this.data ?? { samples: [], decisions: [], after_s: -1 };
    const number = known.decisions.at(-1)?.number ?? -1;
    const news = found.decisions.filter((one) => one.number > number).map(decided);
    if (this.data && !found.samples.length && !news.length && found.at_s === known.at_s) return;
    const last_s = known.samples.at(-1)?.[0] ?? -Infinity;
    const samples = [...known.samples, ...found.samples.filter(([at_s]) => at_s > last_s)];
    this.data = {
      ...found, steps: [], samples: samples.slice(-MOST_SAMPLES), decisions: [...known.decisions, ...news].slice(-MOST_DECISIONS),
      // Decisions may come between samples: nothing is missed by asking from the older of both.
      after_s: Math.min(samples.at(-1)?.[0] ?? -1, found.at_s),
    };
    this.data.from_s = Math.min(this.data.samples[0]?.[0] ?? found.at_s, this.data.decisions[0]?.at_s ?? found.at_s);
    this.view.setData(this.data);
    this.store.count = found.count;
  }

  /** The decision of a link: its number and time, because numbers begin anew with every process. */
  find(number, at_s) {
    const decisions = this.data?.decisions ?? [];
    return decisions.find((one) => one.number === number && Math.abs(one.at_s - at_s) < 1) ?? null;
  }
}
