"""NodePorts: a host port can be had once per protocol and host address.

An absent address and `0.0.0.0` mean every address of the node; `::` is an address like any other.

A port that two pods hold (because somebody bound them past the scheduler) stays taken until both have gone. Upstream
keeps a set and forgets it with the first, so that its answer depends on what happened before; ours does not.
"""

from dataclasses import dataclass

from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView

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
class NodePorts(Check):
    """Every host port that the pod wants must be free."""

    plugin = "NodePorts"
    wanted: list[HostPort]

    def refuse(self, node: NodeView) -> Refusal | None:
        taken = [port for seated in node.pods.values() for port in host_ports(seated.pod)]
        if any(wanted.conflicts_with(port) for wanted in self.wanted for port in taken):
            return self.unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None


def prepare(pod: Json, cluster: ClusterView) -> Check | None:
    wanted = host_ports(pod)
    return NodePorts(wanted) if wanted else None


def host_ports(pod: Json) -> list[HostPort]:
    """Ports held as long as the pod runs. Init containers come and go, but for sidecars, so theirs do not count."""
    spec = pod["spec"]
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [
        HostPort(port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in [*sidecars, *(spec.get("containers") or ())]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
