"""HTML page of all runs of one scenario, in one file without external resources."""

import datetime
import html
from collections.abc import Iterator, Sequence

from windlass import formatting
from windlass.observability import shared_page
from windlass.simulator.report import charts, history_data, summary
from windlass.simulator.scenario import manifests
from windlass.simulator.simulation import ScenarioRun


def render_report(runs: Sequence[ScenarioRun]) -> str:
    """The HTML document. The other runs are compared with the first."""
    scenario = runs[0].scenario
    parts = [_header(runs[0])]
    if len(runs) > 1:
        parts.append(_compare(runs))
    parts += (_section(run, number, is_alone=len(runs) == 1) for number, run in enumerate(runs))
    script = shared_page.bundle_scripts(charts.read_resource("page.js"))
    return charts.render_document("\n".join(parts), scenario.name, script=script)


def _header(run: ScenarioRun) -> str:
    scenario = run.scenario
    pods = formatting.format_count(run.result.totals["pods"], "pod", thousands=",")
    begins = datetime.datetime.fromisoformat(scenario.begins).strftime("%-d %b %Y %H:%M UTC")
    facts = f"{formatting.format_padded_duration(run.lasts_s)} from {begins} · {pods} · seed {scenario.seed}"
    if run.reporting.cluster_name:
        facts = f"{html.escape(run.reporting.cluster_name)} · {facts}"
    story = f"<p>{html.escape(' '.join(scenario.story.split()))}</p>" if scenario.story else ""
    return f"<header><h1>{html.escape(scenario.name)}</h1>{story}<p class='facts'>{facts}</p></header>"


# ── One run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _section(run: ScenarioRun, number: int, *, is_alone: bool) -> str:
    drawn = "".join(charts.draw_chart(chart, run, f"{number}-{i}") for i, chart in enumerate(charts.run_charts(run)))
    body = (
        f"{_cards(run)}{_outcomes(run)}"
        f'<div class="history" role="group" aria-label="History" data-period="all"></div>'
        f"<noscript>{drawn}</noscript>"
        f"{_all_figures(run)}{_node_groups(run)}<noscript>{_all_decisions(run)}</noscript>"
        f"{charts.embed_json(history_data.describe_run(run))}"
    )
    if is_alone:
        return f'<section data-section="{number}">{body}</section>'
    title = f"<summary><h2>{formatting.format_letter(number)} · {html.escape(run.label)}</h2></summary>"
    return f'<details class="run"{" open" if number == 0 else ""}>{title}<section>{body}</section></details>'


def _cards(run: ScenarioRun) -> str:
    t = run.result.totals
    cost_note = f"{t['cost_ratio']:.2f}× the least possible" if t["cost_ratio"] else ""
    memory = f"cpu; {formatting.format_percent(t['utilization_memory'])} of memory"
    never = t["pods_never_placed"]
    longest = f"p95; at most {formatting.format_padded_duration(t['pending_max_s'])}"
    if never:  # the maximum is the run's remaining time, which describes no other pod
        longest = f"p95; {formatting.format_count(never, 'pod', thousands=',')} never placed"
    cards = [
        ("Pending time", formatting.format_padded_duration(t["pending_p95_s"]), longest),
        ("Cost", formatting.format_money(t["cost"], run.currency), cost_note),
        ("Utilization", formatting.format_percent(t["utilization_cpu"]), memory),
        ("Nodes", f"{t['least_nodes']:,.0f}–{t['most_nodes']:,.0f}", f"{t['node_hours']:,.0f} node-hours"),
        (
            "Evictions",
            f"{t['evictions']:,.0f}",
            f"{formatting.format_count(t['nodes_removed'], 'node', thousands=',')} went",
        ),
    ]
    made = (f"<li><span>{name}</span><strong>{value}</strong><small>{note}</small></li>" for name, value, note in cards)
    return f'<ul class="cards">{"".join(made)}</ul>'


