"""Skipped nodes: how long scale-down has not evaluated some candidate.

The simulation skips some when its time is up (--scale-down-simulation-timeout) and, as Cluster Autoscaler, when it
has found enough unneeded nodes. Tracked with --max-node-skip-eval-time-tracker-enabled.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SkippedNodes:
    """The candidates that the last simulation skipped."""

    evaluated_s: float
    """When the last simulation took place: a node that was not skipped was evaluated then."""
    since_s: Mapping[str, float] = field(default_factory=dict)
    """When each of the skipped nodes was last evaluated."""

    def update(self, skipped: Iterable[str], now_s: float) -> "SkippedNodes":
        """After a simulation that skipped these nodes."""
        return SkippedNodes(now_s, {name: self.since_s.get(name, self.evaluated_s) for name in skipped})

    @property
    def longest_s(self) -> float:
        """How long ago a node was evaluated that has been skipped since, at most; 0 if none is skipped."""
        return self.evaluated_s - min(self.since_s.values(), default=self.evaluated_s)
