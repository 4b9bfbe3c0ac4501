"""Shadow comparison: proposed against observed actions within a time window, as verdicts.

Proposals repeat until the other autoscaler acts, so sizes are compared as levels: per group or node there is at most
one open comparison. It closes when both sides are equal or the window ends. One-sided results are paired with one-sided
results of another group, or of another node of the same group. A difference is reported once.

Observed actions are the difference between two observations, with reasons from the other autoscaler's events. Proposed
actions come from the plan, and reasons for inaction from the decision record.
"""

import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from windlass.engine import taints
from windlass.engine.loop import Decision
from windlass.engine.model import plan
from windlass.engine.model.decision_record import DecisionRecord, ScaleDownResult
from windlass.engine.model.scale_up_status import ScaleUpProposal
from windlass.engine.observation import Observation
from windlass.kube import client, informers, request_builders, resources, time_formats
from windlass.kube.models import core, meta

_STEP = re.compile(r"\{(?P<group>\S+) (?P<from>[0-9]{1,18})->(?P<to>[0-9]{1,18}) \(max: \d+\)\}")


@dataclass(frozen=True, slots=True)
class ObservedResize:
    """The target size of a group changed."""

    group: str
    from_size: int
    to_size: int
    at_s: float


@dataclass(frozen=True, slots=True)
class ObservedRemoval:
    """A node was tainted for deletion."""

    node: str
    group: str
    at_s: float


ObservedAction: TypeAlias = ObservedResize | ObservedRemoval


@dataclass(frozen=True, slots=True)
class AutoscalerEvent:
    """An event of the other autoscaler about a pod or a node."""

    about: str
    """`namespace/name` of a pod, or name of a node."""
    reason: str
    message: str

    @property
    def steps(self) -> dict[str, tuple[int, int]]:
        """Groups of a scale-up, with old and new size."""
        matches = _STEP.finditer(self.message) if self.reason == "TriggeredScaleUp" else ()
        return {item["group"]: (int(item["from"]), int(item["to"])) for item in matches}


@dataclass(frozen=True, slots=True)
class ActionBaseline:
    """State of one observation, kept for the next comparison."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Target size by group."""
    marked: frozenset[str] = frozenset()


def take_baseline(observation: Observation) -> ActionBaseline:
    """Return the baseline of the next comparison."""
    marked = frozenset(node.name for node in observation.nodes if taints.has_taint(node, taints.TO_BE_DELETED_KEY))
    return ActionBaseline({group.id: group.target_size for group in observation.groups}, marked)


def find_observed_actions(before: ActionBaseline, observation: Observation, now_s: float) -> tuple[ObservedAction, ...]:
    """Return actions since the baseline. A new group does not count as resized."""
    group_of = observation.group_of_nodes()
    resized = [
        ObservedResize(group.id, before.sizes[group.id], group.target_size, now_s)
        for group in observation.groups
        if before.sizes.get(group.id, group.target_size) != group.target_size
    ]
    marked = [
        ObservedRemoval(node.name, group_of[node.name].id, taints.marked_at_s(node, taints.TO_BE_DELETED_KEY) or now_s)
        for node in observation.nodes
        if node.name in group_of and node.name not in before.marked and taints.has_taint(node, taints.TO_BE_DELETED_KEY)
    ]
    return (*resized, *marked)


COMPONENT = "cluster-autoscaler"

_EVENT_SELECTION = request_builders.ListOptions(fields=f"source={COMPONENT}")


class EventListener(Protocol):
    """Receives events of the other autoscaler."""

    def on_event(self, autoscaler_event: AutoscalerEvent) -> None:
        """Handle an event, possibly a repeated one."""


async def watch_events(api: client.Client, to: EventListener) -> None:
    """Watch events of the other autoscaler until cancelled. Without permission to read events it receives none."""
    await informers.Informer(api, resources.EVENTS, _EventSink(to), _EVENT_SELECTION).run()


class _EventSink:
    """A sink that passes events on and stores nothing."""

    def __init__(self, to: EventListener) -> None:
        self._to = to

    def begin(self) -> None:
        pass

    def put(self, metadata: meta.ObjectMeta, event: core.Event) -> None:
        component = event.source.component if event.source is not None else None
        about = event.involved_object
        if about is None or not about.name or COMPONENT not in (component, event.reporting_component):
            return
        name = f"{about.namespace or metadata.namespace}/{about.name}" if about.kind == "Pod" else about.name
        self._to.on_event(AutoscalerEvent(name, event.reason or "", event.message or ""))

    def set_aside(self, unreadable: resources.Unreadable[core.Event]) -> None:
        pass

    def remove(self, metadata: meta.ObjectMeta) -> None:
        pass

    def end(self) -> None:
        pass


_MAX_PODS_NAMED = 3
"""Maximum number of pods listed by name."""


