// The filter that every panel follows: by kind of decision, node group, namespace and text.

/** Glyph and name of each kind of decision. */
export const KINDS = {
  up: ["▲", "scale up"], down: ["▼", "scale down"], trouble: ["!", "failure"], wait: ["✕", "no fitting group"],
};

/** What is filtered by, and which decisions and groups match. */
export class Filter {
  constructor(state, decisions, groups) {
    this.kinds = state.list("kind").filter((kind) => kind in KINDS);
    [this.group, this.namespace] = [state.get("group"), state.get("namespace")];
    this.text = state.get("text").trim().toLowerCase();
    this.isOn = Boolean(this.kinds.length || this.group || this.namespace || this.text);
    this.decisions = this.isOn ? decisions.filter((one) => this.#matches(one)) : decisions;
    /** Ids of the groups that match; null: all. */
    this.groups = this.#findGroups(groups);
  }

  #matches(one) {
    return (!this.kinds.length || this.kinds.includes(one.kind))
      && (!this.group || one.groups.includes(this.group))
      && (!this.namespace || one.namespaces.includes(this.namespace))
      && (!this.text || wordsOf(one).includes(this.text));
  }

  /** A text matches a group by its id, and by a decision about it. */
  #findGroups(groups) {
    const chosen = this.group ? new Set([this.group]) : null;
    if (!this.text) return chosen;
    const found = groups.filter((id) => id.toLowerCase().includes(this.text));
    for (const one of this.decisions) found.push(...one.groups);
    return new Set(found.filter((id) => !chosen || chosen.has(id)));
  }
}

const wordsOf = (one) => [one.said, one.why, ...one.groups, ...one.nodes, ...one.namespaces].join(" ").toLowerCase();
