"""Output of a sweep: tables for terminal and programs (JSON, CSV), and the HTML page.

The page has the recommendation, a plot of pending time against cost, and all settings in a table.
"""

import csv
import html
import importlib.resources
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import formatting
from windlass.simulator.report import charts
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
    return measure.format_value(mean_estimate.mean), "" if spread == measure.format_value(0.0) else f"±{spread}"


def describe_differences(row: SettingsRow, current: SettingsRow) -> Iterator[str]:
    """A line for each of cost, pending time, and disruption of pods."""
    names = [comparison.choose_cost_measure([row, current]), PENDING]
    names += [name for name in _SIDE_EFFECTS if row.differences[name].mean]
    for name in names:
        measure, now, difference = MEASURES_BY_NAME[name], current.mean(name), row.differences[name]
        # Disadvantages are not qualified as chance.
        is_clear = name not in _SIDE_EFFECTS or difference.is_less or difference.is_more
        change = f", {_describe_change(measure, difference, now)}" if is_clear else ""
        yield f"{measure.title}: {measure.format_value(now)} → {measure.format_value(row.mean(name))}{change}"


def _describe_change(measure: ComparisonMeasure, difference: PairedDifference, now: float) -> str:
    if not difference.mean:
        return "the same"
    sign = "+" if difference.mean > 0 else "−"
    share = f" ({sign}{abs(difference.mean) / now:.1%})" if now else ""
    if difference.is_less or difference.is_more:
        return f"{sign}{measure.format_value(abs(difference.mean))} ± {measure.format_value(difference.margin)}{share}"
    return f"{sign}{measure.format_value(abs(difference.mean))}{share}, which may be chance"


def describe_problems(row: SettingsRow) -> list[str]:
    """Problems of these settings: violations, missed expectations, failed runs."""
    told = [f"{row.violations} breaches of checks"] if row.violations else []
    told += [f"{len(row.missed)} expectations missed ({row.missed[0]})"] if row.missed else []
    told += [f"{len(row.failed)} runs failed ({row.failed[0]})"] if row.failed else []
    return told


def encode_json(plan: SweepPlan, rows: Sequence[SettingsRow]) -> str:
    front = {row.number for row in comparison.pareto_front(rows)}
    told = {
        "scenario": plan.sweep_input.scenario.name,
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
                "mean": round(difference.mean, 4),
                "margin": round(difference.margin, 4) if difference.margin != float("inf") else None,
                "isBeyondChance": difference.is_less or difference.is_more,
            }
            for name, difference in row.differences.items()
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


_TICKS = 5
"""Approximate number of ticks of an axis."""

_STEPS = (1, 2, 2.5, 5, 10)

_DAY_S = 86400

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, _DAY_S)

