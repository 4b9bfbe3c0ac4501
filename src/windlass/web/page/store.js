// The status as it was published, kept up to date. Nothing is decided or guessed here.

const MOST_DECISIONS = 300, MOST_SAMPLES = 720; // as observability/status_model.py has them

/** Fields that the wire leaves out at their defaults. */
const node = (found) => ({ group: "", state: "ready", since_s: null, cpu: 0, memory: 0, gpu: null, pods: 0, cordoned: false,
  zone: "", machine_type: "", created_s: null, why: "", ...found });
const group = (found) => ({ ready: 0, unready: 0, booting: 0, failed: 0, unneeded: 0, draining: 0, is_healthy: true,
  backoff: null, price_per_hour: null, cost_per_hour: null, errors: [], replicas_owner: "", zones: [], machine_types: [], ...found });
const pending = (found) => ({ owner: "", requests: {}, since_s: 0,
  groups: [], nodes: [], upcoming: [], reasons: [], ...found });
const decided = (found) => ({ why: "", groups: [], nodes: [], ...found });
const cluster = (found) => ({ loop: 0, name: "", mode: "live", is_over: false, speed: 1, is_healthy: true, stop: "",
  nodes: 0, ready: 0, pods: 0, pending: 0, cpu: 0, memory: 0, gpu: null,
  cluster_name: "", currency: "", recording: "", runbook: "", ...found,
  cost: { per_hour: 0, spent: 0, since_s: 0, unpriced: 0, ...found.cost } });

export class Store {
  constructor() {
    this.cluster = null;
    this.groups = new Map();
    this.nodes = new Map();
    /** Nodes of each group, by name; made anew for a group only when it gains or loses one. */
    this.members = new Map();
    this.pending = [];
    this.decisions = [];
    this.samples = [];
    this.listeners = [];
  }

  /** Names of pods that wait. */
  get pods() { return new Set(this.pending.map((one) => one.pod)); }

  /** Calls `hear(what)` with the groups whose nodes changed, and whether pods or decisions did. */
  listen(hear) { this.listeners.push(hear); }

  put(status) {
    this.cluster = cluster(status.cluster);
    this.groups = new Map(status.groups.map((one) => [one.id, group(one)]));
    this.nodes = new Map(status.nodes.map((one) => [one.name, node(one)]));
    this.members = new Map();
    for (const one of this.nodes.values()) this.#join(one);
    this.pending = status.pending.map(pending);
    this.decisions = status.decisions.map(decided);
    this.samples = status.samples;
    this.#tell({ groups: null, pending: true, decisions: this.decisions, isWhole: true });
  }

  change(change) {
    const touched = new Set();
    this.cluster = cluster(change.cluster);
    for (const id of change.groups_gone ?? []) { this.groups.delete(id); touched.add(id); }
    for (const one of change.groups ?? []) { this.groups.set(one.id, group(one)); touched.add(one.id); }
    for (const name of change.nodes_gone ?? []) this.#leave(name, touched);
    for (const one of change.nodes ?? []) {
      const now = node(one), before = this.nodes.get(now.name);
      if (before && before.group === now.group) {
        this.nodes.set(now.name, now);
        const members = this.members.get(now.group);
        members[place(members, now.name)] = now;
      } else {
        if (before) this.#leave(now.name, touched);
        this.nodes.set(now.name, now);
        this.#join(now, true);
      }
      touched.add(now.group);
    }
    if (change.pending) this.pending = change.pending.map(pending);
    const decisions = (change.decisions ?? []).map(decided);
    if (decisions.length) this.decisions = [...this.decisions, ...decisions].slice(-MOST_DECISIONS);
    if (change.samples) this.samples = [...this.samples, ...change.samples].slice(-MOST_SAMPLES);
    this.#tell({ groups: touched, pending: Boolean(change.pending), decisions, isWhole: false });
  }

  #join(one, isLate = false) {
    const members = this.members.get(one.group);
    if (!members) this.members.set(one.group, [one]);
    else if (!isLate) members.push(one); // they come in order
    else members.splice(place(members, one.name), 0, one);
  }

  #leave(name, touched) {
    const before = this.nodes.get(name);
    if (!before) return;
    this.nodes.delete(name);
    const members = this.members.get(before.group);
    members.splice(place(members, name), 1);
    if (!members.length) this.members.delete(before.group);
    touched.add(before.group);
  }

  #tell(what) { for (const hear of this.listeners) hear(what); }
}

/** Where a name belongs in a list that is in order. */
function place(members, name) {
  let low = 0, high = members.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (members[middle].name < name) low = middle + 1; else high = middle;
  }
  return low;
}
