"""PodTopologySpread: hard constraints (DoNotSchedule) on how unevenly pods may lie over a topology.

pods like this one in the node's domain + this one − fewest in any domain ≤ maxSkew
"""

from dataclasses import dataclass, replace

from windlass.simulator.scheduler import affinity, matching, taints
from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, is_terminating, labels_of


@dataclass(frozen=True, slots=True)
class Constraint:
    """One hard constraint, and how many pods it counts in each domain."""

    key: str
    max_skew: int
    min_domains: int
    selector: Json | None
    honor_affinity: bool
    honor_taints: bool
    counts: dict[str, int]

    def includes(self, pod: Json, node: Json) -> bool:
        """Do pods on this node count, and is its domain one where the pod might go?"""
        if self.honor_affinity and not affinity.matches(pod, node):
            return False
        return not self.honor_taints or taints.tolerates_node(taints.tolerations_of(pod), node)

    def fewest(self) -> int:
        """Pods in the emptiest domain; with fewer domains than asked for, one more is thought to be there, empty."""
        return min(self.counts.values(), default=0) if len(self.counts) >= self.min_domains else 0


@dataclass(frozen=True, slots=True)
class PodTopologySpread(Check):
    """Counts the pods of the namespace per constraint and domain, on the nodes that have all the topology keys."""

    plugin = "PodTopologySpread"
    pod: Json
    constraints: list[Constraint]

    def refuse(self, node: NodeView) -> Refusal | None:
        for constraint in self.constraints:
            domain = node.labels.get(constraint.key)
            if domain is None:
                return self.unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)"
                )
            itself = 1 if matching.selects(constraint.selector, labels_of(self.pod)) else 0
            if constraint.counts.get(domain, 0) + itself - constraint.fewest() > constraint.max_skew:
                return self.unschedulable("node(s) didn't match pod topology spread constraints")
        return None

    def add(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, +1)

    def remove(self, pod: Json, node: NodeView) -> None:
        self._change(pod, node, -1)

    def _change(self, pod: Json, node: NodeView, delta: int) -> None:
        if pod["metadata"]["namespace"] != self.pod["metadata"]["namespace"]:
            return
        # Upstream asks here neither whether the pod is on its way out nor whether the selector is empty, though it
        # left both uncounted at first: a terminating victim is subtracted without ever having been added.
        for constraint in self._counted_on(node):
            if matching.selects(constraint.selector, labels_of(pod)):
                domain = node.labels[constraint.key]
                constraint.counts[domain] = constraint.counts.get(domain, 0) + delta

    def _counted_on(self, node: NodeView) -> list[Constraint]:
        """Constraints that count the pods of this node: none, if it lacks the key of any one of them."""
        if not all(constraint.key in node.labels for constraint in self.constraints):
            return []
        return [constraint for constraint in self.constraints if constraint.includes(self.pod, node.node)]

    def count(self, node: NodeView) -> None:
        """Count all pods of a node; its domains exist from now on, even without any."""
        for constraint in self._counted_on(node):
            domain = node.labels[constraint.key]
            here = 0 if matching.is_everything(constraint.selector) else self._pods_like(constraint.selector, node)
            constraint.counts[domain] = constraint.counts.get(domain, 0) + here

    def _pods_like(self, selector: Json | None, node: NodeView) -> int:
        namespace = self.pod["metadata"]["namespace"]
        return sum(
            1
            for seated in node.pods.values()
            if seated.pod["metadata"]["namespace"] == namespace
            and not is_terminating(seated.pod)
            and matching.selects(selector, labels_of(seated.pod))
        )

    def copy(self) -> "PodTopologySpread":
        copies = [replace(constraint, counts=dict(constraint.counts)) for constraint in self.constraints]
        return PodTopologySpread(self.pod, copies)


def prepare(pod: Json, cluster: ClusterView) -> Check | None:
    hard = [
        read(constraint, pod)
        for constraint in pod["spec"].get("topologySpreadConstraints") or ()
        if constraint["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    if not hard:
        return None
    check = PodTopologySpread(pod, hard)
    for node in cluster.nodes.values():
        check.count(node)
    return check


def read(constraint: Json, pod: Json) -> Constraint:
    return Constraint(
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
