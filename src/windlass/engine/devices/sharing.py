"""Sharing a device's capacity: how much of it a request takes, and whether that much is left.

A request without an amount takes the policy's default, or all of it; one with an amount is rounded up to what the
policy accepts.
"""

from collections.abc import Mapping

from windlass.engine.devices.model import Amounts, Capacity, RequestPolicy, Traits

_UNIT = 10**9


def consume(wanted: Amounts | None, traits: Traits) -> Amounts:
    """What a request takes of a device."""
    asked = dict(wanted or ())
    return tuple((name, _amount(asked.get(name), capacity)) for name, capacity in traits.capacity)


def fits(wanted: Amounts | None, traits: Traits, taken: Mapping[str, int], taking: Mapping[str, int]) -> bool:
    """Is that much left? `taken` is what others have, `taking` what this very allocation already has of it."""
    asked, offered = dict(wanted or ()), dict(traits.capacity)
    if not asked.keys() <= offered.keys():
        return False
    for name, capacity in traits.capacity:
        amount = _amount(asked.get(name), capacity)
        if capacity.policy is not None and not _accepts(capacity.policy, amount):
            return False
        if taken.get(name, 0) + taking.get(name, 0) + amount > capacity.amount:
            return False
    return True


def _amount(asked: int | None, capacity: Capacity) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.amount if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.has_range and policy.minimum is not None:
        return _round_up(asked, policy.minimum, policy.step)
    return next((value for value in policy.values if asked <= value), asked)


def _round_up(asked: int, minimum: int, step: int | None) -> int:
    if asked <= minimum or step is None:
        return max(asked, minimum)
    whole, first, width = _whole(asked), _whole(minimum), _whole(step)
    return (first + width * -(-(whole - first) // width)) * _UNIT


def _accepts(policy: RequestPolicy, amount: int) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.has_range:
        if policy.maximum is not None and amount > policy.maximum:
            return False
        first = _whole(policy.minimum or 0)
        return policy.step is None or (_whole(amount) - first) % _whole(policy.step) == 0
    return not policy.values or amount in policy.values


def _whole(nano: int) -> int:
    """Whole units, rounded up."""
    return -(-nano // _UNIT)
