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
"""Minimum step of the wall clock; less is NTP slewing or a busy machine."""

_log = logging.getLogger(__name__)


class ClockSkew:
    """Measures steps of the wall clock since the last call."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._ahead_s = self._read()

    def correct(self, memory: LoopMemory) -> LoopMemory:
        """Return the memory with times shifted by the step since the last call."""
        before_s, self._ahead_s = self._ahead_s, self._read()
        return _shift_times(memory, self._ahead_s - before_s, "last loop")

    def correct_saved(self, memory: LoopMemory) -> LoopMemory:
        """Return the memory of another process by this process's clock: no time in it can lie in the future.

        A step of the clock while this process waited for leadership is not known from the memory itself.
        """
        self._ahead_s = self._read()
        excess_s = self._clock.now_s() - durable_memory.find_latest_s(memory.durable)
        return _shift_times(memory, min(excess_s, 0.0), "memory was saved")

    def _read(self) -> float:
        return self._clock.now_s() - self._clock.monotonic_s()


def _shift_times(memory: LoopMemory, by_s: float, since: str) -> LoopMemory:
    if abs(by_s) < MIN_STEP_S:
        return memory
    _log.warning("wall clock was set, shifting all timers: step_s=%+.0f since=%s", by_s, since)
    return replace(memory, durable=durable_memory.shift_memory(memory.durable, by_s))


class DecisionAborted(BaseException):
    """The running decision was aborted. Not an `Exception`, so that handlers for faulty objects do not catch it."""


class DecisionTimer:
    """Measures the steps of a decision. Implements `engine.time_limits.Timer`."""

    def __init__(self, time: clock.Clock) -> None:
        self.clock = time
        self.aborted = False
        """Written by the event loop, read by the decision's thread."""
        self._durations: list[tuple[MeasuredStep, float]] = []

    def abort(self) -> None:
        """Abort the running decision and all later ones: raise DecisionAborted at the next checkpoint."""
        self.aborted = True

    def begin(self, part: str, limit_s: float) -> "DecisionDeadline":
        """Start a step."""
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
        """Return the duration of each step that ended since the last call, in seconds. Not while a decision runs."""
        durations, self._durations = self._durations, []
        return durations


@dataclass(frozen=True, slots=True)
class DecisionDeadline:
    """A deadline that expires by the monotonic clock."""

    stopwatch: DecisionTimer
    until_s: float

    def exhausted(self) -> bool:
        self.stopwatch.check()
        return self.stopwatch.clock.monotonic_s() > self.until_s
