"""Verdicts: where both autoscalers agree and where not, each with both reasons."""

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.kube import durations


class Direction(enum.StrEnum):
    """What it is about."""

    UP = "scale-up"
    DOWN = "scale-down"


class Kind(enum.StrEnum):
    """How what we wished and what the other did compare."""

    AGREED = "agreed"
    """The same size, or the same node."""
    LATE = "agreed late"
    """The other did the same, but so much later that it had been told as a difference."""
    OTHER_SIZE = "other size"
    """Both raised the group, by different amounts."""
    OTHER_CHOICE = "other choice"
    """Both acted, on different groups, or on different nodes of one group."""
    ONLY_WINDLASS = "only windlass"
    """The other did nothing."""
    ONLY_OTHER = "only the other"
    """We wished for nothing."""

    @property
    def is_agreement(self) -> bool:
        return self in (Kind.AGREED, Kind.LATE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One comparison."""

    direction: Direction
    kind: Kind
    subject: str
    """The group or the node: ours, where both chose differently."""
    wanted: int
    """Nodes that we would have added or removed."""
    done: int
    """Nodes that the other did."""
    ours: str
    """Why we wished it, or why not."""
    theirs: str
    """What the other said, if anything."""
    at_s: float
    lead_s: float | None = None
    """How much sooner we wished it than the other did it; negative: later. None where only one of both acted."""
    instead: str = ""
    """The group or the node that the other chose."""

    def __str__(self) -> str:
        sign = "+" if self.direction is Direction.UP else "-"
        parts = [
            f"{self.direction} {self.subject}: {self.kind}: windlass {sign}{self.wanted} ({self.ours or 'no reason'})"
        ]
        other = f"{sign}{self.done}{f' on {self.instead}' if self.instead else ''}"
        parts.append(f"the other {other}{f' ({self.theirs})' if self.theirs else ''}")
        if self.lead_s is not None:
            parts.append(f"{durations.spell(round(abs(self.lead_s), 1))} {'later' if self.lead_s >= 0 else 'sooner'}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Totals:
    """All verdicts so far, counted."""

    counts: Counter[tuple[Direction, Kind]] = field(default_factory=Counter)
    wanted: Counter[Direction] = field(default_factory=Counter)
    """Nodes."""
    done: Counter[Direction] = field(default_factory=Counter)
    leads_s: Mapping[Direction, float] = field(default_factory=dict)
    """Sums over the agreements."""

    def add(self, verdict: Verdict) -> "Totals":
        where = verdict.direction
        late = verdict.kind is Kind.LATE  # it was counted as a wish of ours before
        lead_s = verdict.lead_s if verdict.kind.is_agreement and verdict.lead_s is not None else 0.0
        return Totals(
            self.counts + Counter({(where, verdict.kind): 1}),
            self.wanted + Counter({where: 0 if late else verdict.wanted}),
            self.done + Counter({where: verdict.done}),
            {**self.leads_s, where: self.leads_s.get(where, 0.0) + lead_s},
        )

    def agreements(self, direction: Direction) -> int:
        return sum(count for (where, kind), count in self.counts.items() if where is direction and kind.is_agreement)

    def all(self, direction: Direction) -> int:
        return sum(count for (where, _), count in self.counts.items() if where is direction)
