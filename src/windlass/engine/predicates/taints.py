"""TaintToleration: a node repels every pod that does not tolerate it. PreferNoSchedule never blocks.

Nodes share few distinct sets of taints, and so do pods tolerations: each pair is judged once.
"""

import numpy as np

from windlass.engine import dtypes, facts, shapes
from windlass.engine.nodes import TO_BE_DELETED
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "TaintToleration"
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) had untolerated taint(s)"),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where every taint that repels is tolerated."""
    return tolerated(snapshot, shape.spec.tolerations) & not_deleting(snapshot, shape)


def tolerated(snapshot: Snapshot, tolerations: tuple[facts.Toleration, ...]) -> dtypes.Mask:
    """Bool (n_nodes): the taints that nodes carry are tolerated. Kept; never write into it."""

    def compute(rows: slice) -> dtypes.Mask:
        sets = snapshot.nodes.taint_sets
        accepted = np.fromiter((_tolerates_all(tolerations, taints) for taints in sets), bool, len(sets))
        return accepted[snapshot.nodes.taint_ids[rows]]

    return snapshot.nodes.kept(("tolerated", tolerations), compute)


def not_deleting(snapshot: Snapshot, shape: shapes.Shape) -> dtypes.Mask:
    """Bool (n_nodes): the node is not being emptied, or the pod tolerates the taint that says so."""
    deleting = snapshot.nodes.deleting
    if any(toleration.tolerates(TO_BE_DELETED) for toleration in shape.spec.tolerations):
        return np.ones(len(deleting), bool)
    return ~deleting


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL


def _tolerates_all(tolerations: tuple[facts.Toleration, ...], taints: tuple[facts.Taint, ...]) -> bool:
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
