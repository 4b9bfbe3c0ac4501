"""Pools: the devices that a node sees, in the order in which they are tried.

A pool's slices of an older generation do not count. While some of the newest are missing the pool is incomplete, and
while they contradict each other it is invalid: nothing is taken from either. Pools go by driver and name, slices by
name; pools with devices that must be made ready first go last.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.devices.model import Amounts, Device, DeviceId, PoolId, Reach, ResourceSlice, Slices

Reaches: TypeAlias = Callable[[Reach], bool]
"""Can something with this reach be used from the node in question?"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that a node sees."""

    id: DeviceId
    device: Device
    pool: "Pool"
    reach: Reach
    """From where it can be used, be it that it says so or its slice does."""
    is_reached: bool
    """Can it be used from this node? Only devices that say so for themselves cannot."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool as one node sees it."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    counters: tuple[tuple[str, Amounts], ...] = ()
    drawing: tuple[tuple[DeviceId, Device], ...] = ()
    """All devices that draw on the counters, also those that this node does not see."""


@dataclass(frozen=True, slots=True)
class Sight:
    """All that one node sees."""

    pools: tuple[Pool, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def invalid(self) -> Pool | None:
        return next((pool for pool in self.pools if pool.is_invalid), None)


def look(seen: Iterable[ResourceSlice], everything: Mapping[PoolId, Slices], reaches: Reaches) -> Sight:
    """What a node sees. `seen` are slices that it can use, or part of; `everything` all slices of each pool."""
    found = [_build(id, slices, everything.get(id, ()), reaches) for id, slices in _newest(seen).items()]
    known = sorted((one for one in found if one is not None), key=lambda one: (one[2], one[0].id))
    return Sight(tuple(one[0] for one in known), tuple(candidate for one in known for candidate in one[1]))


def _newest(seen: Iterable[ResourceSlice]) -> dict[PoolId, list[ResourceSlice]]:
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for one in seen:
        known = pools.setdefault(one.pool_id, [])
        if known and one.generation > known[0].generation:
            known.clear()
        if not known or one.generation == known[0].generation:
            known.append(one)
    return pools


_Built: TypeAlias = tuple[Pool, tuple[Candidate, ...], bool]
"""The pool, its candidates, and whether some must be made ready first."""


def _build(id: PoolId, slices: list[ResourceSlice], everything: Slices, reaches: Reaches) -> _Built | None:
    """None for a pool of which there are newer slices elsewhere."""
    others: Sequence[ResourceSlice] = ()
    first = slices[0]
    if len(slices) != first.slice_count:
        if any(one.generation > first.generation for one in everything):
            return None
        current = [one for one in everything if one.generation == first.generation]
        if len(current) != first.slice_count:
            return Pool(id, is_incomplete=True), (), False
        names = {one.name for one in slices}
        others = [one for one in current if one.name not in names]
    in_order = sorted(slices, key=lambda one: one.name)
    offering = [one for one in in_order if not one.counters]
    counters = [counter for one in (*in_order, *others) for counter in one.counters]
    if _is_contradictory(offering, counters, [*slices, *others]):
        return Pool(id, is_invalid=True), (), False
    drawing = tuple(
        (DeviceId(*id, device.name), device)
        for one in (*offering, *others)
        for device in one.devices
        if device.consumes
    )
    pool = Pool(id, counters=tuple(counters), drawing=drawing)
    candidates = tuple(
        Candidate(DeviceId(*id, device.name), device, pool, *_reach(one, device, reaches))
        for one in offering
        for device in one.devices
    )
    return pool, candidates, any(candidate.device.has_binding_conditions for candidate in candidates)


def is_usable(slices: Sequence[ResourceSlice]) -> bool:
    """Is the pool that has these slices, and no others, complete and without contradiction?"""
    (current,) = _newest(slices).values()
    if len(current) != current[0].slice_count:
        return False
    counters = [counter for one in current for counter in one.counters]
    return not _is_contradictory([one for one in current if not one.counters], counters, current)


def _reach(one: ResourceSlice, device: Device, reaches: Reaches) -> tuple[Reach, bool]:
    return (device.reach, reaches(device.reach)) if one.is_per_device else (one.reach, True)


def _is_contradictory(
    offering: Sequence[ResourceSlice], counters: Sequence[tuple[str, Amounts]], every: Sequence[ResourceSlice]
) -> bool:
    """Are there devices or counter sets of one name, or devices that draw on counters which there are not?"""
    names = [device.name for one in offering for device in one.devices]
    known = {name: dict(amounts) for name, amounts in counters}
    if len(set(names)) != len(names) or len(known) != len(counters):
        return True
    return any(
        name not in known or any(counter not in known[name] for counter, _ in amounts)
        for one in every
        for device in one.devices
        for name, amounts in device.consumes
    )
