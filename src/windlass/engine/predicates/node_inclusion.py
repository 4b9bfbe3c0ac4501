"""Node inclusion: masks of the nodes that a pod's selectors and tolerations allow.

NodeAffinity and TaintToleration refuse the others; PodTopologySpread leaves them out of its domains where a
constraint's policies require it. Nodes share few distinct taint sets, and pods few sets of tolerations: each pair is
evaluated once.
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.facts import TO_BE_DELETED_TAINT
from windlass.selectors import Operator, Requirement

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot


def selected_mask(snapshot: "Snapshot", spec: facts.PodSpec) -> arrays.Mask:
    """Bool (n_nodes): nodeSelector and required node affinity match. Kept; never write into it."""

    def compute(rows: slice) -> arrays.Mask:
        allowed = np.ones(snapshot.nodes.count, bool)
        for key, value in spec.node_selector:
            allowed &= snapshot.nodes.requirement_mask(Requirement(key, Operator.IN, (value,)))
        if spec.node_affinity is not None:
            allowed &= snapshot.nodes.selector_mask(spec.node_affinity)
        return allowed[rows]

    return snapshot.nodes.cached(("selected", spec.node_selector, spec.node_affinity), compute)


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
