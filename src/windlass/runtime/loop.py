"""The loop: do something every so often, or sooner when woken, and survive its failures.

A turn begins `period_s` after the one before it began, or at once if that took longer. A turn that fails is logged and
counted; the next one comes all the same. What a turn saw of the world may be minutes old when it ends, so turns never
overlap.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from windlass import clock

_log = logging.getLogger(__name__)

Turn = Callable[[], Awaitable[object]]


class Loop:
    """One thing done again and again."""

    def __init__(self, name: str, turn: Turn, period_s: float, time: clock.Clock) -> None:
        self.name = name
        self.turns = 0
        self.failures = 0
        """In a row, up to now."""
        self.first_at_s: float | None = None
        """When the first turn began, monotonic; None before."""
        self.begun_at_s: float | None = None
        """When the last turn began, monotonic."""
        self.succeeded_at_s: float | None = None
        """When a turn last ended well, monotonic."""
        self._turn = turn
        self._period_s = period_s
        self._clock = time
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Begin the next turn now; if one is under way, right after it."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            self.begun_at_s = self._clock.monotonic_s()
            self.first_at_s = self.begun_at_s if self.first_at_s is None else self.first_at_s
            await self._take_turn()
            rest_s = self.begun_at_s + self._period_s - self._clock.monotonic_s()
            if rest_s > 0.0 and not self._woken.is_set():
                await self._rest(rest_s)
            else:
                await self._clock.sleep(0.0)

    async def _take_turn(self) -> None:
        self.turns += 1
        try:
            await self._turn()
        except Exception:
            self.failures += 1
            _log.exception("%s: turn %d failed, %d in a row", self.name, self.turns, self.failures)
        else:
            self.failures = 0
            self.succeeded_at_s = self._clock.monotonic_s()

    async def _rest(self, seconds: float) -> None:
        try:
            await clock.within(self._clock, seconds, self._woken.wait())
        except TimeoutError:
            return
