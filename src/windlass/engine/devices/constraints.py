"""Constraints: what the devices of a claim must have in common, or must each have differently."""

from typing import Protocol, TypeAlias

from windlass import releases
from windlass.engine.devices.model import Attribute, Constraint, Device, DeviceId

Typed: TypeAlias = tuple[type, Attribute]
"""A value with its type: 1 is not the same as true."""


class Keeper(Protocol):
    """One constraint while devices are tried."""

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        """Count the device in, if the constraint allows it."""

    def remove(self, request: str, part: str) -> None:
        """The device that was counted in last is not taken after all."""


def keep(constraint: Constraint, release: releases.Release) -> Keeper:
    if constraint.match:
        return _Match(constraint)
    return _Distinct(constraint) if release.distinguishes_all_devices else _DistinctByRequest(constraint)


def is_known(constraint: Constraint) -> bool:
    return bool(constraint.match or constraint.distinct)


def find_attribute(id: DeviceId, device: Device, name: str) -> Typed | None:
    """The device's attribute of this full name; one without a domain is the driver's own."""
    attributes = dict(device.traits.attributes)
    if name not in attributes:
        domain, slash, own = name.partition("/")
        if not slash or domain != id.driver or own not in attributes:
            return None
        name = own
    return type(attributes[name]), attributes[name]


def _concerns(constraint: Constraint, request: str, part: str) -> bool:
    named = constraint.requests
    return not named or request in named or bool(part and f"{request}/{part}" in named)


class _Match:
    """All devices have the same value; the first settles which."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint, self._count = constraint, 0
        self._value: Typed | None = None

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _concerns(self._constraint, request, part):
            return True
        value = find_attribute(id, device, self._constraint.match)
        if value is None or (self._count and (value != self._value or value[1] is None)):
            return False
        if not self._count:
            self._value = value
        self._count += 1
        return True

    def remove(self, request: str, part: str) -> None:
        if _concerns(self._constraint, request, part):
            self._count -= 1


class _Distinct:
    """No two devices have the same value."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._values: list[Typed] = []

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _concerns(self._constraint, request, part):
            return True
        value = find_attribute(id, device, self._constraint.distinct)
        if value is None or (self._values and (value[1] is None or value in self._values)):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, part: str) -> None:
        if _concerns(self._constraint, request, part):
            self._values.pop()


class _DistinctByRequest:
    """No two requests have the same value. kube-scheduler remembers one value per request, the latest."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint, self._count = constraint, 0
        self._values: dict[str, Typed] = {}

    def add(self, request: str, part: str, id: DeviceId, device: Device) -> bool:
        if not _concerns(self._constraint, request, part):
            return True
        value = find_attribute(id, device, self._constraint.distinct)
        if value is None:
            return False
        if self._count and self._values and (value[1] is None or value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, part: str) -> None:
        if _concerns(self._constraint, request, part):
            self._values.pop(request, None)
            self._count -= 1
