"""Axes: from a little below the least to a little above the most, with ticks at numbers that read well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TICKS = 5
"""On an axis, about so many."""
_STEPS = (1, 2, 2.5, 5, 10)
_DAY_S = 86400
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, _DAY_S)
_MARGIN = 0.06
"""Of what the axis shows, so that no mark lies on its end."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What lies where, as shares of its length."""

    low: float
    high: float
    step: float

    def place(self, value: float) -> float:
        """Nothing lies outside."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]


def make(values: Sequence[float], *, is_time: bool) -> Axis:
    """For these values, none of which is below zero."""
    least, most = min(values), max(values)
    room = (most - least) * _MARGIN or max(most * _MARGIN, 1.0)
    low, high = max(least - room, 0.0), most + room
    return Axis(low, high, _choose_step(high - low, is_time=is_time))


def _choose_step(length: float, *, is_time: bool) -> float:
    wanted = length / _TICKS
    if is_time and wanted > 1:
        return next((step for step in _STEPS_S if step >= wanted), _DAY_S * math.ceil(wanted / _DAY_S))
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(step * power for step in _STEPS if step * power >= wanted * (1 - 1e-9))
