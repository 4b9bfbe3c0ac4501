"""Timing: the time limits of a decision and the duration of its steps, by a clock, and the way to stop one early."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from windlass import clock
from windlass.engine.time_limits import Step


class Aborted(BaseException):
    """The decision is not wanted any more. No `Exception`: no net for faults of one object may catch it."""


class Stopwatch:
    """Times the parts of a decision. Implements `engine.time_limits.Timer`."""

    def __init__(self, time: clock.Clock) -> None:
        self.clock = time
        self.aborted = False
        """Written by the event loop, read by the thread that decides."""
        self._durations: list[tuple[Step, float]] = []

    def abort(self) -> None:
        """Have the decision that runs, and each one after it, raise Aborted at its next checkpoint."""
        self.aborted = True

    def begin(self, part: str, limit_s: float) -> "Deadline":
        """A part begins."""
        self.check()
        return Deadline(self, self.clock.monotonic_s() + limit_s)

    def check(self) -> None:
        if self.aborted:
            raise Aborted

    @contextlib.contextmanager
    def measure(self, step: Step) -> Iterator[None]:
        began_s = self.clock.monotonic_s()
        yield
        self._durations.append((step, self.clock.monotonic_s() - began_s))

    def take_durations(self) -> list[tuple[Step, float]]:
        """How long each step took that ended since the last call, in seconds. Not while a decision runs."""
        durations, self._durations = self._durations, []
        return durations


@dataclass(frozen=True, slots=True)
class Deadline:
    """Used up when the time is over."""

    stopwatch: Stopwatch
    until_s: float

    def exhausted(self) -> bool:
        self.stopwatch.check()
        return self.stopwatch.clock.monotonic_s() > self.until_s
