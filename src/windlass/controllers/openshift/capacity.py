"""Capacity: what nodes of an empty MachineSet would have, in annotations.

OpenShift's providers wrote keys of their own before the autoscaler had some. Both are the same in both APIs; the
autoscaler reads its own alone.
"""

from collections.abc import Mapping

from windlass import errors, selectors
from windlass.kube import quantity

VCPU = "machine.openshift.io/vCPU"
MEMORY_MB = "machine.openshift.io/memoryMb"
GPU = "machine.openshift.io/GPU"
MAX_PODS = "machine.openshift.io/maxPods"
OLD = (VCPU, MEMORY_MB, GPU, MAX_PODS)

PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"
CPU = f"{PREFIX}cpu"
MEMORY = f"{PREFIX}memory"
GPU_COUNT = f"{PREFIX}gpu-count"
GPU_TYPE = f"{PREFIX}gpu-type"
PODS = f"{PREFIX}maxPods"

NVIDIA = "nvidia.com/gpu"
_MIB = 1 << 20


class Unreadable(errors.WindlassError):
    """An annotation that should be a number is none."""

    def __init__(self, problem: str, name: str, found: str, expected: str) -> None:
        super().__init__(f'{problem}: annotation "{name}": found {found!r}, expected {expected}')


def translate(annotations: Mapping[str, str]) -> dict[str, str]:
    """What the autoscaler's keys lack of what OpenShift's say. What is there stays, even if it is empty.

    `Unreadable` if the memory, or the GPUs, are needed and cannot be read.
    """
    made: dict[str, str] = {}
    if VCPU in annotations:
        made[CPU] = annotations[VCPU]
    if MEMORY_MB in annotations and MEMORY not in annotations:
        made[MEMORY] = str(quantity.Quantity(_read_mib(annotations[MEMORY_MB]) * _MIB * quantity.NANO))
    if GPU in annotations and not {GPU_COUNT, GPU_TYPE} <= annotations.keys():
        made[GPU_COUNT] = annotations[GPU]
        made[GPU_TYPE] = NVIDIA if count_gpus(annotations) > 0 else ""
    if MAX_PODS in annotations:
        made[PODS] = annotations[MAX_PODS]
    return {key: value for key, value in made.items() if key not in annotations}


def count_gpus(annotations: Mapping[str, str]) -> int:
    """The GPUs that are promised, as OpenShift says so; part of one is none. `Unreadable` if that is no quantity."""
    if GPU not in annotations:
        return 0
    try:
        return max(0, quantity.saturate(quantity.parse(annotations[GPU])).nano // quantity.NANO)
    except ValueError:
        raise Unreadable("could not parse quantity", GPU, annotations[GPU], "a number of GPUs") from None


def _read_mib(found: str) -> int:
    size_mib = None if found.startswith("-") else selectors.parse_int64(found)
    if size_mib is None:
        raise Unreadable("could not parse integer", MEMORY_MB, found, "MiB as a whole number")
    return size_mib
