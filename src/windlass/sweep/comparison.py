"""Comparison of settings: means over seeds, differences from the current settings, and the Pareto front.

All settings run with the same seeds, so each seed gives one paired difference. A difference counts where Student's
interval for the mean of these excludes zero, at 95% for all settings together:

    margin = t(1 - 0.05 / 2 / settings compared, seeds - 1) × spread of the differences / √seeds

With one seed no difference counts.
"""

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass import formatting
from windlass.simulator.metrics import Totals
from windlass.sweep.sweep_plan import Flags, RunOutcome, SweepPlan, SweepTask

_HALVINGS = 60


@functools.cache
def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t distribution, for 0.5 ≤ probability < 1."""
    low, high = 0.0, 1.0
    while _share_below(high, freedom) < probability:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_below(middle, freedom) < probability else (low, middle)
    return high


def _share_below(t: float, freedom: int) -> float:
    """The probability of less than t ≥ 0, by the finite series for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    for k in range(freedom // 2):
        total += term
        step = 2 * k + 1 + freedom % 2
        term *= cosine * cosine * step / (step + 1)
    within = 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total
    return 0.5 + within / 2


_SIGNIFICANCE = 0.05
"""Probability of any false positive among all differences."""

_EPSILON = 1e-9

PENDING, COST, NODE_HOURS = "pending_p95_s", "cost", "node_hours"


@dataclass(frozen=True, slots=True)
class ComparisonMeasure:
    """A column of the table."""

    name: str
    title: str
    value_of: Callable[[Totals], float]
    format_value: Callable[[float], str]


MEASURES = (
    ComparisonMeasure(PENDING, "pending p95", lambda t: t["pending_p95_s"], formatting.format_padded_duration),
    ComparisonMeasure(COST, "cost", lambda t: t["cost"], formatting.format_money),
    ComparisonMeasure(NODE_HOURS, "node-hours", lambda t: t["node_hours"], formatting.format_number),
    ComparisonMeasure("evictions", "evictions", lambda t: t["evictions"], formatting.format_number),
    ComparisonMeasure("churn", "churn", lambda t: t["nodes_added"] + t["nodes_removed"], formatting.format_number),
)

MEASURES_BY_NAME = {measure.name: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """Mean and standard deviation over seeds."""

    mean: float
    spread: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference from the current settings, paired by seed."""

    mean: float
    margin: float
    """Half width of the confidence interval; infinite with one seed."""

    @property
    def is_less(self) -> bool:
        return self.mean + self.margin < -_EPSILON

    @property
    def is_more(self) -> bool:
        return self.mean - self.margin > _EPSILON


@dataclass(frozen=True, slots=True)
class SettingsRow:
    """One row of the table: settings and their results."""

    number: int
    flags: Flags
    """Flags on top of the scenario's; none for the current settings."""
    values: Mapping[str, str]
    """Value of each flag of the search space."""
    estimates: Mapping[str, MeanEstimate]
    """Estimates by measure; none where every run failed."""
    differences: Mapping[str, PairedDifference]
    """Differences by measure; none for the current settings."""
    failed: tuple[str, ...]
    violations: int
    """Violations in all runs."""
    missed: tuple[str, ...]
    """Missed expectations, one line for each seed and expectation."""
    is_sound: bool
    """Every run completed without violations, and no more expectations are missed than with the current settings."""

    def mean(self, measure: str) -> float:
        return self.estimates[measure].mean


def make_rows(plan: SweepPlan, outcomes: Mapping[SweepTask, RunOutcome]) -> list[SettingsRow]:
    """One row for each settings, in the plan's order. Depends on the plan and the outcomes only."""
    outcome_rows = [[outcomes[SweepTask(number, seed)] for seed in plan.seeds] for number in range(len(plan.settings))]
    return [
        _make_row(plan, number, runs, outcome_rows[0], len(outcome_rows) - 1)
        for number, runs in enumerate(outcome_rows)
    ]


def _make_row(
    plan: SweepPlan, number: int, runs: Sequence[RunOutcome], current: Sequence[RunOutcome], compared: int
) -> SettingsRow:
    failed = tuple(f"seed {seed}: {run.failed}" for seed, run in zip(plan.seeds, runs, strict=True) if run.failed)
    missed = tuple(f"seed {seed}: {item}" for seed, run in zip(plan.seeds, runs, strict=True) for item in run.missed)
    violations = sum(int(run.totals["violations"]) for run in runs if run.totals)
    paired = [(run, base) for run, base in zip(runs, current, strict=True) if run.totals and base.totals]
    is_sound = not failed and not violations and len(missed) <= sum(len(run.missed) for run in current)
    return SettingsRow(
        number,
        plan.settings[number],
        {flag: plan.flag_value(number, flag) for flag in plan.tried},
        {
            comparison_measure.name: _estimate([comparison_measure.value_of(run.totals) for run in runs if run.totals])
            for comparison_measure in MEASURES
        }
        if len(failed) < len(runs)
        else {},
        {one.name: _compare(one, paired, compared) for one in MEASURES} if number and paired else {},
        failed,
        violations,
        missed,
        is_sound,
    )


def _estimate(values: Sequence[float]) -> MeanEstimate:
    return MeanEstimate(statistics.fmean(values), _spread(values))


def _compare(
    measure: ComparisonMeasure, paired: Sequence[tuple[RunOutcome, RunOutcome]], compared: int
) -> PairedDifference:
    values, current = ([measure.value_of(run.totals) for run in runs] for runs in zip(*paired, strict=True))
    differences = [value - base for value, base in zip(values, current, strict=True)]
    if len(differences) < 2:
        return PairedDifference(differences[0], math.inf)
    # Equal differences have no spread, yet may be chance if the values differ: counts, and times in steps of a loop.
    spread = _spread(differences) or math.hypot(_spread(values), _spread(current))
    quantile = student_quantile(1 - _SIGNIFICANCE / 2 / compared, len(differences) - 1)
    return PairedDifference(statistics.fmean(differences), quantile * spread / math.sqrt(len(differences)))


def _spread(values: Sequence[float]) -> float:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return spread if spread > _EPSILON else 0.0


_TOLERATED_RISE = 0.05
"""Share of the current value up to which a worse value counts as equal."""

_MIN_GAIN = 0.01
"""Share of the current value below which an improvement is not recommended, however significant."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Settings with a significant improvement."""

    title: str
    row: SettingsRow


def choose_cost_measure(rows: Sequence[SettingsRow]) -> str:
    """The cost measure: money, or node-hours if no group has a price."""
    return COST if any(row.estimates and row.mean(COST) for row in rows) else NODE_HOURS


def pareto_front(rows: Sequence[SettingsRow]) -> list[SettingsRow]:
    """The Pareto front of sound settings in cost and pending time, the cheapest first."""
    cost = choose_cost_measure(rows)
    front: list[SettingsRow] = []
    for row in sorted(
        (settings_row for settings_row in rows if settings_row.is_sound),
        key=lambda row: (row.mean(cost), row.mean(PENDING)),
    ):
        if not front or row.mean(PENDING) < front[-1].mean(PENDING):
            front.append(row)
    return front


def recommend(rows: Sequence[SettingsRow]) -> list[Recommendation]:
    """At most one recommendation of each kind, each settings once; none without significant differences."""
    given: dict[int, Recommendation] = {}
    for recommendation in _recommendations(rows):
        given.setdefault(recommendation.row.number, recommendation)
    return list(given.values())


def _recommendations(rows: Sequence[SettingsRow]) -> Iterator[Recommendation]:
    cost, current = choose_cost_measure(rows), rows[0]
    others = [row for row in rows[1:] if row.is_sound and row.differences]
    saves = "costs less" if cost == COST else "takes fewer node-hours"
    kinds = (
        (cost, PENDING, f"{saves}, and pods wait no longer"),
        (PENDING, cost, f"pods wait less, and it {'costs' if cost == COST else 'takes'} no more"),
        (cost, None, f"{saves}, and pods wait longer"),
        (PENDING, None, f"pods wait less, and it {'costs' if cost == COST else 'takes'} more"),
    )
    for gained, kept, title in kinds:
        better = [row for row in others if _is_gain(row, current, gained)]
        if kept is not None:
            better = [row for row in better if _is_no_worse(row, current, kept)]
        if better:
            yield Recommendation(
                title, min(better, key=lambda row: (row.mean(gained), row.mean(kept or COST), row.number))
            )


def _is_gain(row: SettingsRow, current: SettingsRow, measure: str) -> bool:
    paired_difference = row.differences[measure]
    return paired_difference.is_less and -paired_difference.mean >= current.mean(measure) * _MIN_GAIN


def _is_no_worse(row: SettingsRow, current: SettingsRow, measure: str) -> bool:
    """Compares means: with few seeds a test of significance would let large differences pass."""
    return row.mean(measure) <= current.mean(measure) * (1 + _TOLERATED_RISE)
