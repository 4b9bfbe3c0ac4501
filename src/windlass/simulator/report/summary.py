"""Summary table of runs: pending time, cost, utilization and churn as text, in reading order."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windlass import formatting
from windlass.observability.decision_log import EntryKind
from windlass.simulator.simulation import ScenarioRun

_HOUR_S = 3600.0

_NOUNS: Mapping[EntryKind, str] = {"up": "scale-up", "down": "scale-down", "trouble": "problem", "wait": "pause"}
"""What entries of the decision log are called."""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One row of the table."""

    name: str
    values: tuple[str, ...]
    """One value for each run."""
    notes: tuple[str, ...]
    """A note for each run; may be empty."""


def summarize(runs: Sequence[ScenarioRun]) -> list[SummaryRow]:
    """Rows for all runs of one scenario."""
    found = [_summary_rows(run) for run in runs]
    return [
        SummaryRow(name, tuple(item[i][1] for item in found), tuple(entry[i][2] for entry in found))
        for i, (name, _, _) in enumerate(found[0])
    ]


def _summary_rows(run: ScenarioRun) -> list[tuple[str, str, str]]:
    t, money = run.result.totals, functools.partial(formatting.format_money, currency=run.currency)
    waited = f"{formatting.format_count(t['pods_that_waited'], 'pod', thousands=',')} of {t['pods']:,.0f} waited"
    without = (("pods_never_placed", "never placed"), ("pods_given_up", "deleted while waiting"))
    never = "; ".join(
        f"{formatting.format_count(t[name], 'pod', thousands=',')} {said}" for name, said in without if t[name]
    )
    moved = f"{t['evictions_by_machines']:,.0f} of them by machines that left" if t["evictions_by_machines"] else ""
    preempted = f"{t['preemptions']:,.0f} preempted" if t["preemptions"] else ""
    rows = [
        ("pending time, p50", formatting.format_padded_duration(t["pending_p50_s"]), waited),
        ("pending time, p95", formatting.format_padded_duration(t["pending_p95_s"]), ""),
        ("pending time, max", formatting.format_padded_duration(t["pending_max_s"]), never),
        (
            "node-hours",
            f"{t['node_hours']:,.1f}",
            _compare_with_bound(t["node_hours"], t["node_hours_lower_bound"], _format_hours),
        ),
        (
            "cost",
            money(t["cost"]),
            _compare_with_bound(t["cost"], t["cost_lower_bound"], money),
        ),
        ("utilization, cpu", formatting.format_percent(t["utilization_cpu"]), ""),
        ("utilization, memory", formatting.format_percent(t["utilization_memory"]), ""),
        ("nodes", f"{t['least_nodes']:,.0f}–{t['most_nodes']:,.0f}", ""),
        ("evictions", f"{t['evictions']:,.0f}", "; ".join(filter(None, (moved, preempted)))),
        ("churn", formatting.format_count(t["nodes_added"] + t["nodes_removed"], "node", thousands=","), _churn(t)),
        ("decisions", f"{len(run.decisions):,}", _decisions(run)),
        ("resizes", f"{t['scale_ups'] + t['scale_downs']:,.0f}", _resizes(t)),
    ]
    if run.fixed_nodes:
        rows.insert(4, ("  fixed cluster", *_compare_with_fixed(run)))
    return rows


def _compare_with_bound(found: float, bound: float, spell: Callable[[float], str]) -> str:
    """The ratio to the lower bound."""
    ratio = f"{found / bound:.2f}× " if bound else ""
    return f"{ratio}the lower bound of {spell(bound)}"


def _format_hours(hours: float) -> str:
    return f"{hours:,.1f}"


def _compare_with_fixed(run: ScenarioRun) -> tuple[str, str]:
    fixed = run.fixed_nodes * run.lasts_s / _HOUR_S
    saved = 1 - run.result.totals["node_hours"] / fixed
    return f"{fixed:,.1f}", f"{run.fixed_nodes:,} nodes all the time; {saved:.1%} of that is saved"


def _churn(totals: dict[str, float]) -> str:
    return f"{totals['nodes_added']:,.0f} came, {totals['nodes_removed']:,.0f} went"


def _decisions(run: ScenarioRun) -> str:
    kinds = Counter(entry.kind for entry in run.decisions)
    return ", ".join(
        formatting.format_count(kinds[kind], noun, thousands=",") for kind, noun in _NOUNS.items() if kinds[kind]
    )


def _resizes(totals: dict[str, float]) -> str:
    return f"{totals['scale_ups']:,.0f} sizes raised, {totals['scale_downs']:,.0f} lowered"