_AXIS_MARGIN = 0.06
"""Margin as a share of the range, so that no mark lies on the end of an axis."""


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """Maps values to shares of the axis's length."""

    low: float
    high: float
    step: float

    def place(self, value: float) -> float:
        """Clamped to the axis."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]


def make_axis(values: Sequence[float], *, is_time: bool) -> PlotAxis:
    """An axis for non-negative values."""
    least, most = min(values), max(values)
    room = (most - least) * _AXIS_MARGIN or max(most * _AXIS_MARGIN, 1.0)
    low, high = max(least - room, 0.0), most + room
    return PlotAxis(low, high, _choose_step(high - low, is_time=is_time))


def _choose_step(length: float, *, is_time: bool) -> float:
    wanted = length / _TICKS
    if is_time and wanted > 1:
        return next((step for step in _STEPS_S if step >= wanted), _DAY_S * math.ceil(wanted / _DAY_S))
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(step * power for step in _STEPS if step * power >= wanted * (1 - 1e-9))


_SIZE = 1000


def draw_plot(rows: Sequence[SettingsRow]) -> str:
    """The figure."""
    cost = MEASURES_BY_NAME[comparison.choose_cost_measure(rows)]
    front = comparison.pareto_front(rows)
    shown = [row for row in rows if row.estimates]
    if not shown:
        return ""
    across = make_axis([row.mean(PENDING) for row in shown], is_time=True)
    up = make_axis([row.mean(cost.name) for row in shown], is_time=False)
    best = {row.number for row in front}
    spreads = "".join(_draw_spreads(front, cost, across, up))
    lines = f"{_draw_grid(across, up)}{_draw_front(front, cost, across, up)}{spreads}"
    marks = "".join(_draw_mark(row, cost, across, up, row.number in best) for row in shown)
    return (
        f'<figure class="tradeoffs"><figcaption><h3>{cost.title.capitalize()} against pending time</h3>{_LEGEND}'
        f'</figcaption><div class="plot">{_labels_up(up, cost)}'
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none" role="img" '
        f'aria-label="{_describe_front(front, cost)}">{lines}</svg>{marks}</div>'
        f'{_labels_across(across)}<p class="hint axis">across: pending time, p95; up: {cost.title}; less is better '
        "of both. Lines through a mark: one standard deviation over seeds</p></figure>"
    )


_LEGEND = (
    '<div class="keys"><span><i class="mark now"></i>current settings</span>'
    '<span><i class="mark best"></i>best trade-off</span><span><i class="mark"></i>other settings</span>'
    '<span><i class="mark unsound"></i>breaches a check, or misses more</span></div>'
)


def describe_row(row: SettingsRow, cost: ComparisonMeasure) -> str:
    """A row as a sentence."""
    pending = MEASURES_BY_NAME[PENDING]
    text = f"{pending.title} {pending.format_value(row.mean(PENDING))}, "
    text += f"{cost.title} {cost.format_value(row.mean(cost.name))}"
    return f"{row.number}: {text}; {', '.join(f'{flag}={value}' for flag, value in row.values.items())}"


def _describe_front(front: Sequence[SettingsRow], cost: ComparisonMeasure) -> str:
    return html.escape(f"best trade-offs: {'; '.join(describe_row(row, cost) for row in front)}", quote=True)


def _draw_mark(row: SettingsRow, cost: ComparisonMeasure, across: PlotAxis, up: PlotAxis, is_best: bool) -> str:
    kinds = ["mark"] + ["now"] * (row.number == 0) + ["best"] * is_best + ["unsound"] * (not row.is_sound)
    where = f"left:{across.place(row.mean(PENDING)):.2%};bottom:{up.place(row.mean(cost.name)):.2%}"
    said = html.escape(describe_row(row, cost), quote=True)
    name = f"<b>{row.number}</b>" if is_best or row.number == 0 else ""
    spoken = f'title="{said}" aria-label="settings {said}"'
    return f'<a class="{" ".join(kinds)}" href="#s{row.number}" style="{where}" {spoken}>{name}</a>'


def _draw_grid(across: PlotAxis, up: PlotAxis) -> str:
    path = "".join(f"M{_SIZE * across.place(tick):.1f} 0V{_SIZE}" for tick in across.ticks)
    path += "".join(f"M0 {_SIZE * (1 - up.place(tick)):.1f}H{_SIZE}" for tick in up.ticks)
    return f'<path class="grid" d="{path}"/>'


def _draw_front(front: Sequence[SettingsRow], cost: ComparisonMeasure, across: PlotAxis, up: PlotAxis) -> str:
    """The Pareto front as steps: settings above and to the right of it are dominated."""
    points = [(_SIZE * across.place(row.mean(PENDING)), _SIZE * (1 - up.place(row.mean(cost.name)))) for row in front]
    if len(points) < 2:  # a single point is no trade-off: its lines would only cross the plot
        return ""
    down = [y for _, y in points[1:]] + [0.0]
    path = "".join(f"H{x:.1f}V{y:.1f}" for (x, _), y in zip(points, down, strict=True))
    return f'<path class="front" d="M{_SIZE} {points[0][1]:.1f}{path}"/>'


def _draw_spreads(
    front: Sequence[SettingsRow], cost: ComparisonMeasure, across: PlotAxis, up: PlotAxis
) -> Iterator[str]:
    for row in front:
        (x, dx), (y, dy) = ((row.estimates[name].mean, row.estimates[name].spread) for name in (PENDING, cost.name))
        left, middle, right = (_SIZE * across.place(value) for value in (x - dx, x, x + dx))
        lower, centre, upper = (_SIZE * (1 - up.place(value)) for value in (y - dy, y, y + dy))
        yield (f'<path class="spread" d="M{left:.1f} {centre:.1f}H{right:.1f}M{middle:.1f} {lower:.1f}V{upper:.1f}"/>')


def _labels_up(axis: PlotAxis, cost: ComparisonMeasure) -> str:
    labels = (f'<span style="bottom:{axis.place(tick):.2%}">{cost.format_value(tick)}</span>' for tick in axis.ticks)
    return f'<div class="y" aria-hidden="true">{"".join(labels)}</div>'


def _labels_across(axis: PlotAxis) -> str:
    format_tick = MEASURES_BY_NAME[PENDING].format_value
    labels = (f'<span style="left:{axis.place(tick):.2%}">{format_tick(tick)}</span>' for tick in axis.ticks)
    return f'<div class="x" aria-hidden="true">{"".join(labels)}</div>'


def render_page(plan: SweepPlan, rows: Sequence[SettingsRow]) -> str:
    """The HTML document."""
    name = plan.sweep_input.scenario.name
    settings, seeds = (
        formatting.format_count(len(rows), "settings", thousands=",").removesuffix("s"),
        formatting.format_count(len(plan.seeds), "seed", thousands=","),
    )
    head = f"<header><h1>{html.escape(name)}: which settings?</h1><p class='facts'>{settings} × {seeds}</p></header>"
    body = f"{head}{''.join(_render_recommendation(rows))}{draw_plot(rows)}{_render_table(plan, rows)}"
    style = importlib.resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return charts.render_document(body, f"{name}, sweep", style)


def _render_recommendation(rows: Sequence[SettingsRow]) -> Iterator[str]:
    given = comparison.recommend(rows)
    if not given:
        yield f'<div class="advice none"><h3>{html.escape(NO_RECOMMENDATION)}</h3></div>'
    for advice in given:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in describe_differences(advice.row, rows[0]))
        yield (
            f'<div class="advice"><h3>{html.escape(advice.title)}: settings {advice.row.number}</h3>{lines}'
            f"<p><code>{html.escape(format_command_line(advice.row))}</code></p></div>"
        )


def _render_table(plan: SweepPlan, rows: Sequence[SettingsRow]) -> str:
    best = {row.number for row in comparison.pareto_front(rows)}
    heads = "".join(f"<th scope='col' class='number'>{measure.title}</th>" for measure in MEASURES)
    tried = "".join(f"<th scope='col'>{html.escape(flag)}</th>" for flag in plan.tried)
    ordered = "".join(_render_row(plan, row, row.number in best) for row in sort_rows(rows))
    return (
        '<h2>All settings</h2><div class="wide"><table class="settings"><thead><tr><th></th>'
        f"{heads}{tried}<th></th></tr></thead><tbody>{ordered}</tbody></table></div>"
    )


def _render_row(plan: SweepPlan, row: SettingsRow, is_best: bool) -> str:
    kinds = ["now"] * (row.number == 0) + ["best"] * is_best + ["unsound"] * (not row.is_sound)
    cells = "".join(f"<td class='number'>{_render_cell(row, measure.name)}</td>" for measure in MEASURES)
    values = "".join(f"<td>{html.escape(row.values[flag])}</td>" for flag in plan.tried)
    said = html.escape("; ".join(describe_problems(row)))
    return (
        f'<tr id="s{row.number}" class="{" ".join(kinds)}"><th scope="row">{row.number}</th>'
        f"{cells}{values}<td>{said}</td></tr>"
    )


def _render_cell(row: SettingsRow, name: str) -> str:
    text, spread = format_estimate(row, name)
    return f"{html.escape(text)} <small>{html.escape(spread)}</small>" if spread else html.escape(text)
