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
"""How long a drain of a held group pauses before it fails."""


def pause_held_groups(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Pause the drains whose groups are held; fail those held too long."""
    if not context.observation.held:
        return
    for drain, node in find_open_drains(drains):
        held = loop_memory.find_hold(drain.begun.group, context.observation.held)
        if held is None or is_replaced_node(drain, node):
            continue
        until_s = context.held_since.get(held.id, context.now_s) + MAX_HOLD_S
        if drain.progress.deleting_s is not None:
            drain.wait(DrainPhase.DELETING, waits_for=(held.why,))
        elif context.now_s < until_s:
            drain.wait(DrainPhase.HELD, until_s, (held.why,))
        else:
            drain.fail(DrainFailureReason.GROUP_HELD, held.why)


def fail_owned_replicas(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Fail the drains whose machines another controller would replace. Requested deletions are waited for."""
    for drain, _ in find_open_drains(drains):
        group = context.groups.get(drain.begun.group)
        if group is None or group.replicas_owner is None or drain.progress.deleting_s is not None:
            continue
        if remediation.is_owned_elsewhere(group, context.settings.deviations):
            drain.fail(DrainFailureReason.REPLICAS_OWNED, group.replicas_owner.message)


_STATUS_DELAY_S = 15.0
"""Maximum delay of the provider's status of a machine that is being deleted."""


def detect_completion(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """End drains whose node is gone; follow deletions; fail drains whose taint was removed."""
    for drain in drains:
        if drain.node is None or is_replaced_node(drain, drain.node):
            drain.end(DrainPhase.GONE)
    for drain, node in find_open_drains(drains):
        if has_lost_machine(node, context.groups.get(drain.begun.group)):
            _await_node(drain, context)
        elif drain.progress.deleting_s is not None:
            _await_deletion(drain, node, drain.progress.deleting_s, context)
        elif drain.progress.marked_s is not None and not drain.is_tainted:
            drain.fail(DrainFailureReason.MARK_REMOVED)


def is_replaced_node(drain: NodeDrain, node: facts.Node) -> bool:
    """Whether the Node is a new one with the name of the drained one."""
    uid = drain.begun.uid
    if uid and node.uid:
        return uid != node.uid
    return drain.progress.deleting_s is not None and not drain.is_tainted


def _await_deletion(drain: NodeDrain, node: facts.Node, deleting_s: float, context: ActuationContext) -> None:
    until_s = deleting_s + scale_requests.MAX_NODE_DELETION_S
    group = context.groups.get(drain.begun.group)
    refusal = context.refused_deletions.get(drain.name)
    if refusal is not None:
        drain.fail(DrainFailureReason.DELETION_REFUSED, refusal)
    elif is_being_deleted(node, group):
        drain.update(leaving_s=drain.progress.leaving_s or context.now_s, staying_s=None)
        drain.wait(DrainPhase.DELETING, until_s if context.now_s < until_s else float("inf"))
    elif drain.progress.may_be_unheard:
        drain.instructions.append(plan.DeleteNode(drain.name, drain.begun.group))
        drain.update(may_be_unheard=False, deleting_s=context.now_s, leaving_s=None, staying_s=None)
        drain.wait(DrainPhase.DELETING, context.now_s + scale_requests.MAX_NODE_DELETION_S)
    elif drain.progress.leaving_s is not None and group is not None:
        _await_status(drain, context)
    elif context.now_s < until_s:
        drain.wait(DrainPhase.DELETING, until_s)
    else:
        drain.fail(DrainFailureReason.DELETION_TIMED_OUT)


def _await_node(drain: NodeDrain, context: ActuationContext) -> None:
    """The machine is gone; wait for the Node object to be deleted."""
    gone_s = context.now_s if drain.progress.gone_s is None else drain.progress.gone_s
    drain.update(gone_s=gone_s)
    if context.now_s < gone_s + scale_requests.MAX_NODE_DELETION_S:
        drain.wait(DrainPhase.DELETING, gone_s + scale_requests.MAX_NODE_DELETION_S)
    else:
        drain.end(DrainPhase.GONE)


def _await_status(drain: NodeDrain, context: ActuationContext) -> None:
    """The machine was being deleted and no longer is: wait for the status to settle, then fail."""
    staying_s = context.now_s if drain.progress.staying_s is None else drain.progress.staying_s
    drain.update(staying_s=staying_s)
    if context.now_s < staying_s + _STATUS_DELAY_S:
        drain.wait(DrainPhase.DELETING, staying_s + _STATUS_DELAY_S)
    else:
        drain.fail(DrainFailureReason.MACHINE_STAYED)


def is_being_deleted(node: facts.Node, group: node_groups.NodeGroup | None) -> bool:
    """Whether the provider reports the node's machine as being deleted."""
    instance = _find_instance(node, group)
    return instance is not None and instance.state == "Deleting"


def has_lost_machine(node: facts.Node, group: node_groups.NodeGroup | None) -> bool:
    """Whether the provider lists the group, but no machine of the node."""
    return group is not None and bool(node.provider_id) and _find_instance(node, group) is None


def _find_instance(node: facts.Node, group: node_groups.NodeGroup | None) -> node_groups.Instance | None:
    instances = () if group is None else group.instances
    return next((instance for instance in instances if instance.provider_id == node.provider_id), None)


DELAY_DELETION_PREFIX = "delay-deletion.cluster-autoscaler.kubernetes.io/"


def wait_for_delay_annotations(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Wait for delay-deletion annotations to be removed, or for their timeout."""
    timeout_s = context.settings.drain.node_deletion_delay_timeout_s
    for drain, node in find_open_drains(drains):
        emptied_s = drain.progress.emptied_s
        if emptied_s is None:
            continue
        holds = sorted(key for key in node.annotations if key.startswith(DELAY_DELETION_PREFIX))
        if holds and context.now_s < emptied_s + timeout_s:
            drain.wait(DrainPhase.HELD, emptied_s + timeout_s, holds)
        elif drain.progress.ready_s is None:
            drain.update(ready_s=context.now_s)


def delete_nodes(drains: Sequence[NodeDrain], context: ActuationContext) -> None:
    """Delete the nodes that are ready, group by group."""
    ready: dict[str, list[NodeDrain]] = {}
    for drain, _ in find_open_drains(drains):
        ready.setdefault(drain.begun.group, []).append(drain)
    for id, batch in ready.items():
        group = context.groups.get(id)
        if group is None:
            for drain in batch:
                drain.fail(DrainFailureReason.GROUP_MISSING)
        elif (reason := _find_deletion_blocker(group, batch, context)) is not None:
            for drain in batch:
                drain.fail(reason)
        elif not _wait_for_batch(id, batch, drains, context):
            _delete_batch(group, batch, context)


def _find_deletion_blocker(
    group: node_groups.NodeGroup, ready: Sequence[NodeDrain], context: ActuationContext
) -> DrainFailureReason | None:
    """Why the provider could delete other nodes than these if the group shrank now; None if it could not."""
    deviations = context.settings.deviations
    if group.is_rolling_out and deviations.leave_rollouts_alone:
        return DrainFailureReason.GROUP_ROLLS_OUT
    if not group.can_choose and deviations.never_shrink_blindly and len(ready) < group.target_size:
        return DrainFailureReason.CANNOT_CHOOSE
    return None


def _wait_for_batch(
    group: str, ready: Sequence[NodeDrain], drains: Sequence[NodeDrain], context: ActuationContext
) -> bool:
    """Whether the batch waits for more nodes; then their phase is set."""
    whole = context.is_atomic(group)
    if whole and (others := _find_unready(group, ready, drains)):
        for drain in ready:
            drain.wait(DrainPhase.GATHERING, waits_for=others)
        return True
    times = [drain.progress.ready_s or 0.0 for drain in ready]
    until_s = (max if whole else min)(times) + context.settings.drain.node_deletion_batcher_interval_s
    if context.now_s < until_s:
        for drain in ready:
            drain.wait(DrainPhase.GATHERING, until_s)
        return True
    return False


def _find_unready(group: str, ready: Sequence[NodeDrain], drains: Sequence[NodeDrain]) -> list[str]:
    """Other drains of the group that are not ready yet, or failed in this step."""
    names = {drain.name for drain in ready}
    return [
        drain.name
        for drain in drains
        if drain.begun.group == group
        and drain.name not in names
        and not drain.has_ended
        and (drain.has_failed_now or (drain.progress.failure is None and drain.progress.deleting_s is None))
    ]


def _delete_batch(group: node_groups.NodeGroup, ready: Sequence[NodeDrain], context: ActuationContext) -> None:
    room = max(group.target_size - group.min_size, 0)
    if context.is_atomic(group.id) and room < len(ready):
        room = 0
    for drain in ready[room:]:
        drain.fail(
            DrainFailureReason.MIN_SIZE_REACHED,
            f"{group.id} keeps at least {group.min_size} of {group.target_size} nodes",
        )
    for drain in ready[:room]:
        drain.instructions.append(plan.DeleteNode(drain.name, group.id))
        drain.update(deleting_s=context.now_s)
        drain.wait(DrainPhase.DELETING, context.now_s + scale_requests.MAX_NODE_DELETION_S)
