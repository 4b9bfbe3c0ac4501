"""Nodes: why one stays, or since when it is unneeded and what it waits for, or how far it is on its way out."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.engine import dtypes, facts, plan, readiness, replicas_owners, taints
from windlass.engine.advance import advance
from windlass.engine.scale_down import cooldown, unneeded
from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Removal, Unremovable
from windlass.engine.settings import for_group
from windlass.engine.story import ScaleDownResult
from windlass.explain import drains, fates, look, unevaluated
from windlass.explain.drains import DrainAccount
from windlass.explain.fates import Homeless, PodFate


class NodeState(enum.StrEnum):
    """Where a node stands."""

    NOT_AUTOSCALED = "NotAutoscaled"
    """It belongs to no group."""
    LEAVING = "Leaving"
    """It is on its way out: `drain`."""
    GOING = "GoingNow"
    """The next loop begins to remove it."""
    UNNEEDED = "Unneeded"
    """Its pods have a place elsewhere, or it has none; `reason` or `waits_for` tells why it is still there."""
    NEEDED = "Needed"
    """`reason` tells why."""
    NO_CANDIDATE = "NoCandidate"
    """Nobody asks whether it is needed: `why`."""
    NOT_TRIED = "NotTriedYet"
    """Enough others were found to be unneeded before it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of a node its pods ask for, as shares; the one that counts is compared with the threshold."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    share: float
    threshold: float


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """All that is to be told of a node."""

    name: str
    at_s: float
    state: NodeState
    is_ready: bool
    created_s: float
    group: str = ""
    size: int = 0
    min_size: int = 0
    usage: Usage | None = None
    reason: str = ""
    """Cluster Autoscaler's word for why it stays."""
    why: str = ""
    """The same as a sentence that begins with the node's name, with the numbers that decided."""
    found: float | None = None
    limit: float | None = None
    """Numbers that were compared; the reason says which."""
    since_s: float | None = None
    """Since when it is unneeded."""
    until_s: float | None = None
    """When it has been for long enough, or what it waits for is over."""
    homeless: Homeless | None = None
    drain: DrainAccount | None = None
    pods: tuple[PodFate, ...] = ()
    awaited: tuple[str, ...] = ()
    """Pending pods that it has room for: they count as its own."""
    complaint: str = ""
    """What of it cannot be read; empty of a node that is used as it is."""


def describe(at: look.Look, name: str) -> NodeAccount:
    """The node of this name, which exists."""
    row = at.snapshot.nodes.rows[name]
    node, group = at.snapshot.nodes.facts[row], at.seen.group_of_nodes().get(name)
    if why := unevaluated.find_of_node(at, name):
        kept = NodeAccount(name, at.now_s, NodeState.NO_CANDIDATE, True, node.created_s, why=f"is kept: {why}")
        return kept if group is None else replace(kept, group=group.id, size=group.target_size, min_size=group.min_size)
    passing = taints.read_settings(at.settings.templates, at.settings.deviations.readiness_taints)
    told = NodeAccount(
        name,
        at.now_s,
        NodeState.NOT_AUTOSCALED,
        readiness.judge(passing.judge_starting(node)).is_ready,
        node.created_s,
        why="belongs to no group",
        pods=tuple(fates.find(at, at.snapshot.pods_on(row), find_places(at, name))),
        awaited=tuple(_find_awaited(at, name)),
    )
    if group is None:
        held = next((one for one in at.seen.held if node.provider_id and node.provider_id in one.instances), None)
        return told if held is None else replace(told, why=f"belongs to {held.id}, which is left alone: {held.why}")
    told = replace(told, group=group.id, size=group.target_size, min_size=group.min_size, usage=_measure(at, name))
    return _judge(at, told, node, group)


def find_places(at: look.Look, name: str) -> dict[str, str]:
    """Where pods of the node were found a place, by uid; none unless it can go."""
    begun = at.decision.memory.durable.drains.get(name)
    if begun is not None:
        return dict(begun.places)
    if name not in at.decision.memory.durable.scale_down.since:
        return {}
    return dict(at.decision.memory.volatile.removal.hints.old)


def _find_awaited(at: look.Look, name: str) -> Iterator[str]:
    rows = at.snapshot.pods.rows
    for uid, where in at.decision.memory.volatile.pending.hints.old.items():
        if where == name and uid in rows and int(at.snapshot.pods.node_rows[rows[uid]]) == dtypes.ABSENT:
            yield at.snapshot.pods.key(rows[uid])


def _judge(at: look.Look, told: NodeAccount, node: facts.Node, group: facts.NodeGroup) -> NodeAccount:
    story = at.decision.story
    if node.name in at.memory.durable.drains:
        begun = at.memory.durable.drains[node.name]
        stages = {one.node: one for one in advance(at.seen, at.memory, at.settings, at.now_s).story}
        drain = drains.describe(begun, stages.get(node.name))
        return replace(told, state=NodeState.LEAVING, drain=drain, since_s=begun.since_s, why="is on its way out")
    if any(isinstance(one, plan.Drain) and one.node == node.name for one in at.decision.plan):
        since_s = at.decision.memory.durable.scale_down.since.get(node.name)
        return replace(told, state=NodeState.GOING, since_s=since_s, why="may go, and the next loop begins with it")
    if story.repairs.stop is not None:
        return _no_candidate(told, f"is not looked at: {story.repairs.stop}")
    look_taken = story.scale_down.look
    if look_taken is None:
        return _no_candidate(told, "is not looked at: scale-down is disabled (--scale-down-enabled=false)")
    kept = {one.node_name: one for one in look_taken.kept}.get(node.name)
    if kept is not None:
        return _needed(at, told, kept)
    removal = next((one for one in look_taken.trials.removals if one.node_name == node.name), None)
    if removal is not None:
        return _unneeded(at, told, node, group, removal)
    if node.name in look_taken.trials.skipped:
        return replace(told, state=NodeState.NOT_TRIED, why="is not tried yet: enough others were found before it")
    return _no_candidate(told, *_find_exclusion(at, node, group))


