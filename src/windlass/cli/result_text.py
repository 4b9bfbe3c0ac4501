"""Results of simulations and sweeps as text: summary tables, expectations and recommendations."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from windlass import formatting
from windlass.cli.terminal_output import TextStyle
from windlass.simulator.report import summary
from windlass.simulator.simulation import ScenarioRun
from windlass.sweep import comparison, sweep_report
from windlass.sweep.comparison import MEASURES, SettingsRow
from windlass.sweep.sweep_plan import SweepPlan

_WIDTH = 100

_MAX_VIOLATIONS = 5
"""Violations that are listed before the rest is counted."""


def run_lines(runs: Sequence[ScenarioRun], style: TextStyle) -> Iterator[str]:
    """The table, the expectations and the violations."""
    yield ""
    summary_rows = summary.summarize(runs)
    yield from (
        _single_run_lines(summary_rows, style) if len(runs) == 1 else _comparison_lines(runs, summary_rows, style)
    )
    for run in runs:
        yield from _conclusion(run, style, has_title=len(runs) > 1)


def _single_run_lines(summary_rows: Sequence[summary.SummaryRow], style: TextStyle) -> Iterator[str]:
    names, values = (
        formatting.max_width(summary_row.name for summary_row in summary_rows),
        formatting.max_width(one.values[0] for one in summary_rows),
    )
    for one in summary_rows:
        value = style.strong(f"{one.values[0]:>{values}}")
        yield f"{one.name:{names}}  {value}  {style.faint(one.notes[0])}".rstrip()


def _comparison_lines(
    runs: Sequence[ScenarioRun], summary_rows: Sequence[summary.SummaryRow], style: TextStyle
) -> Iterator[str]:
    """A column for each run and, from the second on, for its difference from the first."""
    names = formatting.max_width(summary_row.name for summary_row in summary_rows)
    for number, run in enumerate(runs):
        yield f"{style.strong(formatting.format_letter(number))}  {run.label}"
    table = [[one.values[0], *_compared_cells(one, runs)] for one in summary_rows]
    letters = [formatting.format_letter(i) for i in range(len(runs))]
    heads = [letters[0], *(head for letter in letters[1:] for head in (letter, f"{letter}-{letters[0]}"))]
    widths = [max(formatting.max_width(row[i] for row in table), len(head)) for i, head in enumerate(heads)]
    yield ""
    titles = (style.strong(f"{head:>{width}}") for head, width in zip(heads, widths, strict=True))
    yield f"{'':{names}}  {'  '.join(titles)}"
    for one, row in zip(summary_rows, table, strict=True):
        cells = [f"{value:>{width}}" for value, width in zip(row, widths, strict=True)]
        tones = [style.faint if row[2 * i + 2] == _SAME else style.note for i in range(len(runs) - 1) for _ in range(2)]
        cells[1:] = [tone(cell) for tone, cell in zip(tones, cells[1:], strict=True)]
        yield f"{one.name:{names}}  {'  '.join(cells)}".rstrip()
    for i in range(1, len(runs)):
        if all(row[2 * i] == _SAME for row in table) and _actions_of(runs[i]) == _actions_of(runs[0]):
            yield ""
            yield f"{letters[i]}: no difference: every figure and every decision is as in {letters[0]}"


def _actions_of(run: ScenarioRun) -> list[tuple[object, ...]]:
    """What was decided when, whatever the reasons."""
    return [(entry.at_s, entry.kind, entry.groups, entry.nodes) for entry in run.decisions]


_SAME = "="

_SMALLEST_SHARE = 0.0005
"""Below it a change would be shown as 0.0%."""

_COMPARED: Mapping[str, tuple[str, ...]] = {
    "pending time, p50": ("pending_p50_s",),
    "pending time, p95": ("pending_p95_s",),
    "pending time, max": ("pending_max_s",),
    "node-hours": ("node_hours",),
    "cost": ("cost",),
    "utilization, cpu": ("utilization_cpu",),
    "utilization, memory": ("utilization_memory",),
    "evictions": ("evictions",),
    "churn": ("nodes_added", "nodes_removed"),
    "resizes": ("scale_ups", "scale_downs"),
}
"""Totals whose sum a row shows."""


def _compared_cells(row: summary.SummaryRow, runs: Sequence[ScenarioRun]) -> Iterator[str]:
    """The value of each run from the second on, and its difference from the first's."""
    for i in range(1, len(runs)):
        yield row.values[i]
        if row.name == "decisions":
            yield _describe_change(len(runs[0].decisions), len(runs[i].decisions))
        elif row.name in _COMPARED:
            before, now = (sum(run.result.totals[name] for name in _COMPARED[row.name]) for run in (runs[0], runs[i]))
            yield _describe_change(before, now)
        else:
            yield _SAME if row.values[i] == row.values[0] else ""


def _describe_change(before: float, now: float) -> str:
    """The relative change; `new` from nothing."""
    if before == now:
        return _SAME
    if not before:
        return "new"
    share = (now - before) / before
    if abs(share) < _SMALLEST_SHARE:
        return "~"
    return f"{share:+.1%}" if abs(share) < 10 else f"{now / before:.0f}x"


