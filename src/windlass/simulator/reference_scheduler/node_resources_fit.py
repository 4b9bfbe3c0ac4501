"""NodeResourcesFit and NodePorts: requests must fit into what is free, and every host port must be free.

A host port is used once per protocol and host address. An absent address and `0.0.0.0` mean every address of the node;
`::` is an address like any other. A port that two pods hold (bound without the scheduler) is used until both are gone;
upstream keeps a set and removes the port with the first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.simulator.reference_scheduler import resource_requests
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView
from windlass.simulator.reference_scheduler.framework import FilterPlugin, Rejection


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
    wanted = resource_requests.pending_pod_requests(pod)
    wanted.pop("pods", None)
    return NodeResourcesFit(wanted)


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
        if any(wanted.conflicts_with(port) for wanted in self.wanted_ports for port in taken):
            return self.unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None


def pre_filter_node_ports(pod: Json, cluster: ClusterView) -> FilterPlugin | None:
    wanted = host_ports(pod)
    return NodePorts(wanted) if wanted else None


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
