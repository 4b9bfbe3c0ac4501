"""One scheduling cycle: filter the nodes, choose one, or say why there is none and who should make room."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.simulator.scheduler import binding, filtering, message, node_scores, preemption, queue
from windlass.simulator.scheduler.check import Code, Refusal
from windlass.simulator.scheduler.cluster import (
    ClusterView,
    Json,
    NodeView,
    annotations_of,
    is_terminating,
    nominated_node_of,
    priority_of,
)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

AFTER_PREPARING = "no new claims to deallocate, preemption: "
"""The scheduler asks its DynamicResources plugin before it preempts; this is the answer for a pod without claims."""
BEFORE_PREPARING = "not found"
"""The same plugin's answer if another refused the pod before it could look. Preemption is not tried then."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node for a pod, and what happens to the claims that waited for it."""

    pod: Json
    node_name: str
    volumes: binding.Volumes = field(default_factory=binding.Volumes)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod stays where it is, as its PodScheduled condition will say, and who has to go for it."""

    pod: Json
    reason: str
    """Of the condition: `Unschedulable` or `SchedulerError`."""
    message: str
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By node, for the nodes that were looked at."""
    nominated_node: str | None = None
    """What `status.nominatedNodeName` becomes: empty to clear it, None to leave it as it is."""
    victims: tuple[Json, ...] = ()
    """Pods to delete, most important first. Those on their way out already are not among them."""
    denominated: tuple[Json, ...] = ()
    """Less important pods that had been promised a place on the node, and lose it."""


def schedule(cluster: ClusterView, pod: Json) -> Placement | Failure:
    """Find a node for a waiting pod. Nothing is changed: `bind` does that."""
    if not cluster.nodes:
        return Failure(pod, UNSCHEDULABLE, message.NO_NODES, nominated_node="")
    prepared = filtering.prepare(cluster, pod)
    if isinstance(prepared, Refusal) and prepared.code is Code.ERROR:
        return Failure(pod, SCHEDULER_ERROR, prepared.reasons[0], nominated_node="")
    if isinstance(prepared, Refusal):
        text = message.refused_everywhere(len(cluster.nodes), prepared)
        return Failure(pod, UNSCHEDULABLE, f"{text} {BEFORE_PREPARING}")
    nominations = queue.nominations(cluster)
    feasible, refusals = _filter(cluster, prepared, nominations)
    errors = [refusal for refusal in refusals.values() if refusal.code is Code.ERROR]
    if errors:
        return Failure(pod, SCHEDULER_ERROR, errors[0].reasons[0], refusals, nominated_node="")
    if feasible:
        return _place(cluster, prepared, feasible)
    return _make_room(preemption.Attempt(cluster, prepared, refusals, nominations))


def _filter(
    cluster: ClusterView, cycle: filtering.Cycle, nominations: Mapping[str, Sequence[Json]]
) -> tuple[list[NodeView], dict[str, Refusal]]:
    """Nodes where the pod may run, and refusals by node for those where it may not.

    The node that the pod was promised is asked first; if its victims have left, it goes there without looking further.
    """
    feasible: list[NodeView] = []
    refusals: dict[str, Refusal] = {}
    for node in _in_search_order(cluster, cycle):
        refusal = preemption.refuse_with_nominated(cycle, node, nominations)
        if refusal is not None:
            refusals[node.name] = refusal
        elif node.name == nominated_node_of(cycle.pod):
            return [node], refusals
        else:
            feasible.append(node)
    return feasible, refusals


def _in_search_order(cluster: ClusterView, cycle: filtering.Cycle) -> Iterable[NodeView]:
    """The nominated node first, then all that are worth looking at, by name."""
    nominated = cluster.nodes.get(nominated_node_of(cycle.pod))
    if nominated is not None:
        yield nominated
    for name, node in sorted(cluster.nodes.items()):
        if node is not nominated and filtering.is_worth_looking_at(cycle, name):
            yield node


def _place(cluster: ClusterView, cycle: filtering.Cycle, feasible: list[NodeView]) -> Placement:
    """The node with the highest score, the first by name among equals."""
    node = min(node_scores.best(cluster, cycle.pod, feasible), key=lambda node: node.name)
    for check in cycle.checks:
        if isinstance(check, binding.VolumeBinding):
            return Placement(cycle.pod, node.name, check.find_volumes(node))
    return Placement(cycle.pod, node.name)


def _make_room(attempt: preemption.Attempt) -> Failure:
    pod, cluster = attempt.pod, attempt.cluster
    text = message.unavailable(len(cluster.nodes), attempt.refusals, _why_not_looked_at(attempt))
    outcome = attempt.find_room()
    if isinstance(outcome, preemption.NoRoom):
        nominated = "" if outcome.clears_nomination else None
        return Failure(
            pod, UNSCHEDULABLE, f"{text} {AFTER_PREPARING}{outcome.reason}", attempt.refusals, nominated_node=nominated
        )
    victims = tuple(victim for victim in outcome.victims if not is_terminating(victim))
    promised = attempt.nominations.get(outcome.node_name, ()) if victims else ()
    denominated = tuple(other for other in promised if priority_of(other) < priority_of(pod))
    return Failure(pod, UNSCHEDULABLE, text, attempt.refusals, outcome.node_name, victims, denominated)


def _why_not_looked_at(attempt: preemption.Attempt) -> str:
    """The reason for nodes outside the set that the pod's affinity names.

    Upstream means to list the plugins that narrowed the search, but the one that refused the nominated node slips in.
    """
    plugins = {filtering.NOT_LOOKED_AT.plugin}
    refusal = attempt.refusals.get(nominated_node_of(attempt.pod))
    if refusal is not None:
        plugins.add(refusal.plugin)
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def bind(cluster: ClusterView, placement: Placement) -> Json:
    """Carry a placement out in the view: seat the pod and give its claims their volumes. Returns the bound pod.

    Claims for which a volume has yet to be made are marked with the node; whoever makes volumes goes on from there.
    """
    for claim, volume in placement.volumes.bindings:
        reference = {name: claim["metadata"].get(name) for name in ("namespace", "name", "uid")}
        cluster.put({**volume, "spec": {**volume["spec"], "claimRef": reference}, "status": {"phase": "Bound"}})
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        bound = _annotate(claim, binding.BIND_COMPLETED, "yes")
        cluster.put({**bound, "spec": spec, "status": {**(claim.get("status") or {}), "phase": "Bound"}})
    for claim in placement.volumes.provisions:
        cluster.put(_annotate(claim, binding.SELECTED_NODE, placement.node_name))
    return cluster.bind(placement.pod, placement.node_name)


def _annotate(obj: Json, name: str, value: str) -> Json:
    annotations = {**annotations_of(obj), name: value}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
