"""Kits: the devices that a node has of its own, numbered so that nodes with alike devices have one number.

Pools are mostly named after their node. So a kit is known by what is in its pools, and its devices go by the pools'
names on the first node that had it; `Kit.rename` makes them those of another.
"""

from bisect import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine import interning
from windlass.engine.devices.model import Amounts, Device, PoolId, ResourceSlice, Slices

NO_KIT = 0

_Contents: TypeAlias = tuple[tuple[Device, ...], tuple[tuple[str, Amounts], ...]]
_PoolKey: TypeAlias = tuple[str, bool, int, tuple[int, ...]]
"""Driver, is complete, position among shared pools, contents."""


@dataclass(frozen=True, slots=True)
class Kit:
    """The devices of a node, and its pools in their order."""

    slices: Slices = ()
    pools: tuple[PoolId, ...] = ()

    def rename(self, own: tuple[PoolId, ...]) -> Mapping[PoolId, PoolId]:
        """A node's own names of these pools -> those of the kit."""
        return dict(zip(own, self.pools, strict=True))


class Kits:
    """All kits met so far. Number 0 is that of a node without devices."""

    def __init__(self) -> None:
        self._kits = [Kit()]
        self._ids: dict[tuple[_PoolKey, ...], int] = {(): NO_KIT}
        self._contents: interning.Index[_Contents] = interning.Index()
        self._known: dict[str, tuple[ResourceSlice, int]] = {}

    def __getitem__(self, number: int) -> Kit:
        return self._kits[number]

    def intern(self, slices: Slices, shared: Slices) -> tuple[int, tuple[PoolId, ...]]:
        """The number of a node's kit, and the names of its pools on that node. `shared` are the pools of all nodes."""
        pools: dict[PoolId, list[ResourceSlice]] = {}
        for one in slices:
            pools.setdefault(one.pool_id, []).append(one)
        names = tuple(sorted(pools))
        others = sorted({one.pool_id for one in shared})
        key = tuple(self._key(id, pools[id], others) for id in names)
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._kits)
            self._kits.append(Kit(slices, names))
        return number, names

    def _key(self, id: PoolId, slices: list[ResourceSlice], others: list[PoolId]) -> _PoolKey:
        newest = max(one.generation for one in slices)
        current = sorted((one for one in slices if one.generation == newest), key=lambda one: one.name)
        is_complete = len(current) == current[0].slice_count
        return id.driver, is_complete, bisect(others, id), tuple(self._content(one) for one in current)

    def _content(self, one: ResourceSlice) -> int:
        known = self._known.get(one.name)
        if known is not None and known[0] is one:
            return known[1]
        number = self._contents.intern((one.devices, one.counters))
        self._known[one.name] = one, number
        return number

    def forget(self, names: Iterable[str]) -> None:
        """Keep what is known of slices of these names only."""
        kept = set(names)
        self._known = {name: found for name, found in self._known.items() if name in kept}
