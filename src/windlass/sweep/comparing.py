"""What runs say together: for each settings the mean over seeds, and how far it is from the current ones.

Every settings meet the same seeds, so each seed gives one difference, and chance that both met alike drops out. A
difference counts where Student's interval for the mean of these leaves out zero, at 95% for all settings together:

    margin = t(1 - 0.05 / 2 / settings compared, seeds - 1) × spread of the differences / √seeds

With one seed nothing is known of chance, and no difference counts.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windlass.simulator.measure.totals import Totals
from windlass.simulator.reporting import amounts
from windlass.sweep import student
from windlass.sweep.plan import Flags, Plan, Task
from windlass.sweep.playing import Outcome

_DOUBT = 0.05
"""The chance that any difference is called one which is none."""
_NOTHING = 1e-9
PENDING, COST, NODE_HOURS = "pending_p95_s", "cost", "node_hours"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the table."""

    name: str
    title: str
    read: Callable[[Totals], float]
    spell: Callable[[float], str]


MEASURES = (
    Measure(PENDING, "pending p95", lambda t: t["pending_p95_s"], amounts.duration),
    Measure(COST, "cost", lambda t: t["cost"], amounts.money),
    Measure(NODE_HOURS, "node-hours", lambda t: t["node_hours"], amounts.number),
    Measure("evictions", "evictions", lambda t: t["evictions"], amounts.number),
    Measure("churn", "churn", lambda t: t["nodes_added"] + t["nodes_removed"], amounts.number),
)
BY_NAME = {measure.name: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and the standard deviation around it."""

    mean: float
    spread: float


@dataclass(frozen=True, slots=True)
class Difference:
    """From the current settings."""

    mean: float
    margin: float
    """Up to which it may be chance; infinite with one seed."""

    @property
    def is_less(self) -> bool:
        return self.mean + self.margin < -_NOTHING

    @property
    def is_more(self) -> bool:
        return self.mean - self.margin > _NOTHING


@dataclass(frozen=True, slots=True)
class Row:
    """Settings, and all that is known of them."""

    number: int
    flags: Flags
    """On top of the scenario's; none: the current ones."""
    values: Mapping[str, str]
    """What each flag is that was tried."""
    estimates: Mapping[str, Estimate]
    """By measure; none where every run failed."""
    differences: Mapping[str, Difference]
    """Of the same; none of the current settings themselves."""
    failed: tuple[str, ...]
    violations: int
    """Breaches in all runs together."""
    missed: tuple[str, ...]
    """Expectations that were not met, one line for each seed and expectation."""
    is_sound: bool
    """Every run was played, nothing was breached, and no more is missed than with the current settings."""

    def mean(self, measure: str) -> float:
        return self.estimates[measure].mean


def make_rows(plan: Plan, outcomes: Mapping[Task, Outcome]) -> list[Row]:
    """One for each settings, in the plan's order. Depends on nothing else but what was played."""
    found = [[outcomes[Task(number, seed)] for seed in plan.seeds] for number in range(len(plan.settings))]
    return [_make_row(plan, number, runs, found[0], len(found) - 1) for number, runs in enumerate(found)]


def _make_row(plan: Plan, number: int, runs: Sequence[Outcome], current: Sequence[Outcome], compared: int) -> Row:
    failed = tuple(f"seed {seed}: {run.failed}" for seed, run in zip(plan.seeds, runs, strict=True) if run.failed)
    missed = tuple(f"seed {seed}: {one}" for seed, run in zip(plan.seeds, runs, strict=True) for one in run.missed)
    violations = sum(int(run.totals["violations"]) for run in runs if run.totals)
    paired = [(run, base) for run, base in zip(runs, current, strict=True) if run.totals and base.totals]
    is_sound = not failed and not violations and len(missed) <= sum(len(run.missed) for run in current)
    return Row(
        number,
        plan.settings[number],
        {flag: plan.spell(number, flag) for flag in plan.tried},
        {one.name: _estimate([one.read(run.totals) for run in runs if run.totals]) for one in MEASURES}
        if len(failed) < len(runs)
        else {},
        {one.name: _differ(one, paired, compared) for one in MEASURES} if number and paired else {},
        failed,
        violations,
        missed,
        is_sound,
    )


def _estimate(values: Sequence[float]) -> Estimate:
    return Estimate(statistics.fmean(values), _spread(values))


def _differ(measure: Measure, paired: Sequence[tuple[Outcome, Outcome]], compared: int) -> Difference:
    values, current = ([measure.read(run.totals) for run in runs] for runs in zip(*paired, strict=True))
    found = [value - base for value, base in zip(values, current, strict=True)]
    if len(found) < 2:
        return Difference(found[0], math.inf)
    # Equal differences of counts, or of times in steps of a loop, may be equal by chance where the values are not.
    spread = _spread(found) or math.hypot(_spread(values), _spread(current))
    quantile = student.find_quantile(1 - _DOUBT / 2 / compared, len(found) - 1)
    return Difference(statistics.fmean(found), quantile * spread / math.sqrt(len(found)))


def _spread(values: Sequence[float]) -> float:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return spread if spread > _NOTHING else 0.0
