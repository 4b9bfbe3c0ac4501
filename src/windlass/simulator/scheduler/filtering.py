"""All filters, in the scheduler's order, put to one pod."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass.simulator.scheduler import (
    affinity,
    attachments,
    binding,
    disks,
    interpod,
    names,
    ports,
    resources,
    spread,
    taints,
    zones,
)
from windlass.simulator.scheduler.check import CannotTell, Check, Code, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView

FILTERS: tuple[Callable[[Json, ClusterView], Check | Refusal | None], ...] = (
    taints.prepare_unschedulable,
    names.prepare_node_name,
    taints.prepare_taints,
    affinity.prepare,
    ports.prepare,
    resources.prepare,
    disks.prepare,
    attachments.prepare,
    binding.prepare,
    zones.prepare,
    spread.prepare,
    interpod.prepare,
    names.prepare_declared_features,
)
"""Each makes its check ready for a pod. None: it has nothing to say about this pod; a refusal: no node will do."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The filters that have something to say about one pod, against one cluster."""

    pod: Json
    checks: Sequence[Check]
    only_nodes: frozenset[str] | None = None
    """The only nodes worth looking at, where the pod's affinity names them; None: all."""

    def refuse(self, node: NodeView) -> Refusal | None:
        """The first filter's refusal, or None if the pod may run on the node."""
        for check in self.checks:
            try:
                refusal = check.refuse(node)
            except CannotTell as error:
                return Refusal(check.plugin, Code.ERROR, (f'running "{check.plugin}" filter plugin: {error}',))
            if refusal is not None:
                return refusal
        return None

    def add(self, pod: Json, node: NodeView) -> None:
        """Imagine `pod` on `node`."""
        node.add(pod)
        for check in self.checks:
            check.add(pod, node)

    def remove(self, pod: Json, node: NodeView) -> None:
        """Imagine `node` without `pod`."""
        node.remove(pod)
        for check in self.checks:
            check.remove(pod, node)

    def copy(self) -> "Cycle":
        return Cycle(self.pod, [check.copy() for check in self.checks], self.only_nodes)


def prepare(cluster: ClusterView, pod: Json) -> Cycle | Refusal:
    """Make all filters ready for the pod, or say which one refuses it on every node."""
    checks = []
    only_nodes = None
    for prepare_check in FILTERS:
        prepared = prepare_check(pod, cluster)
        if isinstance(prepared, Refusal):
            return prepared
        if isinstance(prepared, affinity.NodeAffinity):
            only_nodes = prepared.only_nodes
        if prepared is not None:
            checks.append(prepared)
    return Cycle(pod, checks, only_nodes)


def judge(cluster: ClusterView, pod: Json) -> dict[str, Refusal | None]:
    """What the filters say of the pod on every node; None: it may run there. Pods that wait are not considered."""
    prepared = prepare(cluster, pod)
    if isinstance(prepared, Refusal):
        return dict.fromkeys(cluster.nodes, prepared)
    return {
        name: prepared.refuse(node) if is_worth_looking_at(prepared, name) else NOT_LOOKED_AT
        for name, node in cluster.nodes.items()
    }


NOT_LOOKED_AT = Refusal(
    affinity.NodeAffinity.plugin,
    Code.UNRESOLVABLE,
    (f"node(s) didn't satisfy plugin(s) [{affinity.NodeAffinity.plugin}]",),
)


def is_worth_looking_at(cycle: Cycle, node_name: str) -> bool:
    return cycle.only_nodes is None or node_name in cycle.only_nodes
