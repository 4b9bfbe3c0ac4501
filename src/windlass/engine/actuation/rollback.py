"""Rollback and bookkeeping: untaints nodes of failed drains, records failures and deletions in memory.

Taint and cordon are removed, again every 10 s, until they are seen to be gone. A node that was cordoned before stays
cordoned. One failure in an atomic group fails all drains of the group. After a failure scale-down pauses, for the
cluster or the group. After a restart everything without an observed effect is requested again: requests are
idempotent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine import taints
from windlass.engine.actuation import deletion_taint, node_deletion
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain
from windlass.engine.cluster_state import scale_requests
from windlass.engine.model import facts, plan
from windlass.engine.model.drains import NO_TIER, DrainFailure, DrainFailureReason, DrainPhase, DrainProgress
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.scale_down_state import ScaleActivity

ROLLBACK_RETRY_S = 10.0
"""Interval after which the removal of a taint that is still observed is requested again."""


def fail_atomic_groups(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Fail the other drains of an atomic group if one of its drains failed."""
    culprits = {drain.begun.group: drain.name for drain in drains if drain.has_failed_now}
    for drain in drains:
        group = drain.begun.group
        is_left = not drain.has_ended and drain.progress.failure is None and drain.progress.deleting_s is None
        if is_left and group in culprits and context.is_atomic(group):
            drain.fail(DrainFailureReason.GROUP_FAILED, culprits[group])


