"""Timing: the time limits of a decision, kept by a clock."""

from dataclasses import dataclass

from windlass import clock


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Times the parts of a decision. Implements `engine.time_limits.Timer`."""

    clock: clock.Clock

    def begin(self, part: str, limit_s: float) -> "Deadline":
        """A part begins."""
        return Deadline(self.clock, self.clock.monotonic_s() + limit_s)


@dataclass(frozen=True, slots=True)
class Deadline:
    """Used up when the time is over."""

    clock: clock.Clock
    until_s: float

    def exhausted(self) -> bool:
        return self.clock.monotonic_s() > self.until_s
