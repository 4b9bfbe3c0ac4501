"""Pending pods: sorted by schedulability, their age, which are expendable, and those of currently drained nodes.

A pod asks for a node if the scheduler marked it unschedulable (or reported no verdict, where an equivalent pod is
unschedulable; or has not processed it, where its scheduler is bypassed), no pod is preempted for it, it is not
expendable, it fits on no existing or upcoming node, and it is old enough. The order in which this is found out is the
chain of `pod_list`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine.model import facts, well_known
from windlass.engine.model.settings import Settings
from windlass.engine.snapshot.cluster_snapshot import Snapshot, asks_for_devices
from windlass.engine.snapshot.pod_table import PodTemplateKey

YOUNG_S = 2.0
"""While all pods are younger than this, more are likely to come: scale-up waits for them."""


YOUNG_WITH_GPU_S = 30.0
"""The same for pods that request GPUs: they come in larger sets."""


@dataclass(frozen=True, slots=True)
class PendingPods:
    """Rows of the pods that wait, by schedulability."""

    unschedulable: tuple[int, ...]
    unprocessed: tuple[int, ...]
    """Equivalent to unschedulable pods, or of schedulers in --bypassed-scheduler-names."""
    nominated: tuple[int, ...]
    """Preempting pods: they count on the node that they are nominated for."""
    drained: tuple[int, ...] = ()
    """Recreatable pods of currently drained nodes: they run, and are about to be evicted."""


NO_PODS = PendingPods((), (), ())


def sort_pending(snapshot: Snapshot, settings: Settings) -> PendingPods:
    """Sort pending pods by schedulability. Pods of schedulers that are not allowed, and excluded pods, are left out."""
    bypassed, allowed = settings.pods.bypassed_scheduler_names, settings.pods.allowed_scheduler_names
    unschedulable: list[int] = []
    unprocessed: list[int] = []
    untried: list[int] = []
    nominated: list[int] = []
    table = snapshot.pods
    rows = snapshot.pending()
    hidden = table.pending_left_out
    for row, kind_id in zip(rows, table.template_ids[rows].tolist(), strict=True):
        if kind_id in hidden:
            continue
        kind = table.template_keys[kind_id]
        deleted_s, unschedulable_since_s = table.times.get(row, (None, None))
        if (allowed and kind.scheduler not in allowed) or deleted_s is not None:
            continue
        if kind.nominated_node:
            nominated.append(row)
        elif unschedulable_since_s is not None:
            unschedulable.append(row)
        elif not kind.is_gated:
            is_bypassed = kind.scheduler in bypassed and row not in table.scheduling_reasons
            (unprocessed if is_bypassed else untried).append(row)
    if settings.deviations.foresee_alike_pods and untried:
        unprocessed += _find_unprocessed_equivalents(snapshot, untried, unschedulable)
    return PendingPods(tuple(unschedulable), tuple(unprocessed), tuple(nominated))


def _find_unprocessed_equivalents(
    snapshot: Snapshot, untried: Sequence[int], unschedulable: Sequence[int]
) -> list[int]:
    """Unprocessed pods that the scheduler will find unschedulable, as it did equivalent pods."""
    refused = set(_scheduler_equivalence_keys(snapshot, unschedulable))
    return [
        row
        for row, like in zip(untried, _scheduler_equivalence_keys(snapshot, untried), strict=True)
        if like in refused
    ]


def _scheduler_equivalence_keys(snapshot: Snapshot, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Key by which two pods are equivalent to the scheduler."""
    table, rows = snapshot.pods, list(rows)
    return list(zip(table.shape_ids[rows].tolist(), table.template_ids[rows].tolist(), strict=True))


def is_expendable(spec: facts.PodSpec, cutoff: int) -> bool:
    """Is the pod's priority below --expendable-pods-priority-cutoff?"""
    return spec.priority is not None and spec.priority < cutoff


def find_old_enough(snapshot: Snapshot, rows: Sequence[int], delay_s: float, now_s: float) -> list[int]:
    """Pods older than the delay, or than the delay in their annotation where that is longer."""
    kinds = [snapshot.pods.template_key(row).scale_up_delay_s for row in rows]
    delays = np.array([delay_s if own is None else max(delay_s, own) for own in kinds])
    old = now_s - snapshot.pods.created_s[list(rows)] > delays
    return [row for row, is_old in zip(rows, old.tolist(), strict=True) if is_old]


