"""NodeName: a pod that names its node runs there or nowhere.

Since kube-scheduler 1.37 the name narrows the search before any filter runs (`Release.narrows_by_node_name`).
"""

from typing import TYPE_CHECKING

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodeName"
REFUSAL = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) didn't match the requested node name"),))


def find_named_node(snapshot: "Snapshot", shape: facts.PodShape) -> set[str] | None:
    """The name to which the search is narrowed; None if it is not."""
    return {shape.spec.node_name} if snapshot.release.narrows_by_node_name and shape.spec.node_name else None


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True at the named node; None if none is named."""
    if not shape.spec.node_name:
        return None
    return snapshot.nodes.name_mask((shape.spec.node_name,))


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL
