"""Rollback and bookkeeping: untaints nodes of failed drains, records failures and deletions in memory.

Taint and cordon are removed, again every 10 s, until they are seen to be gone. A node that was cordoned before stays
cordoned. One failure in an atomic group fails all drains of the group. After a failure scale-down pauses, for the
cluster or the group. After a restart everything without an observed effect is requested again: requests are
idempotent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine import taints
from windlass.engine.actuation import deletion, deletion_taint
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain
from windlass.engine.cluster_state import scale_requests
from windlass.engine.model import facts, plan
from windlass.engine.model.drains import NO_TIER, DrainFailure, DrainFailureReason, DrainPhase, DrainProgress
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.scale_down_state import ScaleActivity

ROLLBACK_RETRY_S = 10.0
"""When marks that are still seen are asked to be removed again."""


def fail_atomic_groups(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Spread failures to the other nodes of groups that are all or nothing."""
    culprits = {case.begun.group: case.name for case in cases if case.has_failed_now}
    for case in cases:
        group = case.begun.group
        is_left = not case.has_ended and case.progress.failure is None and case.progress.deleting_s is None
        if is_left and group in culprits and situation.is_atomic(group):
            case.fail(DrainFailureReason.GROUP_FAILED, culprits[group])


def roll_back(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Give nodes back whose drains failed."""
    for case in cases:
        if case.progress.failure is not None and not case.has_ended and case.node is not None:
            _roll_back_node(case, case.node, situation)


def _roll_back_node(case: NodeDrain, node: facts.Node, situation: ActuationContext) -> None:
    if deletion.has_lost_machine(node, situation.groups.get(case.begun.group)):
        case.end(DrainPhase.GONE)
        return
    uncordons = _is_uncordoned(case, situation)
    is_clean = not case.is_tainted and not (uncordons and node.unschedulable)
    undone_s, now_s = case.progress.undone_s, situation.now_s
    if is_clean and (undone_s is not None or case.progress.asked_s is None):
        case.end(DrainPhase.ROLLED_BACK)
        return
    if undone_s is None or now_s >= undone_s + ROLLBACK_RETRY_S:
        case.instructions.append(plan.RemoveTaint(case.name, taints.TO_BE_DELETED_KEY))
        if uncordons:
            case.instructions.append(plan.Cordon(case.name, cordoned=False))
        case.update(undone_s=now_s)
        undone_s = now_s
    case.wait(DrainPhase.ROLLING_BACK, undone_s + ROLLBACK_RETRY_S)


def _is_uncordoned(case: NodeDrain, situation: ActuationContext) -> bool:
    settings = situation.settings
    keeps = case.begun.was_cordoned and settings.deviations.keep_cordons
    return settings.drain.cordon_node_before_terminating and not keeps


@dataclass(frozen=True, slots=True)
class AbandonedDrains:
    """Nodes that are marked, and of which memory knows nothing."""

    drains: Mapping[str, StartedDrain] = field(default_factory=dict)
    """Those whose mark is so old that whoever set it has given up: to be given back."""
    next_s: float = float("inf")
    """When the next one is."""


def find_abandoned(drains: Mapping[str, StartedDrain], situation: ActuationContext) -> AbandonedDrains:
    """Look for marks of which memory knows nothing, on nodes that are not being deleted anyway."""
    now_s, seen = situation.now_s, situation.observation
    marked = [
        node for node in seen.nodes if node.name not in drains and taints.has_taint(node, taints.TO_BE_DELETED_KEY)
    ]
    group_of = seen.group_of_nodes() if marked else {}
    failure = DrainFailure(DrainFailureReason.ABANDONED, now_s)
    found: dict[str, StartedDrain] = {}
    next_s = float("inf")
    for node in marked:
        group = group_of.get(node.name)
        if group is None or deletion.is_being_deleted(node, group):
            continue
        if taints.is_being_deleted(node, now_s):
            next_s = min(
                next_s, (taints.marked_at_s(node, taints.TO_BE_DELETED_KEY) or now_s) + taints.DELETION_TAKES_S
            )
        else:
            found[node.name] = StartedDrain(
                group.id, now_s, True, uid=node.uid, progress=DrainProgress(failure=failure)
            )
    return AbandonedDrains(found, next_s)


_TAINT_FAILURES = frozenset({DrainFailureReason.MARK_REFUSED, DrainFailureReason.MARK_NOT_SEEN})


def update_memory(durable: DurableMemory, cases: Sequence[NodeDrain], situation: ActuationContext) -> DurableMemory:
    """The durable memory after this call."""
    for case in cases:
        failure = case.progress.failure
        if failure is not None and case.has_failed_now:
            durable = _record_failure(durable, case, failure.why, situation)
        elif case.progress.deleting_s is not None and case.begun.progress.deleting_s is None:
            durable = _record_deletion(durable, case, situation.now_s)
    if situation.settings.drain.dynamic_node_delete_delay_after_taint_enabled:
        durable = _keep_latencies(durable, cases, situation.now_s)
    drains = {case.name: _carry_over(case) for case in cases if not case.has_ended}
    return durable if drains == durable.drains else replace(durable, drains=drains)


def _keep_latencies(durable: DurableMemory, cases: Sequence[NodeDrain], now_s: float) -> DurableMemory:
    """With what this call measured. Old measurements are dropped with it, not before: memory would change for that."""
    measured = deletion_taint.measure_taint_latencies(cases)
    if not measured:
        return durable
    kept = deletion_taint.drop_expired_latencies((*durable.taint_latencies, *measured), now_s)
    return replace(durable, taint_latencies=kept)


def _carry_over(case: NodeDrain) -> StartedDrain:
    return case.begun if case.progress is case.begun.progress else replace(case.begun, progress=case.progress)


def _record_failure(
    durable: DurableMemory, case: NodeDrain, why: DrainFailureReason, situation: ActuationContext
) -> DurableMemory:
    always = situation.settings.deviations.pause_after_failed_drains
    if always or why in _TAINT_FAILURES:
        durable = replace(durable, activity=replace(durable.activity, failed_s=situation.now_s))
    if always or why is DrainFailureReason.DELETION_REFUSED:
        durable = _update_activity(durable, case, failed_s=situation.now_s)
    return _drop_scale_down_request(durable, case)


def _record_deletion(durable: DurableMemory, case: NodeDrain, now_s: float) -> DurableMemory:
    """The provider is told only now, so its time to delete starts now."""
    durable = _update_activity(_drop_scale_down_request(durable, case), case, deleted_s=now_s)
    asked = scale_requests.register_scale_down(durable.health.requests, case.begun.group, case.name, now_s)
    return replace(durable, health=replace(durable.health, requests=asked))


def _update_activity(durable: DurableMemory, case: NodeDrain, **times: float) -> DurableMemory:
    group = case.begun.group
    activity = replace(durable.activities.get(group, ScaleActivity()), **times)
    return replace(durable, activities={**durable.activities, group: activity})


def _drop_scale_down_request(durable: DurableMemory, case: NodeDrain) -> DurableMemory:
    asked = durable.health.requests
    left = tuple(one for one in asked.scale_downs if one.node != case.name)
    return replace(durable, health=replace(durable.health, requests=replace(asked, scale_downs=left)))


def resume_after_restart(drains: Mapping[str, StartedDrain]) -> dict[str, StartedDrain]:
    """The drains that another process left, to be gone on with."""
    return {name: replace(begun, progress=_forget_attempts(begun.progress)) for name, begun in drains.items()}


def _forget_attempts(progress: DrainProgress) -> DrainProgress:
    evicting = progress.evicting
    if evicting is not None:
        evicting = replace(evicting, tried={}, refused={})
        if evicting.accepted_s is None:  # the turn begins anew: each of its pods is asked before time is up
            evicting = replace(evicting, stage=NO_TIER)
    is_marking = progress.marked_s is None and progress.failure is None
    return replace(
        progress,
        asked_s=None if is_marking else progress.asked_s,
        evicting=evicting,
        may_be_unheard=progress.deleting_s is not None,
        undone_s=None,
    )
