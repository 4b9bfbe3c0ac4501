// The state of the view is in the fragment of the address: a link that is opened elsewhere shows the same.

/** Names in the fragment, and what they are without it. Lists are separated by commas. */
const DEFAULTS = {
  last: "", from: "", to: "", at: "", zone: "", // the period, the cursor
  kind: "", group: "", namespace: "", text: "", // the filter
  open: "", view: "", sort: "", // the panel, the table
};

export class ViewState {
  constructor() {
    this.heard = [];
    this.shared = [];
    this.values = this.#read();
    addEventListener("hashchange", () => {
      this.values = this.#read();
      for (const hear of this.heard) hear();
    });
  }

  /** Call back after somebody else changed the address: by a link, or by hand. */
  listen(hear) { this.heard.push(hear); }

  /** Call back when another view that shares the state changed it. */
  share(hear) { this.shared.push(hear); }

  get(name) { return this.values[name]; }
  list(name) { return this.values[name] ? this.values[name].split(",") : []; }

  /** Change some values; all that listen but `by` are told. The address follows once the turn is over. */
  set(changes, by = null) {
    const isOther = Object.entries(changes).some(([name, value]) => this.values[name] !== value);
    Object.assign(this.values, changes);
    if (isOther && by) for (const hear of this.shared) if (hear !== by) hear();
    if (this.isQueued) return;
    this.isQueued = true;
    setTimeout(() => { this.isQueued = false; this.#write(); });
  }

  get link() { return `${location.href.split("#")[0]}${this.#fragment()}`; }

  #read() {
    const found = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, given]) => [name, found.get(name) ?? given]));
  }

  #fragment() {
    const pairs = Object.entries(this.values).filter(([, value]) => value !== "");
    return pairs.length ? `#${new URLSearchParams(pairs)}` : "";
  }

  #write() {
    const fragment = this.#fragment();
    if (location.hash !== fragment) history.replaceState(null, "", `${location.pathname}${location.search}${fragment}`);
  }
}

/** A time as it stands in a link, exact to the second. */
export const writeTime = (at_s) => `${new Date(Math.round(at_s) * 1000).toISOString().slice(0, 19)}Z`;
/** NaN for anything else. */
export const readTime = (text) => Date.parse(text) / 1000;
