"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint that goes with it."""

from typing import TYPE_CHECKING

from windlass.engine.model import arrays, facts
from windlass.engine.model.facts import Taint
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodeUnschedulable"
TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
REFUSAL = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) were unschedulable"),))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where the node is not cordoned; None if the pod tolerates that."""
    if any(toleration.tolerates(TAINT) for toleration in shape.spec.tolerations):
        return None
    return ~snapshot.nodes.unschedulable


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL
