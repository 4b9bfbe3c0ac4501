"""Injecting: the pods that buffers keep room for, as their status says, imagined among the pending ones.

A buffer counts if its status says that it is ready, or was provisioned before; and only while its PodTemplate is still
the one that its status was written for.
"""

from collections.abc import Callable
from dataclasses import dataclass

from windlass.engine import facts, imagined_pods
from windlass.engine.buffers import buffer as buffers
from windlass.engine.buffers.buffer import Buffer, Status

FAKE_POD = ("podType", "capacityBufferFakePod")
"""Annotation by which such pods are known; the peer's."""


@dataclass(frozen=True, slots=True)
class Spare:
    """Pods that a buffer keeps room for."""

    like: facts.Pod
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Injected:
    """What a buffer comes to in a loop."""

    status: Status
    pods: int = 0
    """To be imagined: no more than `imagined_pods.MAX_PODS`."""


def inject(one: Buffer, find_generation: Callable[[str], int | None], now_s: float) -> Injected:
    """`find_generation`: of a PodTemplate of the buffer's namespace, None if there is none."""
    status = one.status
    if status.strategy != buffers.ACTIVE:
        return Injected(status)
    if not status.has(buffers.READY, "True") and not status.has(buffers.PROVISIONING, "True"):
        return Injected(status)
    generation = None if status.pod_template is None else find_generation(status.pod_template)
    known = status.pod_template_generation
    if generation is not None and known is not None and generation != known:
        return Injected(status)
    if status.pod_template is None or status.replicas is None or status.has(buffers.READY, "False"):
        return _fail(status, "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning", now_s)
    if status.replicas == 0:
        return _fail(status, "BufferIsEmpty", "CapacityBuffer has zero replicas", now_s)
    if generation is None:
        said = f'capacity buffer client can\'t get pod template: podtemplates "{status.pod_template}" not found'
        return _fail(status, "FailedToGetPodTemplate", f"failed to get pod template with error: {said}", now_s)
    done = buffers.put(status, buffers.PROVISIONING, True, "FakePodsInjected", "", now_s)
    return Injected(done, min(max(status.replicas, 0), imagined_pods.MAX_PODS))


def _fail(status: Status, reason: str, message: str, now_s: float) -> Injected:
    return Injected(buffers.put(status, buffers.PROVISIONING, False, reason, message, now_s))


def name_pods(one: Buffer, count: int) -> list[str]:
    return [f"capacity-buffer-{one.name}-{number}" for number in range(1, count + 1)]
