"""Validation and defaults of a worker node group, as EKS Anywhere has them; but a count is no part of autoscaling."""

from windlass.controllers.eks_anywhere import facts
from windlass.controllers.worker_pools.sizes import Limits, Size


def check(size: Size) -> str:
    """What is wrong with it; empty if nothing is."""
    if size.limits is None:
        return "" if size.replicas >= 0 else "worker node count must be zero or greater if autoscaling is not enabled"
    if size.limits.min < 0:
        return "min count must be non negative"
    if size.limits.min > size.limits.max:
        return "min count must be no greater than max count"
    return ""


def name(group: facts.Group, why: str) -> str:
    """Which group it is that something is wrong with."""
    return f"workerNodeGroupConfigurations[{group.name}]: {why}"


def complete(count: int | None, limits: Limits | None) -> Size:
    """A size with the count that it has if none is given. Of an autoscaled group nobody looks at it."""
    if count is None:
        count = 1 if limits is None else limits.min
    return Size(count, limits)
