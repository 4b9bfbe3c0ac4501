"""Batcher: waits until a burst of unschedulable pods is complete before a loop begins.

A pod that turns unschedulable wakes the loop. The loop waits until no further pod has arrived for a moment and the
scheduler has processed all that arrived, or equivalent ones, up to a maximum. Where the scheduler has just rejected a
pod of the same controller, its unprocessed siblings are not waited for.
"""

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass

from windlass import clock
from windlass.engine.model.deviations import Deviations
from windlass.kube.models import pods

_POLL_INTERVAL_S = 0.1
"""Poll interval while unprocessed pods are awaited: the scheduler may have processed the last one."""


class PodBatcher:
    """Tracks arriving pods by the monotonic clock, and waits for the end of a burst."""

    def __init__(self, time: clock.Clock, deviations: Deviations, awaited_until_s: Callable[[float], float]) -> None:
        """`awaited_until_s`: until when unprocessed pods are awaited, -inf without any; its argument is the wait for
        pods whose siblings the scheduler rejected.
        """
        alike_s = deviations.quiet_window_s if deviations.foresee_alike_pods else float("inf")
        self._clock, self._awaited_until_s = time, functools.partial(awaited_until_s, alike_s)
        self._quiet_s, self._at_most_s = deviations.quiet_window_s, deviations.quiet_window_max_s
        self._first_s: float | None = None
        """When the first pod of the burst became unschedulable."""
        self._last_s = 0.0
        """When the last pod of the burst arrived."""

    def trigger(self, came_s: float) -> None:
        """Record that a pod became unschedulable, which was first observed at `came_s`."""
        if self._first_s is None:
            self._first_s, self._last_s = self._clock.monotonic_s(), came_s
        self._last_s = max(self._last_s, came_s)

    def window_ends_s(self) -> float:
        """Return the monotonic time at which the burst ends if no pod follows; -inf without a burst."""
        if self._first_s is None:
            return float("-inf")
        quiet_s = self._last_s + self._quiet_s
        if self._quiet_s > 0.0:
            quiet_s = max(quiet_s, self._awaited_until_s())
        return min(quiet_s, self._first_s + self._at_most_s)

    async def wait(self) -> None:
        """Wait until no more pods arrive. The next pod starts another burst."""
        while (left_s := self.window_ends_s() - self._clock.monotonic_s()) > 0.0:
            awaits = self._awaited_until_s() > self._clock.monotonic_s()
            await self._clock.sleep(min(left_s, _POLL_INTERVAL_S) if awaits else left_s)
        self._first_s = None


_SCHEDULER_TIMEOUT_S = 5.0
"""Time after which an unprocessed pod is no longer awaited: its scheduler may not run. A rejection by the scheduler
expires after the same time."""

_CREATION_TIMEOUT_S = 2.0
"""Time after its controller's last pod for which a missing pod is awaited: its creation may be blocked."""


@dataclass(slots=True)
class _UnschedulableController:
    """A controller with a pod that the scheduler rejected."""

    at_s: float
    came_s: float
    """When its last pod arrived."""


class UnprocessedPods:
    """Pods that the scheduler has not processed, with their monotonic arrival times."""

    def __init__(self, time: clock.Clock, find_lacking: Callable[[Collection[str]], Collection[str]]) -> None:
        """`find_lacking`: returns which of these controllers, by uid, want more pods than they have."""
        self._clock, self._find_lacking = time, find_lacking
        self._arrived_s: dict[str, dict[str, float]] = {}
        """Arrival time by controller and pod; latest last."""
        self._controllers: dict[str, str] = {}
        """Controller of each pod in `_came_s`."""
        self._rejected: dict[str, _UnschedulableController] = {}
        """Rejected controllers; the most recent last."""
        self.last_arrival_s = float("-inf")
        """When the last pod that was stored had first been observed, if it had been unprocessed."""
        self.is_foreseen = False
        """Whether the last unschedulable pod was foreseeable: the scheduler had rejected an equivalent pod."""

    def put(self, identity: str, pod: pods.Pod, is_unschedulable: bool) -> None:
        now_s = self._clock.monotonic_s()
        if not is_processed(pod):
            controller = self._controllers[identity] = _find_controller(pod) or identity
            self.last_arrival_s = self._arrived_s.setdefault(controller, {}).setdefault(identity, now_s)
            if controller in self._rejected:
                self._rejected[controller].came_s = max(self._rejected[controller].came_s, self.last_arrival_s)
            return
        came_s = self.remove(identity)
        self.last_arrival_s = now_s if came_s is None else came_s
        if is_unschedulable:
            controller = _find_controller(pod) or identity
            self.is_foreseen = came_s is not None and self._is_rejected(controller)
            self._add_rejected(controller, now_s)

    def _add_rejected(self, controller: str, now_s: float) -> None:
        before = self._rejected.pop(controller, None)
        last_s = max(
            self.last_arrival_s, next(reversed(self._arrived_s.get(controller, {}).values()), self.last_arrival_s)
        )
        self._rejected[controller] = _UnschedulableController(
            now_s, last_s if before is None else max(last_s, before.came_s)
        )

    def remove(self, identity: str) -> float | None:
        """Remove a pod. Return its arrival time if it was unprocessed."""
        controller = self._controllers.pop(identity, None)
        if controller is None:
            return None
        came_s = self._arrived_s[controller].pop(identity)
        if not self._arrived_s[controller]:
            del self._arrived_s[controller]
        return came_s

    def awaited_until_s(self, alike_s: float) -> float:
        """Return until when the current unprocessed pods are awaited at most; -inf without any.

        `alike_s`: time after its arrival for which a pod of a rejected controller is awaited.
        """
        self._expire()
        alike_s = min(alike_s, _SCHEDULER_TIMEOUT_S)
        until_s = [
            next(reversed(came_s.values())) + (alike_s if self._is_rejected(controller) else _SCHEDULER_TIMEOUT_S)
            for controller, came_s in self._arrived_s.items()
        ]
        lacking = self._find_lacking(self._rejected) if self._rejected else ()
        until_s += [self._rejected[controller].came_s + _CREATION_TIMEOUT_S for controller in lacking]
        return max(until_s, default=float("-inf"))

    def _expire(self) -> None:
        """Drop pods that were unprocessed for too long, and expired rejections."""
        old_s = self._clock.monotonic_s() - _SCHEDULER_TIMEOUT_S
        for came_s in list(self._arrived_s.values()):
            while came_s and next(iter(came_s.values())) <= old_s:
                self.remove(next(iter(came_s)))
        while self._rejected and (first := next(iter(self._rejected.items())))[1].at_s <= old_s:
            del self._rejected[first[0]]

    def _is_rejected(self, controller: str) -> bool:
        refused = self._rejected.get(controller)
        return refused is not None and self._clock.monotonic_s() - refused.at_s < _SCHEDULER_TIMEOUT_S


def is_processed(pod: pods.Pod) -> bool:
    """Whether a scheduler has processed the pod, or does not need to."""
    status = pod.status
    if status is not None and (status.phase or "Pending") != "Pending":
        return True
    if status is not None and any(condition.type == "PodScheduled" for condition in status.conditions or ()):
        return True
    return pod.meta.deletion_timestamp is not None or pods.decode_node_name(pod.spec) != ""


def _find_controller(pod: pods.Pod) -> str:
    return next((owner.uid or "" for owner in pod.meta.owner_references or () if owner.controller), "")
