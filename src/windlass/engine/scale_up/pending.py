"""Pending pods: which of them ask for help now.

A pod asks for help if the scheduler said that it fits nowhere (or has not looked at it, where it said so of one that is
like it, or where the user lets the autoscaler go ahead of it), nobody is being preempted for it, it is worth a node,
and it is not too young.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import facts, gpus
from windlass.engine.settings import Settings
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
    """Like pods that are unschedulable, or of schedulers that the autoscaler may go ahead of."""
    nominated: tuple[int, ...]
    """Others are being preempted for them: they count on the node that they are promised."""
    drained: tuple[int, ...] = ()
    """Of nodes that are being drained: they run, and are about to be evicted."""


def arrange(snapshot: Snapshot, settings: Settings) -> Waiting:
    """Sort out the pods that wait. Pods of schedulers that are not allowed, and pods left out, are not among them."""
    bypassed, allowed = settings.pods.bypassed_scheduler_names, settings.pods.allowed_scheduler_names
    unschedulable: list[int] = []
    unprocessed: list[int] = []
    untried: list[int] = []
    nominated: list[int] = []
    table = snapshot.pods
    rows = snapshot.waiting()
    hidden = table.pending_left_out
    for row, kind_id in zip(rows, table.kind_ids[rows].tolist(), strict=True):
        if kind_id in hidden:
            continue
        kind = table.kinds[kind_id]
        deleted_s, unschedulable_since_s = table.times.get(row, (None, None))
        if (allowed and kind.scheduler not in allowed) or deleted_s is not None:
            continue
        if kind.nominated_node:
            nominated.append(row)
        elif unschedulable_since_s is not None:
            unschedulable.append(row)
        elif not kind.is_gated:
            (unprocessed if kind.scheduler in bypassed else untried).append(row)
    if settings.deviations.foresee_alike_pods and untried:
        unprocessed += _find_alike(snapshot, untried, unschedulable)
    return Waiting(tuple(unschedulable), tuple(unprocessed), tuple(nominated))


def _find_alike(snapshot: Snapshot, untried: Sequence[int], unschedulable: Sequence[int]) -> list[int]:
    """Those of which the scheduler will say what it said of others."""
    refused = set(_find_likeness(snapshot, unschedulable))
    return [row for row, like in zip(untried, _find_likeness(snapshot, untried), strict=True) if like in refused]


def _find_likeness(snapshot: Snapshot, rows: Sequence[int]) -> list[tuple[int, int]]:
    """What makes two pods the same to the scheduler."""
    table, rows = snapshot.pods, list(rows)
    return list(zip(table.shape_ids[rows].tolist(), table.kind_ids[rows].tolist(), strict=True))


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
