"""Utilization by device: how much of each of a node's own pools is allocated.

    plain pool              devices allocated / devices
    pool with counters      per counter set its most used counter, summed / counter sets that devices draw on

Only the newest slices of a pool count; while some of them are missing, nobody can tell.
"""

from collections.abc import Iterable, Mapping, Set

from windlass.engine.devices.model import Device, DeviceId, PoolId, ResourceSlice, Slices


def of_pools(slices: Slices, allocated: Set[DeviceId]) -> Mapping[PoolId, float] | PoolId:
    """The used fraction of each pool, or the first pool of which slices are missing."""
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for one in slices:
        pools.setdefault(one.pool_id, []).append(one)
    found: dict[PoolId, float] = {}
    for id in sorted(pools):
        newest = max(one.generation for one in pools[id])
        current = [one for one in pools[id] if one.generation == newest]
        if len(current) != current[0].slice_count:
            return id
        found[id] = _of_pool(id, current, allocated)
    return found


def highest(pools: Mapping[PoolId, float]) -> tuple[str, float]:
    """The pool that is used most, as `driver/pool`, and how much; the last by name of several."""
    name, most = "", 0.0
    for id in sorted(pools):
        if pools[id] >= most:
            name, most = str(id), pools[id]
    return name, most


def _of_pool(id: PoolId, slices: Iterable[ResourceSlice], allocated: Set[DeviceId]) -> float:
    slices = list(slices)
    devices = [device for one in slices for device in one.devices]
    taken = [device for device in devices if DeviceId(*id, device.name) in allocated]
    counters = [counter for one in slices for counter in one.counters]
    if not counters:
        return len(taken) / len(devices) if devices else 0.0
    sets = {name for device in devices for name, _ in device.consumes}
    if not sets:
        return 0.0
    drawn = _add_up(taken)
    return sum(
        max((drawn.get((name, key), 0) / amount for key, amount in amounts if amount), default=0.0) / len(sets)
        for name, amounts in counters
    )


def _add_up(taken: Iterable[Device]) -> dict[tuple[str, str], int]:
    drawn: dict[tuple[str, str], int] = {}
    for device in taken:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                drawn[name, key] = drawn.get((name, key), 0) + amount
    return drawn
