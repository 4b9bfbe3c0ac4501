"""Tables of a sweep: rows in order with their texts for terminal and page, and JSON and CSV for programs."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from windlass.sweep import comparison
from windlass.sweep.comparison import (
    MEASURES,
    MEASURES_BY_NAME,
    PENDING,
    ComparisonMeasure,
    PairedDifference,
    SettingsRow,
)
from windlass.sweep.sweep_plan import SweepPlan

NO_RECOMMENDATION = "No settings are better than the current ones beyond what chance does between seeds. Keep them."

_SIDE_EFFECTS = ("evictions", "churn")
"""Further measures listed for recommended settings where they differ."""

_ZERO_TEXTS = ("0", "0s", "$0.00", "0.00")


def sort_rows(rows: Sequence[SettingsRow]) -> list[SettingsRow]:
    """Current settings, best trade-offs, other sound ones, the rest; each by cost."""
    cost = comparison.choose_cost_measure(rows)
    best = {row.number for row in comparison.pareto_front(rows)}

    def rank(row: SettingsRow) -> tuple[int, float, float, int]:
        if not row.estimates:
            return 4, 0.0, 0.0, row.number
        kind = 0 if row.number == 0 else 1 if row.number in best else 2 if row.is_sound else 3
        return kind, row.mean(cost), row.mean(PENDING), row.number

    return sorted(rows, key=rank)


def format_estimate(row: SettingsRow, name: str) -> tuple[str, str]:
    """The mean, and its spread over seeds where there is one."""
    if name not in row.estimates:
        return "–", ""
    mean_estimate, measure = row.estimates[name], MEASURES_BY_NAME[name]
    spread = measure.format_value(mean_estimate.spread)
    return measure.format_value(mean_estimate.mean), "" if spread in _ZERO_TEXTS else f"±{spread}"


def describe_differences(row: SettingsRow, current: SettingsRow) -> Iterator[str]:
    """A line for each of cost, pending time, and disruption of pods."""
    names = [comparison.choose_cost_measure([row, current]), PENDING]
    names += [name for name in _SIDE_EFFECTS if row.differences[name].mean]
    for name in names:
        measure, now, paired_difference = MEASURES_BY_NAME[name], current.mean(name), row.differences[name]
        # Disadvantages are not qualified as chance.
        is_clear = name not in _SIDE_EFFECTS or paired_difference.is_less or paired_difference.is_more
        change = f", {_describe_change(measure, paired_difference, now)}" if is_clear else ""
        yield f"{measure.title}: {measure.format_value(now)} → {measure.format_value(row.mean(name))}{change}"


def _describe_change(measure: ComparisonMeasure, found: PairedDifference, now: float) -> str:
    if not found.mean:
        return "the same"
    sign = "+" if found.mean > 0 else "−"
    share = f" ({sign}{abs(found.mean) / now:.1%})" if now else ""
    if found.is_less or found.is_more:
        return f"{sign}{measure.format_value(abs(found.mean))} ± {measure.format_value(found.margin)}{share}"
    return f"{sign}{measure.format_value(abs(found.mean))}{share}, which may be chance"


def describe_problems(row: SettingsRow) -> list[str]:
    """Problems of these settings: violations, missed expectations, failed runs."""
    told = [f"{row.violations} breaches of checks"] if row.violations else []
    told += [f"{len(row.missed)} expectations missed ({row.missed[0]})"] if row.missed else []
    told += [f"{len(row.failed)} runs failed ({row.failed[0]})"] if row.failed else []
    return told


def encode_json(plan: SweepPlan, rows: Sequence[SettingsRow]) -> str:
    front = {row.number for row in comparison.pareto_front(rows)}
    told = {
        "scenario": plan.world.scenario.name,
        "seeds": plan.seeds,
        "settings": [_row_as_json(row, row.number in front) for row in rows],
        "best": [{"why": advice.title, "settings": advice.row.number, "flags": format_command_line(advice.row)}
                 for advice in comparison.recommend(rows)],
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _row_as_json(row: SettingsRow, is_best: bool) -> dict[str, Any]:
    return {
        "number": row.number,
        "isCurrent": row.number == 0,
        "isBestTradeOff": is_best,
        "isSound": row.is_sound,
        "flags": row.values,
        "means": {name: round(mean_estimate.mean, 4) for name, mean_estimate in row.estimates.items()},
        "spreads": {name: round(one.spread, 4) for name, one in row.estimates.items()},
        "differences": {
            name: {
                "mean": round(paired_difference.mean, 4),
                "margin": round(paired_difference.margin, 4) if paired_difference.margin != float("inf") else None,
                "isBeyondChance": paired_difference.is_less or paired_difference.is_more,
            }
            for name, paired_difference in row.differences.items()
        },
        "violations": row.violations,
        "missed": row.missed,
        "failed": row.failed,
    }


def encode_csv(plan: SweepPlan, rows: Sequence[SettingsRow]) -> str:
    front = {row.number for row in comparison.pareto_front(rows)}
    names = [measure.name for measure in MEASURES]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = [f"{name}{part}" for name in names for part in ("", "_spread", "_difference", "_margin")]
    writer.writerow(["number", "best", "sound", "violations", "missed", "failed", *figures, *plan.tried])
    for row in rows:
        marks = [row.number, row.number in front, row.is_sound, row.violations, len(row.missed), len(row.failed)]
        numbers = [number for name in names for number in _estimate_cells(row, name)]
        writer.writerow([*marks, *numbers, *(row.values[flag] for flag in plan.tried)])
    return out.getvalue()


def _estimate_cells(row: SettingsRow, name: str) -> list[str]:
    """Mean, spread, difference and margin; empty where there is none."""
    found = [row.estimates[name].mean, row.estimates[name].spread] if name in row.estimates else []
    found += [row.differences[name].mean, row.differences[name].margin] if name in row.differences else []
    return [f"{number:.4f}" for number in found] + [""] * (4 - len(found))


def format_command_line(row: SettingsRow) -> str:
    """The flags as a command line takes them."""
    return " ".join(f"--{name}={value}" for name, value in row.flags.items())
