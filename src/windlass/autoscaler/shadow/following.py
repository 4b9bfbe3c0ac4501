"""Following: what a shadow remembers.

Nothing that we decide happens, and much happens that we did not decide. So the memory is kept as if the deeds of the
other had been ours, and ours had never been: its scale-ups are awaited, time out and back off, its drains count against
the budgets, and both begin the pauses that they would begin for us. Then each decision answers the question that
matters: what would windlass do now, in the other's place?
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from windlass.autoscaler.shadow.deeds import Deed, Marked, Resized
from windlass.engine import facts, health, requests, taints
from windlass.engine.decide import Decision
from windlass.engine.memory import DrainBegun, Durable, Memory
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown, scene, unneeded
from windlass.engine.settings import Settings, for_group


def begin(seen: Observation, settings: Settings, now_s: float) -> Memory:
    """Where a shadow begins: unneeded times are those that the other's marks tell, and nodes that are missing are
    awaited, because the other knows whether it asked for them.

    It does not begin with the first loop: that would clean up after a process that died, and the other lives.
    """
    since = unneeded.restore(seen.nodes, float("inf"), now_s)
    registered = Counter(group.id for group in seen.group_of_nodes().values())
    awaited = {
        group.id: requests.await_external(
            group.target_size - registered[group.id],
            now_s,
            for_group(settings, group.options).max_node_provision_time_s,
        )
        for group in seen.groups
        if group.target_size > registered[group.id]
    }
    return Memory(
        Durable(
            loop=1,
            health=health.Memory(requests.Requests(awaited)),
            scale_down=scene.State(since=since, previous=frozenset(since)),
        )
    )


def take_over(memory: Memory, deeds: Iterable[Deed], seen: Observation, settings: Settings, now_s: float) -> Memory:
    """What to decide with: the memory as if these deeds had been our own."""
    groups = {group.id: group for group in seen.groups}
    durable = replace(memory.durable, drains=_find_drains(memory.durable.drains, seen, now_s))
    if settings.deviations.pause_after_failed_drains:
        durable = _note_failures(durable, memory.durable.drains, seen, now_s)
    for deed in deeds:
        match deed:
            case Resized(group, from_size, to_size) if to_size > from_size and group in groups:
                durable = _grow(durable, groups[group], to_size - from_size, settings, now_s)
            case Marked(node, group, at_s):
                durable = _shrink(durable, group, node, at_s, settings)
    return replace(memory, durable=durable)


def follow(before: Memory, decision: Decision) -> Memory:
    """What to remember after a decision that was not carried out: what it saw, and nothing that it wanted.

    `before` is what was decided with. What was found out about requests, backoffs and sizes counts, and so do the times
    for which nodes have been unneeded; requests, drains and pauses that the plan would have begun do not.
    """
    after = decision.memory.durable
    durable = replace(
        after,
        health=_forget_orders(after.health, decision.story.health.memory),
        activity=before.durable.activity,
        activities=before.durable.activities,
        drains=before.durable.drains,
    )
    return replace(decision.memory, durable=durable)


def _forget_orders(after: health.Memory, found: health.Memory) -> health.Memory:
    """The requests as they were found, with all else that the decision made of them."""
    return replace(after, requests=found.requests)


def _grow(durable: Durable, group: facts.NodeGroup, by: int, settings: Settings, now_s: float) -> Durable:
    wait_s = for_group(settings, group.options).max_node_provision_time_s
    asked = requests.grow(durable.health.requests, group.id, by, now_s, wait_s)
    own = replace(durable.activities.get(group.id, cooldown.Activity()), added_s=now_s)
    return replace(
        durable,
        health=replace(durable.health, requests=asked),
        activity=replace(durable.activity, added_s=now_s),
        activities={**durable.activities, group.id: own},
    )


def _shrink(durable: Durable, group: str, node: str, at_s: float, settings: Settings) -> Durable:
    asked = requests.shrink(durable.health.requests, group, node, at_s)
    deleted_s = at_s + settings.drain.node_delete_delay_after_taint_s
    own = replace(durable.activities.get(group, cooldown.Activity()), deleted_s=deleted_s)
    return replace(
        durable,
        health=replace(durable.health, requests=asked),
        activity=replace(durable.activity, deleted_s=at_s),
        activities={**durable.activities, group: own},
    )


def _note_failures(durable: Durable, before: Mapping[str, DrainBegun], seen: Observation, now_s: float) -> Durable:
    """A node that was being emptied and is still there, without its mark, was given back."""
    there = {node.name for node in seen.nodes}
    for name in before.keys() & there - durable.drains.keys():
        group = before[name].group
        own = replace(durable.activities.get(group, cooldown.Activity()), failed_s=now_s)
        durable = replace(
            durable,
            activity=replace(durable.activity, failed_s=now_s),
            activities={**durable.activities, group: own},
        )
    return durable


def _find_drains(known: Mapping[str, DrainBegun], seen: Observation, now_s: float) -> dict[str, DrainBegun]:
    """The nodes that the other is emptying: those that are marked, as long as they are."""
    group_of, drains = seen.group_of_nodes(), {}
    for node in seen.nodes:
        if node.name in group_of and taints.has(node, taints.TO_BE_DELETED):
            since_s = taints.marked_at_s(node, taints.TO_BE_DELETED) or now_s
            fresh = DrainBegun(group_of[node.name].id, since_s, _is_empty(node, seen), uid=node.uid)
            drains[node.name] = known.get(node.name, fresh)
    return drains


def _is_empty(node: facts.Node, seen: Observation) -> bool:
    """Are there no pods on it but those that go with it?"""
    snapshot = seen.snapshot
    pods = (snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[node.name]))
    return all(pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node") for pod in pods)
