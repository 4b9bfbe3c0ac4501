"""Sizing: for how many pods a buffer keeps room, by its replicas, a share of its workload, and its limits."""

from collections.abc import Mapping

from windlass.engine.buffers.buffer import Buffer
from windlass.quantity import Quantity

UNSIZED = "replicas, percentage and limits are not defined"
UNLIMITED = "resources in configured limits not found in the pod template"


class Unsizable(ValueError):
    """Nobody can say how large the buffer is to be."""


def count_pods(buffer: Buffer, requests: Mapping[str, Quantity], workload_replicas: int | None) -> int:
    """How many pods. `workload_replicas`: of the workload that the buffer follows, where it does."""
    wanted = -1
    if buffer.replicas is not None:
        wanted = max(0, buffer.replicas)
    if buffer.percentage is not None and workload_replicas is not None:
        wanted = max(wanted, _take_share(buffer.percentage, workload_replicas))
    if buffer.limits is not None:
        most = _count_within(requests, buffer.limits)
        return min(wanted, most) if wanted >= 0 else most
    if wanted < 0:
        raise Unsizable(UNSIZED)
    return wanted


def _take_share(percentage: int, replicas: int) -> int:
    """Rounded up."""
    return (percentage * replicas + 99) // 100 if percentage > 0 and replicas > 0 else 0


def _count_within(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> int:
    """How many such pods stay within all limits that concern them, which one at least must."""
    most = [
        limits[name].milli_value() // amount.milli_value()
        for name, amount in requests.items()
        if name in limits and amount.milli_value() > 0 and limits[name].milli_value() > -amount.milli_value()
    ]
    if not most:
        raise Unsizable(UNLIMITED)
    return max(min(*most, 2**31 - 1), 0)
