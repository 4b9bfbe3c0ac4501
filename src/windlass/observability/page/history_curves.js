// The charts of the history: the curves of each, of the groups and the namespace that the filter leaves.

import { short } from "./format.js";
import { countUntil } from "./plot.js";

const OWN_CURVES = 9; // groups with a curve of their own
const OTHERS = 9; // the colour of all others together

/** Values of a group in a sample, in this order. */
const FIGURES = 6, NODES = 0, CORES = 1, GIB = 3, COST = 5; // requested cores and GiB; allocatable ones follow each
/** Places in a sample: totals, figures of groups, pending pods by namespace, and the bounds that a report has. */
const AT = { nodes: 1, pending: 2, cpu: 3, memory: 4, cost: 5, groups: 6, namespaces: 7, leastNodes: 8, leastCost: 9 };

/** More names than these are not listed beside a plot. */
export const MOST_KEYS = OWN_CURVES + 2;

/** `curves(data, filter)` returns { curves, note }; the note says what the filter does not reach. */
export const CHARTS = [
  { title: "Nodes", unit: "count", isStacked: true, curves: nodeCurves },
  { title: "Pending pods", unit: "count", curves: pendingCurves },
  { title: "Utilization", unit: "share", curves: utilizationCurves },
  { title: "Cost per hour", unit: "money", curves: costCurves },
];

/** Several runs of one scenario: a curve for each. */
export const COMPARED = [
  { title: "Nodes", unit: "count", curves: compareRuns(nodesOf, noteNamespace) },
  { title: "Pending pods", unit: "count", curves: compareRuns(pendingOf, noteGroups) },
  { title: "Cost per hour", unit: "money", curves: compareRuns(costOf, noteNamespace) },
];

const figure = (sample, place, which) => sample[AT.groups][place * FIGURES + which] ?? 0;
const sum = (sample, places, which) => places.reduce((total, place) => total + figure(sample, place, which), 0);

// Figures that are not known by namespace, or not by group, are those of all.
function noteNamespace(filter) { return filter.namespace ? "all namespaces" : ""; }
function noteGroups(filter) { return filter.groups ? "all groups" : ""; }

/** Places of the groups that match; null: the totals count. */
function placesOf({ groups }, filter) {
  return filter.groups && [...groups.keys()].filter((place) => filter.groups.has(groups[place]));
}

/** A figure of a sample: of the groups that match, or the total. */
function groupsOrTotal(data, filter, which, total) {
  const places = placesOf(data, filter);
  return places ? (sample) => sum(sample, places, which) : (sample) => sample[total];
}

function nodesOf(data, filter) { return groupsOrTotal(data, filter, NODES, AT.nodes); }
function costOf(data, filter) { return groupsOrTotal(data, filter, COST, AT.cost); }

function pendingOf(data, filter) {
  if (!filter.namespace) return (sample) => sample[AT.pending];
  const place = data.namespaces.indexOf(filter.namespace);
  return (sample) => sample[AT.namespaces][place] ?? 0;
}

/** The lower bound that a report knows of the whole cluster. */
function boundOf(data, filter, place) {
  if (!data.hasBounds || filter.groups) return [];
  return [{ name: "lower bound", colour: OTHERS, isBound: true, values: data.samples.map((sample) => sample[place]) }];
}

/** The largest groups in the order of their names, the others together, and nodes without a group. */
function nodeCurves(data, filter) {
  const { samples, groups } = data;
  const sizes = groups.map((_, place) => samples.reduce((total, sample) => total + figure(sample, place, NODES), 0));
  const present = (placesOf(data, filter) ?? [...groups.keys()]).filter((place) => sizes[place]);
  const largest = present.filter((place) => groups[place] !== "").sort((one, other) => sizes[other] - sizes[one]);
  const own = largest.slice(0, OWN_CURVES).sort((one, other) => groups[one] < groups[other] ? -1 : 1);
  const rest = present.filter((place) => !own.includes(place));
  const curves = own.map((place) => ({
    name: short(groups[place]), colour: place % OTHERS, values: samples.map((sample) => figure(sample, place, NODES)),
  }));
  if (rest.length) {
    const name = rest.length > 1 ? `${rest.length} others` : "others";
    curves.push({ name, colour: OTHERS, values: samples.map((sample) => sum(sample, rest, NODES)) });
  }
  if (!filter.groups) {
    const loose = samples.map((sample) => Math.max(sample[AT.nodes] - sum(sample, present, NODES), 0));
    if (loose.some(Boolean)) curves.push({ name: "no group", colour: OTHERS, values: loose });
  }
  return { curves: [...curves, ...boundOf(data, filter, AT.leastNodes)], note: noteNamespace(filter) };
}

function pendingCurves(data, filter) {
  const values = data.samples.map(pendingOf(data, filter));
  return { curves: [{ name: filter.namespace || "pending", colour: 2, values }], note: noteGroups(filter) };
}

function utilizationCurves(data, filter) {
  const places = placesOf(data, filter);
  const curves = [["cpu", 0, AT.cpu, CORES], ["memory", 1, AT.memory, GIB]].map(([name, colour, total, requested]) => {
    const shareOf = (sample) => {
      if (!places) return sample[total];
      const allocatable = sum(sample, places, requested + 1);
      return allocatable ? sum(sample, places, requested) / allocatable : 0;
    };
    return { name, colour, values: data.samples.map(shareOf) };
  });
  return { curves, note: noteNamespace(filter) };
}

function costCurves(data, filter) {
  const values = data.samples.map(costOf(data, filter));
  return { curves: [{ name: "cost", colour: 4, values }, ...boundOf(data, filter, AT.leastCost)], note: noteNamespace(filter) };
}

/** Every run has samples of its own; drawn are the times of all of them. */
function compareRuns(valueOf, noteOf) {
  return (data, filter) => {
    const curves = data.runs.map((run, number) => {
      const times = run.samples.map((sample) => sample[0]), value = valueOf(run, filter);
      const at = (time) => run.samples[Math.max(countUntil(times, time) - 1, 0)];
      return { name: String.fromCharCode(65 + number), colour: number, values: data.samples.map(([time]) => value(at(time))) };
    });
    return { curves, note: noteOf(filter) };
  };
}
