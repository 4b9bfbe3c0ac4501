"""Events about pods, nodes, node groups and buffers, with Cluster Autoscaler's reasons and messages.

Scale-up: TriggeredScaleUp, NotTriggerScaleUp, limits, priorities, external expander. Scale-down: drains that started,
failed or ended. Health: nodes that did not register, unhealthy clusters.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from windlass import errors
from windlass.engine import drain_loop
from windlass.engine.cluster_state import scale_requests
from windlass.engine.expanders import priority
from windlass.engine.model import cluster_health, facts, node_groups, plan, scale_up_status
from windlass.engine.model.decision_record import NOT_ACTIONABLE, BufferScaleUp, DecisionRecord, LoopStop
from windlass.engine.model.drains import DrainFailure, DrainFailureReason, DrainStatus
from windlass.engine.model.durable_memory import StartedDrain
from windlass.engine.model.provisioning import consumed_request
from windlass.engine.model.scale_down_state import NodeUtilization
from windlass.engine.model.scale_up_status import (
    GroupIncrease,
    PodEquivalenceGroup,
    ResponseEffect,
    ScaleUpProposal,
    ScaleUpResult,
)
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.quarantine import Faults
from windlass.explain import decision_view
from windlass.explain.decision_view import MAX_NODES_TOTAL_REACHED, DecisionView
from windlass.kube import time_formats
from windlass.kube.events import NORMAL, WARNING, EventOccurrence, InvolvedObject
from windlass.observability import metric_definitions, options

NODE_TAINTED = "marked the node as toBeDeleted/unschedulable"

NODES_REMOVED = "nodes removed by cluster autoscaler"

POD_EVICTED = "deleting pod for node scale down"

POD_NOT_EVICTED = "failed to delete pod for ScaleDown"

CLUSTER_UNHEALTHY = "Cluster is unhealthy"

NO_NODES = "Cluster has no nodes."

NO_READY_NODES = "Cluster has no ready nodes."


def describe_not_actionable(stop: LoopStop | None) -> str:
    """Describe why a cluster without ready nodes is not scaled; empty if it is."""
    if stop is LoopStop.NO_NODES:
        return NO_NODES
    return NO_READY_NODES if stop in NOT_ACTIONABLE else ""


def describe_setting_size(resize: plan.Resize) -> str:
    return f"Scale-up: setting group {resize.group} size to {_describe_sizes(resize)}"


def describe_size_set(resize: plan.Resize) -> str:
    return f"Scale-up: group {resize.group} size set to {_describe_sizes(resize)}"


def _describe_sizes(resize: plan.Resize) -> str:
    return f"{resize.to_size} instead of {resize.from_size} (max: {resize.max_size})"


def describe_increases(increases: tuple[GroupIncrease, ...]) -> str:
    """`[{group 1->6 (max: 10)} {other 0->2 (max: 3)}]`"""
    parts = (
        f"{{{increase.group.id} {increase.group.size}->{increase.new_size} (max: {increase.group.max_size})}}"
        for increase in increases
    )
    return f"[{' '.join(parts)}]"


def describe_max_total(limit: int) -> str:
    return f"Max total nodes in cluster reached: {limit}"


def describe_taint_failure(said: str) -> str:
    return f"failed to mark the node as toBeDeleted/unschedulable: {said}"


def format_utilization(node_utilization: NodeUtilization | None) -> str:
    """Format utilization: cpu, memory, GPUs and devices, then the dominant one: `{0.25 0 0 0 cpu 0.25}`."""
    if node_utilization is None:
        return "{0 0 0 0  0}"
    shares = (node_utilization.cpu, node_utilization.memory, node_utilization.gpu, 0.0)
    printed = " ".join(map(metric_definitions.format_go_float, shares))
    return (
        f"{{{printed} {node_utilization.resource} {metric_definitions.format_go_float(node_utilization.utilization)}}}"
    )


def format_error_code(error: node_groups.InstanceError) -> str:
    """Format error class and code: `OutOfResource.QUOTA_EXCEEDED`."""
    kind = "OutOfResource" if error.kind == "OutOfResources" else error.kind
    return f"{kind}.{error.code}"


_MAX_CONSUMERS = 50


def node_reference(node: facts.Node) -> InvolvedObject:
    return InvolvedObject("v1", "Node", node.name, uid=node.uid)


def pod_reference(observation: Observation, row: int) -> InvolvedObject:
    pods = observation.snapshot.pods
    return InvolvedObject("v1", "Pod", pods.names[row], pods.template_key(row).namespace, pods.uids[row])


def triggered_scale_up_events(
    observation: Observation, story: DecisionRecord
) -> Iterator[tuple[ScaleUpProposal, list[EventOccurrence]]]:
    """Return TriggeredScaleUp events for the pods of each scale-up round."""
    for proposal in story.scale_ups:
        if proposal.result is ScaleUpResult.SUCCESSFUL and proposal.increases:
            message = f"pod triggered scale-up: {describe_increases(proposal.increases)}"
            yield (
                proposal,
                [
                    EventOccurrence(pod_reference(observation, row), NORMAL, "TriggeredScaleUp", message)
                    for row in proposal.helped
                ],
            )


def not_triggered_events(observation: Observation, story: DecisionRecord) -> Iterator[EventOccurrence]:
    """Return NotTriggerScaleUp events for pods that no group fits. Rounds that resize a group report no other pods."""
    existing = frozenset(group.id for group in observation.groups if group.exists)
    for proposal in story.scale_ups:
        if proposal.result in (ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR):
            continue
        for alike in proposal.remaining:
            message = f"pod didn't trigger scale-up: {format_rejected_reasons(proposal, alike, existing)}"
            for row in alike.rows:
                yield EventOccurrence(pod_reference(observation, row), NORMAL, "NotTriggerScaleUp", message)


def unevaluated_pod_events(observation: Observation, faults: Faults) -> Iterator[EventOccurrence]:
    """Return events for pending pods that cannot be evaluated, with the reason; limited per loop."""
    if not faults:
        return
    table, left_out = observation.snapshot.pods, observation.left_out
    rows = [row for row in observation.snapshot.pending() if left_out.excludes_pending(table.template_key(row))]
    for row in rows[:_MAX_CONSUMERS]:
        kind = table.template_key(row)
        error = next(
            fault.error for fault in faults if fault.suspect.value == kind or fault.suspect.name == kind.namespace
        )
        message = f"pod didn't trigger scale-up: it could not be evaluated: {error}"
        yield EventOccurrence(pod_reference(observation, row), NORMAL, "NotTriggerScaleUp", message)


def consumer_events(observation: Observation, story: DecisionRecord) -> Iterator[EventOccurrence]:
    """Return events for pending pods that consume a ProvisioningRequest and so trigger no scale-up; limited per
    loop.
    """
    for row in story.requests.ignored[:_MAX_CONSUMERS]:
        kind = observation.snapshot.pods.template_key(row)
        name = consumed_request(dict(kind.annotations))
        message = f"pod didn't trigger scale-up: it uses ProvisioningRequest {kind.namespace}/{name}"
        yield EventOccurrence(pod_reference(observation, row), NORMAL, "NotTriggerScaleUp", message)


def format_rejected_reasons(proposal: ScaleUpProposal, alike: PodEquivalenceGroup, existing: frozenset[str]) -> str:
    """Format the reasons of groups, with counts."""
    if proposal.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
        return MAX_NODES_TOTAL_REACHED
    return scale_up_status.count_rejected_reasons(proposal, alike, existing)


def limit_events(
    observation: Observation, story: DecisionRecord, settings: Settings, status: InvolvedObject
) -> Iterator[EventOccurrence]:
    """Return an event if --max-nodes-total was reached."""
    limit = settings.limits.max_nodes_total
    if limit > 0 and _reaches_limit(limit, observation, story):
        yield EventOccurrence(status, WARNING, "MaxNodesTotalReached", describe_max_total(limit))


def _reaches_limit(limit: int, observation: Observation, story: DecisionRecord) -> bool:
    upcoming = story.repairs.upcoming.values()
    nodes = len(observation.nodes) + sum(
        upcoming_nodes.nodes - len(upcoming_nodes.not_started) for upcoming_nodes in upcoming
    )
    for proposal in story.scale_ups:
        if proposal.result is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL:
            return True
        best = proposal.choice.winner if proposal.choice is not None else None
        if best is not None and best.node_count + nodes > limit:
            return True
        nodes += sum(increase.added for increase in proposal.increases)
    return False


def priority_events(observation: Observation, story: DecisionRecord, namespace: str) -> Iterator[EventOccurrence]:
    """Return events of groups that no rule of the priority expander matches."""
    if not observation.priorities:
        return
    about = InvolvedObject("v1", "ConfigMap", options.PRIORITY_CONFIG_MAP, namespace)
    for proposal in story.scale_ups:
        candidates = _priority_candidates(proposal)
        unmatched = [group for group in candidates if priority.find_priority(group, observation.priorities) is None]
        for group in unmatched:
            message = (
                f"Priority expander: node group {group} not found in priority expander configuration. "
                "The group won't be used."
            )
            yield EventOccurrence(about, WARNING, "PriorityConfigMapNotMatchedGroup", message)
        if candidates and len(unmatched) == len(candidates):
            message = (
                "Priority expander: no priorities info found for any of the expansion options. No options filtered."
            )
            yield EventOccurrence(about, WARNING, "PriorityConfigMapNoGroupMatched", message)


def _priority_candidates(proposal: ScaleUpProposal) -> Sequence[str]:
    """Return the groups that the priority expander chose from."""
    names = [name for name, _ in proposal.choice.steps] if proposal.choice is not None else []
    if proposal.choice is None or "priority" not in names:
        return ()
    position = names.index("priority")
    if position > 0:
        return [option.group for option in proposal.choice.steps[position - 1][1]]
    return sorted({group for alike in proposal.considered for group in alike.accepted})


def expander_events(observation: Observation, status: InvolvedObject) -> Iterator[EventOccurrence]:
    """Return events of failed gRPC expander calls."""
    for opinion in observation.opinions:
        if opinion.effect in (ResponseEffect.FAILED, ResponseEffect.NO_OPTION):
            yield EventOccurrence(status, WARNING, "GRPCExpanderFailed", decision_view.describe_opinion(opinion))


def invalid_priority_events(namespace: str, complaints: Iterable[errors.InvalidObject]) -> Iterator[EventOccurrence]:
    """Return an event for invalid priority rules; the last valid rules apply."""
    for complaint in complaints:
        if (complaint.kind, complaint.name) == ("ConfigMap", f"{namespace}/{options.PRIORITY_CONFIG_MAP}"):
            about = InvolvedObject("v1", "ConfigMap", options.PRIORITY_CONFIG_MAP, namespace)
            message = f"Wrong configuration for priority expander: {complaint}. Ignoring update."
            yield EventOccurrence(about, WARNING, "PriorityConfigMapInvalid", message)


def _buffer_references(buffer_scale_up: BufferScaleUp) -> Iterator[InvolvedObject]:
    owner = buffer_scale_up.like.owner
    if owner is not None:
        yield InvolvedObject(owner.api_version, owner.kind, owner.name, buffer_scale_up.like.namespace, owner.uid)


def buffer_triggered_events(story: DecisionRecord) -> Iterator[tuple[ScaleUpProposal, list[EventOccurrence]]]:
    """Return events for buffers whose pods triggered a scale-up."""
    for buffer_scale_up in story.buffers:
        if buffer_scale_up.proposal.result is ScaleUpResult.SUCCESSFUL and not buffer_scale_up.remaining:
            raised = describe_increases(buffer_scale_up.proposal.increases)
            message = f"capacity buffer {buffer_scale_up.pods} fake pods triggered scale-up: {raised}"
            yield (
                buffer_scale_up.proposal,
                [
                    EventOccurrence(about, NORMAL, "TriggeredScaleUp", message)
                    for about in _buffer_references(buffer_scale_up)
                ],
            )


def buffer_not_triggered_events(observation: Observation, story: DecisionRecord) -> Iterator[EventOccurrence]:
    """Return events for buffers with pods that no group fits, and why."""
    existing = frozenset(group.id for group in observation.groups if group.exists)
    for buffer_scale_up in story.buffers:
        if not buffer_scale_up.remaining or buffer_scale_up.proposal.result in (
            ScaleUpResult.SUCCESSFUL,
            ScaleUpResult.ERROR,
        ):
            continue
        reasons = dict.fromkeys(
            format_rejected_reasons(buffer_scale_up.proposal, alike, existing) for alike in buffer_scale_up.remaining
        )
        message = f"capacity buffer {buffer_scale_up.pods} fake pods didn't trigger scale-up: {','.join(reasons)}"
        yield from (
            EventOccurrence(about, NORMAL, "NotTriggerScaleUp", message)
            for about in _buffer_references(buffer_scale_up)
        )


UNREPORTED_FAILURES = frozenset(
    {DrainFailureReason.MARK_REFUSED, DrainFailureReason.BATCH_FAILED, DrainFailureReason.ABANDONED}
)
"""Failures without an event of their own: rejections have one already, and nodes removed because another of their group
failed, or in a clean-up, have not failed."""


def drain_started_events(view: DecisionView, status: InvolvedObject) -> Iterator[EventOccurrence]:
    """Return events of nodes chosen for scale-down."""
    for drain in view.deletions:
        if view.drains[drain.node].is_empty:
            yield EventOccurrence(status, NORMAL, "ScaleDownEmpty", f'Scale-down: removing empty node "{drain.node}"')
            continue
        used = view.evaluation.eligibility.utilization_of(drain.node) if view.evaluation is not None else None
        pods = ",".join(key.partition("/")[2] for key in drain.evict)
        message = (
            f"Scale-down: removing node {drain.node}, "
            f"utilization: {format_utilization(used)}, pods to reschedule: {pods}"
        )
        yield EventOccurrence(status, NORMAL, "ScaleDown", message)


def node_removed_event(node: str, drain: StartedDrain | None, status: InvolvedObject) -> EventOccurrence:
    """Return the event of a node whose deletion the provider accepted."""
    if drain is not None and drain.is_empty:
        return EventOccurrence(status, NORMAL, "ScaleDownEmpty", f"Scale-down: empty node {node} removed")
    return EventOccurrence(status, NORMAL, "ScaleDown", f"Scale-down: node {node} removed with drain")


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def find_failed_drains(
    advanced: drain_loop.DrainLoopResult, before: Mapping[str, StartedDrain]
) -> Iterator[tuple[DrainStatus, DrainFailure, bool]]:
    """Return drains that failed now, and whether their nodes were empty. `before`: the previous drains."""
    for drain in advanced.story:
        previous = before.get(drain.node)
        started = advanced.memory.durable.drains.get(drain.node) or previous
        if drain.failure is not None and (previous is None or previous.progress.failure != drain.failure):
            yield drain, drain.failure, started is not None and started.is_empty


def find_unevicted_pods(failure: DrainFailure) -> list[str]:
    """Return pods, as namespace/name, whose eviction timed out."""
    if failure.why is not DrainFailureReason.EVICTION_REFUSED:
        return []
    return [detail.partition(": ")[0] for detail in failure.details]


def drain_failed_events(
    observation: Observation, advanced: drain_loop.DrainLoopResult, before: Mapping[str, StartedDrain]
) -> Iterator[EventOccurrence]:
    """Return events of failed drains: for the node, and for pods that could not be evicted."""
    table = observation.snapshot.nodes
    for drain, failure, is_empty in find_failed_drains(advanced, before):
        for key in find_unevicted_pods(failure):
            yield EventOccurrence(
                _evicted_pod_reference(observation, drain.node, key), WARNING, "ScaleDownFailed", POD_NOT_EVICTED
            )
        if failure.why in UNREPORTED_FAILURES or drain.node not in table.rows:
            continue
        node = table.facts[table.rows[drain.node]]
        message = _describe_failure(node, drain.group, failure, is_empty)
        yield EventOccurrence(node_reference(node), WARNING, "ScaleDownFailed", message)


def _evicted_pod_reference(observation: Observation, node: str, key: str) -> InvolvedObject:
    snapshot = observation.snapshot
    namespace, _, name = key.partition("/")
    row = snapshot.nodes.rows.get(node)
    pods = () if row is None else snapshot.pods_on(row)
    uid = next((snapshot.pods.uids[pod] for pod in pods if snapshot.pods.key(pod) == key), "")
    return InvolvedObject("v1", "Pod", name, namespace, uid)


def _describe_failure(node: facts.Node, group: str, failure: DrainFailure, is_empty: bool) -> str:
    if failure.why is DrainFailureReason.MARK_NOT_SEEN:
        return describe_taint_failure("the taint was set and does not appear")
    did = "failed to delete empty node" if is_empty else "failed to drain and delete node"
    return f"{did}: {_explain_failure(node.name, group, failure)}"


def _explain_failure(node: str, group: str, failure: DrainFailure) -> str:
    """Describe a failure in Cluster Autoscaler's words, where it has any."""
    details = ", ".join(failure.details)
    match failure.why:
        case DrainFailureReason.EVICTION_REFUSED:
            refused = " ".join(map(_explain_eviction, failure.details))
            return f"Failed to drain node /{node}, due to following errors: [{refused}]"
        case DrainFailureReason.PODS_STAYED:
            return f"Failed to drain node /{node}: pods remaining after timeout"
        case DrainFailureReason.BLOCKED_BY_POD:
            return f'GetPodsToMove for "{node}" returned error: {details}'
        case DrainFailureReason.NO_PLACE_TO_MOVE_PODS:
            return f"no place to move pod {details}"
        case DrainFailureReason.NOT_EMPTY:
            return f'failed to delete empty node "{node}", new pods scheduled'
        case DrainFailureReason.GROUP_FAILED:
            return "couldn't scale down other nodes in this node group"
        case DrainFailureReason.DELETION_REFUSED:
            return f"failed to delete nodes from group {group}: {details}"
        case DrainFailureReason.MIN_SIZE_REACHED:
            return f"failed to delete nodes from group {group}: min size reached, nodes will not be deleted"
        case DrainFailureReason.GROUP_MISSING:
            return f"picked node that doesn't belong to a node group: {node}"
        case DrainFailureReason.DELETION_TIMED_OUT:
            return f"group {group} agreed to delete the node, and it is still there"
        case DrainFailureReason.MACHINE_STAYED:
            return f"group {group} was deleting the node and is not any more: another machine went, or it grew again"
        case DrainFailureReason.MARK_REMOVED:
            return "someone else removed the taint"
        case _:
            return f"{failure.why}: {details}" if details else str(failure.why)


