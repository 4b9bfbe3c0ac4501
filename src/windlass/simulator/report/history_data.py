"""History of a run as data for the report's script, in the form of the published history.

Samples are those of the simulated cluster itself, not of the autoscaler's view of it.
"""

import datetime
from collections.abc import Iterator
from typing import Any

from windlass.observability.decision_log import LogEntry
from windlass.simulator.cluster.node_groups import NAMESPACE
from windlass.simulator.report import charts
from windlass.simulator.simulation import ScenarioRun


def describe_run(run: ScenarioRun) -> dict[str, Any]:
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
