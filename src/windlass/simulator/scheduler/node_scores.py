"""The plain scheduler's scores: facts about the candidates, gathered node by node and pod by pod."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from windlass.simulator.scheduler import affinity, interpod, requests, resources, scoring, spread, taints
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, labels_of


def score(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> dict[str, dict[str, int]]:
    """Weighted scores of nodes that passed the filters, by node and plugin."""
    found = scoring.score(_gather(cluster, pod, nodes))
    return {
        node.name: {plugin: int(scores[index]) for plugin, scores in found.items()} for index, node in enumerate(nodes)
    }


def best(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> list[NodeView]:
    """The nodes with the highest total, one or more. kube-scheduler takes any one of them."""
    if len(nodes) == 1:
        return list(nodes)
    total = {name: sum(plugins.values()) for name, plugins in score(cluster, pod, nodes).items()}
    most = max(total.values())
    return [node for node in nodes if total[node.name] == most]


def _gather(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> scoring.Facts:
    constraints, ignored = _count_spread(cluster, pod, nodes)
    return scoring.Facts(
        allocatable=_table([node.allocatable for node in nodes]),
        requested=_table([resources.taken_from(node) for node in nodes]),
        nonzero_requested=_table([resources.nonzero_taken_from(node) for node in nodes]),
        wanted=_table([requests.of_pending(pod)])[0],
        nonzero_wanted=_table([requests.nonzero_of_pending(pod)])[0],
        soft_taints=_column([taints.count_soft(taints.tolerations_of(pod), node.node) for node in nodes]),
        preferred=(
            _column([affinity.preferred_weight(pod, node.node) for node in nodes])
            if affinity.preferred_of(pod)
            else None
        ),
        spread=constraints,
        is_ignored=ignored,
        company=_weigh_company(cluster, pod, nodes),
    )


def _table(amounts: Sequence[requests.Amounts]) -> scoring.Ints:
    """(nodes, resources)"""
    return np.array([[one.get(name, 0) for name in scoring.RESOURCES] for one in amounts], np.int64)


def _column(numbers: Sequence[int]) -> scoring.Ints:
    return np.array(numbers, np.int64)


def _count_spread(
    cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]
) -> tuple[list[scoring.SpreadFacts], scoring.Mask | None]:
    """Soft constraints, and which candidates lack a key of one of them."""
    constraints = spread.soft_constraints(pod, _default_selector(cluster, pod))
    needs_all_keys = spread.has_own_constraints(pod)

    def is_ignored(node: NodeView) -> bool:
        return needs_all_keys and any(one.key not in node.labels for one in constraints)

    scored = [node for node in nodes if not is_ignored(node)]
    counted = [node for node in cluster.nodes.values() if not is_ignored(node)]
    facts = [_count_one(one, pod, nodes, scored, counted) for one in constraints]
    return facts, np.array([is_ignored(node) for node in nodes], bool)


def _count_one(
    one: spread.Constraint,
    pod: Json,
    nodes: Sequence[NodeView],
    scored: Sequence[NodeView],
    counted: Sequence[NodeView],
) -> scoring.SpreadFacts:
    namespace = pod["metadata"]["namespace"]
    if one.key == spread.HOSTNAME:
        domains = len(scored)
        pods = [spread.count_matching(one.selector, namespace, node) for node in nodes]
    else:
        # A node without the key counts as a domain of its own when constraints are the profile's.
        domains = len({node.labels.get(one.key, "") for node in scored})
        by_domain: Counter[str] = Counter()
        for node in counted:
            if one.includes(pod, node.node):
                matching = spread.count_matching(one.selector, namespace, node)
                by_domain[node.labels.get(one.key, "")] += matching
        pods = [by_domain[node.labels.get(one.key, "")] for node in nodes]
    has_key = np.array([one.key in node.labels for node in nodes], bool)
    return scoring.SpreadFacts(one.max_skew, domains, _column(pods), has_key)


def _default_selector(cluster: ClusterView, pod: Json) -> Json | None:
    owner = spread.owner_of(pod)
    namespace = pod["metadata"]["namespace"]
    services = [one for one in cluster.all_of("Service").values() if one["metadata"]["namespace"] == namespace]
    return spread.default_selector(pod, cluster.find(*owner) if owner else None, services)


def _weigh_company(cluster: ClusterView, pod: Json, nodes: Sequence[NodeView]) -> scoring.Ints | None:
    namespace = cluster.find("Namespace", pod["metadata"]["namespace"])
    namespace_labels = labels_of(namespace) if namespace else {}
    own = [(interpod.with_namespaces(term, cluster), weight) for term, weight in interpod.preferred_terms(pod)]
    weights: Counter[interpod.Domain] = Counter()
    for node in cluster.nodes.values():
        for seated in node.pods.values():
            matching = [(term, weight) for term, weight in own if term.selects(seated.pod, {})]
            matching += [
                (term, weight)
                for term, weight in interpod.scored_terms(seated.pod)
                if term.selects(pod, namespace_labels)
            ]
            for term, weight in matching:
                if term.key in node.labels:
                    weights[term.key, node.labels[term.key]] += weight
    if not weights:
        return None
    return _column([sum(weights[domain] for domain in node.labels.items()) for node in nodes])
