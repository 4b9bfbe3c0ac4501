"""What is to happen later, in order: by time, then as it was noted."""

import heapq
import math
from collections.abc import Callable

_TOLERANCE_S = 1e-6
"""Sums of floating-point delays miss their moment by a hair."""


class Agenda:
    """Things to do at moments of the monotonic clock. Nothing is taken off: who is called sees if it still holds."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._noted = 0

    def note(self, at_s: float, act: Callable[[], None]) -> None:
        self._noted += 1
        heapq.heappush(self._due, (at_s, self._noted, act))

    def next_s(self) -> float:
        """When the next thing is due; never, if there is none."""
        return self._due[0][0] if self._due else math.inf

    def take(self, now_s: float) -> Callable[[], None] | None:
        """The next thing that is due by now."""
        if self._due and self._due[0][0] <= now_s + _TOLERANCE_S:
            return heapq.heappop(self._due)[2]
        return None
