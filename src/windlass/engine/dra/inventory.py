"""Device inventory: ResourceSlices, DeviceClasses, taint rules and ResourceClaims, and the pools they form.

Slices of an older generation do not count. A pool is incomplete while slices of its newest generation are missing,
and invalid while they contradict each other; nothing is allocated from either. A node tries pools by driver and name,
those with binding conditions last.

A pool whose slices all belong to one node is local to that node. Any other pool is shared: a device allocated on one
node is missing on the others.

Node-local pools are mostly named after their node. A device set is keyed by content and named as on its first node;
`DeviceSet.rename` maps another node's pool names to those. Nodes that see the same shared pools have one number.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass import scheduler_releases
from windlass.engine.model import arrays
from windlass.engine.model.dynamic_resources import (
    ClaimKey,
    Device,
    DeviceClass,
    DeviceFact,
    DeviceId,
    DeviceTaintRule,
    NanoAmounts,
    NodeReach,
    PoolId,
    ResourceClaim,
    ResourceSlice,
    ResourceSlices,
)

IsReachable: TypeAlias = Callable[[NodeReach], bool]
"""Can something with this reach be used from the node in question?"""


@dataclass(frozen=True, slots=True)
class CandidateDevice:
    """A device that a node sees."""

    id: DeviceId
    device: Device
    pool: "DevicePool"
    reach: NodeReach
    """The nodes that can use it, from the device or its slice."""
    is_reached: bool
    """Whether this node can use it. False only for devices with their own node selector."""


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """A pool as one node sees it."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    counters: tuple[tuple[str, NanoAmounts], ...] = ()
    drawing: tuple[tuple[DeviceId, Device], ...] = ()
    """All devices that draw on the counters, also those that this node does not see."""


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """The devices and pools visible to one node."""

    pools: tuple[DevicePool, ...] = ()
    candidates: tuple[CandidateDevice, ...] = ()
    fault: str = ""
    """kube-scheduler's error, if it cannot determine what the node sees."""

    @property
    def invalid(self) -> DevicePool | None:
        return next((pool for pool in self.pools if pool.is_invalid), None)


def find_visible_devices(
    resource_slices: Iterable[ResourceSlice], everything: Mapping[PoolId, ResourceSlices], reaches: IsReachable
) -> VisibleDevices:
    """What a node sees. `seen` are slices that it can use, or part of; `everything` all slices of each pool."""
    pools = [_build(id, slices, everything.get(id, ()), reaches) for id, slices in _newest(resource_slices).items()]
    known = sorted((item for item in pools if item is not None), key=lambda one: (one[2], one[0].id))
    return VisibleDevices(
        tuple(entry[0] for entry in known), tuple(candidate for pool in known for candidate in pool[1])
    )


def _newest(resource_slices: Iterable[ResourceSlice]) -> dict[PoolId, list[ResourceSlice]]:
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for resource_slice in resource_slices:
        known = pools.setdefault(resource_slice.pool_id, [])
        if known and resource_slice.generation > known[0].generation:
            known.clear()
        if not known or resource_slice.generation == known[0].generation:
            known.append(resource_slice)
    return pools


_Built: TypeAlias = tuple[DevicePool, tuple[CandidateDevice, ...], bool]
"""The pool, its candidates, and whether some must be made ready first."""


