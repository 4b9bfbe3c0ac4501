"""Time limits of parts of a decision, where they ran out, and how long its steps took.

The engine has no clock: the caller's `Timer` is asked at checkpoints whether time is up. At which checkpoint that was
is part of the decision, so that a replay stops at the same one (`ReplayedTimer`). Measurements are for metrics alone.
"""

import contextlib
import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from windlass.engine.expanders.grpc import ExpanderResponses
from windlass.engine.model.scale_up_status import BestOptionsResponse

RanOut = Mapping[str, int]
"""Parts of a decision whose time was up before they were done, and at which checkpoint, counted from 1."""


class MeasuredStep(enum.StrEnum):
    """Steps of a decision whose duration is measured, by Cluster Autoscaler's function labels."""

    UPDATE_STATE = "updateClusterState"
    FILTER_OUT_SCHEDULABLE = "filterOutSchedulable"
    SCALE_UP = "scaleUp"
    BUILD_EQUIVALENCE_GROUPS = "scaleUp:buildPodEquivalenceGroups"
    ESTIMATE = "scaleUp:estimate"
    SKIPPED_GROUPS = "scaleUp:skippedNodeGroupsSimulation"
    FIND_UNNEEDED = "findUnneeded"
    SCALE_DOWN = "scaleDown"
    SOFT_TAINT = "scaleDown:softTaintUnneeded"


Measurement = contextlib.AbstractContextManager[None]
"""Lasts as long as the step that is measured."""

_UNMEASURED: Measurement = contextlib.nullcontext()


@dataclass(slots=True)
class _BudgetUntilCheckpoint:
    """Runs out at a checkpoint."""

    at: int
    asked: int = 0

    def exhausted(self) -> bool:
        self.asked += 1
        return self.asked >= self.at


class TimeBudget(Protocol):
    """Time, or anything else that runs out while packing goes on."""

    def exhausted(self) -> bool:
        """Is it used up? Every call is a checkpoint: whoever implements it may record at which one it ran out."""
        ...


class Timer(Protocol):
    """Someone with a clock."""

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        """A part of a decision begins, and should end in time. Each part has a name of its own."""

    def measure(self, step: MeasuredStep) -> Measurement:
        """Measure how long a step takes, from entering the context to leaving it."""


@dataclass(frozen=True, slots=True)
class UnlimitedTimer:
    """All the time in the world."""

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        return UnlimitedBudget()

    def measure(self, step: MeasuredStep) -> Measurement:
        return _UNMEASURED


@dataclass(frozen=True, slots=True)
class ReplayedTimer:
    """As it was the last time."""

    ran_out: RanOut = field(default_factory=dict)

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        at = self.ran_out.get(part)
        return UnlimitedBudget() if at is None else _BudgetUntilCheckpoint(at)

    def measure(self, step: MeasuredStep) -> Measurement:
        return _UNMEASURED


class DecisionTimer:
    """What one decision has from outside, time and opinions, and what became of it."""

    def __init__(self, timer: Timer, opinions: tuple[BestOptionsResponse, ...] = ()) -> None:
        self.ran_out: dict[str, int] = {}
        self.inquiry = ExpanderResponses(opinions)
        self._timer = timer
        self.measure = timer.measure
        self._begun: Counter[str] = Counter()

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        """A budget for a part; one that begins again is told apart by its number."""
        self._begun[part] += 1
        name = part if self._begun[part] == 1 else f"{part} #{self._begun[part]}"
        return _RecordedBudget(self._timer.begin(name, limit_s), name, self.ran_out)


@dataclass(slots=True)
class _RecordedBudget:
    """Asks another, and notes when it says yes for the first time. From then on it is yes."""

    inner: TimeBudget
    part: str
    ran_out: dict[str, int]
    asked: int = 0

    def exhausted(self) -> bool:
        if self.part in self.ran_out:
            return True
        self.asked += 1
        if self.inner.exhausted():
            self.ran_out[self.part] = self.asked
            return True
        return False


@dataclass(frozen=True, slots=True)
class CombinedBudget:
    """Used up as soon as one of both is."""

    one: TimeBudget
    other: TimeBudget

    def exhausted(self) -> bool:
        return self.one.exhausted() or self.other.exhausted()


@dataclass(frozen=True, slots=True)
class UnlimitedBudget:
    """A budget that never runs out."""

    def exhausted(self) -> bool:
        return False
