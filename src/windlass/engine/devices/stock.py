"""The stock: slices, classes and claims as they are, and whose each pool is.

A pool all of whose slices are one node's is that node's own. Any other is shared: what is taken of it on one node is
missing on the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from windlass import releases
from windlass.engine.devices import pools
from windlass.engine.devices.model import (
    ClaimKey,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Fact,
    PoolId,
    ResourceClaim,
    ResourceSlice,
    Slices,
)

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class stands for the extended resource of this prefix and its name."""


class Stock:
    """What there is. `version` changes with every change, so that whoever keeps a result can tell."""

    def __init__(self, release: releases.Release = releases.DEFAULT) -> None:
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
        self._pools: dict[PoolId, Slices] = {}
        self._homes: dict[PoolId, str] = {}
        self._local: dict[str, Slices] = {}
        self._shared: Slices = ()
        self._resources: dict[str, str] = {}

    def put(self, fact: Fact) -> None:
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

    def put_all(self, found: Iterable[Fact]) -> None:
        for fact in found:
            self.put(fact)

    def remove(self, fact: Fact) -> None:
        """Take an object out; nothing happens if it is not there."""
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
        known = self.claims.get(key)
        if known is not None and self.leftovers.get(known.owner_uid) is known:
            del self.leftovers[known.owner_uid]

    # What follows from it

    @property
    def pools(self) -> dict[PoolId, Slices]:
        """All slices of each pool."""
        self._arrange()
        return self._pools

    @property
    def shared(self) -> Slices:
        """Slices of pools that are no one node's own, and those of others that matter to all nodes; by name."""
        self._arrange()
        return self._shared

    def home(self, pool: PoolId) -> str | None:
        """The node whose own the pool is."""
        self._arrange()
        return self._homes.get(pool)

    def local(self, node: str) -> Slices:
        """Slices of the node's own pools; the same object while no slice changes."""
        self._arrange()
        return self._local.get(node, ())

    def class_of(self, resource: str) -> str | None:
        """The class that stands for an extended resource: the newest, where several do."""
        self._arrange()
        known = self._resources.get(resource)
        if known is None and resource.startswith(CLASS_PREFIX):
            name = resource.removeprefix(CLASS_PREFIX)
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
            one = _taint(self.slices[name], rules if self.release.applies_device_taint_rules else ())
            found.setdefault(one.pool_id, []).append(one)
        self._pools = {pool: tuple(slices) for pool, slices in found.items()}
        self._homes = {}
        shared: list[ResourceSlice] = []
        local: dict[str, list[ResourceSlice]] = {}
        for pool, slices in found.items():
            names = {one.reach.node_name for one in slices}
            home = names.pop() if len(names) == 1 else ""
            if home:
                self._homes[pool] = home
                local.setdefault(home, []).extend(slices)
                shared += self._find_obstructing(slices)
            else:
                shared += slices
        self._local = {name: tuple(slices) for name, slices in local.items()}
        self._shared = tuple(shared)
        self._arrange_classes()

    def _find_obstructing(self, slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
        """Slices of one node's own pool that matter to all nodes. See `Release.sees_counters_of_own_pools_only`."""
        if self.release.sees_counters_of_own_pools_only:
            return []
        counters = [one for one in slices if one.counters]
        return counters if counters and not pools.is_usable(slices) else []

    def _arrange_classes(self) -> None:
        in_order = sorted(self.classes.values(), key=lambda one: (-one.created_s, one.name), reverse=True)
        self._resources = {one.extended_resource_name: one.name for one in in_order if one.extended_resource_name}


def _taint(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints of all rules that select devices of it; the same object if none does."""
    concerned = [rule for rule in rules if rule.matches(one.pool_id)]
    devices = tuple(_taint_device(device, concerned) for device in one.devices) if concerned else one.devices
    return one if devices == one.devices else replace(one, devices=devices)


def _taint_device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = tuple(rule.taint for rule in rules if rule.device in (None, device.name))
    return replace(device, taints=(*device.taints, *taints)) if taints else device
