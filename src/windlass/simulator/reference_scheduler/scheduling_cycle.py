"""Scheduling cycle: filter the nodes in kube-scheduler's order, choose one, or return failure and preemption victims.

DefaultPreemption: victims on a node whose removal lets a more important pod fit.

On every node that rejects the pod because of other pods: remove all pods of lower priority, check that the pod fits,
then reprieve as many as possible, those whose eviction would violate a PodDisruptionBudget first, then those of higher
priority. The node with the least cost is nominated. Upstream tries a random tenth of the nodes (at least 100); here all
are tried, and the last tie is decided by name.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.simulator.reference_scheduler import (
    cluster_view,
    framework,
    inter_pod_affinity,
    label_selectors,
    node_filters,
    node_scores,
    pod_topology_spread,
    volume_binding,
    volume_filters,
)
from windlass.simulator.reference_scheduler.cluster_view import (
    ClusterView,
    Json,
    NodeView,
    annotations_of,
    is_same_pod,
    is_terminating,
    key_of,
    labels_of,
    nominated_node_of,
    priority_of,
    read_time,
)
from windlass.simulator.reference_scheduler.framework import FilterError, FilterPlugin, Rejection, StatusCode

FILTERS: tuple[Callable[[Json, ClusterView], FilterPlugin | Rejection | None], ...] = (
    node_filters.pre_filter_unschedulable,
    node_filters.pre_filter_node_name,
    node_filters.pre_filter_taints,
    node_filters.pre_filter_node_affinity,
    node_filters.pre_filter_node_ports,
    node_filters.pre_filter_resources_fit,
    volume_filters.pre_filter_volume_restrictions,
    volume_filters.pre_filter_volume_limits,
    volume_binding.pre_filter,
    volume_filters.pre_filter_volume_zone,
    pod_topology_spread.pre_filter,
    inter_pod_affinity.pre_filter,
    node_filters.pre_filter_declared_features,
)
"""PreFilter functions. They return a filter for the pod, None to skip it, or a rejection of all nodes."""


@dataclass(frozen=True, slots=True)
class FilterChain:
    """The filters that apply to one pod, prepared for one cluster."""

    pod: Json
    checks: Sequence[FilterPlugin]
    only_nodes: frozenset[str] | None = None
    """The nodes that the pod's affinity selects by name; None: all nodes."""

    def filter(self, node: NodeView) -> Rejection | None:
        """The first rejection, or None if the pod may run on the node."""
        for check in self.checks:
            try:
                refusal = check.filter(node)
            except FilterError as error:
                return Rejection(check.plugin, StatusCode.ERROR, (f'running "{check.plugin}" filter plugin: {error}',))
            if refusal is not None:
                return refusal
        return None

    def add_pod(self, pod: Json, node: NodeView) -> None:
        """Simulate `pod` on `node`."""
        node.add(pod)
        for check in self.checks:
            check.add_pod(pod, node)

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        """Simulate `node` without `pod`."""
        node.remove(pod)
        for check in self.checks:
            check.remove_pod(pod, node)

    def copy(self) -> "FilterChain":
        return FilterChain(self.pod, [check.copy() for check in self.checks], self.only_nodes)


def run_pre_filters(cluster: ClusterView, pod: Json) -> FilterChain | Rejection:
    """Run PreFilter of all plugins; returns the chain, or the rejection of all nodes."""
    checks = []
    only_nodes = None
    for prepare_check in FILTERS:
        prepared = prepare_check(pod, cluster)
        if isinstance(prepared, Rejection):
            return prepared
        if isinstance(prepared, node_filters.NodeAffinity):
            only_nodes = prepared.only_nodes
        if prepared is not None:
            checks.append(prepared)
    return FilterChain(pod, checks, only_nodes)


def run_filters(cluster: ClusterView, pod: Json) -> dict[str, Rejection | None]:
    """The result of the filters for every node; None: the pod may run there. Nominated pods are not considered."""
    prepared = run_pre_filters(cluster, pod)
    if isinstance(prepared, Rejection):
        return dict.fromkeys(cluster.nodes, prepared)
    return {
        name: prepared.filter(node) if is_candidate_node(prepared, name) else OUTSIDE_AFFINITY
        for name, node in cluster.nodes.items()
    }


OUTSIDE_AFFINITY = Rejection(
    node_filters.NodeAffinity.plugin,
    StatusCode.UNRESOLVABLE,
    (f"node(s) didn't satisfy plugin(s) [{node_filters.NodeAffinity.plugin}]",),
)


def is_candidate_node(cycle: FilterChain, node_name: str) -> bool:
    return cycle.only_nodes is None or node_name in cycle.only_nodes


LOWEST_PRIORITY = -(2**31)
PLUGIN = "DefaultPreemption"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and its victims."""

    node_name: str
    victims: tuple[Json, ...]
    """Most important first; never empty."""
    broken_budgets: int
    """Number of victims whose eviction violates a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class PreemptionFailure:
    """Preemption cannot help; the reason, and whether an earlier nomination is cleared."""

    reason: str
    clears_nomination: bool


@dataclass(frozen=True, slots=True)
class PreemptionEvaluator:
    """Preemption for one pod: its filters, their result by node, and nominated pods."""

    cluster: ClusterView
    cycle: FilterChain
    refusals: Mapping[str, Rejection]
    nominations: Mapping[str, Sequence[Json]]

    @property
    def pod(self) -> Json:
        return self.cycle.pod

    def find_candidate(self) -> Candidate | PreemptionFailure:
        reason = self._ineligible_reason()
        if reason:
            return PreemptionFailure(reason, clears_nomination=False)
        candidates = []
        failures = {}
        for name, refusal in sorted(self.refusals.items()):
            if refusal.code is StatusCode.UNSCHEDULABLE:
                outcome = self._select_victims(self.cluster.nodes[name])
                if isinstance(outcome, Candidate):
                    candidates.append(outcome)
                else:
                    failures[name] = outcome
        if candidates:
            return min(candidates, key=_candidate_cost)
        others = "Preemption is not helpful for scheduling"
        return PreemptionFailure(
            framework.format_fit_error(len(self.cluster.nodes), failures, others), clears_nomination=True
        )

    def _ineligible_reason(self) -> str | None:
        """Why the pod may not preempt: its preemptionPolicy, or victims that are still terminating."""
        if self.pod["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        name = nominated_node_of(self.pod)
        refusal = self.refusals.get(name)
        if refusal is None or refusal.code is StatusCode.UNRESOLVABLE:
            return None
        on_node = self.cluster.nodes[name].pods.values()
        if any(self._can_preempt(seated.pod) and _is_being_preempted(seated.pod) for seated in on_node):
            return "not eligible due to a terminating pod on the nominated node."
        return None

    def _can_preempt(self, other: Json) -> bool:
        return priority_of(other) < priority_of(self.pod)

    def _select_victims(self, original: NodeView) -> Candidate | Rejection:
        cycle, node = self.cycle.copy(), original.copy()
        potential = sort_by_importance(
            [assigned_pod.pod for assigned_pod in node.pods.values() if self._can_preempt(assigned_pod.pod)]
        )
        if not potential:
            return Rejection(PLUGIN, StatusCode.UNRESOLVABLE, ("No preemption victims found for incoming pod",))
        for pod in potential:
            cycle.remove_pod(pod, node)
        refusal = filter_with_nominated_pods(cycle, node, self.nominations)
        if refusal is not None:
            return refusal
        violating, harmless = _split_by_budgets(potential, list(self.cluster.all_of("PodDisruptionBudget").values()))
        broken = [pod for pod in violating if not self._reprieve(pod, cycle, node)]
        others = [pod for pod in harmless if not self._reprieve(pod, cycle, node)]
        return Candidate(node.name, tuple(sort_by_importance([*broken, *others])), len(broken))

    def _reprieve(self, pod: Json, cycle: FilterChain, node: NodeView) -> bool:
        """Reprieve a pod: put it back if the preemptor still fits."""
        cycle.add_pod(pod, node)
        if filter_with_nominated_pods(cycle, node, self.nominations) is None:
            return True
        cycle.remove_pod(pod, node)
        return False


def filter_with_nominated_pods(
    cycle: FilterChain, node: NodeView, nominations: Mapping[str, Sequence[Json]]
) -> Rejection | None:
    """Filter a node twice: with its nominated pods, and without.

    Pods at least as important that wait for their victims to go count as if they were there. They might still end up
    elsewhere, and then the pod must fit without them too.
    """
    pod = cycle.pod
    promised = [
        other
        for other in nominations.get(node.name, ())
        if priority_of(other) >= priority_of(pod) and not is_same_pod(other, pod)
    ]
    if promised:
        imagined, imagined_node = cycle.copy(), node.copy()
        for other in promised:
            imagined.add_pod(other, imagined_node)
        refusal = imagined.filter(imagined_node)
        if refusal is not None:
            return refusal
    return cycle.filter(node)


def sort_by_importance(pods: Sequence[Json]) -> list[Json]:
    """Higher priority first, then the longer running; pods that have not started come last."""
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_time_of(pod), key_of(pod)))


def start_time_of(pod: Json) -> datetime.datetime:
    return read_time((pod.get("status") or {}).get("startTime"))


def _split_by_budgets(pods: Sequence[Json], budgets: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Pods whose eviction would violate a budget, and the rest. Each eviction is charged to its budgets."""
    remaining = {key_of(budget): int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in budgets}
    violating: list[Json] = []
    harmless: list[Json] = []
    for pod in pods:
        mine = [key_of(budget) for budget in budgets if _protects(budget, pod)]
        for key in mine:
            remaining[key] -= 1
        (violating if any(remaining[key] < 0 for key in mine) else harmless).append(pod)
    return violating, harmless


def _protects(budget: Json, pod: Json) -> bool:
    """An empty selector selects no pod here; a pod in disruptedPods is already charged."""
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"] or not labels_of(pod):
        return False
    if pod["metadata"]["name"] in ((budget.get("status") or {}).get("disruptedPods") or {}):
        return False
    selector = budget["spec"].get("selector")
    if label_selectors.selector_error(selector):
        return False
    return not label_selectors.is_empty_selector(selector) and label_selectors.matches_selector(
        selector, labels_of(pod)
    )


def _candidate_cost(candidate: Candidate) -> tuple[int, int, int, int, float, str]:
    """Smallest is best: budget violations, highest priority, sum of priorities, number of victims, latest start."""
    priorities = [priority_of(pod) for pod in candidate.victims]
    # Shifted, so that every further victim costs something even where priorities are negative.
    total = sum(priority - LOWEST_PRIORITY for priority in priorities)
    earliest = min(start_time_of(pod) for pod in candidate.victims if priority_of(pod) == max(priorities))
    return (
        candidate.broken_budgets,
        max(priorities),
        total,
        len(priorities),
        -earliest.timestamp(),
        candidate.node_name,
    )


def _is_being_preempted(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    target: Json = next((item for item in conditions if item["type"] == "DisruptionTarget"), {})
    by_scheduler = target.get("status") == "True" and target.get("reason") == "PreemptionByScheduler"
    return is_terminating(pod) and by_scheduler


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
    prepared = run_pre_filters(cluster, pod)
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
    return _preempt(PreemptionEvaluator(cluster, prepared, refusals, nominations))


def _find_feasible(
    cluster: ClusterView, cycle: FilterChain, nominations: Mapping[str, Sequence[Json]]
) -> tuple[list[NodeView], dict[str, Rejection]]:
    """Feasible nodes, and rejections by node for the others.

    The nominated node is filtered first; if the pod fits there, no other node is evaluated.
    """
    feasible: list[NodeView] = []
    refusals: dict[str, Rejection] = {}
    for node in _in_search_order(cluster, cycle):
        refusal = filter_with_nominated_pods(cycle, node, nominations)
        if refusal is not None:
            refusals[node.name] = refusal
        elif node.name == nominated_node_of(cycle.pod):
            return [node], refusals
        else:
            feasible.append(node)
    return feasible, refusals


def _in_search_order(cluster: ClusterView, cycle: FilterChain) -> Iterable[NodeView]:
    """The nominated node first, then all candidates by name."""
    nominated = cluster.nodes.get(nominated_node_of(cycle.pod))
    if nominated is not None:
        yield nominated
    for name, node in sorted(cluster.nodes.items()):
        if node is not nominated and is_candidate_node(cycle, name):
            yield node


def _select_node(cluster: ClusterView, cycle: FilterChain, feasible: list[NodeView]) -> Placement:
    """The node with the highest score, the first by name among equals."""
    node = min(node_scores.best_nodes(cluster, cycle.pod, feasible), key=lambda node: node.name)
    for check in cycle.checks:
        if isinstance(check, volume_binding.VolumeBinding):
            return Placement(cycle.pod, node.name, check.find_volumes(node))
    return Placement(cycle.pod, node.name)


def _preempt(attempt: PreemptionEvaluator) -> SchedulingFailure:
    pod, cluster = attempt.pod, attempt.cluster
    text = framework.format_fit_error(len(cluster.nodes), attempt.refusals, _outside_affinity_reason(attempt))
    outcome = attempt.find_candidate()
    if isinstance(outcome, PreemptionFailure):
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


def _outside_affinity_reason(attempt: PreemptionEvaluator) -> str:
    """The reason for nodes outside the set that the pod's affinity names.

    Upstream means to list the plugins that narrowed the search, but the one that refused the nominated node slips in.
    """
    plugins = {OUTSIDE_AFFINITY.plugin}
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
