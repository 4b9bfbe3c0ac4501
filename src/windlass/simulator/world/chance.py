"""Chance: one generator per part, all from one seed, so that a change in one part leaves the others' luck alone."""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dice:
    """Where parts get their generators."""

    seed: int

    def for_part(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")


@dataclass(frozen=True, slots=True)
class Delay:
    """How long something takes: log-normal around a median, never less than `least_s`.

    `spread` is the standard deviation of the logarithm: with 0.5 one in six takes more than 1.65 times the median.
    """

    median_s: float
    spread: float = 0.0
    least_s: float = 0.0

    def draw(self, generator: random.Random) -> float:
        """Seconds, to the millisecond."""
        if not self.spread or not self.median_s:
            return max(self.median_s, self.least_s)
        drawn = self.median_s * math.exp(generator.gauss(0.0, self.spread))
        return round(max(drawn, self.least_s), 3)
