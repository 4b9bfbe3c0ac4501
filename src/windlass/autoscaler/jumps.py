"""Jumps of the wall clock: noticed, as another clock tells what lasts, and taken out of what is remembered."""

import logging
from dataclasses import replace

from windlass import clock
from windlass.engine import rebasing
from windlass.engine.memory import Memory

LEAST_S = 5.0
"""Less than this is a clock that is kept right, or a busy machine."""
_log = logging.getLogger(__name__)


class Jumps:
    """How far the wall clock was set since it was last asked."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._ahead_s = self._read()

    def take_out(self, memory: Memory) -> Memory:
        """The memory by the clock as it is now."""
        before_s, self._ahead_s = self._ahead_s, self._read()
        return _rebase(memory, self._ahead_s - before_s, "while running")

    def read_back(self, memory: Memory) -> Memory:
        """What another process wrote down, by this one's clock: nothing of it can be still to come.

        However far the clock was set while this process waited to lead, what it reads now knows nothing of that.
        """
        self._ahead_s = self._read()
        early_s = self._clock.now_s() - rebasing.latest_s(memory.durable)
        return _rebase(memory, min(early_s, 0.0), "since memory was saved")

    def _read(self) -> float:
        return self._clock.now_s() - self._clock.monotonic_s()


def _rebase(memory: Memory, by_s: float, when: str) -> Memory:
    if abs(by_s) < LEAST_S:
        return memory
    _log.warning("the clock was set by %+.0f s %s: everything that is timed goes on as if it had not been", by_s, when)
    return replace(memory, durable=rebasing.rebase(memory.durable, by_s))
