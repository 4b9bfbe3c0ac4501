"""Pods that the scheduler has not tried yet: a burst of pods is not over while there are any.

A busy scheduler or API server takes seconds to get through a burst, with pauses in between. What it has not tried may
be bound in a moment, or turn unschedulable like those before it: a decision now would be one of several steps.
"""

from windlass import clock
from windlass.kube.models import pods

_WAITED_FOR_S = 5.0
"""A pod that nobody has tried for so long is not waited for: its scheduler may not run at all."""


class Untried:
    """Since when pods wait to be tried, by the monotonic clock."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._came_s: dict[str, float] = {}
        """Latest last."""
        self.came_s = float("-inf")
        """When the pod that was put last was first seen, as far as it was seen before it was tried."""

    def put(self, identity: str, pod: pods.Pod) -> None:
        now_s = self._clock.monotonic_s()
        if is_tried(pod):
            self.came_s = self._came_s.pop(identity, now_s)
        else:
            self.came_s = self._came_s.setdefault(identity, now_s)

    def remove(self, identity: str) -> None:
        self._came_s.pop(identity, None)

    def awaited_until_s(self) -> float:
        """How long at most those that there are now are waited for; long ago if there are none."""
        now_s = self._clock.monotonic_s()
        while self._came_s and (first := next(iter(self._came_s.items())))[1] + _WAITED_FOR_S <= now_s:
            del self._came_s[first[0]]
        last_s = next(reversed(self._came_s.values()), float("-inf"))
        return last_s + _WAITED_FOR_S


def is_tried(pod: pods.Pod) -> bool:
    """Did a scheduler speak of it, or need not any more?"""
    status = pod.status
    if status is not None and (status.phase or "Pending") != "Pending":
        return True
    if status is not None and any(condition.type == "PodScheduled" for condition in status.conditions or ()):
        return True
    return pod.meta.deletion_timestamp is not None or pods.decode_node_name(pod.spec) != ""
