"""Sharing a device's capacity: how much of it a request takes, and whether that much is left.

A request without an amount takes the policy's default, or all of it; one with an amount is rounded up to what the
policy accepts.
"""

from collections.abc import Mapping

from windlass import quantity, releases
from windlass.engine.devices.model import Amounts, Capacity, RequestPolicy, Traits

_UNIT = quantity.NANO
_MILLI = quantity.MILLI
_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
_NOTHING: Mapping[str, int] = {}


class Unrepresentable(Exception):
    """A request for capacity that cannot be rounded, or a negative capacity: no device may be allocated for it."""


def consume(wanted: Amounts | None, traits: Traits, release: releases.Release) -> Amounts:
    """What a request takes of a device."""
    asked = dict(wanted or ())
    return tuple((name, _amount(asked.get(name), capacity, release)) for name, capacity in traits.capacity)


def fits(
    wanted: Amounts | None,
    traits: Traits,
    release: releases.Release,
    taken: Mapping[str, int] = _NOTHING,
    taking: Mapping[str, int] = _NOTHING,
) -> bool:
    """Is that much left? `taken` is what others have, `taking` what this very allocation already has of it.

    Unrepresentable if the release does not skip the device where the amount cannot be computed.
    """
    asked, offered = dict(wanted or ()), dict(traits.capacity)
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


def _find_amount(name: str, asked: int | None, capacity: Capacity, release: releases.Release) -> int:
    try:
        amount = _amount(asked, capacity, release)
    except Unrepresentable as error:
        raise Unrepresentable(f'capacity "{name}": {error}') from None
    if amount < 0 and release.refuses_unroundable_capacity:
        raise Unrepresentable(f'capacity "{name}": capacity value is negative')
    return amount


def _amount(asked: int | None, capacity: Capacity, release: releases.Release) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.has_range and policy.minimum is not None:
        return _round_up(asked, policy, policy.minimum, release)
    return next((value for value in policy.values if asked <= value), asked)


def _round_up(asked: int, policy: RequestPolicy, minimum: int, release: releases.Release) -> int:
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


def _refuse(release: releases.Release, why: str) -> None:
    if release.refuses_unroundable_capacity:
        raise Unrepresentable(f"{_UNREPRESENTABLE}: {why}")


def _find_unit(policy: RequestPolicy, release: releases.Release) -> int:
    """What a range is rounded in: thousandths where all of it is exact in them, if the release divides ranges."""
    bounds = [nano for nano in (policy.minimum, policy.maximum, policy.step) if nano is not None]
    return _MILLI if release.divides_capacity_ranges and all(map(_is_exact, bounds)) and policy.step else _UNIT


def _is_exact(nano: int) -> bool:
    """Is it a number of thousandths that an int64 holds?"""
    return nano % _MILLI == 0 and abs(nano // _MILLI) <= quantity.INT64_MAX


def _accepts(policy: RequestPolicy, amount: int, release: releases.Release) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.has_range:
        if policy.maximum is not None and amount > policy.maximum:
            return False
        return policy.step is None or _is_on_step(policy, amount, policy.step, release)
    return not policy.values or amount in policy.values


def _is_on_step(policy: RequestPolicy, amount: int, step: int, release: releases.Release) -> bool:
    unit = _find_unit(policy, release)
    if unit == _MILLI and not _is_exact(amount):
        return False
    width = _count(step, unit)
    return not width or (_count(amount, unit) - _count(policy.minimum or 0, unit)) % width == 0


def _count(nano: int, unit: int) -> int:
    """So many units, rounded up."""
    return -(-nano // unit)
