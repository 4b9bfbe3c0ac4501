"""Placement of one pod: filter the nodes on arrays, choose the highest score, or preempt less important pods.

Preemption is decided by the reference scheduler, among the nodes where it can help.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windlass.simulator.cluster import api_objects
from windlass.simulator.cluster.api_client import ApiClient
from windlass.simulator.fast_scheduler.node_plugins import NodeScores, StaticFilters
from windlass.simulator.fast_scheduler.node_table import PODS, Ints, Mask, NodeTable
from windlass.simulator.fast_scheduler.pod_shapes import PodShape
from windlass.simulator.fast_scheduler.topology_counts import TopologyCounts
from windlass.simulator.reference_scheduler import (
    framework,
    label_selectors,
    resource_requests,
    scheduling_cycle,
    scoring,
)
from windlass.simulator.reference_scheduler.cluster_view import AssignedPod, ClusterView, NodeView, labels_of
from windlass.simulator.reference_scheduler.pod_topology_spread import SpreadConstraint

Json = dict[str, Any]

NO_SLOT = -1
SCORE_FAILED = -2
"""More than one slot, and scores that cannot be computed."""


@dataclass(slots=True, eq=False)
class Nomination:
    """A pod nominated to a node, on which it does not run yet."""

    slot: int
    shape: PodShape


@dataclass(slots=True, eq=False)
class Placer:
    """Finds nodes for pods. Changes nothing."""

    node_table: NodeTable
    static_filters: StaticFilters
    topology_counts: TopologyCounts
    scores: NodeScores
    generator: random.Random
    """Random choice among nodes with the same score."""
    nominations: dict[str, Nomination] = field(default_factory=dict)
    """Nominations by key of the preemptor."""

    def find_node(self, pod: Json, shape: PodShape, pinned: str = "") -> int:
        """The best slot for a pod, `NO_SLOT` or `SCORE_FAILED`."""
        fits = self._fitting(pod, shape)
        if pinned:
            slot = self.node_table.slots.get(pinned, NO_SLOT)
            return slot if slot != NO_SLOT and fits[slot] else NO_SLOT
        if shape.ports:
            for item in np.flatnonzero(fits).tolist():
                fits[item] = not self._is_port_taken(shape, item)
        promise = self.nominations.get(_key_of(pod))
        if promise is not None and fits[promise.slot]:
            return promise.slot
        if shape.pre_score_error and np.count_nonzero(fits) > 1:
            return SCORE_FAILED
        candidates = self.node_table.tree.search(fits)
        return self._choose(pod, shape, candidates) if len(candidates) else NO_SLOT

    def _choose(self, pod: Json, shape: PodShape, candidates: Ints) -> int:
        best = self.scores.best(pod, shape, candidates)
        return int(best[self.generator.randrange(len(best))] if len(best) > 1 else best[0])

    def find_pinned_node(self, pod: Json, shape: PodShape, pinned: str) -> int:
        """As `find_node`, for a pod that may run on one node only."""
        slot = self.node_table.slots.get(pinned, NO_SLOT)
        if slot == NO_SLOT or not shape.is_plain or self.nominations or shape.ports:
            return self.find_node(pod, shape, pinned)
        wanted = self.node_table.request_vector(shape)
        is_room = bool((self.node_table.free[slot] >= wanted)[wanted > 0].all())
        return (
            slot
            if is_room
            and not self.static_filters.find_rejection(shape, slot)
            and self._satisfies_existing_anti_affinity(pod)[slot]
            else NO_SLOT
        )

    def _fitting(self, pod: Json, shape: PodShape) -> Mask:
        """(slots,) bool: True where the pod passes all filters."""
        wanted = self.node_table.request_vector(shape)
        asked = np.flatnonzero(wanted)
        free = self._free_without_nominated(pod, shape)
        fits: Mask = self.node_table.is_present & self.static_filters.allows(shape)
        for column in asked:
            fits &= free[:, column] >= wanted[column]
        if shape.spread:
            fits &= self._is_spread(shape)
        if shape.affinity_terms:
            fits &= self._satisfies_affinity(shape)
        for term in shape.anti_affinity_terms:
            fits &= ~self._same_domain(term.key, self.topology_counts.of_terms([term]))
        return fits & self._satisfies_existing_anti_affinity(pod)

    def _free_without_nominated(self, pod: Json, shape: PodShape) -> Ints:
        """(slots, resources) int: free resources less those of nominated pods of at least this priority."""
        if not self.nominations:
            return self.node_table.free
        own = _key_of(pod)
        mine = [
            promise
            for key, promise in self.nominations.items()
            if promise.shape.priority >= shape.priority and key != own
        ]
        if not mine:
            return self.node_table.free
        free = self.node_table.free.copy()
        for promise in mine:
            free[promise.slot] -= self.node_table.request_vector(promise.shape)
        return free

    def _is_port_taken(self, shape: PodShape, slot: int) -> bool:
        taken = [port for seat in self.node_table.pods[slot].values() for port in seat.shape.ports]
        return any(wanted.conflicts_with(port) for wanted in shape.ports for port in taken)

    # ── Topology ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_spread(self, shape: PodShape) -> Mask:
        """(slots,) bool: True where no hard spread constraint is violated."""
        fits: Mask = np.ones(len(self.node_table.is_present), bool)
        has_keys = self.node_table.is_present.copy()
        for constraint in shape.spread:
            has_keys &= self.topology_counts.domains(constraint.key)[0] >= 0
        for constraint in shape.spread:
            fits &= self._is_even(shape, constraint, has_keys)
        return fits

    def _is_even(self, shape: PodShape, constraint: SpreadConstraint, has_keys: Mask) -> Mask:
        pod = shape.example
        domain, count = self.topology_counts.domains(constraint.key)
        counted = has_keys & self.topology_counts.included(shape, constraint)
        pods = self.topology_counts.of_constraint(pod["metadata"]["namespace"], constraint)
        numbers = np.bincount(domain[counted], weights=pods[counted], minlength=count)
        present = np.bincount(domain[counted], minlength=count) > 0
        fewest = numbers[present].min() if present.any() and present.sum() >= constraint.min_domains else 0
        itself = 1 if label_selectors.matches_selector(constraint.selector, labels_of(pod)) else 0
        even: Mask = (domain >= 0) & (numbers[domain] + itself - fewest <= constraint.max_skew)
        return even

    def _satisfies_affinity(self, shape: PodShape) -> Mask:
        """(slots,) bool: True where required affinity holds. The first pod of a group may run anywhere."""
        wanted = self.topology_counts.of_terms(shape.affinity_terms)
        fits: Mask = self.node_table.is_present.copy()
        keyed: Mask = self.node_table.is_present.copy()
        is_anyone_there = False
        for term in shape.affinity_terms:
            has_key = self.node_table.is_present & (self.topology_counts.domains(term.key)[0] >= 0)
            keyed &= has_key
            fits &= self._same_domain(term.key, wanted)
            is_anyone_there = is_anyone_there or bool(wanted[has_key].any())
        if not is_anyone_there and all(term.selects(shape.example, {}) for term in shape.affinity_terms):
            return keyed
        return fits & keyed

    def _same_domain(self, key: str, pods: Ints) -> Mask:
        """(slots,) bool: True where the node's domain has one of these pods."""
        return self.topology_counts.sum_by_domain(key, pods) > 0

    def _satisfies_existing_anti_affinity(self, pod: Json) -> Mask:
        """(slots,) bool: True where no pod in the domain has anti-affinity to the pod."""
        fits: Mask = np.ones(len(self.node_table.is_present), bool)
        for key, pods in self.topology_counts.anti_affinity_counts(pod):
            fits &= ~self._same_domain(key, pods)
        return fits

    # ── Messages───────────────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, pod: Json, shape: PodShape) -> str:
        """kube-scheduler's FitError message."""
        here = self.node_table.is_present
        total = int(here.sum())
        if not total:
            return framework.NO_NODES_AVAILABLE
        reasons = self.static_filters.count_rejections(shape)
        left = here & self.static_filters.allows(shape)
        reasons.update(self._count_short(shape, left))
        rest = (
            total - int((here & ~self.static_filters.allows(shape)).sum()) - int((left & self._is_short(shape)).sum())
        )
        if rest > 0:
            reasons[
                "node(s) didn't match pod topology spread constraints" if shape.spread else _ANTI_AFFINITY_REASON
            ] += rest
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{total} nodes are available: {', '.join(counted)}."

    def _is_short(self, shape: PodShape) -> Mask:
        wanted = self.node_table.request_vector(shape)
        short = self.node_table.free[:, wanted > 0] < wanted[wanted > 0]
        return np.asarray(short.any(axis=1))

    def _count_short(self, shape: PodShape, among: Mask) -> Counter[str]:
        wanted = self.node_table.request_vector(shape)
        counts: Counter[str] = Counter()
        for name, column in self.node_table.columns.items():
            number = int((among & (self.node_table.free[:, column] < wanted[column])).sum()) if wanted[column] else 0
            if number:
                counts["Too many pods" if name == PODS else f"Insufficient {name}"] = number
        return counts


