// A decision in detail: options of the expander, pods, refusals, nodes, what followed, and where to read on.

import { el, setText } from "./dom.js";
import { clock, lasting, moment, money, requests, share, short, whole } from "./format.js";

const SAID_MS = 3000;

/** `told`: { decision, detail, outcomes }; `context`: { link(kind, name), links(text), recording, runbook }. */
export function renderDecision(told, context) {
  const { decision, detail } = told;
  const parts = [el("p", {}, el("time", {}, moment(decision.at_s)))];
  for (const line of decision.why.split("; ").filter(Boolean)) parts.push(el("p", {}, ...context.links(line)));
  const groups = decision.groups.map((id) => context.link("group", id));
  const nodes = decision.nodes.map((name) => context.link("node", name));
  if (groups.length || nodes.length) parts.push(el("p.links", {}, ...groups, ...nodes));
  if (detail) parts.push(...makeSections(detail, context));
  else if (detail === null) parts.push(el("p.dim", {}, "No further detail of this decision is kept."));
  parts.push(...section("What followed", makeOutcomes(decision, told.outcomes ?? [])));
  parts.push(...section("Look further", makeReferences(decision, detail, context)));
  return parts;
}

// What the decision was based on

function makeSections(detail, context) {
  const group = (id) => context.link("group", id), rows = (name, row) => (detail[name] ?? []).map(row);
  const more = (name) => detail.left_out?.[name] ? [el("p.dim", {}, `and ${whole(detail.left_out[name])} more`)] : [];
  const sizes = rows("sizes", ([id, before, after]) => [group(id), whole(before), whole(after)]);
  const options = rows("options", (one) => [group(one.group), whole(one.nodes), whole(one.pods),
    (one.waste ?? 0).toFixed(2), one.price_per_hour == null ? "–" : money(one.price_per_hour, true), resultOf(one)]);
  const pods = rows("pods", (one) => [context.link("pod", one.pod), whole(one.count), requests(one.requests),
    one.is_helped === false ? "not helped" : "helped"]);
  const refusals = rows("refusals", (one) => [group(one.group), one.reason, whole(one.pods)]);
  const nodes = rows("nodes", (one) => [context.link("node", one.name), usageOf(one),
    one.unneeded_s == null ? "–" : lasting(one.unneeded_s), evictedOf(one)]);
  const expanders = detail.expanders?.length ? `, by ${detail.expanders.join(", then ")}` : "";
  return [
    ...section("Sizes", table("Sizes", ["group", "before", "after"], sizes)),
    ...section(`Options${expanders}`,
      [...table("Options", ["group", "nodes", "pods", "waste", "price per hour", "result"], options), ...more("options")]),
    ...(detail.opinion ? [el("p", {}, detail.opinion)] : []),
    ...section("Pods", [...table("Pods", ["like", "pods", "requests", "result"], pods), ...more("pods")]),
    ...section("Groups that do not fit",
      [...table("Groups that do not fit", ["group", "reason", "pods"], refusals), ...more("refusals")]),
    ...section("Nodes",
      [...table("Nodes", ["node", "requested", "unneeded for", "pods to evict"], nodes), ...more("nodes")]),
  ];
}

const resultOf = (option) =>
  option.is_chosen ? "chosen" : option.dropped_by ? `dropped by ${option.dropped_by}` : "not chosen";

const usageOf = (node) => node.used == null ? "–" : `${share(node.used)} ${node.resource ?? ""}`;

/** The first pods that are evicted, and how many more. */
function evictedOf({ pods = [], evicted = 0 }) {
  const rest = evicted - pods.length;
  return pods.length ? `${pods.join(", ")}${rest > 0 ? ` and ${whole(rest)} more` : ""}` : "none";
}

/** A title and what is below it; nothing without content. */
const section = (title, content) => content.length ? [el("h3", {}, title), ...content] : [];

/** A table in an array; empty without rows. */
function table(name, heads, rows) {
  if (!rows.length) return [];
  const cell = (content, place) => place ? el("td", {}, content) : el("th", { scope: "row" }, content);
  // It may be wider than the panel: the keyboard has to reach what is scrolled.
  return [el("div.h-scroll", { tabindex: 0, role: "group", "aria-label": name }, el("table.h-table", {},
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map(cell))))))];
}

// What followed

function makeOutcomes(decision, outcomes) {
  if (outcomes.length) return [el("ol.h-followed", {}, ...outcomes.map((one) => makeOutcome(one, decision)))];
  return ["up", "down"].includes(decision.kind) ? [el("p.dim", {}, "Nothing yet.")] : [];
}

function makeOutcome({ at_s, said, is_bad }, decision) {
  const time = el("time", {}, `${clock(at_s)} (+${lasting(at_s - decision.at_s)})`);
  return el(`li${is_bad ? ".bad" : ""}`, {}, time, ` ${said}`);
}

// Where to read on

/** The entry of the runbook, and the commands that explain that moment. */
function makeReferences(decision, detail, { runbook, recording }) {
  const items = listCommands(decision, detail, recording).map(makeCommand);
  return decision.reason ? [makeRunbookLink(decision.reason, runbook ?? ""), ...items] : items;
}

function makeRunbookLink(reason, runbook) {
  const target = `${runbook}${reason.toLowerCase()}`;
  if (/^https?:/.test(target)) return el("p.h-runbook", {}, "Runbook: ", el("a", { href: target, rel: "noreferrer" }, reason));
  return el("p.h-runbook", {}, `Runbook: ${reason}, `, el("code", {}, target));
}

/** `--at` shows the last decision at or before its time. */
function listCommands(decision, detail, recording) {
  const at = new Date(Math.ceil(decision.at_s * 1000) + 1).toISOString();
  const pod = detail?.pods?.[0]?.pod, node = detail?.nodes?.[0]?.name ?? decision.nodes[0], about = [];
  if (decision.kind === "down" && node) about.push(`explain node ${node}`);
  if (pod) about.push(`explain pod ${pod}`);
  if (decision.kind !== "wait" && decision.groups.length) about.push(`explain group ${short(decision.groups[0])}`);
  if (!about.length) about.push("status");
  return about.map((what) => `windlass ${what} --recording ${recording || "FILE"} --at ${at}`);
}

function makeCommand(text) {
  const said = el("span", { role: "status" });
  const copy = async () => {
    let result = "copied";
    try { await navigator.clipboard.writeText(text); } catch { result = "not allowed to copy"; }
    setText(said, result);
    setTimeout(() => setText(said, ""), SAID_MS);
  };
  const button = el("button.plain", { type: "button", "aria-label": `Copy: ${text}`, onclick: copy }, "Copy");
  return el("p.h-command", {}, el("code", {}, text), button, said);
}

/** Beside the title of a list of decisions: 5, or 3 of 5. */
export const countDecisions = (shown, known) => shown === known ? whole(known) : `${whole(shown)} of ${whole(known)}`;
