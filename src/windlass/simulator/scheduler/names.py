"""NodeName and NodeDeclaredFeatures: a pod that asks for one node by name, or for what only some nodes can do."""

from dataclasses import dataclass

from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, node_name_of


@dataclass(frozen=True, slots=True)
class NodeName(Check):
    """`spec.nodeName` of a pod that still waits names the only node it may go to."""

    plugin = "NodeName"
    wanted: str

    def refuse(self, node: NodeView) -> Refusal | None:
        if node.name == self.wanted:
            return None
        return self.unresolvable("node(s) didn't match the requested node name")


def prepare_node_name(pod: Json, cluster: ClusterView) -> Check | None:
    return NodeName(node_name_of(pod)) if node_name_of(pod) else None


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures(Check):
    """A pod that uses certain features runs only where the node's `status.declaredFeatures` lists them all."""

    plugin = "NodeDeclaredFeatures"
    needed: frozenset[str]

    def refuse(self, node: NodeView) -> Refusal | None:
        declared = (node.node.get("status") or {}).get("declaredFeatures") or ()
        if self.needed.issubset(declared):
            return None
        return self.unresolvable("node(s) didn't match Pod's required features")


def prepare_declared_features(pod: Json, cluster: ClusterView) -> Check | None:
    needed = features_needed(pod)
    return NodeDeclaredFeatures(needed) if needed else None


def features_needed(pod: Json) -> frozenset[str]:
    """Of the features that nodes declare in this release, those that make a difference to a new pod."""
    spec = pod["spec"]
    needed = set()
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule["action"] == "RestartAllContainers" for rule in rules):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)
