"""NodeName: a pod that names its node runs there or nowhere.

Since kube-scheduler 1.37 the name narrows the search before any filter runs (`Release.narrows_by_node_name`).
"""

from windlass.engine import dtypes, shapes
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "NodeName"
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match the requested node name"),))


def named(snapshot: Snapshot, shape: shapes.Shape) -> set[str] | None:
    """The name to which the search is narrowed; None if it is not."""
    return {shape.spec.node_name} if snapshot.release.narrows_by_node_name and shape.spec.node_name else None


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True at the named node; None if none is named."""
    if not shape.spec.node_name:
        return None
    return snapshot.nodes.name_mask((shape.spec.node_name,))


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL
