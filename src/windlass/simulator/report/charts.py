"""Parts of a report page: the document, and charts for readers without scripts.

A page is one HTML file without external resources. A chart is an HTML figure, lines as SVG that stretches and all text
as HTML beside it. Paths are steps; x counts samples, y is drawn on 1,000 units, downwards as in SVG.
"""

import base64
import hashlib
import html
import importlib.resources
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import formatting
from windlass.observability import shared_page
from windlass.simulator.metrics import MetricSeries
from windlass.simulator.scenario import model
from windlass.simulator.simulation import ScenarioRun


def draw_bands(run: ScenarioRun, samples: int) -> str:
    """Bands behind a plot for scenario steps with a duration."""
    drawn = []
    for step in run.scenario.timeline:
        lasts_s = float(getattr(step, "lasts", 0.0))
        if lasts_s:
            begin, width = (samples * float(item) / run.lasts_s for item in (step.at, lasts_s))
            drawn.append(f'<rect class="band" x="{begin:.2f}" width="{width:.2f}" height="{HEIGHT}"/>')
    return "".join(drawn)


def describe_step(step: model.AnyStep) -> str:
    """A short description of a scenario step."""
    match step:
        case model.Scale(workload=workload, to=to):
            return f"{workload} to {to}"
        case model.Jobs(workload=workload, count=count, times=times):
            return f"{count} {workload} jobs" + (f" ×{times}" if times > 1 else "")
        case model.Outage(zone=zone):
            return f"zone {zone} is lost"
        case model.Trouble():
            return "API trouble"
        case model.StockOut(group=group):
            return f"no {group} in stock"
        case model.Vanish(group=group, count=count) | model.Unready(group=group, count=count):
            word = "vanish" if isinstance(step, model.Vanish) else "turn unready"
            return f"{count} {group} {word}"
        case model.Rollout(workload=workload):
            return f"{workload} rollout"
        case model.Remove(workload=workload):
            return f"{workload} is removed"
        case model.Upgrade(group=group):
            return f"{group} upgrade"
        case model.Resize(group=group, to=to):
            return f"{group} set to {to}"


def decision_rows(run: ScenarioRun) -> Iterator[str]:
    """All decisions as table rows."""
    for log_entry in run.decisions:
        when = formatting.format_scenario_time(log_entry.at_s, run.lasts_s)
        seconds = f"{log_entry.at_s % 60:04.1f}"
        yield (
            f'<tr class="{log_entry.kind}"><td>{when}:{seconds}</td>'
            f"<td>{html.escape(log_entry.said)}</td><td>{html.escape(log_entry.why)}</td></tr>"
        )


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; script-src '{allowed}'">
<title>{title} · windlass</title>
<style>
{style}</style>
</head>
<body>
<main>
"""

_TAIL = """</main>
<script>{script}</script>
</body>
</html>
"""


def render_document(body: str, title: str, style: str = "", script: str = "") -> str:
    """The HTML document; `style` extends the shared style. The content security policy allows this script only."""
    script = f"\n{script}"
    allowed = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    head = _HEAD.format(
        title=html.escape(title),
        style=read_resource("page.css") + shared_page.read_file("history.css") + style,
        allowed=allowed,
    )
    return f"{head}\n{body}\n{_TAIL.format(script=script)}"


def embed_json(data: Any) -> str:
    """Data for the script. Without `<`, its text cannot begin or end an element."""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    return f'<script type="application/json" class="data">{text}</script>'


def read_resource(name: str) -> str:
    """A resource file of this package."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


HEIGHT = 1000


def scale_y(value: float, most: float) -> int:
    """The y coordinate of a value."""
    return HEIGHT - round(HEIGHT * min(max(value / most, 0.0), 1.0)) if most else HEIGHT


def line_path(values: Sequence[float], most: float) -> str:
    """A value holds until the next sample."""
    return _steps([scale_y(value, most) for value in values], first="M")


def area_path(lower: Sequence[float], upper: Sequence[float], most: float) -> str:
    """The area between two lines."""
    forth = _steps([scale_y(value, most) for value in upper], first="M")
    heights = [scale_y(value, most) for value in lower]
    width, parts = len(heights) - 1, list[str]()
    at, x = heights[-1], width
    parts.append(f"V{at}")
    for i in range(width - 1, -1, -1):
        if heights[i] != at:
            x, at = i + 1, heights[i]
            parts.append(f"H{x}V{at}")
    return f"{forth}{''.join(parts)}H0Z"


