"""Pods that the scheduler has not tried yet: a burst of pods is not over while there are any.

A busy scheduler or API server takes seconds to get through a burst, with pauses in between. What it has not tried may
be bound in a moment, or turn unschedulable like those before it: a decision now would be one of several steps. But
where it has just found no place for a pod of the same controller, one need not wait to hear that of each; only for
those that the controller has not created yet.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from windlass import clock
from windlass.kube.models import pods

_WAITED_FOR_S = 5.0
"""A pod that nobody has tried for so long is not waited for: its scheduler may not run at all. And what the scheduler
said of another holds no longer than this."""
_MORE_COME_S = 2.0
"""So long after its last pod one that its controller lacks is waited for: something may keep it from being created."""


@dataclass(slots=True)
class _Refused:
    """A controller for a pod of which no place was found."""

    at_s: float
    came_s: float
    """When its last pod came."""


class Untried:
    """Since when pods wait to be tried, by the monotonic clock."""

    def __init__(self, time: clock.Clock, find_lacking: Callable[[Collection[str]], Collection[str]]) -> None:
        """`find_lacking`: which of these controllers, by uid, want more pods than they have."""
        self._clock, self._find_lacking = time, find_lacking
        self._came_s: dict[str, dict[str, float]] = {}
        """By controller, and pod; latest last."""
        self._controllers: dict[str, str] = {}
        """Of the pods in there."""
        self._refused: dict[str, _Refused] = {}
        """By controller; who was refused last is last."""
        self.came_s = float("-inf")
        """When the pod that was put last was first seen, as far as it was seen before it was tried."""
        self.is_foreseen = False
        """Could one know that the pod that turned unschedulable last would do so?"""

    def put(self, identity: str, pod: pods.Pod, is_unschedulable: bool) -> None:
        now_s = self._clock.monotonic_s()
        if not is_tried(pod):
            controller = self._controllers[identity] = _find_controller(pod) or identity
            self.came_s = self._came_s.setdefault(controller, {}).setdefault(identity, now_s)
            if controller in self._refused:
                self._refused[controller].came_s = max(self._refused[controller].came_s, self.came_s)
            return
        came_s = self.remove(identity)
        self.came_s = now_s if came_s is None else came_s
        if is_unschedulable:
            controller = _find_controller(pod) or identity
            self.is_foreseen = came_s is not None and self._is_refused(controller)
            self._refuse(controller, now_s)

    def _refuse(self, controller: str, now_s: float) -> None:
        before = self._refused.pop(controller, None)
        last_s = max(self.came_s, next(reversed(self._came_s.get(controller, {}).values()), self.came_s))
        self._refused[controller] = _Refused(now_s, last_s if before is None else max(last_s, before.came_s))

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
        alike_s = min(alike_s, _WAITED_FOR_S)
        until_s = [
            next(reversed(came_s.values())) + (alike_s if self._is_refused(controller) else _WAITED_FOR_S)
            for controller, came_s in self._came_s.items()
        ]
        lacking = self._find_lacking(self._refused) if self._refused else ()
        until_s += [self._refused[controller].came_s + _MORE_COME_S for controller in lacking]
        return max(until_s, default=float("-inf"))

    def _give_up(self) -> None:
        """Forget whom nobody tries, and what was said too long ago."""
        old_s = self._clock.monotonic_s() - _WAITED_FOR_S
        for came_s in list(self._came_s.values()):
            while came_s and next(iter(came_s.values())) <= old_s:
                self.remove(next(iter(came_s)))
        while self._refused and (first := next(iter(self._refused.items())))[1].at_s <= old_s:
            del self._refused[first[0]]

    def _is_refused(self, controller: str) -> bool:
        refused = self._refused.get(controller)
        return refused is not None and self._clock.monotonic_s() - refused.at_s < _WAITED_FOR_S


def is_tried(pod: pods.Pod) -> bool:
    """Did a scheduler speak of it, or need not any more?"""
    status = pod.status
    if status is not None and (status.phase or "Pending") != "Pending":
        return True
    if status is not None and any(condition.type == "PodScheduled" for condition in status.conditions or ()):
        return True
    return pod.meta.deletion_timestamp is not None or pods.decode_node_name(pod.spec) != ""


def _find_controller(pod: pods.Pod) -> str:
    return next((owner.uid or "" for owner in pod.meta.owner_references or () if owner.controller), "")