def _no_candidate(told: NodeAccount, why: str, until_s: float | None = None) -> NodeAccount:
    return replace(told, state=NodeState.NO_CANDIDATE, why=why, until_s=until_s)


def _find_exclusion(at: look.Look, node: facts.Node, group: facts.NodeGroup) -> tuple[str, float | None]:
    """Why nobody asks whether the node is needed."""
    if group.target_size <= group.min_size:
        return f"belongs to a group of {group.target_size}, which keeps at least {group.min_size}", None
    if group.replicas_owner is not None and replicas_owners.is_left_alone(group, at.settings.deviations):
        return f"belongs to a group that is not lowered: {group.replicas_owner.message}", None
    if group.is_rolling_out:
        return "belongs to a group whose nodes are being replaced: nobody could say which of them would go", None
    if node.provider_id in group.kept:
        return "cannot be removed: a Machine is paused or cannot be read, or the group's size is put back", None
    if not group.can_choose:
        return "belongs to a group that cannot be told which of its nodes goes", None
    activity = at.memory.durable.activities.get(group.id)
    if at.settings.scale_down.scale_down_delay_type_local and activity is not None:
        ends_s = cooldown.ends_at_s(activity, at.settings.scale_down)
        if ends_s > at.now_s:
            return "belongs to a group that pauses after a change", ends_s
    return "is starting: it counts as on its way", None


def _needed(at: look.Look, told: NodeAccount, kept: Kept) -> NodeAccount:
    told = replace(
        told, state=NodeState.NEEDED, reason=str(kept.reason), why=_say(kept), found=kept.found, limit=kept.limit
    )
    removal = kept.removal
    if removal is not None and removal.moves.blocking is not None:
        blocking = removal.moves.blocking
        if not at.exists(blocking.pod):
            return replace(told, why="has room that is booked or kept spare")
        text = blocking.outcome.text(at.snapshot.pod(blocking.pod))
        return replace(told, why=f"has a pod that must not be moved: {text}")
    if removal is not None and removal.homeless is not None and at.exists(removal.homeless):
        return replace(told, homeless=fates.find_homeless(at, removal.homeless, told.name))
    return told


def _say(kept: Kept) -> str:
    return str(kept).removeprefix(kept.node_name).strip()


def _unneeded(
    at: look.Look, told: NodeAccount, node: facts.Node, group: facts.NodeGroup, removal: Removal
) -> NodeAccount:
    """It could go. What is it still here for?"""
    since_s = at.decision.memory.durable.scale_down.since[node.name]
    told = replace(told, state=NodeState.UNNEEDED, since_s=since_s)
    story = at.decision.story.scale_down
    wait_s = unneeded.find_wait_s(node, for_group(at.settings, group.options))
    long_enough_s = since_s + wait_s
    kept = next((one for one in story.choice.kept if one.node_name == node.name), None) if story.choice else None
    if kept is not None:
        too_early = kept.reason in (Unremovable.NOT_UNNEEDED_LONG_ENOUGH, Unremovable.NOT_UNREADY_LONG_ENOUGH)
        return replace(
            told, reason=str(kept.reason), why=_say(kept), found=kept.found, limit=kept.limit,
            until_s=long_enough_s if too_early else None,
        )  # fmt: skip
    if story.result is ScaleDownResult.IN_COOLDOWN:
        causes = list(find_pauses(at))
        until_s = max((ends_s for _, ends_s in causes), default=None)
        why = "waits: nothing is removed " + (" and ".join(why for why, _ in causes) or "while pods are coming")
        return replace(told, why=why, until_s=max(until_s or 0.0, long_enough_s) or None)
    parallel = at.settings.scale_down
    limit = parallel.max_drain_parallelism if removal.moves.move else parallel.max_scale_down_parallelism
    flag = "--max-drain-parallelism" if removal.moves.move else "--max-scale-down-parallelism"
    return replace(told, why=f"may go, and waits for its turn: {flag} is {limit}", limit=limit)


def find_pauses(at: look.Look) -> Iterator[tuple[str, float]]:
    """What holds scale-down back after a change, and until when."""
    activity, chosen = at.decision.memory.durable.activity, at.settings.scale_down
    after = {
        "after nodes were added (--scale-down-delay-after-add)": (
            activity.added_s,
            chosen.scale_down_delay_after_add_s,
        ),
        "after a removal (--scale-down-delay-after-delete)": (
            activity.deleted_s,
            chosen.scale_down_delay_after_delete_s,
        ),
        "after a removal failed (--scale-down-delay-after-failure)": (
            activity.failed_s,
            chosen.scale_down_delay_after_failure_s,
        ),
    }
    for what, (happened_s, delay_s) in after.items():
        if happened_s is not None and happened_s + delay_s > at.now_s:
            yield what, happened_s + delay_s


def _measure(at: look.Look, name: str) -> Usage | None:
    taken = at.decision.story.scale_down.look
    used = taken.eligibility.utilization_of(name) if taken else None
    if taken is None or used is None:
        return None
    threshold = float(taken.eligibility.limits[list(taken.eligibility.names).index(name)])
    return Usage(used.cpu, used.memory, used.gpu, used.resource, used.utilization, threshold)
