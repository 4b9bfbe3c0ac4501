"""HTML page of all runs of one scenario, in one file without external resources."""

import datetime
import html
from collections.abc import Iterator, Sequence
from typing import Any

from windlass import formatting
from windlass.observability import shared_page
from windlass.observability.decision_log import LogEntry
from windlass.simulator.cluster.node_groups import NAMESPACE
from windlass.simulator.report import charts, summary
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
        f"{charts.embed_json(_describe_history(run))}"
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


# ── History, as data for the script, in the form of the published history ────────────────────────────────────────────
# Samples are those of the simulated cluster itself, not of the autoscaler's view of it.


def _describe_history(run: ScenarioRun) -> dict[str, Any]:
    """All that the script needs: times are seconds since the epoch."""
    begins_s = datetime.datetime.fromisoformat(run.scenario.begins).timestamp()
    namespaces = sorted({name for counts in run.result.series.pending_by_namespace for name in counts})
    return {
        "from_s": begins_s,
        "at_s": begins_s + run.lasts_s,
        "groups": [f"MachineDeployment/{NAMESPACE}/{name}" for name in run.result.series.nodes],
        "namespaces": namespaces,
        "samples": list(_samples(run, begins_s, namespaces)),
        "hasBounds": True,
        "decisions": [_describe_entry(run, number, entry, begins_s) for number, entry in enumerate(run.decisions)],
        "steps": list(_steps(run, begins_s)),
        "count": len(run.decisions),
        "currency": run.currency,
        "recording": run.recording,
        "runbook": run.reporting.runbook,
    }


def _samples(run: ScenarioRun, begins_s: float, namespaces: list[str]) -> Iterator[list[Any]]:
    """As HistorySample, and the lower bounds of nodes and cost. Samples that equal the one before are left out."""
    series, before = run.result.series, None
    groups = list(series.nodes)
    for i, pending in enumerate(series.pending):
        figures = [value for name in groups for value in (series.nodes[name][i], *series.by_group[name][i])]
        counts = series.pending_by_namespace[i]
        values = [
            sum(series.nodes[name][i] for name in groups),
            pending,
            round(series.utilization_cpu[i], 3),
            round(series.utilization_memory[i], 3),
            round(series.cost_per_hour[i], 3),
            figures,
            [counts.get(name, 0) for name in namespaces],
            round(series.nodes_lower_bound[i], 1),
            round(series.cost_per_hour_lower_bound[i], 2),
        ]
        if values != before:
            yield [begins_s + i * series.every_s, *values]
        before = values


def _describe_entry(run: ScenarioRun, number: int, entry: LogEntry, begins_s: float) -> dict[str, Any]:
    outcomes = run.outcomes.get(number, ())
    return {
        "number": number,
        "at_s": round(begins_s + entry.at_s, 3),
        "kind": entry.kind,
        "said": entry.said,
        "why": entry.why,
        "groups": entry.groups,
        "nodes": entry.nodes,
        "reason": entry.reason,
        "namespaces": entry.namespaces,
        "detail": entry.detail,
        "outcomes": [
            {"at_s": round(begins_s + one.at_s, 3), "said": one.said, "is_bad": one.is_bad} for one in outcomes
        ],
    }


def _steps(run: ScenarioRun, begins_s: float) -> Iterator[dict[str, Any]]:
    for step in sorted(run.scenario.timeline, key=lambda step: float(step.at)):
        lasts_s = float(getattr(step, "lasts", 0.0))
        yield {"at_s": begins_s + float(step.at), "lasts_s": lasts_s, "text": charts.describe_step(step)}
