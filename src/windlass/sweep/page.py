"""The page of a sweep: what to take, the plot, and every settings in a table. One file that needs nothing else."""

import html
import importlib.resources
from collections.abc import Iterator, Sequence

from windlass.simulator.reporting import amounts, frame
from windlass.sweep import export, plot, telling, tradeoffs
from windlass.sweep.comparing import MEASURES, Row
from windlass.sweep.plan import Plan


def make(plan: Plan, rows: Sequence[Row]) -> str:
    """The whole text."""
    name = plan.world.scenario.name
    settings, seeds = amounts.count(len(rows), "settings").removesuffix("s"), amounts.count(len(plan.seeds), "seed")
    head = f"<header><h1>{html.escape(name)}: which settings?</h1><p class='facts'>{settings} × {seeds}</p></header>"
    body = f"{head}{''.join(_advice(rows))}{plot.draw(rows)}{_table(plan, rows)}"
    style = importlib.resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return frame.around(body, f"{name}, sweep", style)


def _advice(rows: Sequence[Row]) -> Iterator[str]:
    given = tradeoffs.advise(rows)
    if not given:
        yield f'<div class="advice none"><h3>{html.escape(telling.NO_ADVICE)}</h3></div>'
    for one in given:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in telling.tell_differences(one.row, rows[0]))
        yield (
            f'<div class="advice"><h3>{html.escape(one.title)}: settings {one.row.number}</h3>{lines}'
            f"<p><code>{html.escape(export.paste(one.row))}</code></p></div>"
        )


def _table(plan: Plan, rows: Sequence[Row]) -> str:
    best = {row.number for row in tradeoffs.find_front(rows)}
    heads = "".join(f"<th scope='col' class='number'>{measure.title}</th>" for measure in MEASURES)
    tried = "".join(f"<th scope='col'>{html.escape(flag)}</th>" for flag in plan.tried)
    ordered = "".join(_row(plan, row, row.number in best) for row in telling.order(rows))
    return (
        '<h2>All settings</h2><div class="wide"><table class="settings"><thead><tr><th></th>'
        f"{heads}{tried}<th></th></tr></thead><tbody>{ordered}</tbody></table></div>"
    )


def _row(plan: Plan, row: Row, is_best: bool) -> str:
    kinds = ["now"] * (row.number == 0) + ["best"] * is_best + ["unsound"] * (not row.is_sound)
    cells = "".join(f"<td class='number'>{_cell(row, measure.name)}</td>" for measure in MEASURES)
    values = "".join(f"<td>{html.escape(row.values[flag])}</td>" for flag in plan.tried)
    said = html.escape("; ".join(telling.tell_trouble(row)))
    return (
        f'<tr id="s{row.number}" class="{" ".join(kinds)}"><th scope="row">{row.number}</th>'
        f"{cells}{values}<td>{said}</td></tr>"
    )


def _cell(row: Row, name: str) -> str:
    told, spread = telling.tell_estimate(row, name)
    return f"{html.escape(told)} <small>{html.escape(spread)}</small>" if spread else html.escape(told)
