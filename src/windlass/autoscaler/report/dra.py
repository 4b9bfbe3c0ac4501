"""Dynamic resource allocation in metrics: drivers as labels, and devices that differ from what templates promise.

Both follow Cluster Autoscaler: labels name few drivers, so that there are few series; devices are compared by the names
of their attributes, never by values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine import decide, facts, readiness
from windlass.engine.devices.model import PoolId, Slices
from windlass.engine.devices.readiness import are_pools_ready
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation

_NAMED = frozenset({"compute-domain.nvidia.com", "dra.net", "gpu.nvidia.com", "tpu.google.com"})
_CUSTOM = "custom.driver"
MISSING, EXTRA, MISMATCH, UNKNOWN = "missing", "extra", "mismatch", "unknown"


def name_drivers(slices: Slices) -> str:
    """The value of a `dra_drivers` label: the drivers of a node's own slices, sorted and joined by commas."""
    return ",".join(sorted({one.driver if one.driver in _NAMED else _CUSTOM for one in slices}))


def find_slices(group: facts.NodeGroup, memory: Memory) -> Slices:
    """The slices that a new node of a group is expected to have."""
    template = memory.volatile.templates.get(group.id)
    if template is not None:
        return template.node.slices
    return group.template.slices if group.template is not None else ()


@dataclass(frozen=True, slots=True)
class _Devices:
    """Devices of a pool whose attributes have the same names."""

    driver: str
    attributes: frozenset[str]
    count: int


def count_mismatches(seen: Observation, decision: decide.Decision) -> Mapping[tuple[str, ...], float]:
    """How many pools of ready nodes differ from their group's template, by driver and kind of difference.

    The provider's template, where it promises devices: else the example node of a group is compared with itself.
    """
    stock = seen.snapshot.devices.stock
    expected = {
        group.id: (group.template.slices if group.template is not None else ()) or find_slices(group, decision.memory)
        for group in seen.groups
    }
    if not stock.slices and not any(expected.values()):
        return {}
    group_of = seen.group_of_nodes()
    counts: Counter[tuple[str, str]] = Counter()
    for node in seen.nodes:
        group = group_of.get(node.name)
        if group is None or not readiness.judge(node).is_ready:
            continue
        own, template = stock.local(node.name), expected[group.id]
        if (own or template) and are_pools_ready(own, template):
            counts.update(_compare(template, own))
    drivers = {driver for driver, _ in counts}
    kinds = (MISSING, EXTRA, MISMATCH, UNKNOWN)
    return {(driver, kind): float(counts[driver, kind]) for driver in drivers for kind in kinds}


def _compare(template: Slices, own: Slices) -> Counter[tuple[str, str]]:
    """(driver, kind of difference). Drivers that are about to replace or complete a pool are left out."""
    unsettled = set(_find_unsettled(own))
    promised, found = ([one for one in _group(slices) if one.driver not in unsettled] for slices in (template, own))
    for one in list(promised):
        if one in found:
            promised.remove(one)
            found.remove(one)
    differences: Counter[tuple[str, str]] = Counter()
    for one in promised:
        nearest = _find_nearest(one, found)
        if nearest is not None:
            found.remove(nearest)
        differences[one.driver, MISSING if nearest is None else MISMATCH] += 1
    differences.update((one.driver, EXTRA) for one in found)
    return differences


def _find_nearest(one: _Devices, among: Sequence[_Devices]) -> _Devices | None:
    """Of the same driver, with most attributes in common; then with the nearest number of devices."""
    same = [other for other in among if other.driver == one.driver]
    return min(
        same,
        key=lambda other: (-len(other.attributes & one.attributes), abs(other.count - one.count)),
        default=None,
    )


def _find_unsettled(slices: Slices) -> Iterator[str]:
    """Drivers with a pool that is incomplete, or there in two generations."""
    seen: dict[PoolId, list[tuple[int, int]]] = {}
    for one in slices:
        seen.setdefault(one.pool_id, []).append((one.generation, one.slice_count))
    for pool, parts in seen.items():
        generations = {generation for generation, _ in parts}
        if len(generations) > 1 or len(parts) != parts[0][1]:
            yield pool.driver


def _group(slices: Slices) -> list[_Devices]:
    counts: Counter[tuple[PoolId, frozenset[str]]] = Counter()
    for one in slices:
        for device in one.devices:
            counts[one.pool_id, frozenset(name for name, _ in device.traits.attributes)] += 1
    return [_Devices(pool.driver, attributes, count) for (pool, attributes), count in counts.items()]
