"""The scheduling queue and loop: pending pods get a node or a reason; retries when capacity is freed or changes."""

import heapq
import random
from typing import Any

from windlass.simulator.cluster import api_objects
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.fast_scheduler import placement, pod_shapes
from windlass.simulator.fast_scheduler.node_plugins import NodeScores, StaticFilters
from windlass.simulator.fast_scheduler.node_table import NodeTable, PlacedPod
from windlass.simulator.fast_scheduler.placement import NO_SLOT, SCORE_FAILED, Nomination, Placer
from windlass.simulator.fast_scheduler.pod_shapes import PodShape, ShapedPod
from windlass.simulator.fast_scheduler.topology_counts import TopologyCounts
from windlass.simulator.reference_scheduler import pod_topology_spread, scheduling_cycle

Json = dict[str, Any]

_PREEMPTED_CONDITION: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}
_SELECTING_OWNERS = {"ReplicaSet": api_objects.REPLICA_SETS, "StatefulSet": api_objects.STATEFUL_SETS}
QueueKey = tuple[int, str]
"""A shape's number, and the node that the pod is pinned to, or none."""


class FastScheduler:
    """kube-scheduler's loop. Pods of one shape share a queue: if the first does not fit, the others do not."""

    watched_kinds = (api_objects.PODS, api_objects.NODES)

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
        if change.kind == api_objects.NODES:
            self._react_to_node(change)
            return
        pod = change.now
        if pod is None or api_objects.is_finished(pod):
            self._forget(change.key)
        elif node := api_objects.node_of(pod):
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
        if seat is not None and api_objects.is_deleting(pod) and not seat.is_terminating:
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
        pod = self._api.find(api_objects.PODS, key)
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
        conditions = api_objects.with_conditions(pod, [scheduled], now)
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self._api.update(
            api_objects.PODS, api_objects.with_part(bound, "status", conditions=conditions, nominatedNodeName=None)
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
        outcome = placement.preempt(self._api, self._placing, pod, shape)
        if isinstance(outcome, scheduling_cycle.Placement):
            self._bind(key, pod, self._shaped_pods[key], outcome.node_name)
            return True
        if outcome is not None and outcome.victims:
            self._preempt(key, pod, shape, outcome)
            return True
        unmarked = [other for other in self._waiting[group] if other in self._unmarked]
        why = self._placing.explain(pod, shape) if unmarked else ""
        for other in unmarked:
            self._mark(other, self._api.list_objects(api_objects.PODS)[other], why)
        return False

    def _fail_with_error(self, group: QueueKey, error: str) -> bool:
        """Record that the scheduler cannot tell, for all pods of a queue; returns False: none of them is tried."""
        for key in [other for other in self._waiting[group] if other in self._unmarked]:
            pod = self._api.list_objects(api_objects.PODS)[key]
            self._mark(key, pod, error, scheduling_cycle.SCHEDULER_ERROR)
        return False

    def _mark(self, key: str, pod: Json, why: str, reason: str = scheduling_cycle.UNSCHEDULABLE, **status: Any) -> None:
        """Set the PodScheduled condition; an attempt with the same message does not write again."""
        if key not in self._unmarked and not status:
            return
        self._unmarked.pop(key, None)
        condition: Json = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
        conditions = api_objects.with_conditions(pod, [{**condition, "lastProbeTime": None}], self._api.now())
        self._api.update(api_objects.PODS, api_objects.with_part(pod, "status", conditions=conditions, **status))

    def _preempt(self, key: str, pod: Json, shape: PodShape, outcome: scheduling_cycle.SchedulingFailure) -> None:
        assert outcome.nominated_node
        self._placing.nominations[key] = Nomination(self.node_table.slots[outcome.nominated_node], shape)
        for loser in outcome.denominated:
            self._placing.nominations.pop(api_objects.key_of(loser), None)
            self._requeue()
        self._mark(key, pod, outcome.message, nominatedNodeName=outcome.nominated_node)
        now = self._api.now()
        for victim in outcome.victims:
            conditions = api_objects.with_conditions(victim, [_PREEMPTED_CONDITION], now)
            self._api.delete_pod(api_objects.with_part(victim, "status", conditions=conditions))
