"""Pool visibility: interned sets of node-local devices, and which shared pools each node sees.

Node-local pools are mostly named after their node. A device set is keyed by content and named as on its first node;
`DeviceSet.rename` maps another node's pool names to those. Nodes that see the same shared pools have one number.
"""

from bisect import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass import scheduler_releases
from windlass.engine.dra import inventory
from windlass.engine.model import arrays
from windlass.engine.model.dynamic_resources import (
    Device,
    NanoAmounts,
    NodeReach,
    PoolId,
    ResourceSlice,
    ResourceSlices,
)

if TYPE_CHECKING:
    from windlass.engine.snapshot.node_table import NodeTable

NO_DEVICE_SET = 0

_Contents: TypeAlias = tuple[tuple[Device, ...], tuple[tuple[str, NanoAmounts], ...]]

_PoolKey: TypeAlias = tuple[str, bool, int, tuple[int, ...]]
"""Driver, is complete, position among shared pools, contents."""


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """The devices of a node, and its pools in their order."""

    slices: ResourceSlices = ()
    pools: tuple[PoolId, ...] = ()

    def rename(self, own: tuple[PoolId, ...]) -> Mapping[PoolId, PoolId]:
        """A node's own names of these pools -> those of the device_set."""
        return dict(zip(own, self.pools, strict=True))


class DeviceSetIndex:
    """All device sets met so far. Number 0 is that of a node without devices."""

    def __init__(self) -> None:
        self._device_sets = [DeviceSet()]
        self._ids: dict[tuple[_PoolKey, ...], int] = {(): NO_DEVICE_SET}
        self._contents: arrays.Index[_Contents] = arrays.Index()
        self._known: dict[str, tuple[ResourceSlice, int]] = {}

    def __getitem__(self, number: int) -> DeviceSet:
        return self._device_sets[number]

    def intern(self, slices: ResourceSlices, shared: ResourceSlices) -> tuple[int, tuple[PoolId, ...]]:
        """The id of a node's device set, and the names of its pools on the node. `shared`: pools of all nodes."""
        pools: dict[PoolId, list[ResourceSlice]] = {}
        for resource_slice in slices:
            pools.setdefault(resource_slice.pool_id, []).append(resource_slice)
        names = tuple(sorted(pools))
        others = sorted({one.pool_id for one in shared})
        key = tuple(self._key(id, pools[id], others) for id in names)
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._device_sets)
            self._device_sets.append(DeviceSet(slices, names))
        return number, names

    def _key(self, id: PoolId, slices: list[ResourceSlice], others: list[PoolId]) -> _PoolKey:
        newest = max(resource_slice.generation for resource_slice in slices)
        current = sorted((one for one in slices if one.generation == newest), key=lambda one: one.name)
        is_complete = len(current) == current[0].slice_count
        return id.driver, is_complete, bisect(others, id), tuple(self._content(one) for one in current)

    def _content(self, resource_slice: ResourceSlice) -> int:
        known = self._known.get(resource_slice.name)
        if known is not None and known[0] is resource_slice:
            return known[1]
        number = self._contents.intern((resource_slice.devices, resource_slice.counters))
        self._known[resource_slice.name] = resource_slice, number
        return number

    def retain(self, names: Iterable[str]) -> None:
        """Keep what is known of slices of these names only."""
        kept = set(names)
        self._known = {name: found for name, found in self._known.items() if name in kept}


@dataclass(slots=True)
class PoolVisibility:
    """What nodes see of these slices."""

    version: int = 0
    """Of the slices: what nodes see of another version is kept under another name."""
    slices: ResourceSlices = ()
    every: dict[PoolId, ResourceSlices] = field(default_factory=dict)
    """All slices of each pool."""
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
    _reaches: list[NodeReach] = field(default_factory=list)
    _views: arrays.Index[tuple[bool, ...]] = field(default_factory=arrays.Index)
    _sights: dict[tuple[int, int], inventory.VisibleDevices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = {resource_slice.reach: None for resource_slice in self.slices}
        found |= {device.reach: None for one in self.slices if one.is_per_device for device in one.devices}
        self._reaches = list(found)
        self._views.intern(tuple(False for _ in self._reaches))

    def of_nodes(self, nodes: "NodeTable") -> arrays.Ids:
        """Int32 (n_nodes): the view of each."""
        if not self.slices:
            return np.zeros(nodes.count, arrays.ID_DTYPE)
        return nodes.cached(("device views", self.version), lambda rows: self._compute(nodes, rows))

    def _compute(self, nodes: "NodeTable", rows: slice) -> arrays.Ids:
        seen = np.array([reach_mask(nodes, reach)[rows] for reach in self._reaches])
        distinct, inverse = np.unique(seen, axis=1, return_inverse=True)
        numbers = [self._views.intern(tuple(column)) for column in distinct.T.tolist()]
        return np.array(numbers, arrays.ID_DTYPE)[inverse.reshape(-1)]

    def visible_devices(self, number: int, device_set: DeviceSet, kit_number: int) -> inventory.VisibleDevices:
        """All that a node with this view and this device_set sees."""
        key = number, kit_number
        if key not in self._sights:
            self._sights[key] = self.visible_devices_of(number, device_set.slices)
        return self._sights[key]

    def visible_devices_of(self, number: int, own: ResourceSlices) -> inventory.VisibleDevices:
        """The same, of a node with slices of its own."""
        reached = dict(zip(self._reaches, self._views[number], strict=True))
        if fault := self._find_fault(reached):
            return inventory.VisibleDevices(fault=fault)
        pools_here = {resource_slice.pool_id for resource_slice in own}
        shared = [
            one
            for one in self.slices
            if one.pool_id not in pools_here
            and (
                (one.counters and not self.release.sees_counters_of_own_pools_only)
                or reached[one.reach]
                or (one.is_per_device and any(reached[device.reach] for device in one.devices))
            )
        ]
        every = dict(self.every)
        for id in pools_here:
            every[id] = tuple(one for one in own if one.pool_id == id)
        return inventory.find_visible_devices((*own, *shared), every, lambda reach: reached.get(reach, True))

    def _find_fault(self, reached: Mapping[NodeReach, bool]) -> str:
        """The error of the first slice for which it is unknown whether the node can use it; "" without one.

        kube-scheduler then allocates nothing on the node, from no pool. The devices of a slice are asked until the
        node can use one of them.
        """
        for resource_slice in self.slices:
            if resource_slice.counters and not self.release.sees_counters_of_own_pools_only:
                continue
            if not resource_slice.is_per_device and resource_slice.reach.selector_fault:
                return _NODE_SELECTION.format(f"slice {resource_slice.name}", resource_slice.reach.selector_fault)
            for device in resource_slice.devices if resource_slice.is_per_device else ():
                if reached[device.reach]:
                    break
                if device.reach.selector_fault:
                    about = f"device {device.name} in slice {resource_slice.name}"
                    return _NODE_SELECTION.format(about, device.reach.selector_fault)
        return ""


_NODE_SELECTION = "gather pool information: failed to perform node selection for {}: {}"


def reach_mask(nodes: "NodeTable", reach: NodeReach) -> arrays.Mask:
    """Bool (n_nodes): the nodes from which something with this reach can be used."""
    if reach.node_name:
        return nodes.name_mask((reach.node_name,))
    if reach.all_nodes:
        return np.ones(nodes.count, bool)
    if reach.node_selector is not None:
        return nodes.selector_mask(reach.node_selector)
    return np.zeros(nodes.count, bool)
