"""NodeUnschedulable and TaintToleration: a node repels every pod that does not tolerate it, or is put last for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""Who tolerates this taint may go to a cordoned node, whether or not the node carries it."""


@dataclass(frozen=True, slots=True)
class NodeUnschedulable(Check):
    """A cordoned node (`spec.unschedulable`) takes no pod, unless the pod tolerates the taint of that name."""

    plugin = "NodeUnschedulable"
    tolerations: Sequence[Json]

    def refuse(self, node: NodeView) -> Refusal | None:
        if not node.node["spec"].get("unschedulable") or is_tolerated(CORDON, self.tolerations):
            return None
        return self.unresolvable("node(s) were unschedulable")


def prepare_unschedulable(pod: Json, cluster: ClusterView) -> Check:
    return NodeUnschedulable(tolerations_of(pod))


@dataclass(frozen=True, slots=True)
class TaintToleration(Check):
    """PreferNoSchedule never refuses; a NoExecute taint repels new pods just as NoSchedule does."""

    plugin = "TaintToleration"
    tolerations: Sequence[Json]

    def refuse(self, node: NodeView) -> Refusal | None:
        if tolerates_node(self.tolerations, node.node):
            return None
        return self.unresolvable("node(s) had untolerated taint(s)")


def prepare_taints(pod: Json, cluster: ClusterView) -> Check:
    return TaintToleration(tolerations_of(pod))


def tolerations_of(pod: Json) -> Sequence[Json]:
    return pod["spec"].get("tolerations") or ()


def tolerates_node(tolerations: Sequence[Json], node: Json) -> bool:
    """Are all taints tolerated that keep pods from being scheduled?"""
    hard = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    return all(is_tolerated(taint, tolerations) for taint in hard)


def count_soft(tolerations: Sequence[Json], node: Json) -> int:
    """PreferNoSchedule taints that are not tolerated: the fewer, the better the node."""
    soft = [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "PreferNoSchedule"]
    return sum(not is_tolerated(taint, tolerations) for taint in soft)


def is_tolerated(taint: Json, tolerations: Sequence[Json]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    """An empty effect tolerates every effect, an empty key every key."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
    # Lt and Gt compare numbers only where a feature gate that is off by default says so.
    return False
