"""NodeAffinity: `spec.nodeSelector` and required node affinity; both must hold. Preferred node affinity scores."""

from dataclasses import dataclass

from windlass.simulator.scheduler import matching
from windlass.simulator.scheduler.check import Check, Code, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, labels_of


@dataclass(frozen=True, slots=True)
class NodeAffinity(Check):
    """Only nodes that the pod's selector and affinity both match."""

    plugin = "NodeAffinity"
    pod: Json
    only_nodes: frozenset[str] | None
    """Where every term asks for nodes by name, those names: other nodes are not even looked at."""

    def refuse(self, node: NodeView) -> Refusal | None:
        if matches(self.pod, node.node):
            return None
        return self.unresolvable("node(s) didn't match Pod's node affinity/selector")


def prepare(pod: Json, cluster: ClusterView) -> Check | Refusal | None:
    affinity = required_of(pod)
    if affinity is None and not pod["spec"].get("nodeSelector"):
        return None
    names = _names_asked_for(affinity) if affinity is not None else None
    if names is not None and not names:
        return Refusal("NodeAffinity", Code.UNRESOLVABLE, ("pod affinity terms conflict",))
    return NodeAffinity(pod, names)


def matches(pod: Json, node: Json) -> bool:
    """May the pod run on this node, as far as its node selector and required node affinity go?"""
    labels = labels_of(node)
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = required_of(pod)
    return affinity is None or matching.selects_node(affinity, labels, node["metadata"]["name"])


def required_of(pod: Json) -> Json | None:
    return _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")


def preferred_of(pod: Json) -> list[Json]:
    return _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or []


def _node_affinity(pod: Json) -> Json:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def preferred_weight(pod: Json, node: Json) -> int:
    """The weight of the preferred terms that match a node. Terms that cannot be read match none."""
    labels, name = labels_of(node), node["metadata"]["name"]
    return sum(
        int(term["weight"])
        for term in preferred_of(pod)
        if matching.selects_node({"nodeSelectorTerms": [term["preference"]]}, labels, name)
    )


def _names_asked_for(affinity: Json) -> frozenset[str] | None:
    """Names of all nodes that the terms ask for with `metadata.name In`; None if some term asks for none by name."""
    names: set[str] = set()
    terms = affinity.get("nodeSelectorTerms") or ()
    for term in terms:
        asked = [
            set(field.get("values") or ())
            for field in term.get("matchFields") or ()
            if field["key"] == "metadata.name" and field["operator"] == "In"
        ]
        if not asked:
            return None
        names |= set.intersection(*asked)
    return frozenset(names) if terms else None
