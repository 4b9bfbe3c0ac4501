"""Filter plugins in kube-scheduler's order, prepared for one pod and run against the nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import (
    inter_pod_affinity,
    node_filters,
    node_resources_fit,
    pod_topology_spread,
    volume_binding,
    volume_filters,
)
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView
from windlass.simulator.reference_scheduler.framework import FilterError, FilterPlugin, Rejection, StatusCode

FILTERS: tuple[Callable[[Json, ClusterView], FilterPlugin | Rejection | None], ...] = (
    node_filters.pre_filter_unschedulable,
    node_filters.pre_filter_node_name,
    node_filters.pre_filter_taints,
    node_filters.pre_filter_node_affinity,
    node_resources_fit.pre_filter_node_ports,
    node_resources_fit.pre_filter_resources_fit,
    volume_filters.pre_filter_volume_restrictions,
    volume_filters.pre_filter_volume_limits,
    volume_binding.pre_filter,
    volume_filters.pre_filter_volume_zone,
    pod_topology_spread.pre_filter,
    inter_pod_affinity.pre_filter,
    node_filters.pre_filter_declared_features,
)
"""Each makes its check ready for a pod. None: it has nothing to say about this pod; a refusal: no node will do."""


@dataclass(frozen=True, slots=True)
class FilterChain:
    """The filters that have something to say about one pod, against one cluster."""

    pod: Json
    checks: Sequence[FilterPlugin]
    only_nodes: frozenset[str] | None = None
    """The only nodes worth looking at, where the pod's affinity names them; None: all."""

    def filter(self, node: NodeView) -> Rejection | None:
        """The first filter's refusal, or None if the pod may run on the node."""
        for check in self.checks:
            try:
                refusal = check.filter(node)
            except FilterError as error:
                return Rejection(check.plugin, StatusCode.ERROR, (f'running "{check.plugin}" filter plugin: {error}',))
            if refusal is not None:
                return refusal
        return None

    def add_pod(self, pod: Json, node: NodeView) -> None:
        """Imagine `pod` on `node`."""
        node.add(pod)
        for check in self.checks:
            check.add_pod(pod, node)

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        """Imagine `node` without `pod`."""
        node.remove(pod)
        for check in self.checks:
            check.remove_pod(pod, node)

    def copy(self) -> "FilterChain":
        return FilterChain(self.pod, [check.copy() for check in self.checks], self.only_nodes)


def run_pre_filters(cluster: ClusterView, pod: Json) -> FilterChain | Rejection:
    """Make all filters ready for the pod, or say which one refuses it on every node."""
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
    """What the filters say of the pod on every node; None: it may run there. Pods that wait are not considered."""
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
