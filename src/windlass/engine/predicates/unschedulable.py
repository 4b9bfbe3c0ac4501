"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint that goes with it."""

from windlass.engine import dtypes, shapes
from windlass.engine.facts import Taint
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "NodeUnschedulable"
TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) were unschedulable"),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where the node is not cordoned; None if the pod tolerates that."""
    if any(toleration.tolerates(TAINT) for toleration in shape.spec.tolerations):
        return None
    return ~snapshot.nodes.unschedulable


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL
