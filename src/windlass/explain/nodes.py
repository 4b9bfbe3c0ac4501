"""Node explanation: why a node stays, since when it is unneeded, how far its drain is, and where its pods would go."""

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.engine import taints
from windlass.engine.cluster_state import readiness, remediation
from windlass.engine.drain_loop import advance
from windlass.engine.drainability import context, pdb_rules, rules
from windlass.engine.model import arrays, facts, node_groups, well_known
from windlass.engine.model.decision_record import ScaleDownResult
from windlass.engine.model.drainability import DrainabilityStatus, DrainAction
from windlass.engine.model.drains import DrainStatus
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.scale_down_state import NodeRemoval, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import for_group
from windlass.engine.predicates import registry
from windlass.engine.scale_down import cooldown, unneeded
from windlass.explain import explain_context
from windlass.explain.decision_view import RemovalState


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """How much of a node its pods ask for, as shares; the one that counts is compared with the threshold."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    share: float
    threshold: float


def find_destinations(at: explain_context.ExplainContext, name: str) -> dict[str, str]:
    """Where pods of the node were found a place, by uid; none unless it can go."""
    begun = at.decision.memory.durable.drains.get(name)
    if begun is not None:
        return dict(begun.places)
    if name not in at.decision.memory.durable.scale_down.since:
        return {}
    return dict(at.decision.memory.volatile.removal.hints.old)


def _find_awaited(at: explain_context.ExplainContext, name: str) -> Iterator[str]:
    rows = at.snapshot.pods.rows
    for uid, where in at.decision.memory.volatile.pending.hints.old.items():
        if where == name and uid in rows and int(at.snapshot.pods.node_rows[rows[uid]]) == arrays.ABSENT:
            yield at.snapshot.pods.key(rows[uid])


def _find_exclusion(
    at: explain_context.ExplainContext, node: facts.Node, group: node_groups.NodeGroup
) -> tuple[str, float | None]:
    """Why the node is not a scale-down candidate, and until when."""
    if group.target_size <= group.min_size:
        return f"belongs to a group of {group.target_size}, which keeps at least {group.min_size}", None
    if group.replicas_owner is not None and remediation.is_owned_elsewhere(group, at.settings.deviations):
        return f"belongs to a group that is not lowered: {group.replicas_owner.message}", None
    if group.is_rolling_out:
        return "belongs to a group whose nodes are being replaced: the provider could delete another one", None
    if node.provider_id in group.kept:
        return "cannot be removed: a Machine is paused or cannot be read, or the group's size is put back", None
    if not group.can_choose:
        return "belongs to a group that cannot be told which of its nodes to remove", None
    activity = at.memory.durable.activities.get(group.id)
    if at.settings.scale_down.scale_down_delay_type_local and activity is not None:
        ends_s = cooldown.cooldown_ends_at_s(activity, at.settings.scale_down)
        if ends_s > at.now_s:
            return "belongs to a group that pauses after a change", ends_s
    return "is starting: it counts as on its way", None


def _describe_unremovable(kept: UnremovableNode) -> str:
    return str(kept).removeprefix(kept.node_name).strip()


def find_pauses(at: explain_context.ExplainContext) -> Iterator[tuple[str, float]]:
    """What holds scale-down back after a change, and until when."""
    activity, scale_down_settings = at.decision.memory.durable.activity, at.settings.scale_down
    after = {
        "after nodes were added (--scale-down-delay-after-add)": (
            activity.added_s,
            scale_down_settings.scale_down_delay_after_add_s,
        ),
        "after a removal (--scale-down-delay-after-delete)": (
            activity.deleted_s,
            scale_down_settings.scale_down_delay_after_delete_s,
        ),
        "after a removal failed (--scale-down-delay-after-failure)": (
            activity.failed_s,
            scale_down_settings.scale_down_delay_after_failure_s,
        ),
    }
    for what, (happened_s, delay_s) in after.items():
        if happened_s is not None and happened_s + delay_s > at.now_s:
            yield what, happened_s + delay_s


def _measure_usage(at: explain_context.ExplainContext, name: str) -> NodeUsage | None:
    evaluation = at.view.evaluation
    used = evaluation.eligibility.utilization_of(name) if evaluation else None
    if evaluation is None or used is None:
        return None
    threshold = float(evaluation.eligibility.limits[list(evaluation.eligibility.names).index(name)])
    return NodeUsage(used.cpu, used.memory, used.gpu, used.resource, used.utilization, threshold)


@dataclass(frozen=True, slots=True)
class DrainExplanation:
    """One node on its way out."""

    group: str
    since_s: float
    phase: str
    """What it waits for; see `engine.draining.story.Phase`."""
    until_s: float | None = None
    """When it moves on or gives up, if nothing changes before."""
    waits_for: tuple[str, ...] = ()
    """Pods, annotations or nodes."""
    refused: tuple[str, ...] = ()
    """Messages of refused evictions."""
    failure: str = ""
    """Why it is given up, where it is."""
    details: tuple[str, ...] = ()


def explain_drain(begun: StartedDrain, explanation: DrainStatus | None) -> DrainExplanation:
    """The state of a drain. `explanation` is its status after the next step."""
    failure = begun.progress.failure if explanation is None else explanation.failure
    evicting = begun.progress.evicting
    return DrainExplanation(
        begun.group,
        begun.since_s,
        str(explanation.phase) if explanation else "on its way",
        None if explanation is None or explanation.until_s == float("inf") else explanation.until_s,
        explanation.waits_for if explanation else (),
        tuple(evicting.refused.values()) if evicting else (),
        str(failure.why) if failure else "",
        failure.details if failure else (),
    )


class PodDisposition(enum.StrEnum):
    """What becomes of a pod if its node goes."""

    MOVES = "moves"
    """It is evicted; there must be room for it elsewhere."""
    GOES_WITH_IT = "goes with the node"
    """A DaemonSet's, a mirror, or one that should be gone already."""
    FINISHES = "is waited for"
    STAYS = "must stay"
    """And so must the node."""


@dataclass(frozen=True, slots=True)
class PodOnRemoval:
    """One pod of a node."""

    pod: str
    """namespace/name"""
    fate: PodDisposition
    destination: str = ""
    """The node that was found to have room for it; empty where none was looked for, or none found."""
    why: str = ""
    """The rule that decided, in words; continues a sentence that begins with the pod's name."""


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """The pod that finds no place elsewhere."""

    pod: str
    nodes: int
    """Other nodes that there are."""
    reasons: tuple[tuple[str, int], ...] = ()
    """In kube-scheduler's words, with the number of nodes; most nodes first."""
    alone_on: tuple[str, ...] = ()
    """Nodes that would take it alone: pods that go elsewhere with it take the room."""


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """The explanation of one node."""

    name: str
    at_s: float
    state: RemovalState
    is_ready: bool
    created_s: float
    group: str = ""
    size: int = 0
    min_size: int = 0
    usage: NodeUsage | None = None
    reason: str = ""
    """Cluster Autoscaler's word for why it stays."""
    why: str = ""
    """The same as a sentence that begins with the node's name, with the numbers that decided."""
    found: float | None = None
    limit: float | None = None
    """The numbers compared; the reason determines their meaning."""
    since_s: float | None = None
    """Since when it is unneeded."""
    until_s: float | None = None
    """When it has been for long enough, or what it waits for is over."""
    homeless: UnplacedPod | None = None
    drain: DrainExplanation | None = None
    pods: tuple[PodOnRemoval, ...] = ()
    awaited: tuple[str, ...] = ()
    """Pending pods that it has room for: they count as its own."""
    complaint: str = ""
    """What of it cannot be read; empty of a node that is used as it is."""


