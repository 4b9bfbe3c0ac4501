"""Device inventory: ResourceSlices, DeviceClasses, taint rules and ResourceClaims, and the pools they form.

Slices of an older generation do not count. A pool is incomplete while slices of its newest generation are missing,
and invalid while they contradict each other; nothing is allocated from either. A node tries pools by driver and name,
those with binding conditions last.

A pool whose slices all belong to one node is local to that node. Any other pool is shared: a device allocated on one
node is missing on the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass import scheduler_releases
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
    found = [_build(id, slices, everything.get(id, ()), reaches) for id, slices in _newest(resource_slices).items()]
    known = sorted((item for item in found if item is not None), key=lambda one: (one[2], one[0].id))
    return VisibleDevices(tuple(entry[0] for entry in known), tuple(candidate for one in known for candidate in one[1]))


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
        current = [one for one in everything if one.generation == first.generation]
        if len(current) != first.slice_count:
            return DevicePool(id, is_incomplete=True), (), False
        names = {one.name for one in slices}
        others = [one for one in current if one.name not in names]
    in_order = sorted(slices, key=lambda one: one.name)
    offering = [one for one in in_order if not one.counters]
    counters = [counter for one in (*in_order, *others) for counter in one.counters]
    if _is_contradictory(offering, counters, [*slices, *others]):
        return DevicePool(id, is_invalid=True), (), False
    drawing = tuple(
        (DeviceId(*id, device.name), device)
        for one in (*offering, *others)
        for device in one.devices
        if device.consumes
    )
    pool = DevicePool(id, counters=tuple(counters), drawing=drawing)
    candidates = tuple(
        CandidateDevice(DeviceId(*id, device.name), device, pool, *_reach(one, device, reaches))
        for one in offering
        for device in one.devices
    )
    return pool, candidates, any(candidate.device.has_binding_conditions for candidate in candidates)


def is_pool_usable(slices: Sequence[ResourceSlice]) -> bool:
    """Is the pool that has these slices, and no others, complete and without contradiction?"""
    (current,) = _newest(slices).values()
    if len(current) != current[0].slice_count:
        return False
    counters = [counter for resource_slice in current for counter in resource_slice.counters]
    return not _is_contradictory([one for one in current if not one.counters], counters, current)


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
        for one in every
        for device in one.devices
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
        found: dict[PoolId, list[ResourceSlice]] = {}
        rules = [self.taint_rules[name] for name in sorted(self.taint_rules)]
        for name in sorted(self.slices):
            resource_slice = _taint(self.slices[name], rules if self.release.applies_device_taint_rules else ())
            found.setdefault(resource_slice.pool_id, []).append(resource_slice)
        self._pools = {pool: tuple(slices) for pool, slices in found.items()}
        shared: list[ResourceSlice] = []
        local: dict[str, list[ResourceSlice]] = {}
        for slices in found.values():
            names = {one.reach.node_name for one in slices}
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
        self._resources = {one.extended_resource_name: one.name for one in in_order if one.extended_resource_name}


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
