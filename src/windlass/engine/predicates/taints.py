"""TaintToleration: a node repels every pod that does not tolerate it. PreferNoSchedule never blocks."""

from windlass.engine import dtypes, shapes
from windlass.engine.predicates import inclusion
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "TaintToleration"
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) had untolerated taint(s)"),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where every taint that repels is tolerated."""
    return inclusion.tolerated(snapshot, shape.spec) & inclusion.staying(snapshot, shape.spec)


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL
