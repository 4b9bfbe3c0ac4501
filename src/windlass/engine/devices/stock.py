"""The stock: slices, classes and claims as they are, and whose each pool is.

A pool all of whose slices are one node's is that node's own. Any other is shared: what is taken of it on one node is
missing on the next.
"""

from collections.abc import Iterable

from windlass.engine.devices.model import ClaimKey, DeviceClass, Fact, PoolId, ResourceClaim, ResourceSlice, Slices

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class stands for the extended resource of this prefix and its name."""


class Stock:
    """What there is. `version` changes with every change, so that whoever keeps a result can tell."""

    def __init__(self) -> None:
        self.version = 0
        self.offers_version = 0
        """Changes with slices and classes only: claims come and go more often."""
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}
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
            case ResourceClaim():
                self.claims[fact.key] = fact

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
            case ResourceClaim():
                self.claims.pop(fact.key, None)

    # What follows from it

    @property
    def pools(self) -> dict[PoolId, Slices]:
        """All slices of each pool."""
        self._arrange()
        return self._pools

    @property
    def shared(self) -> Slices:
        """Slices of pools that are no one node's own, by name."""
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
        pools: dict[PoolId, list[ResourceSlice]] = {}
        for name in sorted(self.slices):
            pools.setdefault(self.slices[name].pool_id, []).append(self.slices[name])
        self._pools = {pool: tuple(slices) for pool, slices in pools.items()}
        self._homes = {}
        shared: list[ResourceSlice] = []
        local: dict[str, list[ResourceSlice]] = {}
        for pool, slices in pools.items():
            names = {one.reach.node_name for one in slices}
            home = names.pop() if len(names) == 1 else ""
            if home:
                self._homes[pool] = home
                local.setdefault(home, []).extend(slices)
            else:
                shared += slices
        self._local = {name: tuple(slices) for name, slices in local.items()}
        self._shared = tuple(shared)
        in_order = sorted(self.classes.values(), key=lambda one: (-one.created_s, one.name), reverse=True)
        self._resources = {one.extended_resource_name: one.name for one in in_order if one.extended_resource_name}
