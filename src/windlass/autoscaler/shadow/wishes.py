"""Wishes: what our decision would have done, and why; and why it would not have done the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.engine import plan
from windlass.engine.decide import Decision
from windlass.engine.observation import Observation
from windlass.engine.scale_up.proposing import Proposal
from windlass.engine.story import ScaleDownResult, Story
from windlass.kube import durations

_NAMES = 3
"""Pods told by name before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Grow:
    """Raise a group."""

    group: str
    from_size: int
    to_size: int
    at_s: float
    why: str = ""
    pods: tuple[str, ...] = ()
    """For whom, as namespace/name."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Empty a node and delete it."""

    node: str
    group: str
    at_s: float
    why: str = ""


Wish: TypeAlias = Grow | Remove


@dataclass(frozen=True, slots=True)
class Reluctance:
    """Why we would not do what we do not wish."""

    groups: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    up: str = ""
    """For a group of which nothing is said."""
    down: str = ""
    """For a node of which nothing is said."""

    def of_group(self, group: str) -> str:
        return self.groups.get(group, self.up)

    def of_node(self, node: str) -> str:
        return self.nodes.get(node, self.down)


def find_wishes(seen: Observation, decision: Decision, now_s: float) -> tuple[Wish, ...]:
    """What the plan would change: sizes that grow, and nodes that go."""
    wishes: list[Wish] = []
    since = decision.memory.durable.scale_down.since
    for one in decision.plan:
        match one:
            case plan.Resize(group, from_size, to_size):
                proposal = _find_proposal(group, decision.story.scale_ups)
                pods = seen.snapshot.pods.keys(proposal.helped) if proposal else ()
                wishes.append(Grow(group, from_size, to_size, now_s, _tell_growth(proposal, pods), pods))
            case plan.Drain(node, group, evict):
                pods_told = f"its {len(evict)} pods fit elsewhere" if evict else "it is empty"
                wishes.append(Remove(node, group, now_s, f"{pods_told}, {_tell_since(since.get(node), now_s)}"))
    return tuple(wishes)


def find_reluctance(decision: Decision) -> Reluctance:
    """What the story says about what is not in the plan."""
    story = decision.story
    groups = {group: "; ".join(reasons) for proposal in story.scale_ups for group, reasons in proposal.skipped.items()}
    return Reluctance(groups, _tell_nodes(story), _tell_up(story), _tell_down(story))


def _find_proposal(group: str, proposals: Sequence[Proposal]) -> Proposal | None:
    return next((one for one in proposals if any(each.group.id == group for each in one.increases)), None)


def _tell_growth(proposal: Proposal | None, pods: tuple[str, ...]) -> str:
    if not pods or proposal is None:
        return "the group is below its minimum"
    more = f" and {len(pods) - _NAMES} more" if len(pods) > _NAMES else ""
    asked = f", chosen by {proposal.choice.steps[-1][0]}" if proposal.choice and proposal.choice.steps else ""
    return f"for {', '.join(pods[:_NAMES])}{more}{asked}"


def _tell_since(since_s: float | None, now_s: float) -> str:
    return "unneeded" if since_s is None else f"unneeded for {durations.spell(round(now_s - since_s))}"


def _tell_nodes(story: Story) -> dict[str, str]:
    look, choice = story.scale_down.look, story.scale_down.choice
    kept = [*(look.kept if look else ()), *(choice.kept if choice else ())]
    return {one.node_name: f"{one.reason}: {one}" for one in kept}


def _tell_up(story: Story) -> str:
    if story.repairs.stop is not None:
        return f"the loop ended early: {story.repairs.stop}"
    return ", ".join(dict.fromkeys(str(proposal.result) for proposal in story.scale_ups)) or "no pod asks for it"


def _tell_down(story: Story) -> str:
    if story.scale_down.result is ScaleDownResult.STARTED:
        return "other nodes go first"
    return str(story.scale_down.result)
