"""PodTopologySpread: hard constraints (DoNotSchedule) on the skew of pods over topology domains.

    matching pods in the node's domain + this one − global_minimum in any domain ≤ maxSkew

Soft constraints (ScheduleAnyway) score. A pod without any constraint has two soft ones of the default profile, over
nodes and zones, that count the pods of its Services and of its owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.simulator.reference_scheduler import label_selectors, node_filters
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView, is_terminating, labels_of
from windlass.simulator.reference_scheduler.framework import FilterPlugin, Rejection, StatusCode

HOSTNAME = "kubernetes.io/hostname"
_DEFAULT_MAX_SKEWS = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
_SELECTING_OWNERS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One constraint, and its number of matching pods by domain."""

    key: str
    max_skew: int
    min_domains: int
    selector: Json | None
    honor_affinity: bool
    honor_taints: bool
    counts: dict[str, int]

    def includes(self, pod: Json, node: Json) -> bool:
        """Do pods on this node count, and is its domain eligible, by the node inclusion policies?"""
        if self.honor_affinity and not node_filters.matches_node_affinity(pod, node):
            return False
        return not self.honor_taints or node_filters.tolerates_node(node_filters.tolerations_of(pod), node)

    def includes_every_node(self, pod: Json) -> bool:
        is_choosy = bool(pod["spec"].get("nodeSelector")) or node_filters.required_affinity(pod) is not None
        return not self.honor_taints and not (self.honor_affinity and is_choosy)

    def global_minimum(self) -> int:
        """The global minimum of pods per domain; 0 with fewer domains than minDomains."""
        return min(self.counts.values(), default=0) if len(self.counts) >= self.min_domains else 0


@dataclass(frozen=True, slots=True)
class PodTopologySpread(FilterPlugin):
    """Counts the pods of the namespace per constraint and domain, on the nodes that have all the topology keys."""

    plugin = "PodTopologySpread"
    pod: Json
    constraints: list[SpreadConstraint]

    def filter(self, node: NodeView) -> Rejection | None:
        for constraint in self.constraints:
            domain = node.labels.get(constraint.key)
            if domain is None:
                return self.unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)"
                )
            itself = 1 if label_selectors.matches_selector(constraint.selector, labels_of(self.pod)) else 0
            if constraint.counts.get(domain, 0) + itself - constraint.global_minimum() > constraint.max_skew:
                return self.unschedulable("node(s) didn't match pod topology spread constraints")
        return None

    def add_pod(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, +1)

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, -1)

    def _change(self, pod: Json, node: NodeView, delta: int) -> None:
        if pod["metadata"]["namespace"] != self.pod["metadata"]["namespace"]:
            return
        # Upstream checks here neither for terminating pods nor for an empty selector, although its first count
        # leaves both out: a terminating victim is subtracted without having been added.
        for constraint in self._counted_on(node):
            if label_selectors.matches_selector(constraint.selector, labels_of(pod)):
                domain = node.labels[constraint.key]
                constraint.counts[domain] = constraint.counts.get(domain, 0) + delta

    def _counted_on(self, node: NodeView) -> list[SpreadConstraint]:
        """Constraints that count the pods of this node: none, if it lacks the key of any one of them."""
        if not all(constraint.key in node.labels for constraint in self.constraints):
            return []
        return [constraint for constraint in self.constraints if constraint.includes(self.pod, node.node)]

    def count(self, node: NodeView) -> None:
        """Count all pods of a node; its domains exist from now on, even without any."""
        for constraint in self._counted_on(node):
            domain = node.labels[constraint.key]
            here = count_matching_pods(constraint.selector, self.pod["metadata"]["namespace"], node)
            constraint.counts[domain] = constraint.counts.get(domain, 0) + here

    def copy(self) -> "PodTopologySpread":
        copies = [replace(constraint, counts=dict(constraint.counts)) for constraint in self.constraints]
        return PodTopologySpread(self.pod, copies)


def pre_filter(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    refusal = reject_unparsable(pod, cluster)
    if refusal is not None:
        return refusal
    hard = hard_constraints(pod)
    if not hard:
        return None
    check = PodTopologySpread(pod, hard)
    for node in cluster.nodes.values():
        check.count(node)
    return check


def reject_unparsable(pod: Json, cluster: ClusterView) -> Rejection | None:
    """A pod with a hard constraint whose selector cannot be parsed fits nowhere."""
    fault = hard_constraints_error(pod)
    return Rejection(PodTopologySpread.plugin, StatusCode.ERROR, (fault,)) if fault else None


def hard_constraints_error(pod: Json) -> str:
    """Why the pod cannot be filtered: a hard constraint whose selector cannot be parsed. Empty if it can."""
    fault = _constraint_error(_own_constraints(pod, "DoNotSchedule"))
    text = f"get constraints from pod: obtaining pod's hard topology spread constraints: {fault}"
    return f'running PreFilter plugin "{PodTopologySpread.plugin}": {text}' if fault else ""


def soft_constraints_error(pod: Json) -> str:
    """Why the pod cannot be scored: a soft constraint whose selector cannot be parsed. Empty if it can."""
    fault = _constraint_error(_own_constraints(pod, "ScheduleAnyway"))
    return f"calculating preScoreState: obtaining pod's soft topology spread constraints: {fault}" if fault else ""


def has_own_constraints(pod: Json) -> bool:
    """Does the pod name constraints, hard or soft? Then the default ones do not apply."""
    return bool(pod["spec"].get("topologySpreadConstraints"))


def hard_constraints(pod: Json) -> list[SpreadConstraint]:
    return _constraints(pod, "DoNotSchedule")


def soft_constraints(pod: Json, selector: Json | None) -> list[SpreadConstraint]:
    """The pod's own, or the default ones with a selector (`default_selector`)."""
    if has_own_constraints(pod):
        return _constraints(pod, "ScheduleAnyway")
    if selector is None:
        return []
    return [SpreadConstraint(key, max_skew, 1, selector, True, False, {}) for key, max_skew in _DEFAULT_MAX_SKEWS]


def owner_of(pod: Json) -> tuple[str, str] | None:
    """Kind and key of the owner whose selector the default constraints use, if it is of such a kind."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            key = f"{pod['metadata']['namespace']}/{owner['name']}"
            return (owner["kind"], key) if (owner["apiVersion"], owner["kind"]) in _SELECTING_OWNERS else None
    return None


def default_selector(pod: Json, owner: Json | None, services: Iterable[Json]) -> Json | None:
    """Which pods the default constraints count: those of the pod's owner and of all Services that select it.

    None: there are no such constraints, since nothing selects the pod.
    """
    labels: dict[str, str] = {}
    for service in services:
        selector = service["spec"].get("selector")
        if selector and label_selectors.matches_selector({"matchLabels": selector}, labels_of(pod)):
            labels |= selector
    owned: Json = ((owner or {}).get("spec") or {}).get("selector") or {}
    if owner is not None and owner["kind"] == "ReplicationController":
        labels, owned = {**labels, **owned}, {}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    selector = {
        "matchLabels": owned.get("matchLabels") or {},
        "matchExpressions": [*(owned.get("matchExpressions") or ()), *expressions],
    }
    return None if label_selectors.is_empty_selector(selector) else selector


def count_matching_pods(selector: Json | None, namespace: str, node: NodeView) -> int:
    """Pods on a node that a constraint counts. Those on their way out do not count; an empty selector counts none."""
    if label_selectors.is_empty_selector(selector):
        return 0
    return sum(
        1
        for seated in node.pods.values()
        if seated.pod["metadata"]["namespace"] == namespace
        and not is_terminating(seated.pod)
        and label_selectors.matches_selector(selector, labels_of(seated.pod))
    )


def _constraints(pod: Json, when_unsatisfiable: str) -> list[SpreadConstraint]:
    """The pod's own, none if one of them cannot be parsed."""
    own = _own_constraints(pod, when_unsatisfiable)
    return [] if _constraint_error(own) else [_read_constraint(constraint, pod) for constraint in own]


def _own_constraints(pod: Json, when_unsatisfiable: str) -> list[Json]:
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    return [constraint for constraint in constraints if constraint["whenUnsatisfiable"] == when_unsatisfiable]


def _constraint_error(constraints: list[Json]) -> str:
    return next(
        (fault for item in constraints if (fault := label_selectors.selector_error(item.get("labelSelector")))), ""
    )


def _read_constraint(constraint: Json, pod: Json) -> SpreadConstraint:
    return SpreadConstraint(
        key=constraint["topologyKey"],
        max_skew=constraint["maxSkew"],
        min_domains=constraint.get("minDomains") or 1,
        selector=_with_match_label_keys(constraint, pod),
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
        counts={},
    )


def _with_match_label_keys(constraint: Json, pod: Json) -> Json | None:
    """The selector, and the pod's own values of `matchLabelKeys`. Objects from an API server carry them already."""
    selector: Json | None = constraint.get("labelSelector")
    keys = constraint.get("matchLabelKeys") or ()
    own = [{"key": key, "operator": "In", "values": [labels_of(pod)[key]]} for key in keys if key in labels_of(pod)]
    if selector is None or not own:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *own]}
