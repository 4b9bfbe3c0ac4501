"""Pending pods: which of them ask for help now.

A pod asks for help if the scheduler said that it fits nowhere (or has not looked at it, where the user lets the
autoscaler go ahead of it), nobody is being preempted for it, it is worth a node, and it is not too young.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

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
    for row in snapshot.waiting():
        kind = snapshot.pods.kind(row)
        deleted_s, unschedulable_since_s = snapshot.pods.times.get(row, (None, None))
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


def is_old_enough(pod: facts.Pod, delay_s: float, now_s: float) -> bool:
    """Has the pod waited longer than the delay, or than its own, where that is longer?"""
    if pod.scale_up_delay_s is not None:
        delay_s = max(delay_s, pod.scale_up_delay_s)
    return now_s - pod.created_s > delay_s


def are_all_new(pods: Sequence[facts.Pod], now_s: float) -> bool:
    """Are these pods so new that more are likely to come?"""
    if _oldest(pods, now_s) + YOUNG_S > now_s:
        return True
    with_gpu = [pod for pod in pods if _asks_for_gpu(pod.spec)]
    return bool(with_gpu) and _oldest(with_gpu, now_s) + YOUNG_WITH_GPU_S > now_s


def _oldest(pods: Iterable[facts.Pod], now_s: float) -> float:
    return min((pod.created_s for pod in pods), default=now_s)


def _asks_for_gpu(spec: facts.PodSpec) -> bool:
    return any(resource in gpus.RESOURCES and amount > 0 for resource, amount in spec.requests)