def roll_back(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Remove taint and cordon from the nodes of failed drains."""
    for drain in drains:
        if drain.progress.failure is not None and not drain.has_ended and drain.node is not None:
            _roll_back_node(drain, drain.node, context)


def _roll_back_node(drain: NodeDrain, node: facts.Node, context: ActuationContext) -> None:
    if node_deletion.has_lost_machine(node, context.groups.get(drain.begun.group)):
        drain.end(DrainPhase.GONE)
        return
    uncordons = _is_uncordoned(drain, context)
    is_clean = not drain.is_tainted and not (uncordons and node.unschedulable)
    undone_s, now_s = drain.progress.undone_s, context.now_s
    if is_clean and (undone_s is not None or drain.progress.asked_s is None):
        drain.end(DrainPhase.ROLLED_BACK)
        return
    if undone_s is None or now_s >= undone_s + ROLLBACK_RETRY_S:
        drain.instructions.append(plan.RemoveTaint(drain.name, taints.TO_BE_DELETED_KEY))
        if uncordons:
            drain.instructions.append(plan.Cordon(drain.name, cordoned=False))
        drain.update(undone_s=now_s)
        undone_s = now_s
    drain.wait(DrainPhase.ROLLING_BACK, undone_s + ROLLBACK_RETRY_S)


def _is_uncordoned(drain: NodeDrain, context: ActuationContext) -> bool:
    settings = context.settings
    keeps = drain.begun.was_cordoned and settings.deviations.keep_cordons
    return settings.drain.cordon_node_before_terminating and not keeps


@dataclass(frozen=True, slots=True)
class AbandonedDrains:
    """Nodes with the deletion taint, but without a drain in memory."""

    drains: Mapping[str, StartedDrain] = field(default_factory=dict)
    """Those whose taint is so old that its drain was abandoned; they are rolled back."""
    next_s: float = float("inf")
    """When the next taint becomes that old."""


def find_abandoned(drains: Mapping[str, StartedDrain], context: ActuationContext) -> AbandonedDrains:
    """Find deletion taints without a drain in memory, on nodes whose machine is not being deleted."""
    now_s, observation = context.now_s, context.observation
    marked = [
        node
        for node in observation.nodes
        if node.name not in drains and taints.has_taint(node, taints.TO_BE_DELETED_KEY)
    ]
    group_of = observation.group_of_nodes() if marked else {}
    failure = DrainFailure(DrainFailureReason.ABANDONED, now_s)
    started_drains: dict[str, StartedDrain] = {}
    next_s = float("inf")
    for node in marked:
        group = group_of.get(node.name)
        if group is None or node_deletion.is_being_deleted(node, group):
            continue
        if taints.is_being_deleted(node, now_s):
            next_s = min(
                next_s, (taints.marked_at_s(node, taints.TO_BE_DELETED_KEY) or now_s) + taints.DELETION_TAKES_S
            )
        else:
            started_drains[node.name] = StartedDrain(
                group.id, now_s, True, uid=node.uid, progress=DrainProgress(failure=failure)
            )
    return AbandonedDrains(started_drains, next_s)


_TAINT_FAILURES = frozenset({DrainFailureReason.MARK_REFUSED, DrainFailureReason.MARK_NOT_SEEN})


def update_memory(durable: DurableMemory, drains: Sequence[NodeDrain], context: ActuationContext) -> DurableMemory:
    """The durable memory after this call."""
    for drain in drains:
        failure = drain.progress.failure
        if failure is not None and drain.has_failed_now:
            durable = _record_failure(durable, drain, failure.why, context)
        elif drain.progress.deleting_s is not None and drain.begun.progress.deleting_s is None:
            durable = _record_deletion(durable, drain, context.now_s)
    if context.settings.drain.dynamic_node_delete_delay_after_taint_enabled:
        durable = _record_latencies(durable, drains, context.now_s)
    remaining = {drain.name: _carry_over(drain) for drain in drains if not drain.has_ended}
    return durable if remaining == durable.drains else replace(durable, drains=remaining)


def _record_latencies(durable: DurableMemory, drains: Sequence[NodeDrain], now_s: float) -> DurableMemory:
    """Add this call's taint latencies. Expired ones are dropped only then, so that memory changes no more often."""
    measured = deletion_taint.measure_taint_latencies(drains)
    if not measured:
        return durable
    kept = deletion_taint.drop_expired_latencies((*durable.taint_latencies, *measured), now_s)
    return replace(durable, taint_latencies=kept)


def _carry_over(drain: NodeDrain) -> StartedDrain:
    return drain.begun if drain.progress is drain.begun.progress else replace(drain.begun, progress=drain.progress)


def _record_failure(
    durable: DurableMemory, drain: NodeDrain, reason: DrainFailureReason, context: ActuationContext
) -> DurableMemory:
    always = context.settings.deviations.pause_after_failed_drains
    if always or reason in _TAINT_FAILURES:
        durable = replace(durable, activity=replace(durable.activity, failed_s=context.now_s))
    if always or reason is DrainFailureReason.DELETION_REFUSED:
        durable = _update_activity(durable, drain, failed_s=context.now_s)
    return _drop_scale_down_request(durable, drain)


def _record_deletion(durable: DurableMemory, drain: NodeDrain, now_s: float) -> DurableMemory:
    """Record the scale-down request; its deadline starts when the deletion is requested."""
    durable = _update_activity(_drop_scale_down_request(durable, drain), drain, deleted_s=now_s)
    asked = scale_requests.register_scale_down(durable.health.requests, drain.begun.group, drain.name, now_s)
    return replace(durable, health=replace(durable.health, requests=asked))


def _update_activity(durable: DurableMemory, drain: NodeDrain, **times: float) -> DurableMemory:
    group = drain.begun.group
    activity = replace(durable.activities.get(group, ScaleActivity()), **times)
    return replace(durable, activities={**durable.activities, group: activity})


def _drop_scale_down_request(durable: DurableMemory, drain: NodeDrain) -> DurableMemory:
    asked = durable.health.requests
    remaining = tuple(
        scale_down_request for scale_down_request in asked.scale_downs if scale_down_request.node != drain.name
    )
    return replace(durable, health=replace(durable.health, requests=replace(asked, scale_downs=remaining)))


def resume_after_restart(drains: Mapping[str, StartedDrain]) -> dict[str, StartedDrain]:
    """The drains of the previous process, prepared to be continued."""
    return {name: replace(begun, progress=_forget_attempts(begun.progress)) for name, begun in drains.items()}


def _forget_attempts(progress: DrainProgress) -> DrainProgress:
    evicting = progress.evicting
    if evicting is not None:
        evicting = replace(evicting, tried={}, refused={})
        if evicting.accepted_s is None:  # restart the tier, so that each pod is tried before it times out
            evicting = replace(evicting, stage=NO_TIER)
    is_marking = progress.marked_s is None and progress.failure is None
    return replace(
        progress,
        asked_s=None if is_marking else progress.asked_s,
        evicting=evicting,
        may_be_unheard=progress.deleting_s is not None,
        undone_s=None,
    )