def explain_node(at: explain_context.ExplainContext, name: str) -> NodeExplanation:
    """The node of this name, which exists."""
    row = at.snapshot.nodes.rows[name]
    node, group = at.snapshot.nodes.facts[row], at.view.group_of.get(name)
    if reason := explain_context.find_fault_of_node(at, name):
        kept = NodeExplanation(
            name, at.now_s, RemovalState.NO_CANDIDATE, True, node.created_s, why=f"is kept: {reason}"
        )
        return kept if group is None else replace(kept, group=group.id, size=group.target_size, min_size=group.min_size)
    passing = taints.make_transient_taints(at.settings.templates, at.settings.deviations.readiness_taints)
    explanation = NodeExplanation(
        name,
        at.now_s,
        RemovalState.NOT_AUTOSCALED,
        readiness.assess_node(passing.mark_starting(node)).is_ready,
        node.created_s,
        why="belongs to no group",
        pods=tuple(find_dispositions(at, at.snapshot.pods_on(row), find_destinations(at, name))),
        awaited=tuple(_find_awaited(at, name)),
    )
    if group is None:
        held = next(
            (
                held_group
                for held_group in at.observation.held
                if node.provider_id and node.provider_id in held_group.instances
            ),
            None,
        )
        return (
            explanation
            if held is None
            else replace(explanation, why=f"belongs to {held.id}, which is left alone: {held.why}")
        )
    explanation = replace(
        explanation, group=group.id, size=group.target_size, min_size=group.min_size, usage=_measure_usage(at, name)
    )
    return _explain_state(at, explanation, node, group)


def _explain_state(
    at: explain_context.ExplainContext, explanation: NodeExplanation, node: facts.Node, group: node_groups.NodeGroup
) -> NodeExplanation:
    name, view = node.name, at.view
    match view.removal_state(name):
        case RemovalState.LEAVING:
            drain = view.drains[name]
            statuses = {
                status.node: status for status in advance(at.observation, at.memory, at.settings, at.now_s).story
            }
            return replace(
                explanation, state=RemovalState.LEAVING, drain=explain_drain(drain, statuses.get(name)),
                since_s=drain.since_s, why="is on its way out",
            )  # fmt: skip
        case RemovalState.GOING:
            since_s = at.decision.memory.durable.scale_down.since.get(name)
            return replace(
                explanation, state=RemovalState.GOING, since_s=since_s, why="may go, and the next loop begins with it"
            )
        case RemovalState.NEEDED:
            return _explain_needed(at, explanation, view.unremovable[name])
        case RemovalState.UNNEEDED:
            return _explain_unneeded(at, explanation, node, group, view.removals[name])
        case RemovalState.NOT_TRIED:
            reason = "is not tried yet: enough others were found before it"
            return replace(explanation, state=RemovalState.NOT_TRIED, why=reason)
    if view.stop:
        return _explain_exclusion(explanation, f"is not looked at: {view.stop}")
    if view.evaluation is None:
        return _explain_exclusion(explanation, "is not looked at: scale-down is disabled (--scale-down-enabled=false)")
    return _explain_exclusion(explanation, *_find_exclusion(at, node, group))


def _explain_exclusion(explanation: NodeExplanation, reason: str, until_s: float | None = None) -> NodeExplanation:
    return replace(explanation, state=RemovalState.NO_CANDIDATE, why=reason, until_s=until_s)


def _explain_needed(
    at: explain_context.ExplainContext, explanation: NodeExplanation, kept: UnremovableNode
) -> NodeExplanation:
    explanation = replace(
        explanation,
        state=RemovalState.NEEDED,
        reason=str(kept.reason),
        why=_describe_unremovable(kept),
        found=kept.found,
        limit=kept.limit,
    )
    removal = kept.removal
    if removal is not None and removal.moves.blocking is not None:
        blocking = removal.moves.blocking
        if not at.exists(blocking.pod):
            return replace(explanation, why="has room that is booked or kept spare")
        text = blocking.outcome.text(at.snapshot.pod(blocking.pod))
        return replace(explanation, why=f"has a pod that must not be moved: {text}")
    if removal is not None and removal.homeless is not None and at.exists(removal.homeless):
        return replace(explanation, homeless=explain_unplaced(at, removal.homeless, explanation.name))
    return explanation


def _explain_unneeded(
    at: explain_context.ExplainContext,
    explanation: NodeExplanation,
    node: facts.Node,
    group: node_groups.NodeGroup,
    removal: NodeRemoval,
) -> NodeExplanation:
    """It could go. What is it still here for?"""
    since_s = at.decision.memory.durable.scale_down.since[node.name]
    explanation = replace(explanation, state=RemovalState.UNNEEDED, since_s=since_s)
    wait_s = unneeded.find_unneeded_time_s(node, for_group(at.settings, group.options))
    long_enough_s = since_s + wait_s
    kept = at.view.postponed.get(node.name)
    if kept is not None:
        too_early = kept.reason in (
            UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
            UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
        )
        return replace(
            explanation, reason=str(kept.reason), why=_describe_unremovable(kept), found=kept.found, limit=kept.limit,
            until_s=long_enough_s if too_early else None,
        )  # fmt: skip
    if at.view.record.scale_down.result is ScaleDownResult.IN_COOLDOWN:
        causes = list(find_pauses(at))
        until_s = max((ends_s for _, ends_s in causes), default=None)
        reason = "waits: nothing is removed " + (" and ".join(why for why, _ in causes) or "while pods are coming")
        return replace(explanation, why=reason, until_s=max(until_s or 0.0, long_enough_s) or None)
    parallel = at.settings.scale_down
    limit = parallel.max_drain_parallelism if removal.moves.move else parallel.max_scale_down_parallelism
    flag = "--max-drain-parallelism" if removal.moves.move else "--max-scale-down-parallelism"
    return replace(explanation, why=f"may go, and waits for its turn: {flag} is {limit}", limit=limit)


def find_dispositions(
    at: explain_context.ExplainContext, rows: list[int], places: dict[str, str]
) -> Iterator[PodOnRemoval]:
    """What becomes of these pods. `places` are destinations by uid."""
    table = at.snapshot.pods
    about = context.make_drain_context(at.observation, at.settings, at.now_s)
    for row in rows:
        pod = at.snapshot.pod(row)
        outcome = rules.check_pod(pod, about)
        fate = classify_disposition(pod, outcome)
        where = places.get(table.uids[row], "") if fate is PodDisposition.MOVES else ""
        reason = outcome.saying.format(*outcome.values) if outcome else pdb_rules.explain_pdb_exemption(pod, about)
        yield PodOnRemoval(pod.key, fate, where, reason)


def classify_disposition(pod: facts.Pod, outcome: DrainabilityStatus | None) -> PodDisposition:
    """The effect of a drain rule's status."""
    action = DrainAction.DRAIN if outcome is None else outcome.action
    if action is DrainAction.BLOCK:
        return PodDisposition.STAYS
    if action is DrainAction.WAIT:
        return PodDisposition.FINISHES
    return (
        PodDisposition.GOES_WITH_IT
        if action is DrainAction.SKIP or well_known.is_daemonset(pod)
        else PodDisposition.MOVES
    )


def explain_unplaced(at: explain_context.ExplainContext, row: int, home: str) -> UnplacedPod:
    """Why a pod finds no place elsewhere: every other node is asked for it alone, as the loop's scale-down sees them.

    Pending pods are where there is room for them, and a node that is only on its way is no place to move to.
    """
    with at.scale_up() as context:
        snapshot = context.snapshot
        if int(snapshot.pods.node_rows[row]) != arrays.ABSENT:
            snapshot.unbind(row)
        judged = registry.diagnose(snapshot, snapshot.shape_of_row(row), at.settings.filters)
        passed_over = {home, *context.groups.upcoming}
        others = [item for item in judged.rows.tolist() if snapshot.nodes.names[item] not in passed_over]
        counted: Counter[str] = Counter()
        alone: list[str] = []
        for entry in others:
            refusal = judged[entry]
            if refusal is not None:
                counted.update(refusal.texts)
            elif not snapshot.nodes.unschedulable[entry]:
                alone.append(snapshot.nodes.names[entry])
        ordered = tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))
        return UnplacedPod(snapshot.pods.key(row), len(others), ordered, tuple(alone))