@dataclass(frozen=True, slots=True)
class ProposedResize:
    """A proposed resize of a group."""

    group: str
    from_size: int
    to_size: int
    at_s: float
    why: str = ""
    pods: tuple[str, ...] = ()
    """The pods that triggered it, as namespace/name."""


@dataclass(frozen=True, slots=True)
class ProposedRemoval:
    """A proposed drain and deletion of a node."""

    node: str
    group: str
    at_s: float
    why: str = ""


ProposedAction: TypeAlias = ProposedResize | ProposedRemoval


@dataclass(frozen=True, slots=True)
class InactionReasons:
    """Reasons why windlass proposes no action."""

    groups: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    up: str = ""
    """For groups without a reason of their own."""
    down: str = ""
    """For nodes without a reason of their own."""

    def of_group(self, group: str) -> str:
        return self.groups.get(group, self.up)

    def of_node(self, node: str) -> str:
        return self.nodes.get(node, self.down)


def find_proposed_actions(observation: Observation, decision: Decision, now_s: float) -> tuple[ProposedAction, ...]:
    """Return proposed actions of a plan: resizes that grow a group, and node deletions."""
    wishes: list[ProposedAction] = []
    since = decision.memory.durable.scale_down.since
    for instruction in decision.plan:
        match instruction:
            case plan.Resize(group, from_size, to_size):
                proposal = _find_proposal(group, decision.story.scale_ups)
                pods = observation.snapshot.pods.keys(proposal.helped) if proposal else ()
                wishes.append(ProposedResize(group, from_size, to_size, now_s, _describe_growth(proposal, pods), pods))
            case plan.Drain(node, group, evict):
                pods_told = f"its {len(evict)} pods fit elsewhere" if evict else "it is empty"
                wishes.append(
                    ProposedRemoval(
                        node, group, now_s, f"{pods_told}, {_describe_unneeded_since(since.get(node), now_s)}"
                    )
                )
    return tuple(wishes)


def find_inaction_reasons(decision: Decision) -> InactionReasons:
    """Return the decision record's reasons for what is not in the plan."""
    story = decision.story
    groups = {group: "; ".join(reasons) for proposal in story.scale_ups for group, reasons in proposal.skipped.items()}
    return InactionReasons(groups, _node_reasons(story), _scale_up_reason(story), _scale_down_reason(story))


def _find_proposal(group: str, proposals: Sequence[ScaleUpProposal]) -> ScaleUpProposal | None:
    return next(
        (proposal for proposal in proposals if any(increase.group.id == group for increase in proposal.increases)), None
    )


def _describe_growth(proposal: ScaleUpProposal | None, pods: tuple[str, ...]) -> str:
    if not pods or proposal is None:
        return "the group is below its minimum"
    more = f" and {len(pods) - _MAX_PODS_NAMED} more" if len(pods) > _MAX_PODS_NAMED else ""
    asked = f", chosen by {proposal.choice.steps[-1][0]}" if proposal.choice and proposal.choice.steps else ""
    return f"for {', '.join(pods[:_MAX_PODS_NAMED])}{more}{asked}"


def _describe_unneeded_since(since_s: float | None, now_s: float) -> str:
    return "unneeded" if since_s is None else f"unneeded for {time_formats.format_duration(round(now_s - since_s))}"


def _node_reasons(story: DecisionRecord) -> dict[str, str]:
    look, choice = story.scale_down.look, story.scale_down.choice
    kept = [*(look.kept if look else ()), *(choice.kept if choice else ())]
    return {item.node_name: f"{item.reason}: {item}" for item in kept}


def _scale_up_reason(story: DecisionRecord) -> str:
    if story.repairs.stop is not None:
        return f"the loop ended early: {story.repairs.stop}"
    return ", ".join(dict.fromkeys(str(proposal.result) for proposal in story.scale_ups)) or "no pod asks for it"


def _scale_down_reason(story: DecisionRecord) -> str:
    if story.scale_down.result is ScaleDownResult.STARTED:
        return "other nodes go first"
    return str(story.scale_down.result)


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

    def with_proposal(self, level: int, at_s: float, reason: str) -> "OpenComparison":
        first_s = at_s if self.wished_s is None else self.wished_s
        return replace(self, wanted=max(self.wanted, level), wished_s=first_s, ours=reason)

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
        desired, done = question.wanted - question.from_size, question.done - question.from_size
        told = (question.ours, question.theirs, self._turn.now_s, question.lead_s, instead)
        self.verdicts.append(ShadowVerdict(direction, kind, question.subject, desired, done, *told))


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
    desired = {VerdictKind.ONLY_WINDLASS: VerdictKind.ONLY_OTHER, VerdictKind.ONLY_OTHER: VerdictKind.ONLY_WINDLASS}[
        kind
    ]
    for other in open_ones.values():
        if _classify(other) is desired and (direction is ScaleDirection.UP or other.group == question.group):
            return other
    return None
