"""NodeName: a pod that names its node runs there or nowhere."""

from windlass.engine import dtypes, shapes
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "NodeName"
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match the requested node name"),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True at the named node; None if none is named."""
    if not shape.spec.node_name:
        return None
    return snapshot.nodes.name_mask((shape.spec.node_name,))


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL
