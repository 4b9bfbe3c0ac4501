"""Node deletion: batches drained nodes, deletes them, detects the end; drains of held groups pause.

Annotations `delay-deletion.cluster-autoscaler.kubernetes.io/…` hold a drained node for --node-deletion-delay-timeout
at most. Nodes of a group are batched for --node-deletion-batcher-interval; those of an atomic group until all are
ready. No group goes below its minimum. A deletion that the provider does not start within five minutes, or drops,
fails the drain.
"""

from collections.abc import Sequence

from windlass.engine import loop_memory
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.cluster_state import remediation, scale_requests
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.drains import DrainFailureReason, DrainPhase

MAX_HOLD_S = 300.0
"""How long a drain rests before its node is given back."""


def pause_held_groups(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Settle the cases whose groups are held."""
    if not situation.observation.held:
        return
    for case, node in find_open_drains(cases):
        held = loop_memory.find_hold(case.begun.group, situation.observation.held)
        if held is None or is_replaced_node(case, node):
            continue
        until_s = situation.held_since.get(held.id, situation.now_s) + MAX_HOLD_S
        if case.progress.deleting_s is not None:
            case.wait(DrainPhase.DELETING, waits_for=(held.why,))
        elif situation.now_s < until_s:
            case.wait(DrainPhase.HELD, until_s, (held.why,))
        else:
            case.fail(DrainFailureReason.GROUP_HELD, held.why)


def fail_owned_replicas(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Fail the cases whose machines another controller would replace. A machine that was told to go is waited for."""
    for case, _ in find_open_drains(cases):
        group = situation.groups.get(case.begun.group)
        if group is None or group.replicas_owner is None or case.progress.deleting_s is not None:
            continue
        if remediation.is_owned_elsewhere(group, situation.settings.deviations):
            case.fail(DrainFailureReason.REPLICAS_OWNED, group.replicas_owner.message)


_STATUS_DELAY_S = 15.0
"""How late one may hear that a machine is being deleted after all."""


def detect_completion(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Settle the cases whose end has come or is no longer ours to bring about."""
    for case in cases:
        if case.node is None or is_replaced_node(case, case.node):
            case.end(DrainPhase.GONE)
    for case, node in find_open_drains(cases):
        if has_lost_machine(node, situation.groups.get(case.begun.group)):
            _await_node(case, situation)
        elif case.progress.deleting_s is not None:
            _await_deletion(case, node, case.progress.deleting_s, situation)
        elif case.progress.marked_s is not None and not case.is_tainted:
            case.fail(DrainFailureReason.MARK_REMOVED)


def is_replaced_node(case: NodeDrain, node: facts.Node) -> bool:
    """Has a new node come under the name of one that is gone?"""
    uid = case.begun.uid
    if uid and node.uid:
        return uid != node.uid
    return case.progress.deleting_s is not None and not case.is_tainted


def _await_deletion(case: NodeDrain, node: facts.Node, deleting_s: float, situation: ActuationContext) -> None:
    until_s = deleting_s + scale_requests.MAX_NODE_DELETION_S
    group = situation.groups.get(case.begun.group)
    said = situation.refused_deletions.get(case.name)
    if said is not None:
        case.fail(DrainFailureReason.DELETION_REFUSED, said)
    elif is_being_deleted(node, group):
        case.update(leaving_s=case.progress.leaving_s or situation.now_s, staying_s=None)
        case.wait(DrainPhase.DELETING, until_s if situation.now_s < until_s else float("inf"))
    elif case.progress.may_be_unheard:
        case.instructions.append(plan.DeleteNode(case.name, case.begun.group))
        case.update(may_be_unheard=False, deleting_s=situation.now_s, leaving_s=None, staying_s=None)
        case.wait(DrainPhase.DELETING, situation.now_s + scale_requests.MAX_NODE_DELETION_S)
    elif case.progress.leaving_s is not None and group is not None:
        _await_status(case, situation)
    elif situation.now_s < until_s:
        case.wait(DrainPhase.DELETING, until_s)
    else:
        case.fail(DrainFailureReason.DELETION_TIMED_OUT)


def _await_node(case: NodeDrain, situation: ActuationContext) -> None:
    """Its machine is gone, and its Node object is not yet."""
    gone_s = situation.now_s if case.progress.gone_s is None else case.progress.gone_s
    case.update(gone_s=gone_s)
    if situation.now_s < gone_s + scale_requests.MAX_NODE_DELETION_S:
        case.wait(DrainPhase.DELETING, gone_s + scale_requests.MAX_NODE_DELETION_S)
    else:
        case.end(DrainPhase.GONE)


def _await_status(case: NodeDrain, situation: ActuationContext) -> None:
    """Its machine was going, and does not seem to go any more."""
    staying_s = situation.now_s if case.progress.staying_s is None else case.progress.staying_s
    case.update(staying_s=staying_s)
    if situation.now_s < staying_s + _STATUS_DELAY_S:
        case.wait(DrainPhase.DELETING, staying_s + _STATUS_DELAY_S)
    else:
        case.fail(DrainFailureReason.MACHINE_STAYED)


def is_being_deleted(node: facts.Node, group: node_groups.NodeGroup | None) -> bool:
    """Does the provider say that it is deleting the node's machine?"""
    instance = _find_instance(node, group)
    return instance is not None and instance.state == "Deleting"


def has_lost_machine(node: facts.Node, group: node_groups.NodeGroup | None) -> bool:
    """Does the provider know the group, and no machine of the node any more?"""
    return group is not None and bool(node.provider_id) and _find_instance(node, group) is None


def _find_instance(node: facts.Node, group: node_groups.NodeGroup | None) -> node_groups.Instance | None:
    instances = () if group is None else group.instances
    return next((one for one in instances if one.provider_id == node.provider_id), None)


DELAY_DELETION_PREFIX = "delay-deletion.cluster-autoscaler.kubernetes.io/"


def wait_for_delay_annotations(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Let those cases go on whose nodes nobody holds."""
    timeout_s = situation.settings.drain.node_deletion_delay_timeout_s
    for case, node in find_open_drains(cases):
        emptied_s = case.progress.emptied_s
        if emptied_s is None:
            continue
        holds = sorted(key for key in node.annotations if key.startswith(DELAY_DELETION_PREFIX))
        if holds and situation.now_s < emptied_s + timeout_s:
            case.wait(DrainPhase.HELD, emptied_s + timeout_s, holds)
        elif case.progress.ready_s is None:
            case.update(ready_s=situation.now_s)


def delete_nodes(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Delete the nodes for which it is time, group by group."""
    ready: dict[str, list[NodeDrain]] = {}
    for case, _ in find_open_drains(cases):
        ready.setdefault(case.begun.group, []).append(case)
    for id, together in ready.items():
        group = situation.groups.get(id)
        if group is None:
            for case in together:
                case.fail(DrainFailureReason.GROUP_MISSING)
        elif (why := _find_deletion_blocker(group, together, situation)) is not None:
            for case in together:
                case.fail(why)
        elif not _wait_for_batch(id, together, cases, situation):
            _delete_batch(group, together, situation)


def _find_deletion_blocker(
    group: node_groups.NodeGroup, ready: Sequence[NodeDrain], situation: ActuationContext
) -> DrainFailureReason | None:
    """Why others than these nodes might go if the group shrank now."""
    chosen = situation.settings.deviations
    if group.is_rolling_out and chosen.leave_rollouts_alone:
        return DrainFailureReason.GROUP_ROLLS_OUT
    if not group.can_choose and chosen.never_shrink_blindly and len(ready) < group.target_size:
        return DrainFailureReason.CANNOT_CHOOSE
    return None


def _wait_for_batch(
    group: str, ready: Sequence[NodeDrain], cases: Sequence[NodeDrain], situation: ActuationContext
) -> bool:
    """Are others waited for?"""
    whole = situation.is_atomic(group)
    if whole and (others := _find_unready(group, ready, cases)):
        for case in ready:
            case.wait(DrainPhase.GATHERING, waits_for=others)
        return True
    times = [case.progress.ready_s or 0.0 for case in ready]
    until_s = (max if whole else min)(times) + situation.settings.drain.node_deletion_batcher_interval_s
    if situation.now_s < until_s:
        for case in ready:
            case.wait(DrainPhase.GATHERING, until_s)
        return True
    return False


def _find_unready(group: str, ready: Sequence[NodeDrain], cases: Sequence[NodeDrain]) -> list[str]:
    """Nodes of the group that are still on their way, or failed just now."""
    names = {case.name for case in ready}
    return [
        case.name
        for case in cases
        if case.begun.group == group
        and case.name not in names
        and not case.has_ended
        and (case.has_failed_now or (case.progress.failure is None and case.progress.deleting_s is None))
    ]


def _delete_batch(group: node_groups.NodeGroup, ready: Sequence[NodeDrain], situation: ActuationContext) -> None:
    room = max(group.target_size - group.min_size, 0)
    if situation.is_atomic(group.id) and room < len(ready):
        room = 0
    for case in ready[room:]:
        case.fail(
            DrainFailureReason.MIN_SIZE_REACHED,
            f"{group.id} keeps at least {group.min_size} of {group.target_size} nodes",
        )
    for case in ready[:room]:
        case.instructions.append(plan.DeleteNode(case.name, group.id))
        case.update(deleting_s=situation.now_s)
        case.wait(DrainPhase.DELETING, situation.now_s + scale_requests.MAX_NODE_DELETION_S)
