"""Time limits: how long parts of a decision may take, where they ran out, and how long its steps took.

The engine has no clock. Whoever has one hands it in as a `Timer`; each part that is limited asks it, from checkpoint to
checkpoint, whether its time is up. At which checkpoint that was is part of the decision, so that a replay stops at the
same one and comes to the same end (`Replayed`).

How long a step took is for metrics alone: the timer measures it, and no decision reads it.
"""

import contextlib
import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from windlass.engine.estimator.limits import Budget, Unlimited
from windlass.engine.expanders.outside import Inquiry, Opinion

RanOut = Mapping[str, int]
"""Parts of a decision whose time was up before they were done, and at which checkpoint, counted from 1."""


class Step(enum.StrEnum):
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


Measured = contextlib.AbstractContextManager[None]
"""Lasts as long as the step that is measured."""
_UNMEASURED: Measured = contextlib.nullcontext()


class Timer(Protocol):
    """Someone with a clock."""

    def begin(self, part: str, limit_s: float) -> Budget:
        """A part of a decision begins, and should end in time. Each part has a name of its own."""

    def measure(self, step: Step) -> Measured:
        """Measure how long a step takes, from entering the context to leaving it."""


@dataclass(frozen=True, slots=True)
class Untimed:
    """All the time in the world."""

    def begin(self, part: str, limit_s: float) -> Budget:
        return Unlimited()

    def measure(self, step: Step) -> Measured:
        return _UNMEASURED


@dataclass(frozen=True, slots=True)
class Replayed:
    """As it was the last time."""

    ran_out: RanOut = field(default_factory=dict)

    def begin(self, part: str, limit_s: float) -> Budget:
        at = self.ran_out.get(part)
        return Unlimited() if at is None else _Until(at)

    def measure(self, step: Step) -> Measured:
        return _UNMEASURED


@dataclass(slots=True)
class _Until:
    """Runs out at a checkpoint."""

    at: int
    asked: int = 0

    def exhausted(self) -> bool:
        self.asked += 1
        return self.asked >= self.at


class Ledger:
    """What one decision has from outside, time and opinions, and what became of it."""

    def __init__(self, timer: Timer, opinions: tuple[Opinion, ...] = ()) -> None:
        self.ran_out: dict[str, int] = {}
        self.inquiry = Inquiry(opinions)
        self._timer = timer
        self.measure = timer.measure
        self._begun: Counter[str] = Counter()

    def begin(self, part: str, limit_s: float) -> Budget:
        """A budget for a part; one that begins again is told apart by its number."""
        self._begun[part] += 1
        name = part if self._begun[part] == 1 else f"{part} #{self._begun[part]}"
        return _Counted(self._timer.begin(name, limit_s), name, self.ran_out)


@dataclass(slots=True)
class _Counted:
    """Asks another, and notes when it says yes for the first time. From then on it is yes."""

    inner: Budget
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
class EitherOf:
    """Used up as soon as one of both is."""

    one: Budget
    other: Budget

    def exhausted(self) -> bool:
        return self.one.exhausted() or self.other.exhausted()
