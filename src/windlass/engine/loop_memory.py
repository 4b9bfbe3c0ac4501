"""Loop memory: the state that one loop passes to the next, and the timers of held node groups.

Durable memory must survive a restart. The loss of volatile memory costs time or breaks ties differently, but never a
decision. The `CachedDecision` is returned again while nothing has changed.

A held group is paused or cannot be read. Nothing is decided about its nodes, and its memory is retained. When the group
is back, its timers and deadlines move by the time for which it was held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine.model import durable_memory, node_groups, plan
from windlass.engine.model.decision_record import DecisionRecord
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.placement import hinting
from windlass.engine.quarantine import Faults


@dataclass(frozen=True, slots=True)
class CachedDecision:
    """A decision that still holds, with its inputs."""

    seen: Observation
    generation: int
    """Generation of the snapshot, which belongs to the caller and may have changed since."""
    durable: durable_memory.DurableMemory
    settings: Settings
    plan: plan.Plan
    story: DecisionRecord
    until_s: float
    examples: frozenset[str] = frozenset()
    """Groups whose template was learned from one of their nodes: they keep it as long as the decision holds."""

    def holds(
        self, observation: Observation, durable: durable_memory.DurableMemory, settings: Settings, now_s: float
    ) -> bool:
        """Would these inputs give the same decision?"""
        return (
            self.story.at_s <= now_s < self.until_s
            and observation.snapshot is self.seen.snapshot
            and observation.snapshot.generation == self.generation
            and (durable is self.durable or durable == self.durable)
            and (settings is self.settings or settings == self.settings)
            and (observation is self.seen or observation == self.seen)
        )


@dataclass(frozen=True, slots=True)
class VolatileMemory:
    """State that may be lost."""

    templates: Mapping[str, GroupTemplate] = field(default_factory=dict)
    """Template by group, learned from its last good node."""
    pending: hinting.HintingState = field(default_factory=hinting.HintingState)
    removal: hinting.HintingState = field(default_factory=hinting.HintingState)
    booking: hinting.HintingState = field(default_factory=hinting.HintingState)
    standing: CachedDecision | None = None
    """The last decision, while it holds."""
    faults: Faults = ()
    """Objects that could not be evaluated; they are excluded until they change or the retry time passes."""
    learned_s: Mapping[str, float] = field(default_factory=dict)
    """When each template was last learned from a node; without an entry, in the last loop."""
    began_s: float | None = None
    """Time of the first loop after a start; None before it."""


@dataclass(frozen=True, slots=True)
class LoopMemory:
    """All state for the next loop."""

    durable: durable_memory.DurableMemory = field(default_factory=durable_memory.DurableMemory)
    volatile: VolatileMemory = field(default_factory=VolatileMemory)


def find_hold(group: str, held: Sequence[node_groups.HeldGroup]) -> node_groups.HeldGroup | None:
    """The hold on the group of this id; None without one."""
    return next((held_group for held_group in held if held_group.covers(group)), None)


def record_holds(durable: DurableMemory, observation: Observation, now_s: float) -> DurableMemory:
    """The memory with the held groups, each with the time when it was first observed held."""
    held = {held_group.id: durable.held.get(held_group.id, now_s) for held_group in observation.held}
    return durable if held == durable.held else replace(durable, held=held)


def retain_held(before: DurableMemory, after: DurableMemory, observation: Observation, now_s: float) -> DurableMemory:
    """The memory after a loop, with entries of held groups that the loop dropped because it did not observe them."""
    after = record_holds(after, observation, now_s)
    if not observation.held:
        return after
    asked, known = before.health.requests, before.health.known
    scale_ups = _retain_by_group(asked.scale_ups, after.health.requests.scale_ups, observation.held)
    absent = _retain_by_group(known.absent, after.health.known.absent, observation.held)
    health = replace(
        after.health,
        requests=replace(after.health.requests, scale_ups=scale_ups),
        known=replace(after.health.known, absent=absent),
    )
    nodes = _find_nodes(observation)
    unneeded = {name: at_s for name, at_s in before.scale_down.since.items() if name in nodes}
    state = replace(after.scale_down, since={**unneeded, **after.scale_down.since})
    return replace(after, health=health, scale_down=state)


def resume_timers(durable: DurableMemory, observation: Observation, now_s: float) -> DurableMemory:
    """The memory in which timers of groups that are back move by the time for which they were held."""
    held = {held_group.id for held_group in observation.held}
    if durable.held.keys() <= held:
        return durable
    group_of = {name: group.id for name, group in observation.group_of_nodes().items()}
    for id, since_s in durable.held.items():
        if id not in held:
            durable = _shift_group(durable, node_groups.HeldGroup(id), group_of, now_s - since_s)
    return replace(durable, held={id: since_s for id, since_s in durable.held.items() if id in held})


def resume_memory(memory: LoopMemory, observation: Observation, now_s: float) -> LoopMemory:
    """The whole memory in which timers of groups that are back move."""
    durable = resume_timers(memory.durable, observation, now_s)
    return memory if durable is memory.durable else replace(memory, durable=durable)


def _shift_group(
    durable: DurableMemory, held: node_groups.HeldGroup, group_of: Mapping[str, str], by_s: float
) -> DurableMemory:
    requests, state = durable.health.requests, durable.scale_down

    def move(value: durable_memory.Shifted, group: str) -> durable_memory.Shifted:
        return durable_memory.shift_times(value, by_s) if held.covers(group) else value

    scale_ups = {group: move(scale_up_request, group) for group, scale_up_request in requests.scale_ups.items()}
    scale_downs = tuple(
        move(scale_down_request, scale_down_request.group) for scale_down_request in requests.scale_downs
    )
    since = {name: move(at_s, group_of.get(name, "")) for name, at_s in state.since.items()}
    drains = {name: move(begun, begun.group) for name, begun in durable.drains.items()}
    asked = replace(requests, scale_ups=scale_ups, scale_downs=scale_downs)
    return replace(
        durable,
        health=replace(durable.health, requests=asked),
        scale_down=replace(state, since=since),
        drains=drains,
    )


def _retain_by_group(
    before: Mapping[str, durable_memory.Shifted],
    after: Mapping[str, durable_memory.Shifted],
    held: Sequence[node_groups.HeldGroup],
) -> dict[str, durable_memory.Shifted]:
    return {**{group: item for group, item in before.items() if find_hold(group, held) is not None}, **after}


def _find_nodes(observation: Observation) -> set[str]:
    """Nodes of held groups. Where a whole kind cannot be read, any node without a group may belong to it."""
    ids = {provider_id for held_group in observation.held for provider_id in held_group.instances}
    any_may_be = any(held_group.is_kind for held_group in observation.held)
    group_of = observation.group_of_nodes() if any_may_be else {}
    return {
        node.name for node in observation.nodes if node.provider_id in ids or (any_may_be and node.name not in group_of)
    }
