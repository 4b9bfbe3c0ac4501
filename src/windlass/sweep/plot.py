"""The plot: every settings as a mark, waiting to the right and cost upwards; the best trade-offs joined by a line.

Marks and text are HTML, so that they keep their shape; only lines are SVG, which stretches.
"""

import html
from collections.abc import Iterator, Sequence

from windlass.sweep import axes, tradeoffs
from windlass.sweep.axes import Axis
from windlass.sweep.comparing import BY_NAME, PENDING, Measure, Row

_SIZE = 1000


def draw(rows: Sequence[Row]) -> str:
    """The figure."""
    cost = BY_NAME[tradeoffs.choose_cost(rows)]
    front = tradeoffs.find_front(rows)
    shown = [row for row in rows if row.estimates]
    if not shown:
        return ""
    across = axes.make([row.mean(PENDING) for row in shown], is_time=True)
    up = axes.make([row.mean(cost.name) for row in shown], is_time=False)
    best = {row.number for row in front}
    lines = f"{_grid(across, up)}{_front(front, cost, across, up)}{''.join(_spreads(front, cost, across, up))}"
    marks = "".join(_mark(row, cost, across, up, row.number in best) for row in shown)
    return (
        f'<figure class="tradeoffs"><figcaption><h3>{cost.title.capitalize()} against pending time</h3>{_KEYS}'
        f'</figcaption><div class="plot">{_labels_up(up, cost)}'
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>{marks}</div>'
        f'{_labels_across(across)}<p class="hint axis">pending time, p95 → less is better; lines through a mark: one '
        "standard deviation over seeds</p></figure>"
    )


_KEYS = (
    '<div class="keys"><span><i class="mark now"></i>current settings</span>'
    '<span><i class="mark best"></i>best trade-off</span><span><i class="mark"></i>other settings</span>'
    '<span><i class="mark unsound"></i>breaches a check, or misses more</span></div>'
)


def describe(row: Row, cost: Measure) -> str:
    """A row in a sentence."""
    pending = BY_NAME[PENDING]
    told = f"{pending.title} {pending.spell(row.mean(PENDING))}, {cost.title} {cost.spell(row.mean(cost.name))}"
    return f"{row.number}: {told}; {', '.join(f'{flag}={value}' for flag, value in row.values.items())}"


def _mark(row: Row, cost: Measure, across: Axis, up: Axis, is_best: bool) -> str:
    kinds = ["mark"] + ["now"] * (row.number == 0) + ["best"] * is_best + ["unsound"] * (not row.is_sound)
    where = f"left:{across.place(row.mean(PENDING)):.2%};bottom:{up.place(row.mean(cost.name)):.2%}"
    said = html.escape(describe(row, cost), quote=True)
    name = f"<b>{row.number}</b>" if is_best or row.number == 0 else ""
    return f'<a class="{" ".join(kinds)}" href="#s{row.number}" style="{where}" title="{said}">{name}</a>'


def _grid(across: Axis, up: Axis) -> str:
    path = "".join(f"M{_SIZE * across.place(tick):.1f} 0V{_SIZE}" for tick in across.ticks)
    path += "".join(f"M0 {_SIZE * (1 - up.place(tick)):.1f}H{_SIZE}" for tick in up.ticks)
    return f'<path class="grid" d="{path}"/>'


def _front(front: Sequence[Row], cost: Measure, across: Axis, up: Axis) -> str:
    """In steps: what lies above and to the right of it is worse than something that was played."""
    points = [(_SIZE * across.place(row.mean(PENDING)), _SIZE * (1 - up.place(row.mean(cost.name)))) for row in front]
    if not points:
        return ""
    down = [y for _, y in points[1:]] + [0.0]
    path = "".join(f"H{x:.1f}V{y:.1f}" for (x, _), y in zip(points, down, strict=True))
    return f'<path class="front" d="M{_SIZE} {points[0][1]:.1f}{path}"/>'


def _spreads(front: Sequence[Row], cost: Measure, across: Axis, up: Axis) -> Iterator[str]:
    for row in front:
        (x, dx), (y, dy) = ((row.estimates[name].mean, row.estimates[name].spread) for name in (PENDING, cost.name))
        left, middle, right = (_SIZE * across.place(value) for value in (x - dx, x, x + dx))
        lower, centre, upper = (_SIZE * (1 - up.place(value)) for value in (y - dy, y, y + dy))
        yield (f'<path class="spread" d="M{left:.1f} {centre:.1f}H{right:.1f}M{middle:.1f} {lower:.1f}V{upper:.1f}"/>')


def _labels_up(axis: Axis, cost: Measure) -> str:
    labels = (f'<span style="bottom:{axis.place(tick):.2%}">{cost.spell(tick)}</span>' for tick in axis.ticks)
    return f'<div class="y" aria-hidden="true">{"".join(labels)}</div>'


def _labels_across(axis: Axis) -> str:
    spell = BY_NAME[PENDING].spell
    labels = (f'<span style="left:{axis.place(tick):.2%}">{spell(tick)}</span>' for tick in axis.ticks)
    return f'<div class="x" aria-hidden="true">{"".join(labels)}</div>'