def _conclusion(run: ScenarioRun, style: TextStyle, *, has_title: bool) -> Iterator[str]:
    result = run.result
    yield ""
    if has_title:
        yield style.strong(run.label)
    if has_title and result.is_as_expected and len(result.outcomes) > 1:
        yield f"{style.good('✓')} all {len(result.outcomes)} expectations are met"
        return
    for outcome in result.outcomes:
        yield f"{style.good('✓') if outcome.is_met else style.bad('✗')} {outcome}"
    for violation in result.violations[:_MAX_VIOLATIONS]:
        yield f"{style.bad('violated')} {violation}"
    if len(result.violations) > _MAX_VIOLATIONS:
        yield f"{style.bad('violated')} {len(result.violations) - _MAX_VIOLATIONS} more"
    if not result.outcomes and not result.violations:
        yield f"{style.good('✓')} no check was violated"


def encode_runs(runs: Sequence[ScenarioRun]) -> str:
    """The results as JSON."""
    encoded = [_run_as_json(run) for run in runs]
    return msgspec.json.format(msgspec.json.encode(encoded), indent=2).decode()


def _run_as_json(run: ScenarioRun) -> dict[str, Any]:
    result = run.result
    return {
        "scenario": run.scenario.name,
        "seed": run.scenario.seed,
        "settings": run.label,
        "totals": result.totals,
        "expectations": [
            {"said": str(expectation_result), "isMet": expectation_result.is_met}
            for expectation_result in result.outcomes
        ],
        "violations": [str(violation) for violation in result.violations],
        "decisions": run.decisions,
        "series": result.series,
    }


def list_scenarios(known: Mapping[str, Path], style: TextStyle) -> Iterator[str]:
    """The scenarios that come with windlass, with their descriptions."""
    names = formatting.max_width(known)
    for name, path in known.items():
        story = " ".join(str(yaml.safe_load(path.read_text()).get("story", "")).split())
        first, *more = textwrap.wrap(story, _WIDTH - names - 2) or [""]
        yield f"{style.strong(f'{name:{names}}')}  {first}"
        yield from (f"{'':{names}}  {line}" for line in more)


_MAX_ROWS = 12
"""Rows that are listed before the rest is counted; the best trade-offs always are."""

_MARKS = {"now": "now", "best": "★", "sound": "", "unsound": "✗"}


def sweep_lines(plan: SweepPlan, rows: Sequence[SettingsRow], style: TextStyle) -> Iterator[str]:
    """The table of settings, their problems, and the recommendations."""
    best = {row.number for row in comparison.pareto_front(rows)}
    ordered = sweep_report.sort_rows(rows)
    shown = [row for i, row in enumerate(ordered) if i < _MAX_ROWS or row.number in best]
    yield ""
    yield from _table(plan, shown, best, style)
    if len(shown) < len(rows):
        yield style.faint(f"and {formatting.format_count(len(rows) - len(shown), 'other', thousands=',')}")
    for row in shown:
        yield from (f"{style.bad('✗')} settings {row.number}: {said}" for said in sweep_report.describe_problems(row))
    yield ""
    yield from _recommendation_lines(rows, style)


def _table(plan: SweepPlan, shown: Sequence[SettingsRow], best: set[int], style: TextStyle) -> Iterator[str]:
    heads = ["", "#", *(measure.title for measure in MEASURES), *plan.tried]
    table = [_cells(plan, row, best) for row in shown]
    widths = [max(map(len, column)) for column in zip(heads, *table, strict=True)]
    left = 2 + len(MEASURES)
    yield style.faint(_join(heads, widths, left))
    for row, cells in zip(shown, table, strict=True):
        line = _join(cells, widths, left)
        yield _paint(style, _row_kind(row, best), line)


def _cells(plan: SweepPlan, row: SettingsRow, best: set[int]) -> list[str]:
    figures = (" ".join(filter(None, sweep_report.format_estimate(row, measure.name))) for measure in MEASURES)
    return [_MARKS[_row_kind(row, best)], str(row.number), *figures, *(row.values[flag] for flag in plan.tried)]


def _row_kind(row: SettingsRow, best: set[int]) -> str:
    if not row.is_sound:
        return "unsound"
    return "now" if row.number == 0 else "best" if row.number in best else "sound"


def _join(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    """One line: numbers aligned right, values of flags left."""
    laid = (f"{cell:>{width}}" if 0 < i < left else f"{cell:{width}}"
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True)))  # fmt: skip
    return "  ".join(laid).rstrip()


def _paint(style: TextStyle, kind: str, line: str) -> str:
    match kind:
        case "now":
            return style.strong(line)
        case "best":
            return style.good(line)
        case "unsound":
            return style.bad(line)
    return line


def _recommendation_lines(rows: Sequence[SettingsRow], style: TextStyle) -> Iterator[str]:
    given = comparison.recommend(rows)
    if not given:
        yield sweep_report.NO_RECOMMENDATION
        return
    for number, recommendation in enumerate(given):
        if number:
            yield ""
        yield style.strong(
            f"{recommendation.title[0].upper()}{recommendation.title[1:]}: settings {recommendation.row.number}"
        )
        yield from (f"  {line}" for line in sweep_report.describe_differences(recommendation.row, rows[0]))
        yield f"  {style.good(sweep_report.format_command_line(recommendation.row))}"
