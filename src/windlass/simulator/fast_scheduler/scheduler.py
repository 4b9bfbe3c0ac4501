"""Scheduling queue and loop: pending pods get a node or a reason; retries when capacity is freed or changes.

Placement of one pod: filter the nodes on arrays, choose the highest score, or preempt less important pods. Preemption
is decided by the reference scheduler, among the nodes where it can help.
"""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import ApiClient, Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.fast_scheduler import pod_shapes
from windlass.simulator.fast_scheduler.node_plugins import NodeScores, StaticFilters
from windlass.simulator.fast_scheduler.node_table import PODS, Ints, Mask, NodeTable, PlacedPod
from windlass.simulator.fast_scheduler.pod_shapes import PodShape, ShapedPod
from windlass.simulator.fast_scheduler.topology_counts import TopologyCounts
from windlass.simulator.reference_scheduler import (
    framework,
    label_selectors,
    pod_topology_spread,
    resource_requests,
    scheduling_cycle,
    scoring,
)
from windlass.simulator.reference_scheduler.cluster_view import AssignedPod, ClusterView, NodeView, labels_of
from windlass.simulator.reference_scheduler.pod_topology_spread import SpreadConstraint

NO_SLOT = -1
SCORE_FAILED = -2
"""More than one slot, and scores that cannot be computed."""

Json = dict[str, Any]


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
        desired = self.node_table.request_vector(shape)
        is_room = bool((self.node_table.free[slot] >= desired)[desired > 0].all())
        return (
            slot
            if is_room
            and not self.static_filters.find_rejection(shape, slot)
            and self._satisfies_existing_anti_affinity(pod)[slot]
            else NO_SLOT
        )

    def _fitting(self, pod: Json, shape: PodShape) -> Mask:
        """(slots,) bool: True where the pod passes all filters."""
        desired = self.node_table.request_vector(shape)
        asked = np.flatnonzero(desired)
        free = self._free_without_nominated(pod, shape)
        fits: Mask = self.node_table.is_present & self.static_filters.allows(shape)
        for column in asked:
            fits &= free[:, column] >= desired[column]
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
        desired = self.topology_counts.of_terms(shape.affinity_terms)
        fits: Mask = self.node_table.is_present.copy()
        keyed: Mask = self.node_table.is_present.copy()
        is_anyone_there = False
        for term in shape.affinity_terms:
            has_key = self.node_table.is_present & (self.topology_counts.domains(term.key)[0] >= 0)
            keyed &= has_key
            fits &= self._same_domain(term.key, desired)
            is_anyone_there = is_anyone_there or bool(desired[has_key].any())
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
        remaining = here & self.static_filters.allows(shape)
        reasons.update(self._count_short(shape, remaining))
        rest = (
            total
            - int((here & ~self.static_filters.allows(shape)).sum())
            - int((remaining & self._is_short(shape)).sum())
        )
        if rest > 0:
            reasons[
                "node(s) didn't match pod topology spread constraints" if shape.spread else _ANTI_AFFINITY_REASON
            ] += rest
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{total} nodes are available: {', '.join(counted)}."

    def _is_short(self, shape: PodShape) -> Mask:
        desired = self.node_table.request_vector(shape)
        short = self.node_table.free[:, desired > 0] < desired[desired > 0]
        return np.asarray(short.any(axis=1))

    def _count_short(self, shape: PodShape, among: Mask) -> Counter[str]:
        desired = self.node_table.request_vector(shape)
        counts: Counter[str] = Counter()
        for name, column in self.node_table.columns.items():
            number = int((among & (self.node_table.free[:, column] < desired[column])).sum()) if desired[column] else 0
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
    desired, reclaimed = node_table.request_vector(shape), np.sum(lower, axis=0)
    fits: Mask = node_table.is_present & placer.static_filters.allows(shape) & (reclaimed[:, 0] > 0)
    for column in np.flatnonzero(desired):
        fits &= node_table.free[:, column] + reclaimed[:, column] >= desired[column]
    return fits


def make_cluster_view(api: ApiClient, placer: Placer, slots: list[int], pod: Json) -> ClusterView:
    """A view of these nodes and their pods, for the reference scheduler."""
    made = ClusterView()
    node_table, pods = placer.node_table, api.list_objects(api_client.PODS)
    for slot in slots:
        has = {name: int(node_table.allocatable[slot, column]) for name, column in node_table.columns.items()}
        seated = {
            key: AssignedPod(pods[key], {**seat.shape.amounts}, _nonzero_requests(seat.shape))
            for key, seat in node_table.pods[slot].items()
            if key in pods
        }
        made.nodes[node_table.names[slot]] = NodeView(node_table.nodes[slot], has, seated)
    for budget in api.list_objects(api_client.BUDGETS).values():
        made.put(budget)
    own = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key in placer.nominations:
        if key != own and key in pods:
            made.waiting[key] = pods[key]
    return made


