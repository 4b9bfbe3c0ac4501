"""Placement of one pod: filter the nodes on arrays, choose the highest score, or preempt less important pods.

Preemption is decided by the reference scheduler, among the nodes where it can help.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windlass.simulator.cluster import api_resources
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


@dataclass(slots=True, eq=False)
class Nomination:
    """A place that a pod has been promised and does not have yet."""

    slot: int
    shape: PodShape


@dataclass(slots=True, eq=False)
class Placer:
    """Finds nodes. Changes nothing."""

    node_table: NodeTable
    static_filters: StaticFilters
    topology_counts: TopologyCounts
    scores: NodeScores
    generator: random.Random
    """Chooses among nodes with the same score."""
    nominations: dict[str, Nomination] = field(default_factory=dict)
    """By the key of the pod that preempted others."""

    def find_node(self, pod: Json, shape: PodShape, pinned: str = "") -> int:
        """The slot for a pod, or `NOWHERE`."""
        fits = self._fitting(pod, shape)
        if pinned:
            slot = self.node_table.slots.get(pinned, NO_SLOT)
            return slot if slot != NO_SLOT and fits[slot] else NO_SLOT
        if shape.ports:
            for one in np.flatnonzero(fits).tolist():
                fits[one] = not self._is_port_taken(shape, one)
        promise = self.nominations.get(_key_of(pod))
        if promise is not None and fits[promise.slot]:
            return promise.slot
        candidates = self.node_table.tree.search(fits)
        return self._choose(pod, shape, candidates) if len(candidates) else NO_SLOT

    def _choose(self, pod: Json, shape: PodShape, candidates: Ints) -> int:
        best = self.scores.best(pod, shape, candidates)
        return int(best[self.generator.randrange(len(best))] if len(best) > 1 else best[0])

    def find_pinned_node(self, pod: Json, shape: PodShape, pinned: str) -> int:
        """The same for a pod that may go to one node only."""
        slot = self.node_table.slots.get(pinned, NO_SLOT)
        if slot == NO_SLOT or not shape.is_plain or self.nominations or shape.ports:
            return self.find_node(pod, shape, pinned)
        wanted = self.node_table.request_vector(shape)
        is_room = bool((self.node_table.free[slot] >= wanted)[wanted > 0].all())
        return (
            slot
            if is_room and not self.static_filters.find_rejection(shape, slot) and self._is_welcome(pod)[slot]
            else NO_SLOT
        )

    def _fitting(self, pod: Json, shape: PodShape) -> Mask:
        """(slots,): where every filter says yes."""
        wanted = self.node_table.request_vector(shape)
        asked = np.flatnonzero(wanted)
        free = self._free_beside_promised(pod, shape)
        fits: Mask = self.node_table.is_present & self.static_filters.allows(shape)
        for column in asked:
            fits &= free[:, column] >= wanted[column]
        if shape.spread:
            fits &= self._is_spread(shape)
        if shape.affinity_terms:
            fits &= self._is_together(shape)
        for term in shape.anti_affinity_terms:
            fits &= ~self._same_domain(term.key, self.topology_counts.of_terms([term]))
        return fits & self._is_welcome(pod)

    def _free_beside_promised(self, pod: Json, shape: PodShape) -> Ints:
        """What is free once those have come who were promised a place and are no less important."""
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
        """(slots,): would no constraint be more uneven than allowed?"""
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

    def _is_together(self, shape: PodShape) -> Mask:
        """(slots,): are those there whom the pod wants near? The first of a group may go anywhere with the keys."""
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
        """(slots,): is one of these pods in the node's domain?"""
        return self.topology_counts.sum_by_domain(key, pods) > 0

    def _is_welcome(self, pod: Json) -> Mask:
        """(slots,): does nobody there want such a pod away?"""
        fits: Mask = np.ones(len(self.node_table.is_present), bool)
        for key, pods in self.topology_counts.anti_affinity_counts(pod):
            fits &= ~self._same_domain(key, pods)
        return fits

    # ── Words ────────────────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, pod: Json, shape: PodShape) -> str:
        """Why there is no place, in the scheduler's words."""
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
"""Of the nodes where room could be made, so many are looked at, as upstream does in a large cluster."""


def preempt(
    api: ApiClient, placing: Placer, pod: Json, shape: PodShape
) -> scheduling_cycle.Placement | scheduling_cycle.SchedulingFailure | None:
    """What the plain scheduler does about a pod that fits nowhere; None if preemption is out of the question."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return None
    slots = np.flatnonzero(preemption_candidates(placing, shape))
    if not len(slots):
        return None
    if shape.is_plain and not placing.topology_counts.anti_affinity_counts(pod):
        slots = slots[:_MAX_CANDIDATES]
    else:
        # Spreading and affinity count pods everywhere.
        slots = np.flatnonzero(placing.node_table.is_present)
    return scheduling_cycle.schedule(make_cluster_view(api, placing, [int(slot) for slot in slots], pod), pod)


def preemption_candidates(placing: Placer, shape: PodShape) -> Mask:
    """(slots,): would the pod fit if all less important pods were gone?"""
    seats = placing.node_table
    lower = [held for priority, held in seats.requested_by_priority.items() if priority < shape.priority]
    if not lower:
        return np.zeros(len(seats.is_present), bool)
    wanted, reclaimed = seats.request_vector(shape), np.sum(lower, axis=0)
    fits: Mask = seats.is_present & placing.static_filters.allows(shape) & (reclaimed[:, 0] > 0)
    for column in np.flatnonzero(wanted):
        fits &= seats.free[:, column] + reclaimed[:, column] >= wanted[column]
    return fits


def make_cluster_view(api: ApiClient, placing: Placer, slots: list[int], pod: Json) -> ClusterView:
    """These nodes and the pods on them, for the plain scheduler."""
    made = ClusterView()
    seats, pods = placing.node_table, api.list_objects(api_resources.PODS)
    for slot in slots:
        has = {name: int(seats.allocatable[slot, column]) for name, column in seats.columns.items()}
        seated = {
            key: AssignedPod(pods[key], {**seat.shape.amounts}, _nonzero_requests(seat.shape))
            for key, seat in seats.pods[slot].items()
            if key in pods
        }
        made.nodes[seats.names[slot]] = NodeView(seats.nodes[slot], has, seated)
    for budget in api.list_objects(api_resources.BUDGETS).values():
        made.put(budget)
    own = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key in placing.nominations:
        if key != own and key in pods:
            made.waiting[key] = pods[key]
    return made


def _nonzero_requests(shape: PodShape) -> resource_requests.ResourceList:
    return dict(zip(scoring.RESOURCES, shape.nonzero_assigned.tolist(), strict=True))
