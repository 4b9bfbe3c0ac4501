// The panel: what was clicked, in a few facts that are known already, and the answer of the autoscaler to "why?".

import { renderDecision } from "./decision_detail.js";
import { $, el, setText } from "./dom.js";
import * as format from "./format.js";
import { later } from "./turns.js";
import { STATES } from "./cells.js";

const PATHS = { pod: (name) => `explain/pod/${name.split("/").map(encodeURIComponent).join("/")}`,
  node: (name) => `explain/node/${encodeURIComponent(name)}`,
  group: (name) => `explain/group/${name.split("/").map(encodeURIComponent).join("/")}` };
const WORD = /[A-Za-z0-9][A-Za-z0-9._:/-]*[A-Za-z0-9]/g;

export class Panel {
  /** `moved(shown)`: something else is open, or nothing. */
  constructor(store, moved) {
    [this.store, this.moved] = [store, moved];
    this.shown = null;
    this.asked = 0;
    $("panel-close").addEventListener("click", () => this.close());
    store.listen(() => { if (this.shown) later(this.renderFacts); });
  }

  get isOpen() { return !$("panel").hidden; }

  explain = (kind, name) => {
    this.#open({ kind, name });
    this.#ask();
  };

  /** A decision: at once what is known, then all that the server keeps of it. */
  tell = (decided) => {
    this.#open({ kind: "decision", name: decided.said, decided });
    this.#showDecision({ decision: decided });
    this.#askDecision(decided);
  };

  /** What a link names is not there. */
  miss(kind, text) {
    this.#open({ kind, name: "not found" });
    $("panel-answer").replaceChildren(el("p.said", {}, text));
  }

  #showDecision(told) {
    const { recording, runbook } = this.store.cluster ?? {};
    const link = (kind, name) => this.#button(kind, name, kind === "group" ? format.short(name) : name);
    $("panel-answer").replaceChildren(...renderDecision(told, { recording, runbook, link, links: (text) => this.#link(text) }));
  }

  async #askDecision(decided) {
    const number = this.asked;
    try {
      const answer = await fetch(`published/decisions/${decided.number}`);
      const told = answer.ok ? await answer.json() : null;
      if (number !== this.asked) return;
      const isSame = told?.decision.at_s === decided.at_s;
      this.#showDecision(isSame ? { detail: null, ...told, decision: decided } : { decision: decided, detail: null });
    } catch { /* what is known stays to be seen */ }
  }

  close() {
    if (!this.isOpen) return;
    $("panel").hidden = true;
    document.body.classList.remove("with-panel");
    this.shown = null;
    this.asked++;
    this.moved(null);
    this.from?.isConnected && this.from.focus();
  }

  #open(shown) {
    if (this.isOpen) $("panel").scrollTop = 0;
    else this.from = document.activeElement;
    this.shown = shown;
    this.asked++;
    $("panel").hidden = false;
    document.body.classList.add("with-panel");
    this.moved(shown);
    setText($("panel-kind"), shown.kind);
    setText($("panel-title"), shown.kind === "group" ? format.short(shown.name) : shown.name);
    $("panel-answer").replaceChildren();
    this.told = "";
    this.renderFacts();
    $("panel-title").focus({ preventScroll: true });
  }

  renderFacts = () => {
    if (!this.shown) return;
    const facts = { pod: aboutPod, node: aboutNode, group: aboutGroup, decision: aboutDecision }[this.shown.kind](this.store, this.shown);
    const rows = facts.filter(([, value]) => value !== "" && value != null), told = JSON.stringify(rows);
    if (told === this.told) return;
    this.told = told;
    $("panel-facts").replaceChildren(...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, show(value)))));
  };

  async #ask() {
    const number = this.asked, { kind, name } = this.shown, answer = $("panel-answer");
    answer.setAttribute("aria-busy", "true");
    answer.replaceChildren(el("p.dim", {}, "Asking…"));
    let text, isKnown = false;
    try {
      const said = await fetch(`${PATHS[kind](name)}?output=text`);
      text = await said.text();
      isKnown = said.ok;
    } catch {
      text = "The server does not answer.";
    }
    if (number !== this.asked) return;
    answer.setAttribute("aria-busy", "false");
    const again = el("button.plain", { type: "button", onclick: () => { this.asked++; this.#ask(); } }, "Ask again");
    const pods = this.store.pods;
    const body = isKnown ? el("pre", {}, ...text.trimEnd().split("\n").map((line) => el("span.line", {}, ...this.#link(line, pods)))) : el("p.said", {}, text.trim() || "The server does not answer.");
    const typed = kind === "pod" ? `windlass explain pod ${name}` : `windlass explain ${kind} ${name}`;
    answer.replaceChildren(body, el("p.foot", {}, again, el("code", {}, typed)));
  }

  /** Names of nodes, groups and pods that wait become links. */
  #link(text, pods = this.store.pods) {
    const parts = [];
    let from = 0;
    for (const found of text.matchAll(WORD)) {
      const word = found[0];
      const [kind, name] = this.store.nodes.has(word) ? ["node", word] : this.store.groups.has(word) ? ["group", word] : pods.has(word) ? ["pod", word] : [];
      if (!kind || (kind === this.shown?.kind && name === this.shown.name)) continue;
      parts.push(text.slice(from, found.index), this.#button(kind, name, word));
      from = found.index + word.length;
    }
    parts.push(text.slice(from));
    return parts;
  }

  #button(kind, name, text) {
    return el("button.name", { type: "button", onclick: () => this.explain(kind, name) }, text);
  }
}

function aboutPod(store, { name }) {
  const one = store.pending.find((each) => each.pod === name);
  if (!one) return [];
  return [
    ["alike", one.count > 1 ? format.count(one.count, "pod") : ""], ["of", one.owner], ["requests", format.requests(one.requests)],
    ["pending for", format.lasting(store.cluster.at_s - one.since_s)],
    ["reasons", one.reasons.length ? one.reasons.map(({ group, texts }) => `${group ? format.short(group) : "cluster"}: ${texts.join(", ")}`) : ""],
  ];
}

function aboutNode(store, { name }) {
  const one = store.nodes.get(name);
  if (!one) return [["state", "gone"]];
  const since = one.since_s ? ` for ${format.lasting(store.cluster.at_s - one.since_s)}` : "";
  return [
    ["state", `${STATES[one.state]}${since}${one.cordoned ? ", cordoned" : ""}`], ["group", one.group ? format.short(one.group) : "none"],
    ["cpu", { share: one.cpu }], ["memory", { share: one.memory }], ["gpu", one.gpu == null ? "" : { share: one.gpu }],
    ["pods", format.whole(one.pods)], ["zone", one.zone], ["machine type", one.machine_type],
    ["age", one.created_s ? format.lasting(store.cluster.at_s - one.created_s) : ""], ["stays", one.why],
  ];
}

function aboutGroup(store, { name }) {
  const one = store.groups.get(name);
  if (!one) return [];
  return [
    ["size", `${one.target_size}, between ${one.min_size} and ${one.max_size}`], ["health", one.is_healthy ? "healthy" : "unhealthy"],
    ["backs off", one.backoff ? `until ${format.clock(one.backoff.until_s)}: ${one.backoff.code} ${one.backoff.message ?? ""}` : ""],
    ["zones", one.zones.join(", ")], ["machine types", one.machine_types.join(", ")],
    ["costs", one.cost_per_hour == null ? "" : `${format.money(one.cost_per_hour)} an hour, ${format.money(one.price_per_hour, true)} a node`],
    ["size owner", one.replicas_owner], ["errors", one.errors.length ? one.errors : ""],
  ];
}

const aboutDecision = (store, { decided }) => decided ? [["ago", format.lasting(store.cluster.at_s - decided.at_s)]] : [];

/** A fact as an element: a text, several, or a share. */
function show(value) {
  if (Array.isArray(value)) return el("ul", {}, ...value.map((line) => el("li", {}, line)));
  return typeof value === "object" ? meter(value.share) : value;
}

function meter(share) {
  const bar = el("i");
  bar.style.width = `${Math.min(share, 1) * 100}%`;
  return el("span.meter", {}, el("span.track", {}, bar), format.share(share));
}
