"""PodTopologySpread: hard constraints (DoNotSchedule) on how unevenly pods may lie over a topology.

pods like this one in the node's domain + this one − fewest in any domain ≤ maxSkew

Soft constraints (ScheduleAnyway) score. A pod without any constraint has two soft ones of the default profile, over
nodes and zones, that count the pods of its Services and of its owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.simulator.scheduler import affinity, matching, parsing, taints
from windlass.simulator.scheduler.check import Check, Code, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, is_terminating, labels_of

HOSTNAME = "kubernetes.io/hostname"
_DEFAULT_MAX_SKEWS = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
_SELECTING_OWNERS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint, and how many pods it counts in each domain."""

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

    def includes_every_node(self, pod: Json) -> bool:
        is_choosy = bool(pod["spec"].get("nodeSelector")) or affinity.required_of(pod) is not None
        return not self.honor_taints and not (self.honor_affinity and is_choosy)

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
            here = count_matching(constraint.selector, self.pod["metadata"]["namespace"], node)
            constraint.counts[domain] = constraint.counts.get(domain, 0) + here

    def copy(self) -> "PodTopologySpread":
        copies = [replace(constraint, counts=dict(constraint.counts)) for constraint in self.constraints]
        return PodTopologySpread(self.pod, copies)


def prepare(pod: Json, cluster: ClusterView) -> Check | Refusal | None:
    refusal = refuse_unparsable(pod, cluster)
    if refusal is not None:
        return refusal
    hard = hard_constraints(pod)
    if not hard:
        return None
    check = PodTopologySpread(pod, hard)
    for node in cluster.nodes.values():
        check.count(node)
    return check


def refuse_unparsable(pod: Json, cluster: ClusterView) -> Refusal | None:
    """A pod with a hard constraint whose selector cannot be parsed fits nowhere."""
    fault = _fault_of(_own_constraints(pod, "DoNotSchedule"))
    if not fault:
        return None
    text = f"get constraints from pod: obtaining pod's hard topology spread constraints: {fault}"
    plugin = PodTopologySpread.plugin
    return Refusal(plugin, Code.ERROR, (f'running PreFilter plugin "{plugin}": {text}',))


def has_own_constraints(pod: Json) -> bool:
    """Does the pod name constraints, hard or soft? Then the default ones do not apply."""
    return bool(pod["spec"].get("topologySpreadConstraints"))


def hard_constraints(pod: Json) -> list[Constraint]:
    return _constraints(pod, "DoNotSchedule")


def soft_constraints(pod: Json, selector: Json | None) -> list[Constraint]:
    """The pod's own, or the default ones with a selector (`default_selector`)."""
    if has_own_constraints(pod):
        return _constraints(pod, "ScheduleAnyway")
    if selector is None:
        return []
    return [Constraint(key, max_skew, 1, selector, True, False, {}) for key, max_skew in _DEFAULT_MAX_SKEWS]


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
        if selector and matching.selects({"matchLabels": selector}, labels_of(pod)):
            labels |= selector
    owned: Json = ((owner or {}).get("spec") or {}).get("selector") or {}
    if owner is not None and owner["kind"] == "ReplicationController":
        labels, owned = {**labels, **owned}, {}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    selector = {
        "matchLabels": owned.get("matchLabels") or {},
        "matchExpressions": [*(owned.get("matchExpressions") or ()), *expressions],
    }
    return None if matching.is_everything(selector) else selector


def count_matching(selector: Json | None, namespace: str, node: NodeView) -> int:
    """Pods on a node that a constraint counts. Those on their way out do not count; an empty selector counts none."""
    if matching.is_everything(selector):
        return 0
    return sum(
        1
        for seated in node.pods.values()
        if seated.pod["metadata"]["namespace"] == namespace
        and not is_terminating(seated.pod)
        and matching.selects(selector, labels_of(seated.pod))
    )


def _constraints(pod: Json, when_unsatisfiable: str) -> list[Constraint]:
    """The pod's own, none if one of them cannot be parsed."""
    own = _own_constraints(pod, when_unsatisfiable)
    return [] if _fault_of(own) else [_read(constraint, pod) for constraint in own]


def _own_constraints(pod: Json, when_unsatisfiable: str) -> list[Json]:
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    return [constraint for constraint in constraints if constraint["whenUnsatisfiable"] == when_unsatisfiable]


def _fault_of(constraints: list[Json]) -> str:
    return next((fault for one in constraints if (fault := parsing.fault_of(one.get("labelSelector")))), "")


def _read(constraint: Json, pod: Json) -> Constraint:
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