def are_still_coming(snapshot: Snapshot, rows: Sequence[int], quiet_s: float, at_most_s: float, now_s: float) -> bool:
    """Was the newest pod created within the quiet window, and none before the window's maximum?"""
    created_s = snapshot.pods.created_s[list(rows)]
    return now_s - float(created_s.max()) < quiet_s and now_s - float(created_s.min()) < at_most_s


def are_all_new(snapshot: Snapshot, rows: Sequence[int], now_s: float) -> bool:
    """Are all of these pods so new that more are likely to come?"""
    created_s = snapshot.pods.created_s[list(rows)]
    if min(float(created_s.min()), now_s) + YOUNG_S > now_s:
        return True
    asks = {shape_id: _asks_for_gpu(snapshot.shapes[shape_id].spec) for shape_id in _shape_ids(snapshot, rows)}
    with_gpu = np.array([asks[shape_id] for shape_id in snapshot.pods.shape_ids[list(rows)].tolist()])
    return bool(with_gpu.any()) and float(created_s[with_gpu].min()) + YOUNG_WITH_GPU_S > now_s


def _shape_ids(snapshot: Snapshot, rows: Sequence[int]) -> set[int]:
    return set(snapshot.pods.shape_ids[list(rows)].tolist())


def _asks_for_gpu(spec: facts.PodSpec) -> bool:
    return any(resource in well_known.GPU_RESOURCES and amount > 0 for resource, amount in spec.requests)


def find_drained_pods(snapshot: Snapshot, node_names: Iterable[str]) -> list[int]:
    """Rows of the pods on these nodes that their controllers will create anew elsewhere, terminating ones aside."""
    table, rows = snapshot.pods, list[int]()
    for name in node_names:
        node_row = snapshot.nodes.rows.get(name)
        if node_row is not None and snapshot.nodes.alive[node_row]:
            rows += snapshot.pods_on(node_row)
    return [
        row
        for row in rows
        if table.times.get(row, (None, None))[0] is None
        and int(table.template_ids[row]) not in table.pending_left_out
        and well_known.is_recreatable(table.fact(row, "", timeless=True))
    ]


def unbind_drained_pods(snapshot: Snapshot, rows: Iterable[int], counts_originals: bool) -> list[int]:
    """Take pods off the nodes that are being drained, inside the loop's fork; returns the rows that wait now.

    With `counts_originals` an imagined pod stays in place of each, as Cluster Autoscaler has it: it counts for
    anti-affinity and topology spread beside the one that looks for a place.
    """
    taken = list[int]()
    for row in rows:
        shape, node_row = snapshot.shape_of_row(row), int(snapshot.pods.node_rows[row])
        if counts_originals and asks_for_devices(shape.spec):
            continue  # its claims stay allocated on the node that it runs on, so that it fits nowhere else
        snapshot.unbind(row)
        if counts_originals:
            snapshot.place(shape, node_row)
        taken.append(row)
    return taken


def filter_out_expendable(snapshot: Snapshot, cutoff: int) -> None:
    """Take expendable pods off their nodes: others would preempt them."""
    worthless = np.array(
        [is_expendable(snapshot.shapes[number].spec, cutoff) for number in range(len(snapshot.shapes))] + [False]
    )
    table = snapshot.pods
    for row in np.flatnonzero(worthless[table.shape_ids] & (table.node_rows >= 0)).tolist():
        snapshot.unbind(row)


def filter_out_other_schedulers(snapshot: Snapshot, allowed: Sequence[str]) -> None:
    """Take the pods of schedulers that are not allowed off their nodes, as Cluster Autoscaler does."""
    table = snapshot.pods
    is_other = np.array([kind.scheduler not in allowed for kind in table.template_keys] + [False])
    for row in np.flatnonzero(is_other[table.template_ids] & (table.node_rows >= 0)).tolist():
        snapshot.unbind(row)


def bind_nominated(snapshot: Snapshot, rows: Sequence[int], cutoff: int) -> None:
    """Bind preempting pods to the nodes that they are nominated for."""
    for row in rows:
        node_row = snapshot.nodes.rows.get(snapshot.pods.template_key(row).nominated_node)
        if node_row is not None and not is_expendable(snapshot.shape_of_row(row).spec, cutoff):
            snapshot.bind(row, node_row)


def is_daemonset_template(kind: PodTemplateKey) -> bool:
    """Do pods of this template belong to a DaemonSet, or count as such by annotation?"""
    return (kind.owner is not None and kind.owner.kind == "DaemonSet") or (
        dict(kind.annotations).get(well_known.DAEMONSET_POD_ANNOTATION) == "true"
    )
