"""Readiness: a node is not ready for pods with claims before its drivers have published as many pools as expected.

Drivers come up after the node. Until then the template of its group says what to expect: so many complete pools of each
driver.
"""

from collections import Counter

from windlass.engine.devices.model import PoolId, Slices


def are_pools_ready(own: Slices, expected: Slices) -> bool:
    """Has the node at least as many complete pools of each driver as its template?"""
    if not expected:
        return True
    found = count_pools(own)
    return all(found[driver] >= count for driver, count in count_pools(expected).items())


def count_pools(slices: Slices) -> Counter[str]:
    """By driver, how many pools are complete."""
    newest: dict[PoolId, int] = {}
    for one in slices:
        newest[one.pool_id] = max(newest.get(one.pool_id, one.generation), one.generation)
    seen: Counter[PoolId] = Counter()
    sizes: dict[PoolId, int] = {}
    for one in slices:
        if one.generation == newest[one.pool_id]:
            seen[one.pool_id] += 1
            sizes.setdefault(one.pool_id, one.slice_count)
    return Counter(id.driver for id, count in seen.items() if count == sizes[id])
