"""Did it end as the story says?"""

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.simulator.measure.meter import Series
from windlass.simulator.measure.totals import Totals
from windlass.simulator.scenario.model import Expectation


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation, what was found, and whether that is within its limits."""

    expected: Expectation
    least: float
    most: float
    """The same for a total; of a series, the extremes within the time."""

    @property
    def is_met(self) -> bool:
        lowest, highest = self.expected.at_least, self.expected.at_most
        return (lowest is None or self.least >= lowest) and (highest is None or self.most <= highest)

    def __str__(self) -> str:
        expected = self.expected
        found = f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"
        limits = [f"at least {expected.at_least:g}"] if expected.at_least is not None else []
        limits += [f"at most {expected.at_most:g}"] if expected.at_most is not None else []
        of = f" of {expected.group}" if expected.group else ""
        return f"{expected.measure}{of}: found {found}, expected {' and '.join(limits)}"


def judge(expected: Expectation, totals: Totals, series: Series) -> Outcome:
    if expected.start is None and expected.end is None and expected.group is None:
        return Outcome(expected, totals[expected.measure], totals[expected.measure])
    numbers = _numbers(expected, series)
    first = int((expected.start or 0.0) / series.every_s)
    last = int(expected.end / series.every_s) if expected.end is not None else len(numbers) - 1
    within = numbers[first : last + 1] or [0.0]
    return Outcome(expected, float(min(within)), float(max(within)))


def _numbers(expected: Expectation, series: Series) -> Sequence[float]:
    if expected.measure != "nodes":
        found: Sequence[float] = getattr(series, expected.measure)
        return found
    group = expected.group
    chosen = [numbers for name, numbers in series.nodes.items() if group is None or name == group]
    chosen = chosen or [numbers for name, numbers in series.nodes.items() if name.rpartition("-")[0] == group]
    return [sum(at) for at in zip(*chosen, strict=True)]
