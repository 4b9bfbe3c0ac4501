"""NodeResourcesFit: a node must have left what the pod requests, and room for one more pod.

Only what is requested is looked at: a pod that asks for nothing of a resource passes a node that has overspent it.
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Insufficient, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodeResourcesFit"
_NATIVE = frozenset((facts.CPU, facts.MEMORY, facts.EPHEMERAL_STORAGE, facts.PODS))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask:
    """Bool (n_nodes): True where everything requested is left."""
    fits = np.ones(snapshot.nodes.count, bool)
    for column, amount in checked_requests(snapshot, shape, config):
        fits &= snapshot.nodes.free[column] >= amount
    for column, amount in device_backed_requests(snapshot, shape, config):
        fits &= (snapshot.nodes.free[column] >= amount) | (snapshot.nodes.allocatable[column] == 0)
    return fits


def checked_requests(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> list[tuple[int, int]]:
    """(column, amount) of everything requested that this profile looks at, but for what is `backed`."""
    if NAME in config.disabled:
        return []
    pairs = snapshot.requests(shape)
    if shape.spec.extended and not snapshot.devices.is_idle:
        pairs = [pair for pair in pairs if not _is_backed(snapshot, pair[0])]
    if config.ignored_resources or config.ignored_resource_groups:
        pairs = [pair for pair in pairs if not _is_ignored(snapshot.nodes.resources[pair[0]], config)]
    return pairs


def device_backed_requests(
    snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig"
) -> list[tuple[int, int]]:
    """(column, amount) of resources for which a device class stands: nodes that have none of it may do without."""
    if not shape.spec.extended or snapshot.devices.is_idle or NAME in config.disabled:
        return []
    return [
        pair
        for pair in snapshot.requests(shape)
        if _is_backed(snapshot, pair[0]) and not _is_ignored(snapshot.nodes.resources[pair[0]], config)
    ]


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    """Every insufficient resource. The code says whether an empty node of this size would fit the pod."""
    short: list[Insufficient] = []
    code = StatusCode.UNSCHEDULABLE
    delegated = [
        pair for pair in device_backed_requests(snapshot, shape, config) if snapshot.nodes.allocatable[pair[0], row]
    ]
    for column, amount in (*checked_requests(snapshot, shape, config), *delegated):
        capacity, free = int(snapshot.nodes.allocatable[column, row]), int(snapshot.nodes.free[column, row])
        if amount <= free:
            continue
        resource = snapshot.nodes.resources[column]
        short.append(Insufficient("", resource=resource, requested=amount, used=capacity - free, capacity=capacity))
        if amount > capacity and resource != facts.PODS:
            code = StatusCode.UNRESOLVABLE
    return Refusal(NAME, code, tuple(short))


def _is_backed(snapshot: "Snapshot", column: int) -> bool:
    return snapshot.devices.inventory.device_class_of(snapshot.nodes.resources[column]) is not None


def _is_ignored(resource: str, config: "FilterConfig") -> bool:
    if resource in _NATIVE:
        return False
    return resource in config.ignored_resources or resource.split("/")[0] in config.ignored_resource_groups
