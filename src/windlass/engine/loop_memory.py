"""Loop memory: what one loop hands to the next, and the timers of node groups that are held meanwhile.

Durable memory must survive a restart. Volatile memory may be lost: that costs time, or lets ties fall otherwise, never
a decision. The `CachedDecision` is given again while nothing has changed.

A held group is paused or cannot be read. Nothing is decided about its nodes, its memory is retained, and its timers and
deadlines go on where they stood when it is back.
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
    """A decision that stands, and what it was made of."""

    seen: Observation
    generation: int
    """Of the snapshot, which is the caller's and may have changed since."""
    durable: durable_memory.DurableMemory
    settings: Settings
    plan: plan.Plan
    story: DecisionRecord
    until_s: float
    examples: frozenset[str] = frozenset()
    """Groups whose template was made from one of their nodes: they have it for as long as the decision stands."""

    def holds(self, seen: Observation, durable: durable_memory.DurableMemory, settings: Settings, now_s: float) -> bool:
        """Would deciding again give the same?"""
        return (
            self.story.at_s <= now_s < self.until_s
            and seen.snapshot is self.seen.snapshot
            and seen.snapshot.generation == self.generation
            and (durable is self.durable or durable == self.durable)
            and (settings is self.settings or settings == self.settings)
            and (seen is self.seen or seen == self.seen)
        )


@dataclass(frozen=True, slots=True)
class VolatileMemory:
    """What may be lost."""

    templates: Mapping[str, GroupTemplate] = field(default_factory=dict)
    """What nodes of a group were like when it last had a good one."""
    pending: hinting.HintingState = field(default_factory=hinting.HintingState)
    removal: hinting.HintingState = field(default_factory=hinting.HintingState)
    booking: hinting.HintingState = field(default_factory=hinting.HintingState)
    standing: CachedDecision | None = None
    """The last decision, for as long as it stands."""
    faults: Faults = ()
    """Objects that could not be evaluated; they are left out while they are as they were."""
    learned_s: Mapping[str, float] = field(default_factory=dict)
    """When each of the templates was last made from a node. One that is not among them was just now."""
    began_s: float | None = None
    """When the first loop after a start was decided; None before it."""


@dataclass(frozen=True, slots=True)
class LoopMemory:
    """Everything that the next loop must know."""

    durable: durable_memory.DurableMemory = field(default_factory=durable_memory.DurableMemory)
    volatile: VolatileMemory = field(default_factory=VolatileMemory)


def find_hold(group: str, held: Sequence[node_groups.HeldGroup]) -> node_groups.HeldGroup | None:
    """What holds the group of this id, if anything does."""
    return next((one for one in held if one.covers(group)), None)


def record_holds(durable: DurableMemory, seen: Observation, now_s: float) -> DurableMemory:
    """The memory with the groups that are held, each since when it was first seen so."""
    held = {one.id: durable.held.get(one.id, now_s) for one in seen.held}
    return durable if held == durable.held else replace(durable, held=held)


def retain_held(before: DurableMemory, after: DurableMemory, seen: Observation, now_s: float) -> DurableMemory:
    """The memory after a loop, with what the loop dropped because it did not see the group."""
    after = record_holds(after, seen, now_s)
    if not seen.held:
        return after
    asked, known = before.health.requests, before.health.known
    scale_ups = _retain_by_group(asked.scale_ups, after.health.requests.scale_ups, seen.held)
    absent = _retain_by_group(known.absent, after.health.known.absent, seen.held)
    health = replace(
        after.health,
        requests=replace(after.health.requests, scale_ups=scale_ups),
        known=replace(after.health.known, absent=absent),
    )
    nodes = _find_nodes(seen)
    unneeded = {name: at_s for name, at_s in before.scale_down.since.items() if name in nodes}
    state = replace(after.scale_down, since={**unneeded, **after.scale_down.since})
    return replace(after, health=health, scale_down=state)


def resume_timers(durable: DurableMemory, seen: Observation, now_s: float) -> DurableMemory:
    """The memory with the timers of groups that are back moved on by the time for which they were held."""
    held = {one.id for one in seen.held}
    if durable.held.keys() <= held:
        return durable
    group_of = {name: group.id for name, group in seen.group_of_nodes().items()}
    for id, since_s in durable.held.items():
        if id not in held:
            durable = _shift_group(durable, node_groups.HeldGroup(id), group_of, now_s - since_s)
    return replace(durable, held={id: since_s for id, since_s in durable.held.items() if id in held})


def resume_memory(memory: LoopMemory, seen: Observation, now_s: float) -> LoopMemory:
    """The whole memory with the timers of groups that are back moved on."""
    durable = resume_timers(memory.durable, seen, now_s)
    return memory if durable is memory.durable else replace(memory, durable=durable)


def _shift_group(
    durable: DurableMemory, held: node_groups.HeldGroup, group_of: Mapping[str, str], by_s: float
) -> DurableMemory:
    requests, state = durable.health.requests, durable.scale_down

    def move(value: durable_memory.Shifted, group: str) -> durable_memory.Shifted:
        return durable_memory.shift_times(value, by_s) if held.covers(group) else value

    scale_ups = {group: move(one, group) for group, one in requests.scale_ups.items()}
    scale_downs = tuple(move(one, one.group) for one in requests.scale_downs)
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
    return {**{group: one for group, one in before.items() if find_hold(group, held) is not None}, **after}


def _find_nodes(seen: Observation) -> set[str]:
    """Nodes of held groups. Where a whole kind cannot be read, any node without a group may be one."""
    ids = {provider_id for one in seen.held for provider_id in one.instances}
    any_may_be = any(one.is_kind for one in seen.held)
    group_of = seen.group_of_nodes() if any_may_be else {}
    return {node.name for node in seen.nodes if node.provider_id in ids or (any_may_be and node.name not in group_of)}
