"""NodeResourcesFit: what the pod asks for must be left over, and there must be room for one more pod."""

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.simulator.scheduler import requests
from windlass.simulator.scheduler.check import Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView


@dataclass(frozen=True, slots=True)
class NodeResourcesFit(Check):
    """A pod that asks for nothing of a resource fits even where more than all of it is taken."""

    plugin = "NodeResourcesFit"
    wanted: requests.Amounts

    def refuse(self, node: NodeView) -> Refusal | None:
        taken = taken_from(node)
        reasons = []
        is_too_large = False
        if len(node.pods) + 1 > node.allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for name, amount in self.wanted.items():
            has = node.allocatable.get(name, 0)
            if amount > 0 and amount > has - taken.get(name, 0):
                reasons.append(f"Insufficient {name}")
                is_too_large = is_too_large or amount > has
        if not reasons:
            return None
        return self.unresolvable(*reasons) if is_too_large else self.unschedulable(*reasons)


def prepare(pod: Json, cluster: ClusterView) -> Check:
    wanted = requests.of_pending(pod)
    wanted.pop("pods", None)
    return NodeResourcesFit(wanted)


def taken_from(node: NodeView) -> requests.Amounts:
    """What the pods on a node take from it, all together."""
    return _sum(seated.requests for seated in node.pods.values())


def nonzero_taken_from(node: NodeView) -> requests.Amounts:
    """CPU and memory that scores count as taken: containers that request none take a default."""
    return _sum(seated.nonzero_requests for seated in node.pods.values())


def _sum(all_amounts: Iterable[requests.Amounts]) -> requests.Amounts:
    taken: requests.Amounts = {}
    for amounts in all_amounts:
        for name, amount in amounts.items():
            taken[name] = taken.get(name, 0) + amount
    return taken