def _nonzero_requests(shape: PodShape) -> resource_requests.ResourceList:
    return dict(zip(scoring.RESOURCES, shape.nonzero_assigned.tolist(), strict=True))


_PREEMPTED_CONDITION: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}
_SELECTING_OWNERS = {"ReplicaSet": api_client.REPLICA_SETS, "StatefulSet": api_client.STATEFUL_SETS}
QueueKey = tuple[int, str]
"""A shape's number, and the node that the pod is pinned to, or none."""


class FastScheduler:
    """kube-scheduler's loop. Pods of one shape share a queue: if the first does not fit, the others do not."""

    watched_kinds = (api_client.PODS, api_client.NODES)

    def __init__(self, event_loop: EventLoop, rng: random.Random) -> None:
        self._api = event_loop.api
        self._shapes = pod_shapes.PodShapes(self._find_selector)
        self.node_table = NodeTable()
        self._tallies = TopologyCounts(self.node_table)
        scores = NodeScores(self.node_table, self._tallies)
        self._placing = Placer(self.node_table, StaticFilters(self.node_table), self._tallies, scores, rng)
        self._waiting: dict[QueueKey, dict[str, int]] = {}
        """Queues of pods by shape: keys and arrival times."""
        self._shaped_pods: dict[str, ShapedPod] = {}
        self._unmarked: dict[str, None] = {}
        """Pending pods without a PodScheduled condition."""
        self._ready: dict[QueueKey, None] = {}
        """Queues to retry."""
        self._came = 0

    # ── Changes─────────────────────────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: Change) -> None:
        if change.kind == api_client.NODES:
            self._react_to_node(change)
            return
        pod = change.now
        if pod is None or api_client.is_finished(pod):
            self._forget(change.key)
        elif node := api_client.node_of(pod):
            self._react_to_assigned_pod(change.key, pod, node)
        elif pod_shapes.is_schedulable_pending(pod):
            self._queue(change.key, pod)
        else:
            self._drop_waiting(change.key)

    def _react_to_node(self, change: Change) -> None:
        if change.now is None:
            slot = self.node_table.slots.get(change.key)
            if slot is not None:
                for key in list(self.node_table.pods[slot]):
                    self._remove_pod(key)
                self.node_table.drop_node(change.key)
                for key in [key for key, promise in self._placing.nominations.items() if promise.slot == slot]:
                    del self._placing.nominations[key]
            self._requeue(change.key)
        elif self.node_table.put_node(change.now):
            self._requeue(change.key)

    def _react_to_assigned_pod(self, key: str, pod: Json, node: str) -> None:
        seat = self.node_table.placed_pods.get(key)
        if seat is None:
            self._drop_waiting(key)
            seat = self._place(key, pod, self._shapes.shape_pod(pod), node)
        if seat is not None and api_client.is_deleting(pod) and not seat.is_terminating:
            self._tallies.mark_terminating(seat)

    def _queue(self, key: str, pod: Json) -> None:
        if key in self._shaped_pods:
            return
        shaped_pod = self._shaped_pods[key] = self._shapes.shape_pod(pod)
        self._came += 1
        group = (shaped_pod.shape.number, shaped_pod.pinned)
        self._waiting.setdefault(group, {})[key] = self._came
        self._unmarked[key] = None
        self._ready[group] = None

    def _forget(self, key: str) -> None:
        self._drop_waiting(key)
        if self._remove_pod(key):
            self._requeue()

    def _drop_waiting(self, key: str) -> None:
        shaped_pod = self._shaped_pods.pop(key, None)
        if shaped_pod is None:
            return
        group = (shaped_pod.shape.number, shaped_pod.pinned)
        line = self._waiting[group]
        line.pop(key, None)
        if not line:
            del self._waiting[group]
        self._unmarked.pop(key, None)
        if self._placing.nominations.pop(key, None):
            self._requeue()

    def _requeue(self, node: str = "") -> None:
        """Retry pending pods after a change, except those pinned to another node."""
        self._ready.update((group, None) for group in self._waiting if not node or group[1] in ("", node))

    def _place(self, key: str, pod: Json, shaped_pod: ShapedPod, node: str) -> PlacedPod | None:
        seat = self.node_table.place(key, pod, shaped_pod.shape, node)
        if seat is not None:
            self._tallies.add_pod(seat)
        return seat

    def _remove_pod(self, key: str) -> bool:
        seat = self.node_table.remove_pod(key)
        if seat is not None:
            self._tallies.remove_pod(seat)
        return seat is not None

    def _find_selector(self, pod: Json) -> Json | None:
        """The selector of the default spread constraints. The simulated cluster has no Services."""
        owner = pod_topology_spread.owner_of(pod)
        kind = _SELECTING_OWNERS.get(owner[0]) if owner else None
        return pod_topology_spread.default_selector(pod, self._api.find(kind, owner[1]), ()) if owner and kind else None

    # ── Scheduling─────────────────────────────────────────────────────────────────────────────────────────────────

    def sync(self) -> bool:
        """Schedule pending pods by priority, then by waiting time."""
        if not self._ready:
            return False
        ready, self._ready = self._ready, {}
        lines = [entry for group in ready if (entry := self._head(group, -1)) is not None]
        heapq.heapify(lines)
        while lines:
            _, came, key, group = heapq.heappop(lines)
            if self._try(key, group) and (entry := self._head(group, came)) is not None:
                heapq.heappush(lines, entry)
        return True

    def _head(self, group: QueueKey, after: int) -> tuple[int, int, str, QueueKey] | None:
        """The first pod in a queue after another."""
        for key, came in self._waiting.get(group, {}).items():
            if came > after:
                return -self._shaped_pods[key].shape.priority, came, key, group
        return None

    def _try(self, key: str, group: QueueKey) -> bool:
        """Try to place a pod; True if the next in its queue should be tried."""
        pod = self._api.find(api_client.PODS, key)
        if pod is None:
            return True
        shaped_pod = self._shaped_pods[key]
        find = self._placing.find_pinned_node if shaped_pod.pinned else self._placing.find_node
        if shaped_pod.shape.pre_filter_error and self.node_table.is_present.any():
            return self._fail_with_error(group, shaped_pod.shape.pre_filter_error)
        slot = find(pod, shaped_pod.shape, shaped_pod.pinned)
        if slot == SCORE_FAILED:
            return self._fail_with_error(group, shaped_pod.shape.pre_score_error)
        if slot != NO_SLOT:
            self._bind(key, pod, shaped_pod, self.node_table.names[slot])
            return True
        return self._fail(key, pod, shaped_pod.shape, group)

    def _bind(self, key: str, pod: Json, shaped_pod: ShapedPod, node: str) -> None:
        self._drop_waiting(key)
        self._place(key, pod, shaped_pod, node)
        now = self._api.now()
        scheduled: Json = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        conditions = api_client.with_conditions(pod, [scheduled], now)
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self._api.update(
            api_client.PODS, api_client.with_part(bound, "status", conditions=conditions, nominatedNodeName=None)
        )

    # ── Failure─────────────────────────────────────────────────────────────────────────────────────────────────

    def _fail(self, key: str, pod: Json, shape: PodShape, group: QueueKey) -> bool:
        """Record why a pod does not fit, or preempt for it; True if the next in its queue should be tried."""
        if key in self._placing.nominations:
            return True
        if group[1]:
            if key in self._unmarked:
                self._mark(key, pod, self._placing.explain(pod, shape))
            return True
        outcome = preempt(self._api, self._placing, pod, shape)
        if isinstance(outcome, scheduling_cycle.Placement):
            self._bind(key, pod, self._shaped_pods[key], outcome.node_name)
            return True
        if outcome is not None and outcome.victims:
            self._preempt(key, pod, shape, outcome)
            return True
        unmarked = [other for other in self._waiting[group] if other in self._unmarked]
        reason = self._placing.explain(pod, shape) if unmarked else ""
        for other in unmarked:
            self._mark(other, self._api.list_objects(api_client.PODS)[other], reason)
        return False

    def _fail_with_error(self, group: QueueKey, error: str) -> bool:
        """Record that the scheduler cannot tell, for all pods of a queue; returns False: none of them is tried."""
        for key in [other for other in self._waiting[group] if other in self._unmarked]:
            pod = self._api.list_objects(api_client.PODS)[key]
            self._mark(key, pod, error, scheduling_cycle.SCHEDULER_ERROR)
        return False

    def _mark(self, key: str, pod: Json, why: str, reason: str = scheduling_cycle.UNSCHEDULABLE, **status: Any) -> None:
        """Set the PodScheduled condition; an attempt with the same message does not write again."""
        if key not in self._unmarked and not status:
            return
        self._unmarked.pop(key, None)
        condition: Json = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
        conditions = api_client.with_conditions(pod, [{**condition, "lastProbeTime": None}], self._api.now())
        self._api.update(api_client.PODS, api_client.with_part(pod, "status", conditions=conditions, **status))

    def _preempt(self, key: str, pod: Json, shape: PodShape, outcome: scheduling_cycle.SchedulingFailure) -> None:
        assert outcome.nominated_node
        self._placing.nominations[key] = Nomination(self.node_table.slots[outcome.nominated_node], shape)
        for loser in outcome.denominated:
            self._placing.nominations.pop(api_client.key_of(loser), None)
            self._requeue()
        self._mark(key, pod, outcome.message, nominatedNodeName=outcome.nominated_node)
        now = self._api.now()
        for victim in outcome.victims:
            conditions = api_client.with_conditions(victim, [_PREEMPTED_CONDITION], now)
            self._api.delete_pod(api_client.with_part(victim, "status", conditions=conditions))
