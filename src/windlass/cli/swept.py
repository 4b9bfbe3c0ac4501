"""What came of a sweep, as text: the table, and what to take."""

from collections.abc import Iterator, Sequence

from windlass.cli.style import Style
from windlass.simulator.reporting import amounts
from windlass.sweep import export, telling, tradeoffs
from windlass.sweep.comparing import MEASURES, Row
from windlass.sweep.plan import Plan

_SHOWN = 12
"""Settings that are told before the rest is counted; the best trade-offs always are."""
_MARKS = {"now": "now", "best": "★", "sound": "", "unsound": "✗"}


def lines(plan: Plan, rows: Sequence[Row], style: Style) -> Iterator[str]:
    """All of it."""
    best = {row.number for row in tradeoffs.find_front(rows)}
    ordered = telling.order(rows)
    shown = [row for i, row in enumerate(ordered) if i < _SHOWN or row.number in best]
    yield ""
    yield from _table(plan, shown, best, style)
    if len(shown) < len(rows):
        yield style.faint(f"and {amounts.count(len(rows) - len(shown), 'other')}")
    for row in shown:
        yield from (f"{style.bad('✗')} settings {row.number}: {said}" for said in telling.tell_trouble(row))
    yield ""
    yield from _advise(rows, style)


def _table(plan: Plan, shown: Sequence[Row], best: set[int], style: Style) -> Iterator[str]:
    heads = ["", "#", *(measure.title for measure in MEASURES), *plan.tried]
    table = [_cells(plan, row, best) for row in shown]
    widths = [max(map(len, column)) for column in zip(heads, *table, strict=True)]
    left = 2 + len(MEASURES)
    yield style.faint(_join(heads, widths, left))
    for row, cells in zip(shown, table, strict=True):
        line = _join(cells, widths, left)
        yield _paint(style, _kind(row, best), line)


def _cells(plan: Plan, row: Row, best: set[int]) -> list[str]:
    figures = (" ".join(filter(None, telling.tell_estimate(row, measure.name))) for measure in MEASURES)
    return [_MARKS[_kind(row, best)], str(row.number), *figures, *(row.values[flag] for flag in plan.tried)]


def _kind(row: Row, best: set[int]) -> str:
    if not row.is_sound:
        return "unsound"
    return "now" if row.number == 0 else "best" if row.number in best else "sound"


def _join(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    """Numbers to the right, the flags' values to the left."""
    laid = (f"{cell:>{width}}" if 0 < i < left else f"{cell:{width}}"
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True)))  # fmt: skip
    return "  ".join(laid).rstrip()


def _paint(style: Style, kind: str, line: str) -> str:
    match kind:
        case "now":
            return style.strong(line)
        case "best":
            return style.good(line)
        case "unsound":
            return style.bad(line)
    return line


def _advise(rows: Sequence[Row], style: Style) -> Iterator[str]:
    given = tradeoffs.advise(rows)
    if not given:
        yield telling.NO_ADVICE
        return
    for number, one in enumerate(given):
        if number:
            yield ""
        yield style.strong(f"{one.title[0].upper()}{one.title[1:]}: settings {one.row.number}")
        yield from (f"  {line}" for line in telling.tell_differences(one.row, rows[0]))
        yield f"  {style.good(export.paste(one.row))}"
