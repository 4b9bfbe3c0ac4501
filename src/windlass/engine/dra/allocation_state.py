"""Allocation state: devices in use, constraints, consumable capacity, and utilization per pool.

The state is an immutable value, so undo keeps the old one. Constraints are checked while devices are tried: a match
or a distinct attribute among the devices of a claim. A capacity request without an amount takes the policy's default
or all of it; one with an amount is rounded up to what the policy accepts.

    utilization of a plain pool            devices allocated / devices
    utilization of a pool with counters    mean over its counter sets of the most used counter
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from windlass import quantity, scheduler_releases
from windlass.engine.model.dynamic_resources import (
    AttributeValue,
    CapacityRequestPolicy,
    Device,
    DeviceAllocation,
    DeviceCapacity,
    DeviceConstraint,
    DeviceId,
    DeviceTraits,
    NanoAmounts,
    PoolId,
    ResourceSlice,
    ResourceSlices,
)

SharedAllocation: TypeAlias = tuple[DeviceId, int, NanoAmounts]
"""A device that is shared: by how many, and how much of its capacity they have together."""


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """Allocated devices, and shares of devices."""

    devices: frozenset[DeviceId] = frozenset()
    """Taken as a whole."""
    shares: frozenset[SharedAllocation] = frozenset()

    def __or__(self, other: "AllocatedState") -> "AllocatedState":
        """Both, of devices that are in one of them only."""
        return AllocatedState(self.devices | other.devices, self.shares | other.shares)

    def allocate(self, results: Iterable[DeviceAllocation]) -> "AllocatedState":
        return self._change(results, 1)

    def release(self, results: Iterable[DeviceAllocation]) -> "AllocatedState":
        return self._change(results, -1)

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether it is allocated, wholly or in shares."""
        return device in self.devices or self.is_shared(device)

    def is_shared(self, device: DeviceId) -> bool:
        """Whether shares of it are allocated."""
        return any(share[0] == device for share in self.shares)

    def consumed(self, device: DeviceId) -> dict[str, int] | None:
        """The consumed capacity; None without shares."""
        for shared, _, amounts in self.shares:
            if shared == device:
                return dict(amounts) if amounts else None
        return None

    def _change(self, results: Iterable[DeviceAllocation], sign: int) -> "AllocatedState":
        devices = set(self.devices)
        shares = {device: (count, dict(amounts)) for device, count, amounts in self.shares}
        for result in results:
            if result.admin_access:
                continue
            if result.is_share:
                _share(shares, result, sign)
            elif sign > 0:
                devices.add(result.device)
            else:
                devices.discard(result.device)
        remaining = (
            (device, count, tuple(sorted(amounts.items()))) for device, (count, amounts) in shares.items() if count
        )
        return AllocatedState(frozenset(devices), frozenset(remaining))


def _share(shares: dict[DeviceId, tuple[int, dict[str, int]]], result: DeviceAllocation, sign: int) -> None:
    count, amounts = shares.get(result.device, (0, {}))
    for name, amount in result.consumed:
        amounts[name] = amounts.get(name, 0) + sign * amount
    shares[result.device] = max(count + sign, 0), amounts


NOTHING_ALLOCATED = AllocatedState()

TypedAttribute: TypeAlias = tuple[type, AttributeValue]
"""A value with its type: 1 is not the same as true."""


class ConstraintChecker(Protocol):
    """One constraint while devices are tried."""

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        """Count the device in, if the constraint allows it."""

    def remove(self, request: str, part: str) -> None:
        """The device that was counted in last is not taken after all."""


def make_constraint_checker(
    constraint: DeviceConstraint, release: scheduler_releases.SchedulerRelease
) -> ConstraintChecker:
    if constraint.match:
        return _MatchAttribute(constraint)
    return (
        _DistinctAttribute(constraint) if release.distinguishes_all_devices else _DistinctAttributeByRequest(constraint)
    )


def is_supported_constraint(constraint: DeviceConstraint) -> bool:
    return bool(constraint.match or constraint.distinct)


def lookup_attribute(id: DeviceId, device: Device, name: str) -> TypedAttribute | None:
    """The device's attribute of this full name; one without a domain is the driver's own."""
    attributes = dict(device.traits.attributes)
    if name not in attributes:
        domain, slash, own = name.partition("/")
        if not slash or domain != id.driver or own not in attributes:
            return None
        name = own
    return type(attributes[name]), attributes[name]


