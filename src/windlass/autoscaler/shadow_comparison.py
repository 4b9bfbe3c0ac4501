"""Shadow comparison: proposed against observed actions within a time window, as verdicts.

Proposals repeat until the other autoscaler acts, so sizes are compared as levels: per group or node there is at most
one open comparison. It closes when both sides are equal or the window ends. One-sided results are paired with one-sided
results of another group, or of another node of the same group. A difference is reported once.
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
    """Direction of an action."""

    UP = "scale-up"
    DOWN = "scale-down"


class VerdictKind(enum.StrEnum):
    """Result of comparing a proposal with an observed action."""

    AGREED = "agreed"
    """The same size, or the same node."""
    LATE = "agreed late"
    """The other autoscaler did the same after the window, when the difference had been reported already."""
    OTHER_SIZE = "other size"
    """Both resized the group, by different amounts."""
    OTHER_CHOICE = "other choice"
    """Both acted, on different groups, or on different nodes of one group."""
    ONLY_WINDLASS = "only windlass"
    """The other autoscaler did not act."""
    ONLY_OTHER = "only the other"
    """windlass proposed nothing."""

    @property
    def is_agreement(self) -> bool:
        return self in (VerdictKind.AGREED, VerdictKind.LATE)


@dataclass(frozen=True, slots=True)
class ShadowVerdict:
    """Result of one comparison."""

    direction: ScaleDirection
    kind: VerdictKind
    subject: str
    """The group or node; windlass's, where both chose differently."""
    wanted: int
    """Number of nodes that windlass would have added or removed."""
    done: int
    """Number of nodes that the other autoscaler added or removed."""
    ours: str
    """windlass's reason for the proposal or for inaction."""
    theirs: str
    """The other autoscaler's event message, if any."""
    at_s: float
    lead_s: float | None = None
    """Seconds by which the proposal preceded the action; negative: it followed. None if only one side acted."""
    instead: str = ""
    """The group or node that the other autoscaler chose instead."""

    def __str__(self) -> str:
        sign = "+" if self.direction is ScaleDirection.UP else "-"
        parts = [
            f"{self.direction} {self.subject}: {self.kind}: windlass {sign}{self.wanted} ({self.ours or 'no reason'})"
        ]
        other = f"{sign}{self.done}{f' on {self.instead}' if self.instead else ''}"
        parts.append(f"the other {other}{f' ({self.theirs})' if self.theirs else ''}")
        if self.lead_s is not None:
            lead = time_formats.format_duration(round(abs(self.lead_s), 1))
            parts.append(f"{lead} {'later' if self.lead_s >= 0 else 'sooner'}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class VerdictTotals:
    """Counts of all verdicts."""

    counts: Counter[tuple[ScaleDirection, VerdictKind]] = field(default_factory=Counter)
    wanted: Counter[ScaleDirection] = field(default_factory=Counter)
    """Number of nodes."""
    done: Counter[ScaleDirection] = field(default_factory=Counter)
    leads_s: Mapping[ScaleDirection, float] = field(default_factory=dict)
    """Sums over the agreements."""

    def add(self, verdict: ShadowVerdict) -> "VerdictTotals":
        where = verdict.direction
        late = verdict.kind is VerdictKind.LATE  # counted as a proposal before
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
    """A group that one side resizes, or a node that one side removes."""

    subject: str
    group: str
    opened_s: float
    from_size: int = 0
    wanted: int = 0
    """Largest proposed size, and the size set by the other autoscaler; of a node, 0 or 1."""
    done: int = 0
    wished_s: float | None = None
    """Time of the first proposal."""
    done_s: float | None = None
    """Time of the other autoscaler's last action."""
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
    """Open comparisons, and reported differences that still apply."""

    groups: Mapping[str, OpenComparison] = field(default_factory=dict)
    nodes: Mapping[str, OpenComparison] = field(default_factory=dict)
    told_groups: Mapping[str, OpenComparison] = field(default_factory=dict)
    told_nodes: Mapping[str, OpenComparison] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """Actions and proposals since the last update, and the current time."""

    deeds: tuple[ObservedAction, ...]
    wishes: tuple[ProposedAction, ...]
    reluctance: InactionReasons
    """Reasons for not proposing what the other autoscaler did, from the decision before its action."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    """The other autoscaler's event messages, by group or node."""
    silence: Mapping[str, str] = field(default_factory=dict)
    """The other autoscaler's reasons for inaction on a pod, by namespace/name."""
    now_s: float = 0.0


def update_comparisons(
    book: ComparisonState, turn: ComparisonInput, window_s: float
) -> tuple[ComparisonState, tuple[ShadowVerdict, ...]]:
    """Add actions and proposals, and return the verdicts of comparisons that close."""
    page = _ComparisonUpdate(book, turn)
    for deed in turn.deeds:
        page.add_observed(deed)
    for wish in turn.wishes:
        page.add_proposed(wish)
    page.drop_reported(turn.wishes)
    page.resolve(window_s)
    return ComparisonState(page.groups, page.nodes, page.told_groups, page.told_nodes), tuple(page.verdicts)


def close_comparisons(book: ComparisonState, now_s: float) -> tuple[ShadowVerdict, ...]:
    """Close all open comparisons, at the end."""
    return update_comparisons(book, ComparisonInput((), (), InactionReasons(), now_s=now_s), 0.0)[1]


class _ComparisonUpdate:
    """State of one update."""

    def __init__(self, book: ComparisonState, turn: ComparisonInput) -> None:
        self.groups, self.nodes = dict(book.groups), dict(book.nodes)
        self.told_groups, self.told_nodes = dict(book.told_groups), dict(book.told_nodes)
        self.verdicts: list[ShadowVerdict] = []
        self._turn = turn

    def add_observed(self, deed: ObservedAction) -> None:
        match deed:
            case ObservedResize(group, from_size, to_size, at_s) if to_size > from_size:
                ours = self._turn.reluctance.of_group(group)
                open_comparison = self.told_groups.pop(group, None)
                fresh = OpenComparison(group, group, at_s, from_size, from_size, from_size)
                theirs = self._turn.theirs.get(group, "")
                if open_comparison is not None and to_size == open_comparison.wanted:
                    rest = replace(open_comparison, from_size=from_size)  # earlier actions were reported earlier
                    self._add_verdict(
                        ScaleDirection.UP, VerdictKind.LATE, rest.with_observation(to_size, at_s, ours, theirs)
                    )
                    return
                self.groups[group] = self.groups.get(group, fresh).with_observation(to_size, at_s, ours, theirs)
            case ObservedRemoval(node, group, at_s):
                ours, theirs = self._turn.reluctance.of_node(node), self._turn.theirs.get(node, "")
                open_comparison = self.told_nodes.pop(node, None)
                if open_comparison is not None:
                    self._add_verdict(
                        ScaleDirection.DOWN, VerdictKind.LATE, open_comparison.with_observation(1, at_s, ours, theirs)
                    )
                    return
                self.nodes[node] = self.nodes.get(node, OpenComparison(node, group, at_s)).with_observation(
                    1, at_s, ours, theirs
                )

    def add_proposed(self, wish: ProposedAction) -> None:
        match wish:
            case ProposedResize(group, from_size, to_size, at_s, why, pods):
                open_comparison = self.told_groups.get(group)
                if open_comparison is not None and open_comparison.wanted == to_size:
                    return
                self.told_groups.pop(group, None)
                fresh = OpenComparison(group, group, at_s, from_size, from_size, from_size)
                question = self.groups.get(group, fresh).with_proposal(to_size, at_s, why)
                silence = next((self._turn.silence[pod] for pod in pods if pod in self._turn.silence), "")
                self.groups[group] = replace(question, theirs=question.theirs or silence)
            case ProposedRemoval(node, group, at_s, why) if node not in self.told_nodes:
                self.nodes[node] = self.nodes.get(node, OpenComparison(node, group, at_s)).with_proposal(1, at_s, why)

    def drop_reported(self, wishes: Iterable[ProposedAction]) -> None:
        """Forget reported differences whose proposal ended, so that they can be reported again."""
        subjects = {wish.group if isinstance(wish, ProposedResize) else wish.node for wish in wishes}
        self.told_groups = {
            group: open_comparison for group, open_comparison in self.told_groups.items() if group in subjects
        }
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
    """Return an open comparison with a result of the opposite side only: another group, or another node of the
    group.
    """
    wanted = {VerdictKind.ONLY_WINDLASS: VerdictKind.ONLY_OTHER, VerdictKind.ONLY_OTHER: VerdictKind.ONLY_WINDLASS}[
        kind
    ]
    for other in open_ones.values():
        if _classify(other) is wanted and (direction is ScaleDirection.UP or other.group == question.group):
            return other
    return None
