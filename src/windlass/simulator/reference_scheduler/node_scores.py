"""Inputs of the Score plugins, read from the cluster view node by node and pod by pod."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from windlass.simulator.reference_scheduler import (
    inter_pod_affinity,
    label_selectors,
    node_filters,
    pod_topology_spread,
    resource_requests,
    scoring,
)
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView, labels_of


def find_pre_score_error(pod: Json) -> str:
    """Why the pod cannot be scored; empty if it can. kube-scheduler scores where more than one node is feasible."""
    plugins = {
        "NodeAffinity": label_selectors.preferred_terms_error(node_filters.preferred_affinity(pod)),
        "PodTopologySpread": pod_topology_spread.soft_constraints_error(pod),
    }
    return next((f'running PreScore plugin "{name}": {fault}' for name, fault in plugins.items() if fault), "")


def score_nodes(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> dict[str, dict[str, int]]:
    """Weighted scores of nodes that passed the filters, by node and plugin."""
    plugin_scores = scoring.score(_gather_inputs(cluster, pod, nodes))
    return {
        node.name: {plugin: int(scores[index]) for plugin, scores in plugin_scores.items()}
        for index, node in enumerate(nodes)
    }


def best_nodes(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> list[NodeView]:
    """The nodes with the highest total, one or more. kube-scheduler takes any one of them."""
    if len(nodes) == 1:
        return list(nodes)
    total = {name: sum(plugins.values()) for name, plugins in score_nodes(cluster, pod, nodes).items()}
    most = max(total.values())
    return [node for node in nodes if total[node.name] == most]


def _gather_inputs(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> scoring.ScoreInputs:
    constraints, ignored = _count_spread(cluster, pod, nodes)
    return scoring.ScoreInputs(
        allocatable=_table([node.allocatable for node in nodes]),
        requested=_table([node_filters.requested_on(node) for node in nodes]),
        nonzero_requested=_table([node_filters.nonzero_requested_on(node) for node in nodes]),
        pod_requests=_table([resource_requests.pending_pod_requests(pod)])[0],
        nonzero_pod_requests=_table([resource_requests.nonzero_pending_requests(pod)])[0],
        soft_taints=_column(
            [node_filters.count_prefer_no_schedule(node_filters.tolerations_of(pod), node.node) for node in nodes]
        ),
        preferred=(
            _column([node_filters.preferred_affinity_weight(pod, node.node) for node in nodes])
            if node_filters.preferred_affinity(pod)
            else None
        ),
        spread=constraints,
        is_ignored=ignored,
        affinity_weights=_affinity_weights(cluster, pod, nodes),
    )


def _table(amounts: Sequence[resource_requests.ResourceList]) -> scoring.Ints:
    """(nodes, resources)"""
    return np.array([[item.get(name, 0) for name in scoring.RESOURCES] for item in amounts], np.int64)


def _column(numbers: Sequence[int]) -> scoring.Ints:
    return np.array(numbers, np.int64)


def _count_spread(
    cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]
) -> tuple[list[scoring.SpreadInputs], scoring.Mask | None]:
    """Soft constraints, and which candidates lack a key of one of them."""
    constraints = pod_topology_spread.soft_constraints(pod, _default_selector(cluster, pod))
    needs_all_keys = pod_topology_spread.has_own_constraints(pod)

    def is_ignored(node: NodeView) -> bool:
        return needs_all_keys and any(spread_constraint.key not in node.labels for spread_constraint in constraints)

    scored = [node for node in nodes if not is_ignored(node)]
    counted = [node for node in cluster.nodes.values() if not is_ignored(node)]
    facts = [_count_one(constraint, pod, nodes, scored, counted) for constraint in constraints]
    return facts, np.array([is_ignored(node) for node in nodes], bool)


def _count_one(
    spread_constraint: pod_topology_spread.SpreadConstraint,
    pod: Json,
    nodes: Sequence[NodeView],
    scored: Sequence[NodeView],
    counted: Sequence[NodeView],
) -> scoring.SpreadInputs:
    namespace = pod["metadata"]["namespace"]
    if spread_constraint.key == pod_topology_spread.HOSTNAME:
        domains = len(scored)
        pods = [pod_topology_spread.count_matching_pods(spread_constraint.selector, namespace, node) for node in nodes]
    else:
        # A node without the key counts as a domain of its own when constraints are the profile's.
        domains = len({node.labels.get(spread_constraint.key, "") for node in scored})
        by_domain: Counter[str] = Counter()
        for node in counted:
            if spread_constraint.includes(pod, node.node):
                matching = pod_topology_spread.count_matching_pods(spread_constraint.selector, namespace, node)
                by_domain[node.labels.get(spread_constraint.key, "")] += matching
        pods = [by_domain[node.labels.get(spread_constraint.key, "")] for node in nodes]
    has_key = np.array([spread_constraint.key in node.labels for node in nodes], bool)
    return scoring.SpreadInputs(spread_constraint.max_skew, domains, _column(pods), has_key)


def _default_selector(cluster: ClusterView, pod: Json) -> Json | None:
    owner = pod_topology_spread.owner_of(pod)
    namespace = pod["metadata"]["namespace"]
    services = [item for item in cluster.all_of("Service").values() if item["metadata"]["namespace"] == namespace]
    return pod_topology_spread.default_selector(pod, cluster.find(*owner) if owner else None, services)


def _affinity_weights(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> scoring.Ints | None:
    namespace = cluster.find("Namespace", pod["metadata"]["namespace"])
    namespace_labels = labels_of(namespace) if namespace else {}
    own = [
        (inter_pod_affinity.with_namespaces(term, cluster), weight)
        for term, weight in inter_pod_affinity.preferred_terms(pod)
    ]
    weights: Counter[inter_pod_affinity.Domain] = Counter()
    for node in cluster.nodes.values():
        for seated in node.pods.values():
            matching = [(term, weight) for term, weight in own if term.selects(seated.pod, {})]
            matching += [
                (term, weight)
                for term, weight in inter_pod_affinity.scored_terms(seated.pod)
                if term.selects(pod, namespace_labels)
            ]
            for term, weight in matching:
                if term.key in node.labels:
                    weights[term.key, node.labels[term.key]] += weight
    if not weights:
        return None
    return _column([sum(weights[domain] for domain in node.labels.items()) for node in nodes])
