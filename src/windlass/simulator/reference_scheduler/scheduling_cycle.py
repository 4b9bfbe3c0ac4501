"""Scheduling cycle: filter the nodes, choose one, or return the failure and the preemption victims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.simulator.reference_scheduler import (
    cluster_view,
    filters,
    framework,
    node_scores,
    preemption,
    volume_binding,
)
from windlass.simulator.reference_scheduler.cluster_view import (
    ClusterView,
    Json,
    NodeView,
    annotations_of,
    is_terminating,
    nominated_node_of,
    priority_of,
)
from windlass.simulator.reference_scheduler.framework import Rejection, StatusCode

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

NO_CLAIMS_TO_DEALLOCATE = "no new claims to deallocate, preemption: "
"""The scheduler asks its DynamicResources plugin before it preempts; this is the answer for a pod without claims."""
CLAIM_STATE_NOT_FOUND = "not found"
"""The same plugin's answer if another plugin rejected the pod in PreFilter. Preemption is not tried then."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node for a pod, and the binding of its unbound claims."""

    pod: Json
    node_name: str
    volumes: volume_binding.PodVolumes = field(default_factory=volume_binding.PodVolumes)


@dataclass(frozen=True, slots=True)
class SchedulingFailure:
    """The content of the PodScheduled condition, and the preemption victims."""

    pod: Json
    reason: str
    """Of the condition: `Unschedulable` or `SchedulerError`."""
    message: str
    refusals: Mapping[str, Rejection] = field(default_factory=dict)
    """Rejections by node, for the nodes that were filtered."""
    nominated_node: str | None = None
    """What `status.nominatedNodeName` becomes: empty to clear it, None to leave it as it is."""
    victims: tuple[Json, ...] = ()
    """Pods to delete, by priority, without those that are terminating already."""
    denominated: tuple[Json, ...] = ()
    """Pods of lower priority whose nomination to the node is cleared."""


def schedule(cluster: ClusterView, pod: Json) -> Placement | SchedulingFailure:
    """Find a node for a waiting pod. Nothing is changed: `bind` does that."""
    if not cluster.nodes:
        return SchedulingFailure(pod, UNSCHEDULABLE, framework.NO_NODES_AVAILABLE, nominated_node="")
    prepared = filters.run_pre_filters(cluster, pod)
    if isinstance(prepared, Rejection) and prepared.code is StatusCode.ERROR:
        return SchedulingFailure(pod, SCHEDULER_ERROR, prepared.reasons[0], nominated_node="")
    if isinstance(prepared, Rejection):
        text = framework.format_pre_filter_error(len(cluster.nodes), prepared)
        return SchedulingFailure(pod, UNSCHEDULABLE, f"{text} {CLAIM_STATE_NOT_FOUND}")
    nominations = cluster_view.nominated_pods(cluster)
    feasible, refusals = _find_feasible(cluster, prepared, nominations)
    errors = [refusal for refusal in refusals.values() if refusal.code is StatusCode.ERROR]
    if errors:
        return SchedulingFailure(pod, SCHEDULER_ERROR, errors[0].reasons[0], refusals, nominated_node="")
    if len(feasible) > 1 and (fault := node_scores.find_pre_score_error(pod)):
        return SchedulingFailure(pod, SCHEDULER_ERROR, fault, refusals, nominated_node="")
    if feasible:
        return _select_node(cluster, prepared, feasible)
    return _preempt(preemption.PreemptionEvaluator(cluster, prepared, refusals, nominations))


def _find_feasible(
    cluster: ClusterView, cycle: filters.FilterChain, nominations: Mapping[str, Sequence[Json]]
) -> tuple[list[NodeView], dict[str, Rejection]]:
    """Feasible nodes, and rejections by node for the others.

    The nominated node is filtered first; if the pod fits there, no other node is evaluated.
    """
    feasible: list[NodeView] = []
    refusals: dict[str, Rejection] = {}
    for node in _in_search_order(cluster, cycle):
        refusal = preemption.filter_with_nominated_pods(cycle, node, nominations)
        if refusal is not None:
            refusals[node.name] = refusal
        elif node.name == nominated_node_of(cycle.pod):
            return [node], refusals
        else:
            feasible.append(node)
    return feasible, refusals


def _in_search_order(cluster: ClusterView, cycle: filters.FilterChain) -> Iterable[NodeView]:
    """The nominated node first, then all candidates by name."""
    nominated = cluster.nodes.get(nominated_node_of(cycle.pod))
    if nominated is not None:
        yield nominated
    for name, node in sorted(cluster.nodes.items()):
        if node is not nominated and filters.is_candidate_node(cycle, name):
            yield node


def _select_node(cluster: ClusterView, cycle: filters.FilterChain, feasible: list[NodeView]) -> Placement:
    """The node with the highest score, the first by name among equals."""
    node = min(node_scores.best_nodes(cluster, cycle.pod, feasible), key=lambda node: node.name)
    for check in cycle.checks:
        if isinstance(check, volume_binding.VolumeBinding):
            return Placement(cycle.pod, node.name, check.find_volumes(node))
    return Placement(cycle.pod, node.name)


def _preempt(attempt: preemption.PreemptionEvaluator) -> SchedulingFailure:
    pod, cluster = attempt.pod, attempt.cluster
    text = framework.format_fit_error(len(cluster.nodes), attempt.refusals, _outside_affinity_reason(attempt))
    outcome = attempt.find_candidate()
    if isinstance(outcome, preemption.PreemptionFailure):
        nominated = "" if outcome.clears_nomination else None
        return SchedulingFailure(
            pod,
            UNSCHEDULABLE,
            f"{text} {NO_CLAIMS_TO_DEALLOCATE}{outcome.reason}",
            attempt.refusals,
            nominated_node=nominated,
        )
    victims = tuple(victim for victim in outcome.victims if not is_terminating(victim))
    promised = attempt.nominations.get(outcome.node_name, ()) if victims else ()
    denominated = tuple(other for other in promised if priority_of(other) < priority_of(pod))
    return SchedulingFailure(pod, UNSCHEDULABLE, text, attempt.refusals, outcome.node_name, victims, denominated)


def _outside_affinity_reason(attempt: preemption.PreemptionEvaluator) -> str:
    """The reason for nodes outside the set that the pod's affinity names.

    Upstream means to list the plugins that narrowed the search, but the one that refused the nominated node slips in.
    """
    plugins = {filters.OUTSIDE_AFFINITY.plugin}
    refusal = attempt.refusals.get(nominated_node_of(attempt.pod))
    if refusal is not None:
        plugins.add(refusal.plugin)
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def bind(cluster: ClusterView, placement: Placement) -> Json:
    """Apply a placement to the view: bind the pod and its claims. Returns the bound pod.

    Claims to be provisioned get the selected-node annotation, from which a provisioner continues.
    """
    for claim, volume in placement.volumes.bindings:
        reference = {name: claim["metadata"].get(name) for name in ("namespace", "name", "uid")}
        cluster.put({**volume, "spec": {**volume["spec"], "claimRef": reference}, "status": {"phase": "Bound"}})
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        bound = _annotate(claim, volume_binding.BIND_COMPLETED, "yes")
        cluster.put({**bound, "spec": spec, "status": {**(claim.get("status") or {}), "phase": "Bound"}})
    for claim in placement.volumes.provisions:
        cluster.put(_annotate(claim, volume_binding.SELECTED_NODE, placement.node_name))
    return cluster.bind(placement.pod, placement.node_name)


def _annotate(obj: Json, name: str, value: str) -> Json:
    annotations = {**annotations_of(obj), name: value}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
