"""Charts: one HTML figure per plot, lines as SVG that stretches and all text as HTML beside it."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from windlass import formatting
from windlass.simulator.autoscaler_run import ScenarioRun
from windlass.simulator.metrics import MetricSeries
from windlass.simulator.report import markup, timeline

_COLOURS = 10
_GROUPS = 9
"""Groups with a curve of their own; the smaller ones share one."""
_TICKS = 4
_TIMES_S = (300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 14 * 86400, 28 * 86400)
_MAX_TIMES = 9
_NEAR_THE_END = 0.97
"""Share of an axis from which a label has no room to its right."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One series of a chart."""

    name: str
    values: Sequence[float]
    colour: int
    is_bound: bool = False
    """Drawn as a dashed line: a reference, not a measurement."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The series of one plot."""

    title: str
    unit: str
    """Format of values: count, share or money."""
    curves: tuple[Curve, ...]
    is_stacked: bool = False


def run_charts(run: ScenarioRun) -> list[Chart]:
    series = run.result.series
    bound = Curve("lower bound", series.nodes_lower_bound, -1, is_bound=True)
    least = Curve("lower bound", series.cost_per_hour_lower_bound, -1, is_bound=True)
    used = (Curve("cpu", series.utilization_cpu, 0), Curve("memory", series.utilization_memory, 1))
    return [
        Chart("Nodes by group", "count", (*_by_group(series), bound), is_stacked=True),
        Chart("Pending pods", "count", (Curve("pending", series.pending, 2),)),
        Chart("Utilization", "share", used),
        Chart("Cost per hour", "money", (Curve("cost", series.cost_per_hour, 4), least)),
    ]


def comparison_charts(runs: Sequence[ScenarioRun]) -> list[Chart]:
    """Charts that compare all runs."""
    every = [run.result.series for run in runs]
    letters = [chr(ord("A") + number) for number in range(len(runs))]

    def curves(found: Sequence[Sequence[float]]) -> tuple[Curve, ...]:
        return tuple(Curve(letter, values, i) for i, (letter, values) in enumerate(zip(letters, found, strict=True)))

    return [
        Chart("Nodes", "count", curves([total_nodes(series) for series in every])),
        Chart("Pending pods", "count", curves([series.pending for series in every])),
        Chart("Cost per hour", "money", curves([series.cost_per_hour for series in every])),
    ]


def total_nodes(series: MetricSeries) -> list[int]:
    return [sum(numbers) for numbers in zip(*series.nodes.values(), strict=True)]


def _by_group(series: MetricSeries) -> list[Curve]:
    """The largest groups, in the order of their names, and the sum of the others."""
    present = {name: values for name, values in series.nodes.items() if any(values)}
    by_size = sorted(present, key=lambda name: (-sum(present[name]), name))
    shown, rest = sorted(by_size[:_GROUPS]), by_size[_GROUPS:]
    curves = [Curve(name, present[name], i) for i, name in enumerate(shown)]
    if rest:
        together = [sum(numbers) for numbers in zip(*(present[name] for name in rest), strict=True)]
        curves.append(Curve(f"{len(rest)} others", together, _GROUPS))
    return curves


def draw_chart(chart: Chart, run: ScenarioRun, number: str) -> str:
    """The figure. `number` identifies its data for the script."""
    most = (
        1.0
        if chart.unit == "share"
        else markup.round_axis_end(_maximum(chart), _TICKS if chart.unit == "count" else 1.0)
    )
    samples = max(len(chart.curves[0].values) - 1, 1)
    shapes = "".join(
        _draw_stacked(chart, most) if chart.is_stacked else (_draw_curve(curve, most) for curve in chart.curves)
    )
    grid = "".join(f"M0 {markup.HEIGHT * i // _TICKS}H{samples}" for i in range(_TICKS))
    return (
        f'<figure class="chart" data-chart="{number}"><figcaption><h3>{html.escape(chart.title)}</h3>'
        f'<div class="keys">{"".join(_key(one) for one in chart.curves)}</div></figcaption>'
        f'<div class="plot" tabindex="0" role="img" aria-label="{html.escape(_describe(chart))}">'
        f"{_y_axis(chart.unit, most)}"
        f'<svg viewBox="0 0 {samples} {markup.HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'{timeline.draw_bands(run, samples)}<path class="grid" d="{grid}"/>{shapes}</svg>'
        f'<i class="cursor"></i></div>{x_axis(run.lasts_s)}</figure>'
    )


def _maximum(chart: Chart) -> float:
    if not chart.is_stacked:
        return max((max(curve.values, default=0) for curve in chart.curves), default=0)
    real = [one.values for one in chart.curves if not one.is_bound]
    highest = max((sum(numbers) for numbers in zip(*real, strict=True)), default=0)
    return max([highest, *(max(one.values, default=0) for one in chart.curves if one.is_bound)])


def _draw_stacked(chart: Chart, most: float) -> list[str]:
    drawn, below = list[str](), [0.0] * len(chart.curves[-1].values)
    for curve in chart.curves:
        if curve.is_bound:
            drawn.append(_draw_curve(curve, most))
            continue
        above = [low + value for low, value in zip(below, curve.values, strict=True)]
        drawn.append(f'<path class="area c{curve.colour}" d="{markup.area_path(below, above, most)}"/>')
        below = above
    return drawn


def _draw_curve(curve: Curve, most: float) -> str:
    kind = "line bound" if curve.is_bound else f"line c{curve.colour % _COLOURS}"
    return f'<path class="{kind}" d="{markup.line_path(curve.values, most)}"/>'


def _key(curve: Curve) -> str:
    kind = "bound" if curve.is_bound else f"c{curve.colour % _COLOURS}"
    return f'<span><i class="{kind}"></i>{html.escape(curve.name)} <b></b></span>'


def _describe(chart: Chart) -> str:
    peaks = [f"{curve.name} up to {format_value(max(curve.values, default=0), chart.unit)}" for curve in chart.curves]
    return f"{chart.title}: {', '.join(peaks)}. Arrow keys move through time."


def format_value(value: float, unit: str) -> str:
    if unit == "share":
        return formatting.format_percent(value)
    return formatting.format_money(value) if unit == "money" else formatting.format_number(value)


def _y_axis(unit: str, most: float) -> str:
    ticks = ((i / _TICKS, most * i / _TICKS) for i in range(_TICKS + 1))
    labels = (f'<span style="bottom:{share:.0%}">{_brief(value, unit)}</span>' for share, value in ticks)
    return f'<div class="y" aria-hidden="true">{"".join(labels)}</div>'


def _brief(value: float, unit: str) -> str:
    if unit == "share":
        return formatting.format_percent(value)
    text = f"{value:,.0f}" if value == int(value) else f"{value:g}"
    return f"${text}" if unit == "money" else text


def x_axis(lasts_s: float) -> str:
    step_s = next((step for step in _TIMES_S if lasts_s / step <= _MAX_TIMES), _TIMES_S[-1])
    labels = list[str]()
    for i in range(int(lasts_s // step_s) + 1):
        at_s = i * step_s
        text = f"day {at_s // 86400 + 1}" if step_s >= 86400 else formatting.format_scenario_time(at_s, lasts_s)
        last = ' class="last"' if at_s / lasts_s > _NEAR_THE_END else ""
        labels.append(f'<span{last} style="left:{at_s / lasts_s:.3%}">{text}</span>')
    return f'<div class="x" aria-hidden="true">{"".join(labels)}</div>'
