// The stream: server-sent events, as long as the page is open. It comes back by itself after a restart.

const SILENT_MS = 16000; // three beats
const AGAIN_MS = 2000;

export class Stream {
  /** `hear`: { status, change, beat(said), link(state) }; link is "open", "lost", "silent" or "locked". */
  constructor(path, hear) {
    this.path = path;
    this.hear = hear;
    this.heard_ms = performance.now();
    setInterval(() => this.#look(), 1000);
    this.open();
  }

  open() {
    this.source?.close();
    const source = this.source = new EventSource(this.path);
    const on = (name, act) => source.addEventListener(name, (event) => {
      this.heard_ms = performance.now();
      this.hear.link("open");
      act(JSON.parse(event.data));
    });
    on("status", this.hear.status);
    on("change", this.hear.change);
    on("beat", this.hear.beat);
    source.onopen = () => { this.heard_ms = performance.now(); };
    source.onerror = () => { if (source === this.source) this.#fail(source); };
  }

  async #fail(source) {
    this.hear.link("lost");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    const status = await fetch("session").then((answer) => answer.status, () => 0);
    if (source !== this.source) return;
    if (status === 401) this.hear.link("locked");
    else setTimeout(() => { if (source === this.source) this.open(); }, AGAIN_MS);
  }

  #look() {
    const silent_ms = performance.now() - this.heard_ms;
    if (silent_ms < SILENT_MS || this.source.readyState === EventSource.CLOSED) return;
    this.hear.link("silent");
    this.heard_ms = performance.now() - SILENT_MS / 2;
    this.open(); // a connection that died without a word
  }
}
