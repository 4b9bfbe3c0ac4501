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
"""While pods are awaited: the scheduler may have tried the last of them."""


class PodBatcher:
    """Keeps account of pods that come, by the monotonic clock."""

    def __init__(self, time: clock.Clock, deviations: Deviations, awaited_until_s: Callable[[float], float]) -> None:
        """`awaited_until_s`: how long pods are waited for that the scheduler has not tried, long ago without any. It is
        told for how long those are whose like it has tried in vain.
        """
        alike_s = deviations.quiet_window_s if deviations.foresee_alike_pods else float("inf")
        self._clock, self._awaited_until_s = time, functools.partial(awaited_until_s, alike_s)
        self._quiet_s, self._at_most_s = deviations.quiet_window_s, deviations.quiet_window_max_s
        self._first_s: float | None = None
        """When the first pod of a burst turned unschedulable."""
        self._last_s = 0.0
        """When the last one came."""

    def trigger(self, came_s: float) -> None:
        """A pod turned unschedulable, which was first seen at `came_s`."""
        if self._first_s is None:
            self._first_s, self._last_s = self._clock.monotonic_s(), came_s
        self._last_s = max(self._last_s, came_s)

    def window_ends_s(self) -> float:
        """When the burst will be over, if nobody follows; long ago where there is none. Monotonic."""
        if self._first_s is None:
            return float("-inf")
        quiet_s = self._last_s + self._quiet_s
        if self._quiet_s > 0.0:
            quiet_s = max(quiet_s, self._awaited_until_s())
        return min(quiet_s, self._first_s + self._at_most_s)

    async def wait(self) -> None:
        """Wait until no pods are coming any more. The next one begins another burst."""
        while (left_s := self.window_ends_s() - self._clock.monotonic_s()) > 0.0:
            awaits = self._awaited_until_s() > self._clock.monotonic_s()
            await self._clock.sleep(min(left_s, _POLL_INTERVAL_S) if awaits else left_s)
        self._first_s = None


_SCHEDULER_TIMEOUT_S = 5.0
"""A pod that nobody has tried for so long is not waited for: its scheduler may not run at all. And what the scheduler
said of another holds no longer than this."""

_CREATION_TIMEOUT_S = 2.0
"""So long after its last pod one that its controller lacks is waited for: something may keep it from being created."""


@dataclass(slots=True)
class _UnschedulableController:
    """A controller for a pod of which no place was found."""

    at_s: float
    came_s: float
    """When its last pod came."""


class UnprocessedPods:
    """Since when pods wait to be tried, by the monotonic clock."""

    def __init__(self, time: clock.Clock, find_lacking: Callable[[Collection[str]], Collection[str]]) -> None:
        """`find_lacking`: which of these controllers, by uid, want more pods than they have."""
        self._clock, self._find_lacking = time, find_lacking
        self._came_s: dict[str, dict[str, float]] = {}
        """By controller, and pod; latest last."""
        self._controllers: dict[str, str] = {}
        """Of the pods in there."""
        self._refused: dict[str, _UnschedulableController] = {}
        """By controller; who was refused last is last."""
        self.last_arrival_s = float("-inf")
        """When the pod that was put last was first seen, as far as it was seen before it was tried."""
        self.is_foreseen = False
        """Could one know that the pod that turned unschedulable last would do so?"""

    def put(self, identity: str, pod: pods.Pod, is_unschedulable: bool) -> None:
        now_s = self._clock.monotonic_s()
        if not is_processed(pod):
            controller = self._controllers[identity] = _find_controller(pod) or identity
            self.last_arrival_s = self._came_s.setdefault(controller, {}).setdefault(identity, now_s)
            if controller in self._refused:
                self._refused[controller].came_s = max(self._refused[controller].came_s, self.last_arrival_s)
            return
        came_s = self.remove(identity)
        self.last_arrival_s = now_s if came_s is None else came_s
        if is_unschedulable:
            controller = _find_controller(pod) or identity
            self.is_foreseen = came_s is not None and self._is_refused(controller)
            self._refuse(controller, now_s)

    def _refuse(self, controller: str, now_s: float) -> None:
        before = self._refused.pop(controller, None)
        last_s = max(
            self.last_arrival_s, next(reversed(self._came_s.get(controller, {}).values()), self.last_arrival_s)
        )
        self._refused[controller] = _UnschedulableController(
            now_s, last_s if before is None else max(last_s, before.came_s)
        )

    def remove(self, identity: str) -> float | None:
        """When it came, if it had not been tried."""
        controller = self._controllers.pop(identity, None)
        if controller is None:
            return None
        came_s = self._came_s[controller].pop(identity)
        if not self._came_s[controller]:
            del self._came_s[controller]
        return came_s

    def awaited_until_s(self, alike_s: float) -> float:
        """How long at most those that there are now are waited for; long ago if there are none.

        `alike_s`: how long after it came one is waited for that is of a controller whose pods find no place.
        """
        self._give_up()
        alike_s = min(alike_s, _SCHEDULER_TIMEOUT_S)
        until_s = [
            next(reversed(came_s.values())) + (alike_s if self._is_refused(controller) else _SCHEDULER_TIMEOUT_S)
            for controller, came_s in self._came_s.items()
        ]
        lacking = self._find_lacking(self._refused) if self._refused else ()
        until_s += [self._refused[controller].came_s + _CREATION_TIMEOUT_S for controller in lacking]
        return max(until_s, default=float("-inf"))

    def _give_up(self) -> None:
        """Forget whom nobody tries, and what was said too long ago."""
        old_s = self._clock.monotonic_s() - _SCHEDULER_TIMEOUT_S
        for came_s in list(self._came_s.values()):
            while came_s and next(iter(came_s.values())) <= old_s:
                self.remove(next(iter(came_s)))
        while self._refused and (first := next(iter(self._refused.items())))[1].at_s <= old_s:
            del self._refused[first[0]]

    def _is_refused(self, controller: str) -> bool:
        refused = self._refused.get(controller)
        return refused is not None and self._clock.monotonic_s() - refused.at_s < _SCHEDULER_TIMEOUT_S


def is_processed(pod: pods.Pod) -> bool:
    """Did a scheduler speak of it, or need not any more?"""
    status = pod.status
    if status is not None and (status.phase or "Pending") != "Pending":
        return True
    if status is not None and any(condition.type == "PodScheduled" for condition in status.conditions or ()):
        return True
    return pod.meta.deletion_timestamp is not None or pods.decode_node_name(pod.spec) != ""


def _find_controller(pod: pods.Pod) -> str:
    return next((owner.uid or "" for owner in pod.meta.owner_references or () if owner.controller), "")
