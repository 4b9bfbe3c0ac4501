"""Shadow comparison: proposed against observed actions within a time window, as verdicts.

Proposals repeat until the other autoscaler acts, so sizes are compared as levels: per group or node there is at most
one open comparison. It closes when both sides are equal or the window ends. One-sided results are paired with
one-sided results of another group, or of another node of the same group. A difference is reported once.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from windlass.autoscaler.shadow_actions import (
    InactionReasons,
    ObservedAction,
    ObservedRemoval,
    ObservedResize,
    ProposedAction,
    ProposedRemoval,
    ProposedResize,
)
from windlass.kube import time_formats


class ScaleDirection(enum.StrEnum):
    """What it is about."""

    UP = "scale-up"
    DOWN = "scale-down"


class VerdictKind(enum.StrEnum):
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
        return self in (VerdictKind.AGREED, VerdictKind.LATE)


@dataclass(frozen=True, slots=True)
class ShadowVerdict:
    """One comparison."""

    direction: ScaleDirection
    kind: VerdictKind
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
        sign = "+" if self.direction is ScaleDirection.UP else "-"
        parts = [
            f"{self.direction} {self.subject}: {self.kind}: windlass {sign}{self.wanted} ({self.ours or 'no reason'})"
        ]
        other = f"{sign}{self.done}{f' on {self.instead}' if self.instead else ''}"
        parts.append(f"the other {other}{f' ({self.theirs})' if self.theirs else ''}")
        if self.lead_s is not None:
            parts.append(
                f"{time_formats.format_duration(round(abs(self.lead_s), 1))} {'later' if self.lead_s >= 0 else 'sooner'}"
            )
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class VerdictTotals:
    """All verdicts so far, counted."""

    counts: Counter[tuple[ScaleDirection, VerdictKind]] = field(default_factory=Counter)
    wanted: Counter[ScaleDirection] = field(default_factory=Counter)
    """Nodes."""
    done: Counter[ScaleDirection] = field(default_factory=Counter)
    leads_s: Mapping[ScaleDirection, float] = field(default_factory=dict)
    """Sums over the agreements."""

    def add(self, verdict: ShadowVerdict) -> "VerdictTotals":
        where = verdict.direction
        late = verdict.kind is VerdictKind.LATE  # it was counted as a wish of ours before
        lead_s = verdict.lead_s if verdict.kind.is_agreement and verdict.lead_s is not None else 0.0
        return VerdictTotals(
            self.counts + Counter({(where, verdict.kind): 1}),
            self.wanted + Counter({where: 0 if late else verdict.wanted}),
            self.done + Counter({where: verdict.done}),
            {**self.leads_s, where: self.leads_s.get(where, 0.0) + lead_s},
        )

    def agreements(self, direction: ScaleDirection) -> int:
        return sum(count for (where, kind), count in self.counts.items() if where is direction and kind.is_agreement)

    def all(self, direction: ScaleDirection) -> int:
        return sum(count for (where, _), count in self.counts.items() if where is direction)


@dataclass(frozen=True, slots=True)
class OpenComparison:
    """One group that someone raises, or one node that someone removes."""

    subject: str
    group: str
    opened_s: float
    from_size: int = 0
    wanted: int = 0
    """The size that we want at most, and the one that the other has set; of a node, 0 or 1."""
    done: int = 0
    wished_s: float | None = None
    """When we wished it first."""
    done_s: float | None = None
    """When the other did it last."""
    ours: str = ""
    theirs: str = ""

    @property
    def lead_s(self) -> float | None:
        return None if self.wished_s is None or self.done_s is None else self.done_s - self.wished_s

    def with_proposal(self, level: int, at_s: float, why: str) -> "OpenComparison":
        first_s = at_s if self.wished_s is None else self.wished_s
        return replace(self, wanted=max(self.wanted, level), wished_s=first_s, ours=why)

    def with_observation(self, level: int, at_s: float, ours: str, theirs: str) -> "OpenComparison":
        ours = self.ours if self.wished_s is not None else ours
        return replace(self, done=max(self.done, level), done_s=at_s, ours=ours, theirs=theirs or self.theirs)


@dataclass(frozen=True, slots=True)
class ComparisonState:
    """What is open, and what was told and still stands."""

    groups: Mapping[str, OpenComparison] = field(default_factory=dict)
    nodes: Mapping[str, OpenComparison] = field(default_factory=dict)
    told_groups: Mapping[str, OpenComparison] = field(default_factory=dict)
    told_nodes: Mapping[str, OpenComparison] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """What happened since the last time, and now."""

    deeds: tuple[ObservedAction, ...]
    wishes: tuple[ProposedAction, ...]
    reluctance: InactionReasons
    """Why we had not done what the other did: from the decision before, which had not seen it yet."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    """What the other said, by group or node."""
    silence: Mapping[str, str] = field(default_factory=dict)
    """Why the other did nothing for a pod, by namespace/name."""
    now_s: float = 0.0


def update_comparisons(
    book: ComparisonState, turn: ComparisonInput, window_s: float
) -> tuple[ComparisonState, tuple[ShadowVerdict, ...]]:
    """Enter deeds and wishes, and answer what can be answered."""
    page = _ComparisonUpdate(book, turn)
    for deed in turn.deeds:
        page.add_observed(deed)
    for wish in turn.wishes:
        page.add_proposed(wish)
    page.drop_reported(turn.wishes)
    page.resolve(window_s)
    return ComparisonState(page.groups, page.nodes, page.told_groups, page.told_nodes), tuple(page.verdicts)


def close_comparisons(book: ComparisonState, now_s: float) -> tuple[ShadowVerdict, ...]:
    """Answer everything that is open, at the end."""
    return update_comparisons(book, ComparisonInput((), (), InactionReasons(), now_s=now_s), 0.0)[1]


class _ComparisonUpdate:
    """The book while one turn is entered."""

    def __init__(self, book: ComparisonState, turn: ComparisonInput) -> None:
        self.groups, self.nodes = dict(book.groups), dict(book.nodes)
        self.told_groups, self.told_nodes = dict(book.told_groups), dict(book.told_nodes)
        self.verdicts: list[ShadowVerdict] = []
        self._turn = turn

    def add_observed(self, deed: ObservedAction) -> None:
        match deed:
            case ObservedResize(group, from_size, to_size, at_s) if to_size > from_size:
                ours = self._turn.reluctance.of_group(group)
                told = self.told_groups.pop(group, None)
                fresh = OpenComparison(group, group, at_s, from_size, from_size, from_size)
                theirs = self._turn.theirs.get(group, "")
                if told is not None and to_size == told.wanted:
                    rest = replace(told, from_size=from_size)  # what was done before was told before
                    self._add_verdict(
                        ScaleDirection.UP, VerdictKind.LATE, rest.with_observation(to_size, at_s, ours, theirs)
                    )
                    return
                self.groups[group] = self.groups.get(group, fresh).with_observation(to_size, at_s, ours, theirs)
            case ObservedRemoval(node, group, at_s):
                ours, theirs = self._turn.reluctance.of_node(node), self._turn.theirs.get(node, "")
                told = self.told_nodes.pop(node, None)
                if told is not None:
                    self._add_verdict(
                        ScaleDirection.DOWN, VerdictKind.LATE, told.with_observation(1, at_s, ours, theirs)
                    )
                    return
                self.nodes[node] = self.nodes.get(node, OpenComparison(node, group, at_s)).with_observation(
                    1, at_s, ours, theirs
                )

    def add_proposed(self, wish: ProposedAction) -> None:
        match wish:
            case ProposedResize(group, from_size, to_size, at_s, why, pods):
                told = self.told_groups.get(group)
                if told is not None and told.wanted == to_size:
                    return
                self.told_groups.pop(group, None)
                fresh = OpenComparison(group, group, at_s, from_size, from_size, from_size)
                question = self.groups.get(group, fresh).with_proposal(to_size, at_s, why)
                silence = next((self._turn.silence[pod] for pod in pods if pod in self._turn.silence), "")
                self.groups[group] = replace(question, theirs=question.theirs or silence)
            case ProposedRemoval(node, group, at_s, why) if node not in self.told_nodes:
                self.nodes[node] = self.nodes.get(node, OpenComparison(node, group, at_s)).with_proposal(1, at_s, why)

    def drop_reported(self, wishes: Iterable[ProposedAction]) -> None:
        """What is not wished any more may be told again when it is."""
        subjects = {wish.group if isinstance(wish, ProposedResize) else wish.node for wish in wishes}
        self.told_groups = {group: told for group, told in self.told_groups.items() if group in subjects}
        self.told_nodes = {node: told for node, told in self.told_nodes.items() if node in subjects}

    def resolve(self, window_s: float) -> None:
        for open_ones, direction in ((self.groups, ScaleDirection.UP), (self.nodes, ScaleDirection.DOWN)):
            for subject, question in list(open_ones.items()):
                if question.wanted == question.done:
                    self._add_verdict(direction, VerdictKind.AGREED, open_ones.pop(subject))
            for subject, question in list(open_ones.items()):
                if subject in open_ones and self._turn.now_s - question.opened_s >= window_s:
                    self._add_difference(direction, open_ones.pop(subject), open_ones)

    def _add_difference(
        self, direction: ScaleDirection, question: OpenComparison, open_ones: dict[str, OpenComparison]
    ) -> None:
        kind = _classify(question)
        if kind is not VerdictKind.OTHER_SIZE and (other := _find_opposite(direction, question, kind, open_ones)):
            del open_ones[other.subject]
            ours, theirs = (question, other) if kind is VerdictKind.ONLY_WINDLASS else (other, question)
            merged = replace(ours, done=ours.from_size + theirs.done - theirs.from_size, done_s=theirs.done_s)
            merged = replace(merged, theirs=theirs.theirs or ours.theirs)
            self._add_verdict(direction, VerdictKind.OTHER_CHOICE, merged, theirs.subject)
            question = ours
        else:
            self._add_verdict(direction, kind, question)
        if question.wished_s is not None:
            (self.told_groups if direction is ScaleDirection.UP else self.told_nodes)[question.subject] = question

    def _add_verdict(
        self, direction: ScaleDirection, kind: VerdictKind, question: OpenComparison, instead: str = ""
    ) -> None:
        wanted, done = question.wanted - question.from_size, question.done - question.from_size
        told = (question.ours, question.theirs, self._turn.now_s, question.lead_s, instead)
        self.verdicts.append(ShadowVerdict(direction, kind, question.subject, wanted, done, *told))


def _classify(question: OpenComparison) -> VerdictKind:
    if question.wanted > question.from_size and question.done > question.from_size:
        return VerdictKind.OTHER_SIZE
    return VerdictKind.ONLY_WINDLASS if question.wanted > question.from_size else VerdictKind.ONLY_OTHER


def _find_opposite(
    direction: ScaleDirection, question: OpenComparison, kind: VerdictKind, open_ones: Mapping[str, OpenComparison]
) -> OpenComparison | None:
    """A question that only the other side has answered: of another group, or of another node of the group."""
    wanted = {VerdictKind.ONLY_WINDLASS: VerdictKind.ONLY_OTHER, VerdictKind.ONLY_OTHER: VerdictKind.ONLY_WINDLASS}[
        kind
    ]
    for other in open_ones.values():
        if _classify(other) is wanted and (direction is ScaleDirection.UP or other.group == question.group):
            return other
    return None