def _outcomes(run: ScenarioRun) -> str:
    items = [
        f'<li class="{"met" if expectation_result.is_met else "missed"}">{html.escape(str(expectation_result))}</li>'
        for expectation_result in run.result.outcomes
    ]
    items += [
        f'<li class="missed">violated {html.escape(str(violation))}</li>' for violation in run.result.violations[:20]
    ]
    if not items:
        return ""
    missed = sum(not one.is_met for one in run.result.outcomes) + len(run.result.violations)
    title = f"{missed} not as expected" if missed else f"All {len(items)} expectations met"
    kind = "missed" if missed else "met"
    opened = " open" if missed else ""
    return f'<details class="outcomes {kind}"{opened}><summary>{title}</summary><ul>{"".join(items)}</ul></details>'


def _all_figures(run: ScenarioRun) -> str:
    rows = (
        f"<tr><th scope='row'>{html.escape(row.name)}</th><td class='number'>{html.escape(row.values[0])}</td>"
        f"<td>{html.escape(row.notes[0])}</td></tr>"
        for row in summary.summarize([run])
    )
    return f"<details open><summary>All figures</summary><table>{''.join(rows)}</table></details>"


def _node_groups(run: ScenarioRun) -> str:
    head = "".join(
        f"<th scope='col'{kind}>{name}</th>"
        for name, kind in (
            ("group", ""),
            ("zone", ""),
            ("machine type", ""),
            ("size", " class='number'"),
            ("price per hour", " class='number'"),
        )
    )
    rows = (
        f"<tr><th scope='row'>{html.escape(group.name)}</th><td>{html.escape(group.zone)}</td>"
        f"<td>{html.escape(group.machine_type)}</td><td class='number'>{group.min_size}–{group.max_size}</td>"
        f"<td class='number'>{formatting.format_money(group.price_per_hour, run.currency, is_price=True)}</td></tr>"
        for group in manifests.make_node_groups(run.scenario)
    )
    table = f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    return f"<details><summary>Node groups</summary>{table}</details>"


def _all_decisions(run: ScenarioRun) -> str:
    if not run.decisions:
        return ""
    head = "<thead><tr><th scope='col'>time</th><th scope='col'>decision</th><th scope='col'>why</th></tr></thead>"
    table = f'<table class="decisions">{head}<tbody>{"".join(charts.decision_rows(run))}</tbody></table>'
    return f"<details><summary>All decisions</summary>{table}</details>"


# ── Several ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _compare(runs: Sequence[ScenarioRun]) -> str:
    names = "".join(
        f'<li><i class="c{i}"></i><b>{formatting.format_letter(i)}</b> {html.escape(run.label)}</li>'
        for i, run in enumerate(runs)
    )
    heads = "".join(f"<th scope='col' class='number'>{formatting.format_letter(i)}</th>" for i in range(len(runs)))
    table = f"<table class='beside'><thead><tr><th></th>{heads}</tr></thead>{''.join(_compared(runs))}</table>"
    drawn = enumerate(charts.comparison_charts(runs))
    plots = "".join(charts.draw_chart(chart, runs[0], f"all-{i}") for i, chart in drawn)
    return (
        f'<section data-section="all"><h2>Side by side</h2><ul class="runs">{names}</ul>'
        f'<div class="wide">{table}</div>'
        f'<div class="history" role="group" aria-label="History of all runs" data-period="all"></div>'
        f"<noscript>{plots}</noscript>{charts.embed_json({'runs': len(runs)})}</section>"
    )


def _compared(runs: Sequence[ScenarioRun]) -> Iterator[str]:
    for summary_row in summary.summarize(runs):
        cells = (
            f"<td class='number{'' if value == summary_row.values[0] else ' other'}'>{html.escape(value)}</td>"
            for value in summary_row.values
        )
        yield f"<tr><th scope='row'>{html.escape(summary_row.name)}</th>{''.join(cells)}</tr>"
