"""Counters that devices of a pool share: what is left of them after the devices that are taken."""

from windlass.engine.devices.in_use import InUse
from windlass.engine.devices.model import Device
from windlass.engine.devices.pools import Pool

Key = tuple[str, str]
"""Counter set and counter."""


class Counters:
    """One pool's counters while devices are tried."""

    def __init__(self, pool: Pool, in_use: InUse) -> None:
        self._left: dict[Key, int] = {(name, key): amount for name, amounts in pool.counters for key, amount in amounts}
        for id, device in pool.drawing:
            if in_use.is_taken(id):
                self._draw(device, 1)
        self._drawn: dict[Key, int] = dict.fromkeys(self._left, 0)

    def _draw(self, device: Device, sign: int) -> None:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                if (name, key) in self._left:
                    self._left[name, key] -= sign * amount

    def take(self, device: Device) -> bool:
        """Draw what the device needs, if there is as much. No counter of the pool may be overdrawn then."""
        self._add(device, 1)
        if all(left >= self._drawn[key] for key, left in self._left.items()):
            return True
        self._add(device, -1)
        return False

    def give_back(self, device: Device) -> None:
        self._add(device, -1)

    def _add(self, device: Device, sign: int) -> None:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                self._drawn[name, key] = self._drawn.get((name, key), 0) + sign * amount
