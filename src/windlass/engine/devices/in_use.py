"""What of the devices is taken, as a value: taking and giving back make another one, so that undoing is remembering."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.devices.model import Amounts, DeviceId, Result

Share: TypeAlias = tuple[DeviceId, int, Amounts]
"""A device that is shared: by how many, and how much of its capacity they have together."""


@dataclass(frozen=True, slots=True)
class InUse:
    """Devices that are taken, and shares of devices."""

    devices: frozenset[DeviceId] = frozenset()
    """Taken as a whole."""
    shares: frozenset[Share] = frozenset()

    def __or__(self, other: "InUse") -> "InUse":
        """Both, of devices that are in one of them only."""
        return InUse(self.devices | other.devices, self.shares | other.shares)

    def take(self, results: Iterable[Result]) -> "InUse":
        return self._change(results, 1)

    def give_back(self, results: Iterable[Result]) -> "InUse":
        return self._change(results, -1)

    def is_taken(self, device: DeviceId) -> bool:
        """Does anyone hold it, or a share of it?"""
        return device in self.devices or self.is_shared(device)

    def is_shared(self, device: DeviceId) -> bool:
        """Does anyone hold a share of it?"""
        return any(share[0] == device for share in self.shares)

    def consumed(self, device: DeviceId) -> dict[str, int] | None:
        """How much of its capacity is taken; None where nobody takes any."""
        for shared, _, amounts in self.shares:
            if shared == device:
                return dict(amounts) if amounts else None
        return None

    def _change(self, results: Iterable[Result], sign: int) -> "InUse":
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
        left = ((device, count, tuple(sorted(amounts.items()))) for device, (count, amounts) in shares.items() if count)
        return InUse(frozenset(devices), frozenset(left))


def _share(shares: dict[DeviceId, tuple[int, dict[str, int]]], result: Result, sign: int) -> None:
    count, amounts = shares.get(result.device, (0, {}))
    for name, amount in result.consumed:
        amounts[name] = amounts.get(name, 0) + sign * amount
    shares[result.device] = max(count + sign, 0), amounts


NOTHING = InUse()