def _explain_eviction(detail: str) -> str:
    pod, _, said = detail.partition(": ")
    return f"failed to evict pod {pod} within allowed timeout (last error: {said or '<nil>'})"


def health_events(story: DecisionRecord, status: InvolvedObject, now_s: float) -> Iterator[EventOccurrence]:
    """Return events of a loop's health checks, before remediation."""
    for failure in story.health.failures:
        yield _scale_up_failed_event(failure, status, now_s)
    stop = story.repairs.stop
    if said := describe_not_actionable(stop):
        if stop is not LoopStop.NO_READY_NODES_YET:
            yield EventOccurrence(status, WARNING, "ClusterUnhealthy", said)
    elif not story.health.verdict.is_healthy:
        yield EventOccurrence(status, WARNING, "ClusterUnhealthy", CLUSTER_UNHEALTHY)


def _scale_up_failed_event(
    failure: cluster_health.ScaleUpFailure, status: InvolvedObject, now_s: float
) -> EventOccurrence:
    if failure.error.code == scale_requests.TIMEOUT_CODE:
        took = time_formats.format_duration(now_s - failure.requested_s)
        message = f"Nodes added to group {failure.group} failed to register within {took}"
        return EventOccurrence(status, WARNING, "ScaleUpTimedOut", message)
    message = (
        f"Failed adding {failure.nodes} nodes to group {failure.group} due to {format_error_code(failure.error)}; "
        f"source errors: {failure.error.message}"
    )
    return EventOccurrence(status, WARNING, "ScaleUpFailed", message)


def replicas_owned_events(
    groups: Collection[node_groups.NodeGroup], known: Collection[str]
) -> Iterator[EventOccurrence]:
    """Return warnings about groups whose size another controller manages, except `known` ones."""
    for group in groups:
        owner = group.replicas_owner
        if owner is not None and group.id not in known:
            message = f"Node group cannot be scaled: {owner.message}"
            reason = "TopologyOwnsReplicas" if owner.is_topology else "ReplicasManagedExternally"
            yield EventOccurrence(_group_reference(group.id, owner), WARNING, reason, message)


def _group_reference(id: str, owner: node_groups.ReplicasOwner) -> InvolvedObject:
    kind, _, key = id.partition("/")
    namespace, _, name = key.partition("/")
    return InvolvedObject(owner.api_version, kind, name, namespace, owner.uid)
