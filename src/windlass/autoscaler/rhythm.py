"""The rhythm: when a loop begins, besides every --scan-interval.

One burst of pods should be answered by one step of the right size. So a pod that turns unschedulable wakes the loop,
which then waits until none has come for a moment and the scheduler has tried all that came, or one that is like them,
but not for ever: where it takes the scheduler longer than that moment to get through, its last word ends the wait. What
a decision knows to change with time wakes the loop at that time.
"""

import functools
from collections.abc import Callable

from windlass import clock
from windlass.engine.deviations import Deviations

_LOOK_AGAIN_S = 0.1
"""While pods are awaited: the scheduler may have tried the last of them."""


class Rhythm:
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

    def note_pod(self, came_s: float) -> None:
        """A pod turned unschedulable, which was first seen at `came_s`."""
        if self._first_s is None:
            self._first_s, self._last_s = self._clock.monotonic_s(), came_s
        self._last_s = max(self._last_s, came_s)

    def quiet_at_s(self) -> float:
        """When the burst will be over, if nobody follows; long ago where there is none. Monotonic."""
        if self._first_s is None:
            return float("-inf")
        quiet_s = self._last_s + self._quiet_s
        if self._quiet_s > 0.0:
            quiet_s = max(quiet_s, self._awaited_until_s())
        return min(quiet_s, self._first_s + self._at_most_s)

    async def settle(self) -> None:
        """Wait until no pods are coming any more. The next one begins another burst."""
        while (left_s := self.quiet_at_s() - self._clock.monotonic_s()) > 0.0:
            awaits = self._awaited_until_s() > self._clock.monotonic_s()
            await self._clock.sleep(min(left_s, _LOOK_AGAIN_S) if awaits else left_s)
        self._first_s = None
