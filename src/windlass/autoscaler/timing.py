"""Timing: the time limits of a decision, kept by a clock, and the way to stop one before its end."""

from dataclasses import dataclass

from windlass import clock


class Aborted(BaseException):
    """The decision is not wanted any more. No `Exception`: no net for faults of one object may catch it."""


class Stopwatch:
    """Times the parts of a decision. Implements `engine.time_limits.Timer`."""

    def __init__(self, time: clock.Clock) -> None:
        self.clock = time
        self.aborted = False
        """Written by the event loop, read by the thread that decides."""

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


@dataclass(frozen=True, slots=True)
class Deadline:
    """Used up when the time is over."""

    stopwatch: Stopwatch
    until_s: float

    def exhausted(self) -> bool:
        self.stopwatch.check()
        return self.stopwatch.clock.monotonic_s() > self.until_s
