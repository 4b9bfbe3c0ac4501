"""TaintToleration: a node repels every pod that does not tolerate it. PreferNoSchedule never blocks.

Nodes share few distinct taint sets, and pods few sets of tolerations: each pair is evaluated once.
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.facts import TO_BE_DELETED_TAINT
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "TaintToleration"
REFUSAL = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) had untolerated taint(s)"),))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where every taint that repels is tolerated."""
    return tolerated_mask(snapshot, shape.spec) & not_deleting_mask(snapshot, shape.spec)


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL


def tolerated_mask(snapshot: "Snapshot", spec: facts.PodSpec) -> arrays.Mask:
    """Bool (n_nodes): every taint that repels is tolerated. Kept; never write into it."""

    def compute(rows: slice) -> arrays.Mask:
        sets = snapshot.nodes.taint_sets
        accepted = np.fromiter((_tolerates_all(spec.tolerations, taints) for taints in sets), bool, len(sets))
        return accepted[snapshot.nodes.taint_ids[rows]]

    return snapshot.nodes.cached(("tolerated", spec.tolerations), compute)


def not_deleting_mask(snapshot: "Snapshot", spec: facts.PodSpec) -> arrays.Mask:
    """Bool (n_nodes): the node is not being drained, or the pod tolerates the deletion taint.

    Being emptied is no fact of the node but of a what-if, and so is never kept.
    """
    deleting = snapshot.nodes.deleting
    if any(toleration.tolerates(TO_BE_DELETED_TAINT) for toleration in spec.tolerations):
        return np.ones(len(deleting), bool)
    return ~deleting


def _tolerates_all(tolerations: tuple[facts.Toleration, ...], taints: tuple[facts.Taint, ...]) -> bool:
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
