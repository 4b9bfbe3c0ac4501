"""Filter plugins in kube-scheduler's order, prepared for one pod and run against the nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import (
    inter_pod_affinity,
    node_filters,
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