def _key_of(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"


_ANTI_AFFINITY_REASON = "node(s) didn't match pod anti-affinity rules"

_MAX_CANDIDATES = 100
"""Preemption candidates that are evaluated, as upstream does in a large cluster."""


def preempt(
    api: ApiClient, placer: Placer, pod: Json, shape: PodShape
) -> scheduling_cycle.Placement | scheduling_cycle.SchedulingFailure | None:
    """Preemption for a pod that fits nowhere, by the reference scheduler; None if it cannot help."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return None
    slots = np.flatnonzero(preemption_candidates(placer, shape))
    if not len(slots):
        return None
    if shape.is_plain and not placer.topology_counts.anti_affinity_counts(pod):
        slots = slots[:_MAX_CANDIDATES]
    else:
        # Spread and affinity count pods on all nodes.
        slots = np.flatnonzero(placer.node_table.is_present)
    return scheduling_cycle.schedule(make_cluster_view(api, placer, [int(slot) for slot in slots], pod), pod)


def preemption_candidates(placer: Placer, shape: PodShape) -> Mask:
    """(slots,) bool: True where the pod fits without the pods of lower priority."""
    node_table = placer.node_table
    lower = [held for priority, held in node_table.requested_by_priority.items() if priority < shape.priority]
    if not lower:
        return np.zeros(len(node_table.is_present), bool)
    wanted, reclaimed = node_table.request_vector(shape), np.sum(lower, axis=0)
    fits: Mask = node_table.is_present & placer.static_filters.allows(shape) & (reclaimed[:, 0] > 0)
    for column in np.flatnonzero(wanted):
        fits &= node_table.free[:, column] + reclaimed[:, column] >= wanted[column]
    return fits


def make_cluster_view(api: ApiClient, placer: Placer, slots: list[int], pod: Json) -> ClusterView:
    """A view of these nodes and their pods, for the reference scheduler."""
    made = ClusterView()
    node_table, pods = placer.node_table, api.list_objects(api_objects.PODS)
    for slot in slots:
        has = {name: int(node_table.allocatable[slot, column]) for name, column in node_table.columns.items()}
        seated = {
            key: AssignedPod(pods[key], {**seat.shape.amounts}, _nonzero_requests(seat.shape))
            for key, seat in node_table.pods[slot].items()
            if key in pods
        }
        made.nodes[node_table.names[slot]] = NodeView(node_table.nodes[slot], has, seated)
    for budget in api.list_objects(api_objects.BUDGETS).values():
        made.put(budget)
    own = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key in placer.nominations:
        if key != own and key in pods:
            made.waiting[key] = pods[key]
    return made


def _nonzero_requests(shape: PodShape) -> resource_requests.ResourceList:
    return dict(zip(scoring.RESOURCES, shape.nonzero_assigned.tolist(), strict=True))