def _steps(heights: Sequence[int], first: str) -> str:
    parts, at = [f"{first}0 {heights[0]}"], heights[0]
    for i, height in enumerate(heights):
        if height != at:
            parts.append(f"H{i}V{height}")
            at = height
    return f"{''.join(parts)}H{max(len(heights) - 1, 1)}"


_AXIS_ENDS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
"""Ends of an axis, times a power of ten; their quarters are round numbers."""


def round_axis_end(value: float, least: float = 1.0) -> float:
    """A round end of an axis that includes this value."""
    value = max(value, least)
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(round(power * step, 6) for step in _AXIS_ENDS if power * step >= value * (1 - 1e-9))


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
    most = 1.0 if chart.unit == "share" else round_axis_end(_maximum(chart), _TICKS if chart.unit == "count" else 1.0)
    samples = max(len(chart.curves[0].values) - 1, 1)
    shapes = "".join(
        _draw_stacked(chart, most) if chart.is_stacked else (_draw_curve(curve, most) for curve in chart.curves)
    )
    grid = "".join(f"M0 {HEIGHT * i // _TICKS}H{samples}" for i in range(_TICKS))
    return (
        f'<figure class="chart" data-chart="{number}"><figcaption><h3>{html.escape(chart.title)}</h3>'
        f'<div class="keys">{"".join(_key(curve) for curve in chart.curves)}</div></figcaption>'
        f'<div class="plot" role="img" aria-label="{html.escape(_describe(chart, run.currency))}">'
        f"{_y_axis(chart.unit, most)}"
        f'<svg viewBox="0 0 {samples} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'{draw_bands(run, samples)}<path class="grid" d="{grid}"/>{shapes}</svg>'
        f"</div>{x_axis(run.lasts_s)}</figure>"
    )


def _maximum(chart: Chart) -> float:
    if not chart.is_stacked:
        return max((max(curve.values, default=0) for curve in chart.curves), default=0)
    real = [curve.values for curve in chart.curves if not curve.is_bound]
    highest = max((sum(numbers) for numbers in zip(*real, strict=True)), default=0)
    return max([highest, *(max(curve.values, default=0) for curve in chart.curves if curve.is_bound)])


def _draw_stacked(chart: Chart, most: float) -> list[str]:
    drawn, below = list[str](), [0.0] * len(chart.curves[-1].values)
    for curve in chart.curves:
        if curve.is_bound:
            drawn.append(_draw_curve(curve, most))
            continue
        above = [low + value for low, value in zip(below, curve.values, strict=True)]
        drawn.append(f'<path class="area c{curve.colour}" d="{area_path(below, above, most)}"/>')
        below = above
    return drawn


def _draw_curve(curve: Curve, most: float) -> str:
    kind = "line bound" if curve.is_bound else f"line c{curve.colour % _COLOURS}"
    return f'<path class="{kind}" d="{line_path(curve.values, most)}"/>'


def _key(curve: Curve) -> str:
    kind = "bound" if curve.is_bound else f"c{curve.colour % _COLOURS}"
    return f'<span><i class="{kind}"></i>{html.escape(curve.name)} <b></b></span>'


def _describe(chart: Chart, currency: str) -> str:
    peaks = [
        f"{curve.name} up to {format_value(max(curve.values, default=0), chart.unit, currency)}"
        for curve in chart.curves
    ]
    return f"{chart.title}: {', '.join(peaks)}"


def format_value(value: float, unit: str, currency: str = "") -> str:
    if unit == "share":
        return formatting.format_percent(value)
    return formatting.format_money(value, currency) if unit == "money" else formatting.format_number(value)


def _y_axis(unit: str, most: float) -> str:
    ticks = ((i / _TICKS, most * i / _TICKS) for i in range(_TICKS + 1))
    labels = (f'<span style="bottom:{share:.0%}">{_brief(value, unit)}</span>' for share, value in ticks)
    return f'<div class="y" aria-hidden="true">{"".join(labels)}</div>'


def _brief(value: float, unit: str) -> str:
    if unit == "share":
        return formatting.format_percent(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def x_axis(lasts_s: float) -> str:
    step_s = next((step for step in _TIMES_S if lasts_s / step <= _MAX_TIMES), _TIMES_S[-1])
    labels = list[str]()
    for i in range(int(lasts_s // step_s) + 1):
        at_s = i * step_s
        text = f"day {at_s // 86400 + 1}" if step_s >= 86400 else formatting.format_scenario_time(at_s, lasts_s)
        last = ' class="last"' if at_s / lasts_s > _NEAR_THE_END else ""
        labels.append(f'<span{last} style="left:{at_s / lasts_s:.3%}">{text}</span>')
    return f'<div class="x" aria-hidden="true">{"".join(labels)}</div>'
