"""InterPodAffinity: required affinity and anti-affinity between pods, and the anti-affinity of existing pods.

Preferred terms score, those of existing pods included.
"""

from collections import Counter
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import label_selectors, scoring
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView, labels_of
from windlass.simulator.reference_scheduler.framework import FilterPlugin, Rejection, StatusCode

Domain = tuple[str, str]
"""A topology key and its value."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term: which pods, in which namespaces, within which topology."""

    key: str
    selector: Json | None
    namespaces: frozenset[str]
    namespace_selector: Json | None

    def selects(self, pod: Json, namespace_labels: label_selectors.Labels) -> bool:
        in_namespace = pod["metadata"]["namespace"] in self.namespaces
        if not in_namespace and not label_selectors.matches_selector(self.namespace_selector, namespace_labels):
            return False
        return label_selectors.matches_selector(self.selector, labels_of(pod))


@dataclass(frozen=True, slots=True)
class InterPodAffinity(FilterPlugin):
    """Counts matching pods per domain."""

    plugin = "InterPodAffinity"
    pod: Json
    namespace_labels: label_selectors.Labels
    """Labels of the pod's namespace."""
    affinity: list[AffinityTerm]
    anti_affinity: list[AffinityTerm]
    affinity_counts: Counter[Domain]
    """Pods that match every one of the affinity terms."""
    anti_affinity_counts: Counter[Domain]
    """Counts of pods that match one of the anti-affinity terms."""
    existing_anti_affinity_counts: Counter[Domain]
    """Counts of other pods' anti-affinity terms that match this pod."""

    def filter(self, node: NodeView) -> Rejection | None:
        if not self._satisfies_affinity(node):
            return self.unresolvable("node(s) didn't match pod affinity rules")
        keys = [term.key for term in self.anti_affinity if term.key in node.labels]
        if any(self.anti_affinity_counts[key, node.labels[key]] > 0 for key in keys):
            return self.unschedulable("node(s) didn't match pod anti-affinity rules")
        if any(self.existing_anti_affinity_counts[domain] > 0 for domain in node.labels.items()):
            return self.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    def _satisfies_affinity(self, node: NodeView) -> bool:
        if any(term.key not in node.labels for term in self.affinity):
            return False
        if all(self.affinity_counts[term.key, node.labels[term.key]] > 0 for term in self.affinity):
            return True
        # The first pod of a group with affinity to itself would otherwise stay pending forever.
        return not any(self.affinity_counts.values()) and _matches_all(self.affinity, self.pod)

    def add_pod(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, +1)

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, -1)

    def _change(self, pod: Json, node: NodeView, delta: int) -> None:
        labels = node.labels
        if _matches_all(self.affinity, pod):
            for term in self.affinity:
                if term.key in labels:
                    self.affinity_counts[term.key, labels[term.key]] += delta
        for term in self.anti_affinity:
            if term.key in labels and term.selects(pod, {}):
                self.anti_affinity_counts[term.key, labels[term.key]] += delta
        for term in required_terms(pod, "podAntiAffinity"):
            if term.key in labels and term.selects(self.pod, self.namespace_labels):
                self.existing_anti_affinity_counts[term.key, labels[term.key]] += delta

    def copy(self) -> "InterPodAffinity":
        return InterPodAffinity(
            self.pod, self.namespace_labels, self.affinity, self.anti_affinity,
            self.affinity_counts.copy(), self.anti_affinity_counts.copy(), self.existing_anti_affinity_counts.copy(),
        )  # fmt: skip


def pre_filter(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    refusal = reject_unparsable(pod, cluster)
    if refusal is not None:
        return refusal
    namespace = cluster.find("Namespace", pod["metadata"]["namespace"])
    check = InterPodAffinity(
        pod,
        labels_of(namespace) if namespace else {},
        [with_namespaces(term, cluster) for term in required_terms(pod, "podAffinity")],
        [with_namespaces(term, cluster) for term in required_terms(pod, "podAntiAffinity")],
        Counter(), Counter(), Counter(),
    )  # fmt: skip
    for node in cluster.nodes.values():
        for seated in node.pods.values():
            check.add_pod(seated.pod, node)
    # Without relevant terms, upstream skips the filter for the whole cycle: the anti-affinity of a nominated pod that
    # is simulated on a node later is then ignored.
    return check if check.affinity or check.anti_affinity or check.existing_anti_affinity_counts else None


def reject_unparsable(pod: Json, cluster: ClusterView) -> Rejection | None:
    """A pod with terms that cannot be parsed, preferred ones included, fits nowhere."""
    lists = (
        ("requiredAffinityTerms", _required_rules(pod, "podAffinity")),
        ("requiredAntiAffinityTerms", _required_rules(pod, "podAntiAffinity")),
        ("preferredAffinityTerms", [item["podAffinityTerm"] for item in _preferred_rules(pod, "podAffinity")]),
        (
            "preferredAntiAffinityTerms",
            [entry["podAffinityTerm"] for entry in _preferred_rules(pod, "podAntiAffinity")],
        ),
    )
    faults = [f"{name}: {fault}" for name, terms in lists if (fault := _term_error(terms))]
    if not faults:
        return None
    text = f"parsing pod: {label_selectors.aggregate_errors(faults)}"
    return Rejection(InterPodAffinity.plugin, StatusCode.UNRESOLVABLE, (text,))


def required_terms(pod: Json, kind: str) -> list[AffinityTerm]:
    """Required terms of `podAffinity` or `podAntiAffinity`, none if one of them cannot be parsed.

    A term that names no namespace means the pod's own.
    """
    terms = _required_rules(pod, kind)
    return [] if _term_error(terms) else [_read_term(term, pod) for term in terms]


def preferred_terms(pod: Json) -> list[tuple[AffinityTerm, int]]:
    """Preferred terms and their weights, negative for anti-affinity."""
    return [
        (_read_term(entry["podAffinityTerm"], pod), sign * int(entry["weight"]))
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        if not _term_error([item["podAffinityTerm"] for item in _preferred_rules(pod, kind)])
        for entry in _preferred_rules(pod, kind)
    ]


def _term_error(terms: list[Json]) -> str:
    """What is wrong with the first term that cannot be parsed; empty if all can be."""
    selectors = (term.get(name) for term in terms for name in ("labelSelector", "namespaceSelector"))
    return next((fault for selector in selectors if (fault := label_selectors.selector_error(selector))), "")


def _required_rules(pod: Json, kind: str) -> list[Json]:
    return _affinity_rules(pod, kind).get(_REQUIRED) or []


def _preferred_rules(pod: Json, kind: str) -> list[Json]:
    return _affinity_rules(pod, kind).get(_PREFERRED) or []


def scored_terms(pod: Json) -> list[tuple[AffinityTerm, int]]:
    """Terms by which an assigned pod scores other pods in its domains, and their weights."""
    required = [(term, scoring.HARD_POD_AFFINITY_WEIGHT) for term in required_terms(pod, "podAffinity")]
    return required + preferred_terms(pod)


def _affinity_rules(pod: Json, kind: str) -> Json:
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def _read_term(term: Json, pod: Json) -> AffinityTerm:
    names = term.get("namespaces") or ()
    if not names and term.get("namespaceSelector") is None:
        names = (pod["metadata"]["namespace"],)
    return AffinityTerm(term["topologyKey"], term.get("labelSelector"), frozenset(names), term.get("namespaceSelector"))


def with_namespaces(term: AffinityTerm, cluster: ClusterView) -> AffinityTerm:
    """A term of the pod to be placed, with the names of the namespaces that its selector selects.

    Upstream means to drop the selector then, but does not: it stays, and later meets an empty set of labels. One that
    an empty set satisfies (only NotIn and DoesNotExist) therefore selects pods of every namespace.
    """
    if term.namespace_selector is None or label_selectors.is_empty_selector(term.namespace_selector):
        return term
    selected = [
        name
        for name, namespace in cluster.all_of("Namespace").items()
        if label_selectors.matches_selector(term.namespace_selector, labels_of(namespace))
    ]
    return AffinityTerm(term.key, term.selector, term.namespaces.union(selected), term.namespace_selector)


def _matches_all(terms: list[AffinityTerm], pod: Json) -> bool:
    return bool(terms) and all(term.selects(pod, {}) for term in terms)
