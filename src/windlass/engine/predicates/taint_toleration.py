"""TaintToleration: a node repels every pod that does not tolerate it. PreferNoSchedule never blocks."""

from typing import TYPE_CHECKING

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import node_inclusion

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "TaintToleration"
REFUSAL = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) had untolerated taint(s)"),))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where every taint that repels is tolerated."""
    return node_inclusion.tolerated_mask(snapshot, shape.spec) & node_inclusion.not_deleting_mask(snapshot, shape.spec)


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL
