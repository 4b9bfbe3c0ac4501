"""Held groups: node groups that exist and must be left alone for now, because they are paused or cannot be read.

Their nodes belong to no group meanwhile, so nothing is decided about them. What is remembered of them is kept, and time
stands still for it: when a group is back, its timers and deadlines go on where they were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine import facts, rebasing
from windlass.engine.memory import Durable, Memory
from windlass.engine.observation import Observation


def find(group: str, held: Sequence[facts.HeldGroup]) -> facts.HeldGroup | None:
    """What holds the group of this id, if anything does."""
    return next((one for one in held if one.covers(group)), None)


def note(durable: Durable, seen: Observation, now_s: float) -> Durable:
    """The memory with the groups that are held, each since when it was first seen so."""
    held = {one.id: durable.held.get(one.id, now_s) for one in seen.held}
    return durable if held == durable.held else replace(durable, held=held)


def retain(before: Durable, after: Durable, seen: Observation, now_s: float) -> Durable:
    """The memory after a loop, with what the loop dropped because it did not see the group."""
    after = note(after, seen, now_s)
    if not seen.held:
        return after
    asked, known = before.health.requests, before.health.known
    scale_ups = _keep(asked.scale_ups, after.health.requests.scale_ups, seen.held)
    absent = _keep(known.absent, after.health.known.absent, seen.held)
    health = replace(
        after.health,
        requests=replace(after.health.requests, scale_ups=scale_ups),
        known=replace(after.health.known, absent=absent),
    )
    nodes = _find_nodes(seen)
    unneeded = {name: at_s for name, at_s in before.scale_down.since.items() if name in nodes}
    state = replace(after.scale_down, since={**unneeded, **after.scale_down.since})
    return replace(after, health=health, scale_down=state)


def resume(durable: Durable, seen: Observation, now_s: float) -> Durable:
    """The memory with the timers of groups that are back moved on by the time for which they were held."""
    held = {one.id for one in seen.held}
    if durable.held.keys() <= held:
        return durable
    group_of = {name: group.id for name, group in seen.group_of_nodes().items()}
    for id, since_s in durable.held.items():
        if id not in held:
            durable = _move_on(durable, facts.HeldGroup(id), group_of, now_s - since_s)
    return replace(durable, held={id: since_s for id, since_s in durable.held.items() if id in held})


def resume_memory(memory: Memory, seen: Observation, now_s: float) -> Memory:
    """The whole memory with the timers of groups that are back moved on."""
    durable = resume(memory.durable, seen, now_s)
    return memory if durable is memory.durable else replace(memory, durable=durable)


def _move_on(durable: Durable, held: facts.HeldGroup, group_of: Mapping[str, str], by_s: float) -> Durable:
    requests, state = durable.health.requests, durable.scale_down

    def move(value: rebasing.T, group: str) -> rebasing.T:
        return rebasing.move(value, by_s) if held.covers(group) else value

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


def _keep(
    before: Mapping[str, rebasing.T], after: Mapping[str, rebasing.T], held: Sequence[facts.HeldGroup]
) -> dict[str, rebasing.T]:
    return {**{group: one for group, one in before.items() if find(group, held) is not None}, **after}


def _find_nodes(seen: Observation) -> set[str]:
    """Nodes of held groups. Where a whole kind cannot be read, any node without a group may be one."""
    ids = {provider_id for one in seen.held for provider_id in one.instances}
    any_may_be = any(one.is_kind for one in seen.held)
    group_of = seen.group_of_nodes() if any_may_be else {}
    return {node.name for node in seen.nodes if node.provider_id in ids or (any_may_be and node.name not in group_of)}