def _applies_to(constraint: DeviceConstraint, request: str, part: str) -> bool:
    named = constraint.requests
    return not named or request in named or bool(part and f"{request}/{part}" in named)


class _MatchAttribute:
    """All devices have the same value; the first settles which."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._constraint, self._count = constraint, 0
        self._value: TypedAttribute | None = None

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _applies_to(self._constraint, request, part):
            return True
        value = lookup_attribute(id, device, self._constraint.match)
        if value is None or (self._count and (value != self._value or value[1] is None)):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: str, part: str) -> None:
        if _applies_to(self._constraint, request, part):
            self._count -= 1


class _DistinctAttribute:
    """No two devices have the same value."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._constraint = constraint
        self._values: list[TypedAttribute] = []

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _applies_to(self._constraint, request, part):
            return True
        value = lookup_attribute(id, device, self._constraint.distinct)
        if value is None or (self._values and (value[1] is None or value in self._values)):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, part: str) -> None:
        if _applies_to(self._constraint, request, part):
            self._values.pop()


class _DistinctAttributeByRequest:
    """No two requests have the same value. kube-scheduler remembers one value per request, the latest."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._constraint, self._count = constraint, 0
        self._values: dict[str, TypedAttribute] = {}

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _applies_to(self._constraint, request, part):
            return True
        value = lookup_attribute(id, device, self._constraint.distinct)
        if value is None:
            return False
        if self._count and self._values and (value[1] is None or value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, part: str) -> None:
        if _applies_to(self._constraint, request, part):
            self._values.pop(request, None)
            self._count -= 1


_UNIT = quantity.NANO

_MILLI = quantity.MILLI

_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"

_NOTHING: Mapping[str, int] = {}


class UnrepresentableCapacity(Exception):
    """A request for capacity that cannot be rounded, or a negative capacity: no device may be allocated for it."""


def consume_capacity(
    nano_amounts: NanoAmounts | None, traits: DeviceTraits, release: scheduler_releases.SchedulerRelease
) -> NanoAmounts:
    """What a request takes of a device."""
    asked = dict(nano_amounts or ())
    return tuple((name, _amount(asked.get(name), capacity, release)) for name, capacity in traits.capacity)


def fits_capacity(
    nano_amounts: NanoAmounts | None,
    traits: DeviceTraits,
    release: scheduler_releases.SchedulerRelease,
    taken: Mapping[str, int] = _NOTHING,
    taking: Mapping[str, int] = _NOTHING,
) -> bool:
    """Whether the capacity fits. `taken`: consumed by others; `taking`: by this allocation so far.

    Unrepresentable if the release does not skip the device where the amount cannot be computed.
    """
    asked, offered = dict(nano_amounts or ()), dict(traits.capacity)
    if not asked.keys() <= offered.keys():
        return False
    amounts = {name: _find_amount(name, asked.get(name), capacity, release) for name, capacity in traits.capacity}
    for name, capacity in traits.capacity:
        amount = amounts[name]
        if capacity.policy is not None and not _accepts(capacity.policy, amount, release):
            return False
        if taken.get(name, 0) + taking.get(name, 0) + amount > capacity.amount:
            return False
    return True


def _find_amount(
    name: str, asked: int | None, capacity: DeviceCapacity, release: scheduler_releases.SchedulerRelease
) -> int:
    try:
        amount = _amount(asked, capacity, release)
    except UnrepresentableCapacity as error:
        raise UnrepresentableCapacity(f'capacity "{name}": {error}') from None
    if amount < 0 and release.refuses_unroundable_capacity:
        raise UnrepresentableCapacity(f'capacity "{name}": capacity value is negative')
    return amount


def _amount(asked: int | None, capacity: DeviceCapacity, release: scheduler_releases.SchedulerRelease) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.has_range and policy.minimum is not None:
        return _round_up(asked, policy, policy.minimum, release)
    return next((value for value in policy.values if asked <= value), asked)


def _round_up(
    asked: int, policy: CapacityRequestPolicy, minimum: int, release: scheduler_releases.SchedulerRelease
) -> int:
    if asked <= minimum or policy.step is None:
        return max(asked, minimum)
    unit = _find_unit(policy, release)
    if unit == _MILLI and not _is_exact(asked):
        _refuse(release, f"request {quantity.Quantity(asked)} is not a representable milli value")
    number, first, width = (_count(nano, unit) for nano in (asked, minimum, policy.step))
    if not width:
        return asked
    steps = -(-(number - first) // width)
    if steps > (quantity.INT64_MAX - first) // width and first >= 0:
        past = "the milli-value range" if unit == _MILLI else "MaxInt64"
        _refuse(release, f"rounding request {quantity.Quantity(asked)} up to the next step passes {past}")
    return (first + width * steps) * unit


def _refuse(release: scheduler_releases.SchedulerRelease, reason: str) -> None:
    if release.refuses_unroundable_capacity:
        raise UnrepresentableCapacity(f"{_UNREPRESENTABLE}: {reason}")


def _find_unit(policy: CapacityRequestPolicy, release: scheduler_releases.SchedulerRelease) -> int:
    """What a range is rounded in: thousandths where all of it is exact in them, if the release divides ranges."""
    bounds = [nano for nano in (policy.minimum, policy.maximum, policy.step) if nano is not None]
    return _MILLI if release.divides_capacity_ranges and all(map(_is_exact, bounds)) and policy.step else _UNIT


def _is_exact(nano: int) -> bool:
    """Is it a number of thousandths that an int64 holds?"""
    return nano % _MILLI == 0 and abs(nano // _MILLI) <= quantity.INT64_MAX


def _accepts(policy: CapacityRequestPolicy, amount: int, release: scheduler_releases.SchedulerRelease) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.has_range:
        if policy.maximum is not None and amount > policy.maximum:
            return False
        return policy.step is None or _is_on_step(policy, amount, policy.step, release)
    return not policy.values or amount in policy.values


def _is_on_step(
    policy: CapacityRequestPolicy, amount: int, step: int, release: scheduler_releases.SchedulerRelease
) -> bool:
    unit = _find_unit(policy, release)
    if unit == _MILLI and not _is_exact(amount):
        return False
    width = _count(step, unit)
    return not width or (_count(amount, unit) - _count(policy.minimum or 0, unit)) % width == 0


def _count(nano: int, unit: int) -> int:
    """So many units, rounded up."""
    return -(-nano // unit)


def pool_utilization(slices: ResourceSlices, allocated: Set[DeviceId]) -> Mapping[PoolId, float] | PoolId:
    """The used fraction of each pool, or the first pool of which slices are missing."""
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for resource_slice in slices:
        pools.setdefault(resource_slice.pool_id, []).append(resource_slice)
    utilization: dict[PoolId, float] = {}
    for id in sorted(pools):
        newest = max(one.generation for one in pools[id])
        current = [one for one in pools[id] if one.generation == newest]
        if len(current) != current[0].slice_count:
            return id
        utilization[id] = _utilization_of_pool(id, current, allocated)
    return utilization


def highest_pool_utilization(pools: Mapping[PoolId, float]) -> tuple[str, float]:
    """The pool that is used most, as `driver/pool`, and how much; the last by name of several."""
    name, most = "", 0.0
    for id in sorted(pools):
        if pools[id] >= most:
            name, most = str(id), pools[id]
    return name, most


def _utilization_of_pool(id: PoolId, slices: Iterable[ResourceSlice], allocated: Set[DeviceId]) -> float:
    slices = list(slices)
    devices = [device for resource_slice in slices for device in resource_slice.devices]
    taken = [device for device in devices if DeviceId(*id, device.name) in allocated]
    counters = [counter for one in slices for counter in one.counters]
    if not counters:
        return len(taken) / len(devices) if devices else 0.0
    sets = {name for device in devices for name, _ in device.consumes}
    if not sets:
        return 0.0
    drawn = _sum_counters(taken)
    return sum(
        max((drawn.get((name, key), 0) / amount for key, amount in amounts if amount), default=0.0) / len(sets)
        for name, amounts in counters
    )


def _sum_counters(taken: Iterable[Device]) -> dict[tuple[str, str], int]:
    drawn: dict[tuple[str, str], int] = {}
    for device in taken:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                drawn[name, key] = drawn.get((name, key), 0) + amount
    return drawn
