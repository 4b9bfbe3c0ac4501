"""Nominated pods: waiting pods for which kube-scheduler has made room on a node by preemption.

A pod of lower or equal priority must fit on that node both with them and without them.
"""

from collections.abc import Mapping
from dataclasses import replace

from windlass.engine.model import facts
from windlass.engine.model.scheduling_reasons import Refusal
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import inter_pod_affinity, registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.selectors import EVERYTHING, LabelSelector, Operator, Requirement

_MARK = "nominated"
_MARKED = LabelSelector((Requirement(_MARK, Operator.EXISTS),))


def find(snapshot: Snapshot, scheduler: str) -> dict[int, list[int]]:
    """Rows of the scheduler's nominated pods, by the row of the node. Pods with scheduling gates do not count."""
    found: dict[int, list[int]] = {}
    for row in snapshot.pending():
        kind = snapshot.pods.template_key(row)
        node_row = snapshot.nodes.rows.get(kind.nominated_node) if kind.nominated_node else None
        if node_row is not None and kind.scheduler == scheduler and not kind.is_gated:
            found.setdefault(node_row, []).append(row)
    return found


def refusals(
    snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig, nominated: Mapping[int, list[int]]
) -> dict[int, Refusal]:
    """By node row, why a pod of the shape does not fit beside the nodes' nominated pods of its priority or higher."""
    if not nominated or registry.run_pre_filters(snapshot, shape, config) is not None:
        return {}
    priority, found = shape.spec.priority or 0, {}
    if _skips_affinity(snapshot, shape):
        config = replace(config, disabled=config.disabled | {inter_pod_affinity.NAME})
    shape = _count_later_pods(snapshot, shape)
    for node_row, rows in nominated.items():
        beside = [row for row in rows if (snapshot.shape_of_row(row).spec.priority or 0) >= priority]
        if beside and (refusal := _judge_beside(snapshot, shape, config, node_row, beside)) is not None:
            found[node_row] = refusal
    return found


def _count_later_pods(snapshot: Snapshot, shape: facts.PodShape) -> facts.PodShape:
    """The shape, with spread constraints that count nominated pods.

    Of pods that run an empty selector counts none; of those that kube-scheduler adds afterwards it counts all.
    """
    if all(spread_constraint.selector != EVERYTHING for spread_constraint in shape.spec.spread):
        return shape
    snapshot.show_labels({_MARK})
    spread = tuple(replace(one, selector=_MARKED) if one.selector == EVERYTHING else one for one in shape.spec.spread)
    profile = shape.profile
    spec = replace(shape.spec, spread=spread)
    return snapshot.shapes.intern(profile.namespace, _mark(profile.label_map), spec, profile.terminating)


def _mark(labels: Mapping[str, str]) -> dict[str, str]:
    return {**labels, _MARK: ""}


def _skips_affinity(snapshot: Snapshot, shape: facts.PodShape) -> bool:
    """Is InterPodAffinity not asked at all? So it is where neither the pod nor any that runs gives cause to."""
    if shape.spec.affinity or shape.spec.anti_affinity:
        return False
    allowed = inter_pod_affinity.symmetry_mask(snapshot, shape)
    return allowed is None or bool(allowed.all())


def _judge_beside(
    snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig, node_row: int, beside: list[int]
) -> Refusal | None:
    snapshot.fork()
    try:
        for row in beside:
            kind, labels = snapshot.pods.template_key(row), _mark(snapshot.pods.label_map(row))
            # Even one that is going counts: kube-scheduler adds it to its counts without looking at that.
            snapshot.place(snapshot.shapes.intern(kind.namespace, labels, kind.spec, False), node_row)
        return registry.diagnose(snapshot, shape, config)[node_row]
    finally:
        snapshot.revert()
