"""CapacityBuffer pods: injection among pending pods, and the scale-ups that were proposed for them.

A buffer counts if its status says ready or provisioned, and only while its PodTemplate has the generation that the
status was written for. Scale-ups are counted before the loop's fork, the only place where these pods exist, is
reverted.
"""

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.capacity_apis.capacity_buffer import BufferStatus, CapacityBuffer
from windlass.engine.model import decision_record, scale_up_status, settings
from windlass.engine.model.provisioning import BufferPods

FAKE_POD_ANNOTATION = ("podType", "capacityBufferFakePod")
"""Annotation of injected buffer pods; Cluster Autoscaler's."""


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """One buffer in a loop: its pods, or why there are none."""

    status: BufferStatus
    pods: int = 0
    """Number of pods to inject: at most `settings.MAX_INJECTED_PODS`."""


def inject_buffer(
    buffer: CapacityBuffer, find_generation: Callable[[str], int | None], now_s: float
) -> InjectionResult:
    """`find_generation`: of a PodTemplate of the buffer's namespace, None if there is none."""
    status = buffer.status
    if status.strategy != capacity_buffer.ACTIVE_STRATEGY:
        return InjectionResult(status)
    if not status.has(capacity_buffer.READY_FOR_PROVISIONING, "True") and not status.has(
        capacity_buffer.PROVISIONING, "True"
    ):
        return InjectionResult(status)
    generation = None if status.pod_template is None else find_generation(status.pod_template)
    known = status.pod_template_generation
    if generation is not None and known is not None and generation != known:
        return InjectionResult(status)
    if (
        status.pod_template is None
        or status.replicas is None
        or status.has(capacity_buffer.READY_FOR_PROVISIONING, "False")
    ):
        return _fail_injection(status, "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning", now_s)
    if status.replicas == 0:
        return _fail_injection(status, "BufferIsEmpty", "CapacityBuffer has zero replicas", now_s)
    if generation is None:
        message = f'capacity buffer client can\'t get pod template: podtemplates "{status.pod_template}" not found'
        return _fail_injection(
            status, "FailedToGetPodTemplate", f"failed to get pod template with error: {message}", now_s
        )
    done = capacity_buffer.set_buffer_condition(
        status, capacity_buffer.PROVISIONING, True, "FakePodsInjected", "", now_s
    )
    return InjectionResult(done, min(max(status.replicas, 0), settings.MAX_INJECTED_PODS))


def _fail_injection(status: BufferStatus, reason: str, message: str, now_s: float) -> InjectionResult:
    return InjectionResult(
        capacity_buffer.set_buffer_condition(status, capacity_buffer.PROVISIONING, False, reason, message, now_s)
    )


def name_buffer_pods(buffer: CapacityBuffer, count: int) -> list[str]:
    return [f"capacity-buffer-{buffer.name}-{number}" for number in range(1, count + 1)]


def find_buffer_scale_ups(
    rows_of: Sequence[tuple[BufferPods, range]], proposals: Sequence[scale_up_status.ScaleUpProposal]
) -> Iterator[decision_record.BufferScaleUp]:
    """`rows_of`: the rows of each buffer's pods, one buffer after another."""
    if not rows_of:
        return
    for proposal in proposals:
        if proposal.increases:
            for place, pods in _count_by_buffer(proposal.helped, rows_of).items():
                yield decision_record.BufferScaleUp(rows_of[place][0].like, pods, proposal)
        counts: Counter[int] = Counter()
        remaining: dict[int, list[scale_up_status.PodEquivalenceGroup]] = {}
        for alike in proposal.remaining:
            for place, pods in _count_by_buffer(alike.rows, rows_of).items():
                counts[place] += pods
                remaining.setdefault(place, []).append(alike)
        for place, equivalence_groups in remaining.items():
            yield decision_record.BufferScaleUp(
                rows_of[place][0].like, counts[place], proposal, tuple(equivalence_groups)
            )


def _count_by_buffer(rows: Iterable[int], rows_of: Sequence[tuple[BufferPods, range]]) -> Counter[int]:
    """How many of the rows belong to each buffer, by its position."""
    starts = [own.start for _, own in rows_of]
    places = ((row, bisect.bisect_right(starts, row) - 1) for row in rows if row >= starts[0])
    return Counter(place for row, place in places if row in rows_of[place][1])
