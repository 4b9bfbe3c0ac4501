"""Time limits of parts of a decision, the checkpoints at which they ran out, and measured durations of steps.

The engine has no clock: it asks the caller's `Timer` at checkpoints whether a limit is exhausted. The checkpoint is
part of the decision, so that a replay stops at the same one (`ReplayedTimer`). Measurements are for metrics only.
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
"""Parts of a decision whose limit ran out, and the checkpoint at which it did, counted from 1."""


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
"""Context for the duration of the measured step."""

_UNMEASURED: Measurement = contextlib.nullcontext()


@dataclass(slots=True)
class _BudgetUntilCheckpoint:
    """Exhausted from one checkpoint on."""

    at: int
    asked: int = 0

    def exhausted(self) -> bool:
        self.asked += 1
        return self.asked >= self.at


class TimeBudget(Protocol):
    """A limit of time, or of anything else that binpacking uses up."""

    def exhausted(self) -> bool:
        """Is it used up? Each call is a checkpoint."""
        ...


class Timer(Protocol):
    """The caller's clock."""

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        """Begin a part of a decision with a limit. Parts have distinct names."""

    def measure(self, step: MeasuredStep) -> Measurement:
        """Measure how long a step takes, from entering the context to leaving it."""


@dataclass(frozen=True, slots=True)
class UnlimitedTimer:
    """No limits, and no measurements."""

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        return UnlimitedBudget()

    def measure(self, step: MeasuredStep) -> Measurement:
        return _UNMEASURED


@dataclass(frozen=True, slots=True)
class ReplayedTimer:
    """Limits that run out at recorded checkpoints."""

    ran_out: RanOut = field(default_factory=dict)

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        at = self.ran_out.get(part)
        return UnlimitedBudget() if at is None else _BudgetUntilCheckpoint(at)

    def measure(self, step: MeasuredStep) -> Measurement:
        return _UNMEASURED


class DecisionTimer:
    """Time limits and expander responses of one decision: where limits ran out, and which response is missing."""

    def __init__(self, timer: Timer, opinions: tuple[BestOptionsResponse, ...] = ()) -> None:
        self.ran_out: dict[str, int] = {}
        self.inquiry = ExpanderResponses(opinions)
        self._timer = timer
        self.measure = timer.measure
        self._begun: Counter[str] = Counter()

    def begin(self, part: str, limit_s: float) -> TimeBudget:
        """Begin a part of the decision; the name of a part that begins again gets a number."""
        self._begun[part] += 1
        name = part if self._begun[part] == 1 else f"{part} #{self._begun[part]}"
        return _RecordedBudget(self._timer.begin(name, limit_s), name, self.ran_out)


@dataclass(slots=True)
class _RecordedBudget:
    """Records the checkpoint at which the inner budget is first exhausted; exhausted from then on."""

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
    """Exhausted as soon as one of both is."""

    one: TimeBudget
    other: TimeBudget

    def exhausted(self) -> bool:
        return self.one.exhausted() or self.other.exhausted()


@dataclass(frozen=True, slots=True)
class UnlimitedBudget:
    """A budget that never runs out."""

    def exhausted(self) -> bool:
        return False
