"""The loop: pods that wait get a node, or the reason why not. It looks again when something came free or changed."""

import heapq
import random
from typing import Any

from windlass.simulator.scheduler import cycle, spread
from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.pulse import Pulse
from windlass.simulator.world.scheduling import preempting, shapes
from windlass.simulator.world.scheduling.node_scores import NodeScores
from windlass.simulator.world.scheduling.placing import NOWHERE, Placing, Promise
from windlass.simulator.world.scheduling.seats import Seat, Seats
from windlass.simulator.world.scheduling.shapes import Seen, Shape
from windlass.simulator.world.scheduling.tallies import Tallies
from windlass.simulator.world.scheduling.verdicts import Verdicts

Json = dict[str, Any]

_PREEMPTED: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}
_SELECTING = {"ReplicaSet": kinds.REPLICA_SETS, "StatefulSet": kinds.STATEFUL_SETS}
Group = tuple[int, str]
"""A shape's number and the node that the pod is pinned to, if it is."""


class Scheduler:
    """kube-scheduler's loop. Pods of one shape wait in one line: where the first does not fit, the others do not."""

    hears = (kinds.PODS, kinds.NODES)

    def __init__(self, pulse: Pulse, chance: random.Random) -> None:
        self._api = pulse.api
        self._shapes = shapes.Shapes(self._find_selector)
        self.seats = Seats()
        self._tallies = Tallies(self.seats)
        scores = NodeScores(self.seats, self._tallies)
        self._placing = Placing(self.seats, Verdicts(self.seats), self._tallies, scores, chance)
        self._waiting: dict[Group, dict[str, int]] = {}
        """Lines of pods by shape: keys, and when each came."""
        self._seen: dict[str, Seen] = {}
        self._unmarked: dict[str, None] = {}
        """Waiting pods that have not been told why."""
        self._ready: dict[Group, None] = {}
        """Lines that are worth a look."""
        self._came = 0

    # ── Hearing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def react(self, change: Change) -> None:
        if change.kind == kinds.NODES:
            self._react_to_node(change)
            return
        pod = change.now
        if pod is None or edit.is_finished(pod):
            self._forget(change.key)
        elif node := edit.node_of(pod):
            self._react_to_seated(change.key, pod, node)
        elif shapes.is_waiting(pod):
            self._queue(change.key, pod)
        else:
            self._drop_waiting(change.key)

    def _react_to_node(self, change: Change) -> None:
        if change.now is None:
            slot = self.seats.slots.get(change.key)
            if slot is not None:
                for key in list(self.seats.pods[slot]):
                    self._unseat(key)
                self.seats.drop_node(change.key)
                for key in [key for key, promise in self._placing.promises.items() if promise.slot == slot]:
                    del self._placing.promises[key]
            self._look_again(change.key)
        elif self.seats.put_node(change.now):
            self._look_again(change.key)

    def _react_to_seated(self, key: str, pod: Json, node: str) -> None:
        seat = self.seats.seats.get(key)
        if seat is None:
            self._drop_waiting(key)
            seat = self._seat(key, pod, self._shapes.see(pod), node)
        if seat is not None and edit.is_deleting(pod) and not seat.is_leaving:
            self._tallies.leave(seat)

    def _queue(self, key: str, pod: Json) -> None:
        if key in self._seen:
            return
        seen = self._seen[key] = self._shapes.see(pod)
        self._came += 1
        group = (seen.shape.number, seen.pinned)
        self._waiting.setdefault(group, {})[key] = self._came
        self._unmarked[key] = None
        self._ready[group] = None

    def _forget(self, key: str) -> None:
        self._drop_waiting(key)
        if self._unseat(key):
            self._look_again()

    def _drop_waiting(self, key: str) -> None:
        seen = self._seen.pop(key, None)
        if seen is None:
            return
        group = (seen.shape.number, seen.pinned)
        line = self._waiting[group]
        line.pop(key, None)
        if not line:
            del self._waiting[group]
        self._unmarked.pop(key, None)
        if self._placing.promises.pop(key, None):
            self._look_again()

    def _look_again(self, node: str = "") -> None:
        """Something changed that may let waiting pods in; those pinned elsewhere need not look."""
        self._ready.update((group, None) for group in self._waiting if not node or group[1] in ("", node))

    def _seat(self, key: str, pod: Json, seen: Seen, node: str) -> Seat | None:
        seat = self.seats.seat(key, pod, seen.shape, node)
        if seat is not None:
            self._tallies.come(seat)
        return seat

    def _unseat(self, key: str) -> bool:
        seat = self.seats.unseat(key)
        if seat is not None:
            self._tallies.go(seat)
        return seat is not None

    def _find_selector(self, pod: Json) -> Json | None:
        """Which pods the default spread constraints count. The world has no Services."""
        owner = spread.owner_of(pod)
        kind = _SELECTING.get(owner[0]) if owner else None
        return spread.default_selector(pod, self._api.find(kind, owner[1]), ()) if owner and kind else None

    # ── Placing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def act(self) -> bool:
        """The most important first, then who has waited longest."""
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

    def _head(self, group: Group, after: int) -> tuple[int, int, str, Group] | None:
        """The first in line that came after another."""
        for key, came in self._waiting.get(group, {}).items():
            if came > after:
                return -self._seen[key].shape.priority, came, key, group
        return None

    def _try(self, key: str, group: Group) -> bool:
        """Place a pod; is it worth trying the next in its line?"""
        pod = self._api.find(kinds.PODS, key)
        if pod is None:
            return True
        seen = self._seen[key]
        find = self._placing.find_pinned if seen.pinned else self._placing.find
        slot = find(pod, seen.shape, seen.pinned)
        if slot != NOWHERE:
            self._bind(key, pod, seen, self.seats.names[slot])
            return True
        return self._fail(key, pod, seen.shape, group)

    def _bind(self, key: str, pod: Json, seen: Seen, node: str) -> None:
        self._drop_waiting(key)
        self._seat(key, pod, seen, node)
        now = self._api.now()
        scheduled: Json = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        conditions = edit.with_conditions(pod, [scheduled], now)
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self._api.update(kinds.PODS, edit.with_part(bound, "status", conditions=conditions, nominatedNodeName=None))

    # ── Failing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _fail(self, key: str, pod: Json, shape: Shape, group: Group) -> bool:
        """Say why there is no place, or make one; is it worth trying the next in line?"""
        if key in self._placing.promises:
            return True
        if group[1]:
            if key in self._unmarked:
                self._mark(key, pod, self._placing.explain(pod, shape))
            return True
        outcome = preempting.make_room(self._api, self._placing, pod, shape)
        if isinstance(outcome, cycle.Placement):
            self._bind(key, pod, self._seen[key], outcome.node_name)
            return True
        if outcome is not None and outcome.victims:
            self._preempt(key, pod, shape, outcome)
            return True
        unmarked = [other for other in self._waiting[group] if other in self._unmarked]
        why = self._placing.explain(pod, shape) if unmarked else ""
        for other in unmarked:
            self._mark(other, self._api.all(kinds.PODS)[other], why)
        return False

    def _mark(self, key: str, pod: Json, why: str, **status: Any) -> None:
        """Tell a pod once why it waits; later attempts that find the same do not write again."""
        if key not in self._unmarked and not status:
            return
        self._unmarked.pop(key, None)
        condition: Json = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        conditions = edit.with_conditions(pod, [{**condition, "lastProbeTime": None}], self._api.now())
        self._api.update(kinds.PODS, edit.with_part(pod, "status", conditions=conditions, **status))

    def _preempt(self, key: str, pod: Json, shape: Shape, outcome: cycle.Failure) -> None:
        assert outcome.nominated_node
        self._placing.promises[key] = Promise(self.seats.slots[outcome.nominated_node], shape)
        for loser in outcome.denominated:
            self._placing.promises.pop(edit.key_of(loser), None)
            self._look_again()
        self._mark(key, pod, outcome.message, nominatedNodeName=outcome.nominated_node)
        now = self._api.now()
        for victim in outcome.victims:
            conditions = edit.with_conditions(victim, [_PREEMPTED], now)
            self._api.delete_pod(edit.with_part(victim, "status", conditions=conditions))
