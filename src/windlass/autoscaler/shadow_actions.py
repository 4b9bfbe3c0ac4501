"""Shadow actions: what the other autoscaler did, and what windlass would have done.

Observed actions are the difference between two observations, with reasons from the other autoscaler's events. Proposed
actions come from the plan, and reasons for inaction from the decision record.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        found = _STEP.finditer(self.message) if self.reason == "TriggeredScaleUp" else ()
        return {item["group"]: (int(item["from"]), int(item["to"])) for item in found}


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
