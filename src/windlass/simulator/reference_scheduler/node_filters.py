"""Node filters, independent of other pods: NodeName, NodeAffinity, NodeUnschedulable, TaintToleration,
NodeDeclaredFeatures, NodeResourcesFit and NodePorts.

Requests must fit into what is free. A host port is used once per protocol and host address. An absent address and
`0.0.0.0` mean every address of the node; `::` is an address like any other. A port that two pods hold (bound without
the scheduler) is used until both are gone; upstream keeps a set and removes the port with the first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import label_selectors, resource_requests
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView, labels_of, node_name_of
from windlass.simulator.reference_scheduler.framework import FilterPlugin, Rejection, StatusCode


@dataclass(frozen=True, slots=True)
class NodeAffinity(FilterPlugin):
    """Only nodes that the pod's selector and affinity both match."""

    plugin = "NodeAffinity"
    pod: Json
    only_nodes: frozenset[str] | None
    """Names of nodes if every term selects nodes by name: other nodes are not filtered at all."""

    def filter(self, node: NodeView) -> Rejection | None:
        if matches_node_affinity(self.pod, node.node):
            return None
        return self.unresolvable("node(s) didn't match Pod's node affinity/selector")


def pre_filter_node_affinity(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    affinity = required_affinity(pod)
    if affinity is None and not pod["spec"].get("nodeSelector"):
        return None
    names = _required_node_names(affinity) if affinity is not None else None
    if names is not None and not names:
        return Rejection("NodeAffinity", StatusCode.UNRESOLVABLE, ("pod affinity terms conflict",))
    return NodeAffinity(pod, names)


def matches_node_affinity(pod: Json, node: Json) -> bool:
    """May the pod run on this node, as far as its node selector and required node affinity go?"""
    labels = labels_of(node)
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = required_affinity(pod)
    return affinity is None or label_selectors.matches_node_selector(affinity, labels, node["metadata"]["name"])


def required_affinity(pod: Json) -> Json | None:
    return _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")


def pinned_node_name(pod: Json) -> str:
    """The one node that a pod's affinity selects by name; empty for all other pods."""
    terms: list[Json] = (required_affinity(pod) or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: list[Json] = terms[0].get("matchFields") or []
    if len(fields) != 1 or fields[0]["operator"] != "In" or len(fields[0]["values"]) != 1:
        return ""
    return str(fields[0]["values"][0])


def preferred_affinity(pod: Json) -> list[Json]:
    return _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or []


def _node_affinity(pod: Json) -> Json:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def preferred_affinity_weight(pod: Json, node: Json) -> int:
    """The weight of the preferred terms that match a node. Terms that cannot be read match none."""
    labels, name = labels_of(node), node["metadata"]["name"]
    return sum(
        int(term["weight"])
        for term in preferred_affinity(pod)
        if label_selectors.matches_node_selector({"nodeSelectorTerms": [term["preference"]]}, labels, name)
    )


def _required_node_names(affinity: Json) -> frozenset[str] | None:
    """Names of all nodes that the terms select with `metadata.name In`; None if a term selects none by name."""
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


@dataclass(frozen=True, slots=True)
class NodeName(FilterPlugin):
    """`spec.nodeName` of a pending pod is the only node it may run on."""

    plugin = "NodeName"
    node_name: str

    def filter(self, node: NodeView) -> Rejection | None:
        if node.name == self.node_name:
            return None
        return self.unresolvable("node(s) didn't match the requested node name")


def pre_filter_node_name(pod: Json, cluster: ClusterView) -> FilterPlugin | None:
    return NodeName(node_name_of(pod)) if node_name_of(pod) else None


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures(FilterPlugin):
    """A pod that uses certain features runs only where the node's `status.declaredFeatures` lists them all."""

    plugin = "NodeDeclaredFeatures"
    needed: frozenset[str]

    def filter(self, node: NodeView) -> Rejection | None:
        declared = (node.node.get("status") or {}).get("declaredFeatures") or ()
        if self.needed.issubset(declared):
            return None
        return self.unresolvable("node(s) didn't match Pod's required features")


def pre_filter_declared_features(pod: Json, cluster: ClusterView) -> FilterPlugin | None:
    needed = required_features(pod)
    return NodeDeclaredFeatures(needed) if needed else None


def required_features(pod: Json) -> frozenset[str]:
    """Declared features of this release that affect the scheduling of a new pod."""
    spec = pod["spec"]
    needed = set()
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule["action"] == "RestartAllContainers" for rule in rules):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)


UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""A pod that tolerates this taint may run on a cordoned node, whether or not the node has the taint."""


@dataclass(frozen=True, slots=True)
class NodeUnschedulable(FilterPlugin):
    """A cordoned node (`spec.unschedulable`) rejects pods that do not tolerate the taint of that name."""

    plugin = "NodeUnschedulable"
    tolerations: Sequence[Json]

    def filter(self, node: NodeView) -> Rejection | None:
        if not node.node["spec"].get("unschedulable") or is_tolerated(UNSCHEDULABLE_TAINT, self.tolerations):
            return None
        return self.unresolvable("node(s) were unschedulable")


def pre_filter_unschedulable(pod: Json, cluster: ClusterView) -> FilterPlugin:
    return NodeUnschedulable(tolerations_of(pod))


@dataclass(frozen=True, slots=True)
class TaintToleration(FilterPlugin):
    """PreferNoSchedule never refuses; a NoExecute taint repels new pods just as NoSchedule does."""

    plugin = "TaintToleration"
    tolerations: Sequence[Json]

    def filter(self, node: NodeView) -> Rejection | None:
        if tolerates_node(self.tolerations, node.node):
            return None
        return self.unresolvable("node(s) had untolerated taint(s)")


def pre_filter_taints(pod: Json, cluster: ClusterView) -> FilterPlugin:
    return TaintToleration(tolerations_of(pod))


def tolerations_of(pod: Json) -> Sequence[Json]:
    return pod["spec"].get("tolerations") or ()


def tolerates_node(tolerations: Sequence[Json], node: Json) -> bool:
    """Are all taints tolerated that keep pods from being scheduled?"""
    hard = [taint for taint in node["spec"].get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")]
    return all(is_tolerated(taint, tolerations) for taint in hard)


def count_prefer_no_schedule(tolerations: Sequence[Json], node: Json) -> int:
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


@dataclass(frozen=True, slots=True)
class NodeResourcesFit(FilterPlugin):
    """A pod without a request for a resource fits even on a node that is overcommitted in it."""

    plugin = "NodeResourcesFit"
    pod_requests: resource_requests.ResourceList

    def filter(self, node: NodeView) -> Rejection | None:
        taken = requested_on(node)
        reasons = []
        is_too_large = False
        if len(node.pods) + 1 > node.allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for name, amount in self.pod_requests.items():
            has = node.allocatable.get(name, 0)
            if amount > 0 and amount > has - taken.get(name, 0):
                reasons.append(f"Insufficient {name}")
                is_too_large = is_too_large or amount > has
        if not reasons:
            return None
        return self.unresolvable(*reasons) if is_too_large else self.unschedulable(*reasons)


def pre_filter_resources_fit(pod: Json, cluster: ClusterView) -> FilterPlugin:
    desired = resource_requests.pending_pod_requests(pod)
    desired.pop("pods", None)
    return NodeResourcesFit(desired)


def requested_on(node: NodeView) -> resource_requests.ResourceList:
    """The sum of requests of the pods on a node."""
    return _sum_requests(seated.requests for seated in node.pods.values())


def nonzero_requested_on(node: NodeView) -> resource_requests.ResourceList:
    """Requested CPU and memory for scores, with a default for containers that request none."""
    return _sum_requests(seated.nonzero_requests for seated in node.pods.values())


def _sum_requests(all_amounts: Iterable[resource_requests.ResourceList]) -> resource_requests.ResourceList:
    taken: resource_requests.ResourceList = {}
    for amounts in all_amounts:
        for name, amount in amounts.items():
            taken[name] = taken.get(name, 0) + amount
    return taken


ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class HostPort:
    """One port of the node itself."""

    address: str
    protocol: str
    number: int

    def conflicts_with(self, other: "HostPort") -> bool:
        if (self.protocol, self.number) != (other.protocol, other.number):
            return False
        return ANY_ADDRESS in (self.address, other.address) or self.address == other.address


@dataclass(frozen=True, slots=True)
class NodePorts(FilterPlugin):
    """Every host port that the pod wants must be free."""

    plugin = "NodePorts"
    wanted_ports: list[HostPort]

    def filter(self, node: NodeView) -> Rejection | None:
        taken = [port for seated in node.pods.values() for port in host_ports(seated.pod)]
        if any(wanted_port.conflicts_with(port) for wanted_port in self.wanted_ports for port in taken):
            return self.unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None


def pre_filter_node_ports(pod: Json, cluster: ClusterView) -> FilterPlugin | None:
    desired = host_ports(pod)
    return NodePorts(desired) if desired else None


def host_ports(pod: Json) -> list[HostPort]:
    """Ports of containers and sidecars. Other init containers end before the pod runs, so their ports do not count."""
    spec = pod["spec"]
    sidecars = [item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"]
    return [
        HostPort(port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in [*sidecars, *(spec.get("containers") or ())]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
