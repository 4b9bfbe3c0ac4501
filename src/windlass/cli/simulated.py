"""What came of simulations, as text: one run with what to hold it against, or several side by side."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from windlass.cli.style import Style
from windlass.simulator.reporting import figures
from windlass.simulator.reporting.runs import Run

_WIDTH = 100
_SHOWN = 5
"""Violations that are told before the rest is counted."""


def lines(runs: Sequence[Run], style: Style) -> Iterator[str]:
    """The table, the expectations and the violations."""
    yield ""
    found = figures.make(runs)
    yield from _alone(found, style) if len(runs) == 1 else _beside(runs, found, style)
    for run in runs:
        yield from _conclude(run, style, named=len(runs) > 1)


def _alone(found: Sequence[figures.Figure], style: Style) -> Iterator[str]:
    names, values = _widest(one.name for one in found), _widest(one.values[0] for one in found)
    for one in found:
        value = style.strong(f"{one.values[0]:>{values}}")
        yield f"{one.name:{names}}  {value}  {style.faint(one.notes[0])}".rstrip()


def _beside(runs: Sequence[Run], found: Sequence[figures.Figure], style: Style) -> Iterator[str]:
    names = _widest(one.name for one in found)
    for number, run in enumerate(runs):
        yield f"{style.strong(_letter(number))}  {run.label}"
    widths = [max(_widest(one.values[i] for one in found), 8) for i in range(len(runs))]
    yield ""
    heads = (style.strong(f"{_letter(i):>{width}}") for i, width in enumerate(widths))
    yield f"{'':{names}}  {'  '.join(heads)}"
    for one in found:
        cells = [f"{value:>{width}}" for value, width in zip(one.values, widths, strict=True)]
        cells[1:] = [
            style.note(cell) if value != one.values[0] else style.faint(cell)
            for cell, value in zip(cells[1:], one.values[1:], strict=True)
        ]
        yield f"{one.name:{names}}  {'  '.join(cells)}"


def _conclude(run: Run, style: Style, *, named: bool) -> Iterator[str]:
    result = run.result
    yield ""
    if named:
        yield style.strong(run.label)
    for outcome in result.outcomes:
        yield f"{style.good('✓') if outcome.is_met else style.bad('✗')} {outcome}"
    for violation in result.violations[:_SHOWN]:
        yield f"{style.bad('violated')} {violation}"
    if len(result.violations) > _SHOWN:
        yield f"{style.bad('violated')} {len(result.violations) - _SHOWN} more"
    if not result.outcomes and not result.violations:
        yield f"{style.good('✓')} no check was violated"


def encode(runs: Sequence[Run]) -> str:
    """The same for programs."""
    told = [_plain(run) for run in runs]
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _plain(run: Run) -> dict[str, Any]:
    result = run.result
    return {
        "scenario": run.scenario.name,
        "seed": run.scenario.seed,
        "settings": run.label,
        "totals": result.totals,
        "expectations": [{"said": str(one), "isMet": one.is_met} for one in result.outcomes],
        "violations": [str(one) for one in result.violations],
        "decisions": run.decisions,
        "series": result.series,
    }


def list_scenarios(known: Mapping[str, Path], style: Style) -> Iterator[str]:
    """What can be played by name."""
    names = _widest(known)
    for name, path in known.items():
        story = " ".join(str(yaml.safe_load(path.read_text()).get("story", "")).split())
        first, *more = textwrap.wrap(story, _WIDTH - names - 2) or [""]
        yield f"{style.strong(f'{name:{names}}')}  {first}"
        yield from (f"{'':{names}}  {line}" for line in more)


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26)


def _widest(texts: "Iterator[str] | Sequence[str] | Mapping[str, Any]") -> int:
    return max(map(len, texts), default=0)
