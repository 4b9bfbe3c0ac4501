// The page: what is published, shown; what is clicked, explained.

import { $, setText } from "./dom.js";
import { Figures } from "./figures.js";
import * as format from "./format.js";
import { History } from "./history.js";
import { Lists } from "./lists.js";
import { Map_ } from "./map.js";
import { NodeTable } from "./node_table.js";
import { Panel } from "./panel.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import * as theme from "./theme.js";
import { later, soon } from "./turns.js";
import { ViewState, readTime, writeTime } from "./view_state.js";

const QUIET_MS = 4000; // between two things that are said aloud
const LATE_S = 90; // without a loop

// The token is in the address once, and is taken out of it before anything else reads the address.
const given = new URLSearchParams(location.hash.slice(1)), token = given.get("token");
if (token) {
  given.delete("token");
  history.replaceState(null, "", `${location.pathname}${given.size ? `#${given}` : ""}`);
}

const store = new Store(), state = new ViewState();
const panel = new Panel(store, (shown) => state.set({ open: shown ? address(shown) : "" }));
const map = new Map_(store, panel.explain, (text) => setText($("say"), text));
const lists = new Lists(store, panel.explain, panel.tell);
const table = new NodeTable(store, state, panel.explain);
let filter = null;
const past = new History(store, state, { open: panel.tell, changed: (found) => { filter = found; later(applyFilter); } });
new Figures(store);
theme.begin(() => map.recolour());

/** What is open, as it stands in a link: node/NAME, pod/NAMESPACE/NAME, group/ID, decision/NUMBER@TIME. */
function address({ kind, name, decided }) {
  if (kind !== "decision") return `${kind}/${name}`;
  return decided ? `decision/${decided.number}@${writeTime(decided.at_s)}` : state.get("open");
}

/** The filter touches every part of the page. */
function applyFilter() {
  map.filterBy(filter);
  table.filterBy(filter);
  lists.filterBy(filter, past.view.shown, store.count ?? 0);
  follow();
}

/** Open what the link names, as soon as it is known. */
let wanted = state.get("open");
function follow() {
  if (!wanted || !store.cluster) return;
  const [, kind, name] = /^(\w+)\/(.+)$/.exec(wanted) ?? [];
  if (kind === "decision") {
    if (!past.data) return;
    const [number, at] = name.split("@"), found = past.find(Number(number), readTime(at));
    if (found) panel.tell(found);
    else panel.miss("decision", `The decision of ${at} is no longer kept, or was made by another process.`);
  } else if (["node", "pod", "group"].includes(kind)) panel.explain(kind, name);
  wanted = "";
}

function showAs(view) {
  state.set({ view });
  table.adopt();
}
$("view").addEventListener("change", ({ target }) => showAs(target.value));

state.listen(() => {
  table.adopt();
  wanted = state.get("open");
  if (wanted) follow(); else panel.close();
});

// The bar

let link = "", beat = null, said_ms = 0;

function renderBar() {
  const { cluster } = store;
  document.body.classList.toggle("stale", link !== "open");
  const states = { "": "connecting…", lost: "connection lost, trying again", silent: "nothing was heard, trying again", locked: "a token is needed", open: "" };
  let state = states[link];
  if (cluster) {
    const isStory = cluster.mode === "simulated" || cluster.mode === "recorded";
    setText($("mode"), isStory && cluster.speed > 1 ? `${cluster.mode} ×${format.whole(cluster.speed)}` : cluster.mode);
    $("mode").dataset.mode = cluster.mode;
    format.setCurrency(cluster.currency);
    setText($("name"), [cluster.cluster_name, cluster.name].filter(Boolean).join(" · "));
    setText($("clock"), format.moment(cluster.at_s));
    $("clock").dataset.atS = cluster.at_s;
    const place = cluster.cluster_name || cluster.name || "windlass";
    const title = `${place}: ${format.count(cluster.nodes, "node")}${cluster.pending ? `, ${cluster.pending} pending` : ""}`;
    if (document.title !== title) document.title = title;
    const late_s = beat && !isStory ? beat.now_s - cluster.at_s : 0;
    if (!state && cluster.is_over) state = "over";
    else if (!state && late_s > LATE_S) state = `no loop for ${format.lasting(late_s)}`;
  }
  setText($("link"), state || "live");
  $("link").dataset.state = state ? (link === "open" ? "late" : "lost") : "live";
  const trouble = [beat?.trouble, cluster?.stop, cluster && !cluster.is_healthy && !cluster.stop ? "the cluster is unhealthy" : ""].filter(Boolean);
  $("trouble").hidden = !trouble.length;
  setText($("trouble"), trouble.join(" · "));
}

store.listen(({ decisions, isWhole }) => {
  later(renderBar);
  if (wanted) later(follow);
  if (isWhole || !decisions.length || performance.now() - said_ms < QUIET_MS) return;
  said_ms = performance.now();
  setText($("news"), decisions.map((one) => one.said).join("; "));
});

// The stream

const stream = new Stream("published/stream", {
  status: (status) => { beat = null; store.put(status); },
  change: (change) => store.change(change),
  beat: (found) => { beat = found; soon(renderBar); },
  link: (state) => {
    if (state === link) return;
    link = state;
    soon(renderBar);
    if (state === "locked" && !$("login").open) $("login").showModal();
  },
});

// The token

async function open(token) {
  const answer = await fetch("session", { headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
  if (!answer?.ok) {
    setText($("login-said"), answer ? "The token is not valid." : "The server does not answer.");
    return;
  }
  $("token").value = "";
  $("login").close();
  stream.open();
}

$("login-form").addEventListener("submit", (event) => { event.preventDefault(); open($("token").value); });
if (token) open(token);

// Keys

const go = (id) => {
  const heading = $(id), first = heading.closest("section").querySelector(state.get("view") === "table" && id === "nodes" ? "#table button.name" : "canvas.cells:not([hidden]), li button");
  (first ?? heading).focus();
};
const KEYS = {
  h: () => $("history").querySelector("[role=slider]").focus(), n: () => go("nodes"), p: () => go("pending-title"), t: () => go("timeline-title"),
  "/": () => $("find").focus(), c: () => map.colourNext(), m: () => showAs(state.get("view") ? "" : "table"), d: () => theme.next(), "?": () => $("help").showModal(),
};

addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (document.activeElement === $("find") && $("find").value) { $("find").value = ""; $("find").dispatchEvent(new Event("input")); }
    else if (!document.querySelector("dialog[open]")) panel.close();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=radio], [type=checkbox]), select, dialog")) return;
  if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
});

$("help-open").addEventListener("click", () => $("help").showModal());
$("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const wanted = $("find").value.trim().toLowerCase();
  if (!wanted) return;
  const within = (name) => name.toLowerCase().includes(wanted);
  const pod = store.pending.find((one) => within(one.pod));
  const group = [...store.groups.keys()].find((id) => format.short(id).toLowerCase() === wanted);
  const node = [...store.nodes.keys()].find(within);
  if (group) panel.explain("group", group);
  else if (node) panel.explain("node", node);
  else if (pod) panel.explain("pod", pod.pod);
  else if (wanted.includes("/")) panel.explain("pod", $("find").value.trim());
  else setText($("say"), "Nothing of that name.");
});