def _build(id: PoolId, slices: list[ResourceSlice], everything: ResourceSlices, reaches: IsReachable) -> _Built | None:
    """None for a pool of which there are newer slices elsewhere."""
    others: Sequence[ResourceSlice] = ()
    first = slices[0]
    if len(slices) != first.slice_count:
        if any(resource_slice.generation > first.generation for resource_slice in everything):
            return None
        current = [resource_slice for resource_slice in everything if resource_slice.generation == first.generation]
        if len(current) != first.slice_count:
            return DevicePool(id, is_incomplete=True), (), False
        names = {resource_slice.name for resource_slice in slices}
        others = [resource_slice for resource_slice in current if resource_slice.name not in names]
    in_order = sorted(slices, key=lambda resource_slice: resource_slice.name)
    offering = [resource_slice for resource_slice in in_order if not resource_slice.counters]
    counters = [counter for resource_slice in (*in_order, *others) for counter in resource_slice.counters]
    if _is_contradictory(offering, counters, [*slices, *others]):
        return DevicePool(id, is_invalid=True), (), False
    drawing = tuple(
        (DeviceId(*id, device.name), device)
        for resource_slice in (*offering, *others)
        for device in resource_slice.devices
        if device.consumes
    )
    pool = DevicePool(id, counters=tuple(counters), drawing=drawing)
    candidates = tuple(
        CandidateDevice(DeviceId(*id, device.name), device, pool, *_reach(resource_slice, device, reaches))
        for resource_slice in offering
        for device in resource_slice.devices
    )
    return pool, candidates, any(candidate.device.has_binding_conditions for candidate in candidates)


def is_pool_usable(slices: Sequence[ResourceSlice]) -> bool:
    """Is the pool that has these slices, and no others, complete and without contradiction?"""
    (current,) = _newest(slices).values()
    if len(current) != current[0].slice_count:
        return False
    counters = [counter for resource_slice in current for counter in resource_slice.counters]
    return not _is_contradictory(
        [resource_slice for resource_slice in current if not resource_slice.counters], counters, current
    )


def _reach(resource_slice: ResourceSlice, device: Device, reaches: IsReachable) -> tuple[NodeReach, bool]:
    return (device.reach, reaches(device.reach)) if resource_slice.is_per_device else (resource_slice.reach, True)


def _is_contradictory(
    offering: Sequence[ResourceSlice], counters: Sequence[tuple[str, NanoAmounts]], every: Sequence[ResourceSlice]
) -> bool:
    """Are there devices or counter sets of one name, or devices that draw on counters which there are not?"""
    names = [device.name for resource_slice in offering for device in resource_slice.devices]
    known = {name: dict(amounts) for name, amounts in counters}
    if len(set(names)) != len(names) or len(known) != len(counters):
        return True
    return any(
        name not in known or any(counter not in known[name] for counter, _ in amounts)
        for resource_slice in every
        for device in resource_slice.devices
        for name, amounts in device.consumes
    )


def are_pools_ready(own: ResourceSlices, expected: ResourceSlices) -> bool:
    """Has the node at least as many complete pools of each driver as its template?"""
    if not expected:
        return True
    complete_pools = count_complete_pools(own)
    return all(complete_pools[driver] >= count for driver, count in count_complete_pools(expected).items())


def count_complete_pools(slices: ResourceSlices) -> Counter[str]:
    """By driver, how many pools are complete."""
    newest: dict[PoolId, int] = {}
    for resource_slice in slices:
        newest[resource_slice.pool_id] = max(
            newest.get(resource_slice.pool_id, resource_slice.generation), resource_slice.generation
        )
    seen: Counter[PoolId] = Counter()
    sizes: dict[PoolId, int] = {}
    for resource_slice in slices:
        if resource_slice.generation == newest[resource_slice.pool_id]:
            seen[resource_slice.pool_id] += 1
            sizes.setdefault(resource_slice.pool_id, resource_slice.slice_count)
    return Counter(id.driver for id, count in seen.items() if count == sizes[id])


