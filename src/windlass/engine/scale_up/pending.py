"""Pending pods: which of them ask for help now.

A pod asks for help if the scheduler said that it fits nowhere (or has not looked at it, where the user lets the
autoscaler go ahead of it), nobody is being preempted for it, it is worth a node, and it is not too young.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import facts, gpus
from windlass.engine.snapshot import Snapshot

YOUNG_S = 2.0
"""While all pods are younger than this, more are likely to come: wait for them."""
YOUNG_WITH_GPU_S = 30.0
"""Pods that ask for GPUs come in larger sets."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of the pods that wait, by what the scheduler made of them."""

    unschedulable: tuple[int, ...]
    unprocessed: tuple[int, ...]
    """Of schedulers that the autoscaler may go ahead of."""
    nominated: tuple[int, ...]
    """Others are being preempted for them: they count on the node that they are promised."""


def arrange(snapshot: Snapshot, bypassed: Collection[str], allowed: Collection[str]) -> Waiting:
    """Sort out the pods that wait. Pods of schedulers that are not allowed are nobody's business."""
    unschedulable: list[int] = []
    unprocessed: list[int] = []
    nominated: list[int] = []
    table = snapshot.pods
    rows = snapshot.waiting()
    for row, kind_id in zip(rows, table.kind_ids[rows].tolist(), strict=True):
        kind = table.kinds[kind_id]
        deleted_s, unschedulable_since_s = table.times.get(row, (None, None))
        if (allowed and kind.scheduler not in allowed) or deleted_s is not None:
            continue
        if kind.nominated_node:
            nominated.append(row)
        elif unschedulable_since_s is not None:
            unschedulable.append(row)
        elif kind.scheduler in bypassed and not kind.is_gated:
            unprocessed.append(row)
    return Waiting(tuple(unschedulable), tuple(unprocessed), tuple(nominated))


def is_expendable(spec: facts.PodSpec, cutoff: int) -> bool:
    """Is the pod worth no node?"""
    return spec.priority is not None and spec.priority < cutoff


def find_old_enough(snapshot: Snapshot, rows: Sequence[int], delay_s: float, now_s: float) -> list[int]:
    """Pods that have waited longer than the delay, or than their own, where that is longer."""
    kinds = [snapshot.pods.kind(row).scale_up_delay_s for row in rows]
    delays = np.array([delay_s if own is None else max(delay_s, own) for own in kinds])
    old = now_s - snapshot.pods.created_s[list(rows)] > delays
    return [row for row, is_old in zip(rows, old.tolist(), strict=True) if is_old]


def are_still_coming(snapshot: Snapshot, rows: Sequence[int], quiet_s: float, at_most_s: float, now_s: float) -> bool:
    """Has one of these come so lately that others may follow, and none waited so long that it must be helped now?"""
    created_s = snapshot.pods.created_s[list(rows)]
    return now_s - float(created_s.max()) < quiet_s and now_s - float(created_s.min()) < at_most_s


def are_all_new(snapshot: Snapshot, rows: Sequence[int], now_s: float) -> bool:
    """Are these pods so new that more are likely to come?"""
    created_s = snapshot.pods.created_s[list(rows)]
    if min(float(created_s.min()), now_s) + YOUNG_S > now_s:
        return True
    asks = {shape_id: _asks_for_gpu(snapshot.shapes[shape_id].spec) for shape_id in _shape_ids(snapshot, rows)}
    with_gpu = np.array([asks[shape_id] for shape_id in snapshot.pods.shape_ids[list(rows)].tolist()])
    return bool(with_gpu.any()) and float(created_s[with_gpu].min()) + YOUNG_WITH_GPU_S > now_s


def _shape_ids(snapshot: Snapshot, rows: Sequence[int]) -> set[int]:
    return set(snapshot.pods.shape_ids[list(rows)].tolist())


def _asks_for_gpu(spec: facts.PodSpec) -> bool:
    return any(resource in gpus.RESOURCES and amount > 0 for resource, amount in spec.requests)
