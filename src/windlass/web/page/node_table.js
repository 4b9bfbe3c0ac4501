// The nodes as a table that sorts: by any column, filtered as the rest of the page, with a limit on its rows.

import { STATES } from "./cells.js";
import { $, el, reconcile, setText } from "./dom.js";
import * as format from "./format.js";
import { Holding } from "./holding.js";
import { later, soon } from "./turns.js";

const STEP = 100; // rows; more on demand
const ORDER = Object.keys(STATES);

/** Name, title, the value that is sorted by, and what is shown. Numbers begin with the largest. */
const COLUMNS = [
  ["name", "node", (one) => one.name, (one) => one.name],
  ["group", "group", (one) => one.group, (one) => (one.group ? format.short(one.group) : "–")],
  ["zone", "zone", (one) => one.zone, (one) => one.zone || "–"],
  ["type", "machine type", (one) => one.machine_type, (one) => one.machine_type || "–"],
  ["state", "state", (one) => -ORDER.indexOf(one.state), (one) => `${STATES[one.state]}${one.cordoned ? ", cordoned" : ""}`],
  ["cpu", "cpu", (one) => one.cpu, (one) => format.share(one.cpu)],
  ["memory", "memory", (one) => one.memory, (one) => format.share(one.memory)],
  ["pods", "pods", (one) => one.pods, (one) => format.whole(one.pods)],
  ["age", "age", (one, now_s) => one.created_s ? now_s - one.created_s : -1,
    (one, now_s) => one.created_s ? format.lasting(now_s - one.created_s) : "–"],
  ["price", "price per hour", (one, now_s, store) => priceOf(one, store) ?? -1,
    (one, now_s, store) => priceOf(one, store) == null ? "–" : format.money(priceOf(one, store), true)],
  ["why", "why it stays", (one) => one.why, (one) => one.why || "–"],
];
const priceOf = (one, store) => store.groups.get(one.group)?.price_per_hour;
const NUMBERS = ["cpu", "memory", "pods", "age", "price", "state"];

export class NodeTable {
  constructor(store, state, explain) {
    Object.assign(this, { store, state, explain, most: STEP, filter: null });
    this.heads = Object.fromEntries(COLUMNS.map(([name, title]) => [name, el("th", { scope: "col" },
      el("button.sort", { type: "button", onclick: () => this.#sortBy(name) }, title))]));
    this.body = el("tbody");
    this.count = el("p.count", { role: "status" });
    this.held = el("span.held");
    this.more = el("button.plain", { type: "button", onclick: () => { this.most *= 4; soon(this.render); } }, "Show more");
    const rows = el("table.nodes", {}, el("thead", {}, el("tr", {}, ...Object.values(this.heads))), this.body);
    $("table").append(el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Nodes as a table" }, rows),
      el("div.foot", {}, this.count, this.more, this.held));
    this.holding = new Holding(this.body, this.held, () => later(this.render));
    store.listen(() => { if (this.isShown) later(this.render); });
    this.adopt();
  }

  get isShown() { return !$("table").hidden; }

  /** What the address says: map or table, and the order. */
  adopt() {
    const isTable = this.state.get("view") === "table";
    $("table").hidden = !isTable;
    $("groups").hidden = isTable;
    for (const input of $("view").querySelectorAll("input")) input.checked = (input.value === "table") === isTable;
    const sort = this.state.get("sort"), name = sort.replace(/^-/, "");
    [this.sort, this.isDown] = COLUMNS.some(([one]) => one === name) ? [name, sort.startsWith("-")] : ["name", false];
    for (const [one, head] of Object.entries(this.heads)) {
      if (one !== this.sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
    }
    if (isTable) soon(() => this.render(true));
  }

  filterBy(filter) {
    const { group, text } = filter, isSame = this.filter?.group === group && this.filter?.text === text;
    this.filter = filter;
    if (this.isShown && !isSame) later(() => this.render(true));
  }

  #sortBy(name) {
    const isDown = this.sort === name ? !this.isDown : NUMBERS.includes(name);
    this.state.set({ sort: `${isDown ? "-" : ""}${name}` });
    this.adopt();
  }

  #isWanted(one) {
    const { group, text } = this.filter ?? {};
    const says = ([, , , show]) => show(one, this.store.cluster.at_s, this.store).toLowerCase().includes(text);
    return (!group || one.group === group) && (!text || COLUMNS.some(says));
  }

  /** `isAsked`: by a person, so that rows may move though they are pointed at. */
  render = (isAsked = false) => {
    if (!this.store.cluster || !this.isShown) return;
    const { cluster } = this.store, wanted = [...this.store.nodes.values()].filter((one) => this.#isWanted(one));
    const [, , value] = COLUMNS.find(([name]) => name === this.sort), sign = this.isDown ? -1 : 1;
    const keyed = wanted.map((one) => [value(one, cluster.at_s, this.store), one]);
    keyed.sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : one.name < other.name ? -1 : 1));
    const rows = keyed.slice(0, this.most).map(([, one]) => one);
    setText(this.count, `${format.whole(rows.length)} of ${format.count(wanted.length, "node")}`);
    this.more.hidden = rows.length === wanted.length;
    if (this.holding.isHeld && isAsked !== true) {
      const missing = new Set(rows.map((one) => one.name));
      for (const row of this.body.children) {
        const one = this.store.nodes.get(row.dataset.key);
        if (one) this.#show(row, one); else row.classList.add("gone");
        missing.delete(row.dataset.key);
      }
      this.holding.tell(missing.size, 0);
      return;
    }
    this.holding.free();
    reconcile(this.body, rows, (one) => one.name, (one) => this.#make(one), (row, one) => this.#show(row, one));
  };

  #make(one) {
    return el("tr", {}, ...COLUMNS.map(([name], place) => place ? el(`td.${name}`)
      : el("th", { scope: "row" }, el("button.name", { type: "button", onclick: () => this.explain("node", one.name) }, one.name))));
  }

  #show(row, one) {
    row.classList.remove("gone");
    const { at_s } = this.store.cluster;
    COLUMNS.slice(1).forEach(([, , , show], place) => setText(row.children[place + 1], show(one, at_s, this.store)));
  }
}