DEVICE_CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class stands for the extended resource of this prefix and its name."""


class DeviceInventory:
    """All DRA objects. `version` rises with every change, so that derived results can be invalidated."""

    def __init__(self, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> None:
        self.release = release
        self.version = 0
        self.offers_version = 0
        """Changes with slices, taint rules and classes only: claims come and go more often."""
        self.slices: dict[str, ResourceSlice] = {}
        """As drivers publish them: taint rules are not applied."""
        self.taint_rules: dict[str, DeviceTaintRule] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.leftovers: dict[str, ResourceClaim] = {}
        """Claims made for extended resources in an earlier attempt to schedule a pod, by the pod's uid."""
        self._arranged = -1
        self._pools: dict[PoolId, ResourceSlices] = {}
        self._local: dict[str, ResourceSlices] = {}
        self._shared: ResourceSlices = ()
        self._resources: dict[str, str] = {}

    def put(self, fact: DeviceFact) -> None:
        """Add an object, or replace the one of the same name."""
        self.version += 1
        match fact:
            case ResourceSlice():
                self.offers_version += 1
                self.slices[fact.name] = fact
            case DeviceClass():
                self.offers_version += 1
                self.classes[fact.name] = fact
            case DeviceTaintRule():
                self.offers_version += 1
                self.taint_rules[fact.name] = fact
            case ResourceClaim():
                self._forget_leftover(fact.key)
                self.claims[fact.key] = fact
                if fact.owner_uid and self.is_leftover(fact.key):
                    self.leftovers[fact.owner_uid] = fact

    def put_all(self, device_facts: Iterable[DeviceFact]) -> None:
        for fact in device_facts:
            self.put(fact)

    def remove(self, fact: DeviceFact) -> None:
        """Remove an object; no effect if it does not exist."""
        self.version += 1
        match fact:
            case ResourceSlice():
                self.offers_version += 1
                self.slices.pop(fact.name, None)
            case DeviceClass():
                self.offers_version += 1
                self.classes.pop(fact.name, None)
            case DeviceTaintRule():
                self.offers_version += 1
                self.taint_rules.pop(fact.name, None)
            case ResourceClaim():
                self._forget_leftover(fact.key)
                self.claims.pop(fact.key, None)

    def is_leftover(self, key: ClaimKey) -> bool:
        """Is it a claim that the scheduler made for extended resources, and must delete before it tries again?"""
        claim = self.claims.get(key)
        return claim is not None and claim.is_for_extended_resources and bool(claim.spec.requests)

    def _forget_leftover(self, key: ClaimKey) -> None:
        claim = self.claims.get(key)
        if claim is not None and self.leftovers.get(claim.owner_uid) is claim:
            del self.leftovers[claim.owner_uid]

    # Derived values

    @property
    def pools(self) -> dict[PoolId, ResourceSlices]:
        """All slices of each pool."""
        self._arrange()
        return self._pools

    @property
    def shared_slices(self) -> ResourceSlices:
        """Slices of pools that are no one node's own, and those of others that matter to all nodes; by name."""
        self._arrange()
        return self._shared

    def slices_of_node(self, node: str) -> ResourceSlices:
        """Slices of the node's own pools; the same object while no slice changes."""
        self._arrange()
        return self._local.get(node, ())

    def device_class_of(self, resource: str) -> str | None:
        """The class that stands for an extended resource: the newest, where several do."""
        self._arrange()
        known = self._resources.get(resource)
        if known is None and resource.startswith(DEVICE_CLASS_RESOURCE_PREFIX):
            name = resource.removeprefix(DEVICE_CLASS_RESOURCE_PREFIX)
            return name if name in self.classes else None
        return known

    @property
    def has_resources(self) -> bool:
        """May a class stand for an extended resource?"""
        return bool(self.classes)

    def _arrange(self) -> None:
        if self._arranged == self.offers_version:
            return
        self._arranged = self.offers_version
        slices_by_pool: dict[PoolId, list[ResourceSlice]] = {}
        rules = [self.taint_rules[name] for name in sorted(self.taint_rules)]
        for name in sorted(self.slices):
            resource_slice = _taint(self.slices[name], rules if self.release.applies_device_taint_rules else ())
            slices_by_pool.setdefault(resource_slice.pool_id, []).append(resource_slice)
        self._pools = {pool: tuple(slices) for pool, slices in slices_by_pool.items()}
        shared: list[ResourceSlice] = []
        local: dict[str, list[ResourceSlice]] = {}
        for slices in slices_by_pool.values():
            names = {resource_slice.reach.node_name for resource_slice in slices}
            home = names.pop() if len(names) == 1 else ""
            if home:
                local.setdefault(home, []).extend(slices)
                shared += self._find_obstructing(slices)
            else:
                shared += slices
        self._local = {name: tuple(slices) for name, slices in local.items()}
        self._shared = tuple(shared)
        self._arrange_classes()

    def _find_obstructing(self, slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
        """Slices of one node's own pool that matter to all nodes: see `sees_counters_of_own_pools_only` of releases."""
        if self.release.sees_counters_of_own_pools_only:
            return []
        counters = [resource_slice for resource_slice in slices if resource_slice.counters]
        return counters if counters and not is_pool_usable(slices) else []

    def _arrange_classes(self) -> None:
        in_order = sorted(
            self.classes.values(), key=lambda device_class: (-device_class.created_s, device_class.name), reverse=True
        )
        self._resources = {
            device_class.extended_resource_name: device_class.name
            for device_class in in_order
            if device_class.extended_resource_name
        }


def _taint(resource_slice: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints of all rules that select devices of it; the same object if none does."""
    concerned = [rule for rule in rules if rule.matches(resource_slice.pool_id)]
    devices = (
        tuple(_taint_device(device, concerned) for device in resource_slice.devices)
        if concerned
        else resource_slice.devices
    )
    return resource_slice if devices == resource_slice.devices else replace(resource_slice, devices=devices)


def _taint_device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = tuple(rule.taint for rule in rules if rule.device in (None, device.name))
    return replace(device, taints=(*device.taints, *taints)) if taints else device


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
        others = sorted({resource_slice.pool_id for resource_slice in shared})
        key = tuple(self._key(id, pools[id], others) for id in names)
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._device_sets)
            self._device_sets.append(DeviceSet(slices, names))
        return number, names

    def _key(self, id: PoolId, slices: list[ResourceSlice], others: list[PoolId]) -> _PoolKey:
        newest = max(resource_slice.generation for resource_slice in slices)
        current = sorted(
            (resource_slice for resource_slice in slices if resource_slice.generation == newest),
            key=lambda resource_slice: resource_slice.name,
        )
        is_complete = len(current) == current[0].slice_count
        return (
            id.driver,
            is_complete,
            bisect(others, id),
            tuple(self._content(resource_slice) for resource_slice in current),
        )

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
        self._known = {name: entry for name, entry in self._known.items() if name in kept}


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
    _sights: dict[tuple[int, int], VisibleDevices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        reaches = {resource_slice.reach: None for resource_slice in self.slices}
        reaches |= {
            device.reach: None
            for resource_slice in self.slices
            if resource_slice.is_per_device
            for device in resource_slice.devices
        }
        self._reaches = list(reaches)
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

    def visible_devices(self, number: int, device_set: DeviceSet, kit_number: int) -> VisibleDevices:
        """All that a node with this view and this device_set sees."""
        key = number, kit_number
        if key not in self._sights:
            self._sights[key] = self.visible_devices_of(number, device_set.slices)
        return self._sights[key]

    def visible_devices_of(self, number: int, own: ResourceSlices) -> VisibleDevices:
        """The same, of a node with slices of its own."""
        reached = dict(zip(self._reaches, self._views[number], strict=True))
        if fault := self._find_fault(reached):
            return VisibleDevices(fault=fault)
        pools_here = {resource_slice.pool_id for resource_slice in own}
        shared = [
            resource_slice
            for resource_slice in self.slices
            if resource_slice.pool_id not in pools_here
            and (
                (resource_slice.counters and not self.release.sees_counters_of_own_pools_only)
                or reached[resource_slice.reach]
                or (resource_slice.is_per_device and any(reached[device.reach] for device in resource_slice.devices))
            )
        ]
        every = dict(self.every)
        for id in pools_here:
            every[id] = tuple(resource_slice for resource_slice in own if resource_slice.pool_id == id)
        return find_visible_devices((*own, *shared), every, lambda reach: reached.get(reach, True))

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
