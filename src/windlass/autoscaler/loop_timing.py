"""Loop timing: decision timer, decision deadlines and correction of wall-clock steps.

The timer implements `engine.time_limits.Timer` and can abort a running decision. `ClockSkew` compares the wall clock
with the monotonic clock and shifts the times in memory when the wall clock was set.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass import clock
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import durable_memory
from windlass.engine.time_limits import MeasuredStep

MIN_STEP_S = 5.0
"""Less than this is a clock that is kept right, or a busy machine."""

_log = logging.getLogger(__name__)


class ClockSkew:
    """How far the wall clock was set since it was last asked."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._ahead_s = self._read()

    def correct(self, memory: LoopMemory) -> LoopMemory:
        """The memory by the clock as it is now."""
        before_s, self._ahead_s = self._ahead_s, self._read()
        return _rebase(memory, self._ahead_s - before_s, "while running")

    def correct_saved(self, memory: LoopMemory) -> LoopMemory:
        """What another process wrote down, by this one's clock: nothing of it can be still to come.

        However far the clock was set while this process waited to lead, what it reads now knows nothing of that.
        """
        self._ahead_s = self._read()
        early_s = self._clock.now_s() - durable_memory.find_latest_s(memory.durable)
        return _rebase(memory, min(early_s, 0.0), "since memory was saved")

    def _read(self) -> float:
        return self._clock.now_s() - self._clock.monotonic_s()


def _rebase(memory: LoopMemory, by_s: float, when: str) -> LoopMemory:
    if abs(by_s) < MIN_STEP_S:
        return memory
    _log.warning("the clock was set by %+.0f s %s: everything that is timed goes on as if it had not been", by_s, when)
    return replace(memory, durable=durable_memory.shift_memory(memory.durable, by_s))


class DecisionAborted(BaseException):
    """The decision is not wanted any more. No `Exception`: no net for faults of one object may catch it."""


class DecisionTimer:
    """Times the parts of a decision. Implements `engine.time_limits.Timer`."""

    def __init__(self, time: clock.Clock) -> None:
        self.clock = time
        self.aborted = False
        """Written by the event loop, read by the thread that decides."""
        self._durations: list[tuple[MeasuredStep, float]] = []

    def abort(self) -> None:
        """Have the decision that runs, and each one after it, raise Aborted at its next checkpoint."""
        self.aborted = True

    def begin(self, part: str, limit_s: float) -> "DecisionDeadline":
        """A part begins."""
        self.check()
        return DecisionDeadline(self, self.clock.monotonic_s() + limit_s)

    def check(self) -> None:
        if self.aborted:
            raise DecisionAborted

    @contextlib.contextmanager
    def measure(self, step: MeasuredStep) -> Iterator[None]:
        began_s = self.clock.monotonic_s()
        yield
        self._durations.append((step, self.clock.monotonic_s() - began_s))

    def take_durations(self) -> list[tuple[MeasuredStep, float]]:
        """How long each step took that ended since the last call, in seconds. Not while a decision runs."""
        durations, self._durations = self._durations, []
        return durations


@dataclass(frozen=True, slots=True)
class DecisionDeadline:
    """Used up when the time is over."""

    stopwatch: DecisionTimer
    until_s: float

    def exhausted(self) -> bool:
        self.stopwatch.check()
        return self.stopwatch.clock.monotonic_s() > self.until_s
