"""Metrics: every family that a process of the project can show, read from where it is declared."""

import ast
import functools
from collections.abc import Iterator

from tools import markdown_tables, source_analysis
from windlass.observability import metric_definitions

_KINDS = {"Counter", "Gauge", "Histogram", "Summary"}
MEASURED = tuple(
    one for one in metric_definitions.LoopFunction if one is not metric_definitions.LoopFunction.MAIN_SUCCESSFUL
)
"""Functions with durations. A loop that ended well is only in `last_activity`, as in Cluster Autoscaler."""
_PAGE = (
    "Metrics of the autoscaler are on `:8085/metrics` (`--address`), those of the operator on `:8080/metrics` "
    "(`--metrics-address`). `cluster_autoscaler_*` have the names, types and labels of Cluster Autoscaler, so that "
    "dashboards and alerts go on working; `windlass_*` are this project's own."
)


@functools.cache
def find() -> tuple[metric_definitions.MetricFamily, ...]:
    """All of them: the autoscaler's table first, then what other modules declare in place, by name."""
    return (*metric_definitions.METRIC_FAMILIES, *sorted(_find_declared(), key=lambda family: family.name))


def page() -> str:
    families = find()
    parts = {
        "The autoscaler, under the names of Cluster Autoscaler": [family for family in families if _is_peers(family)],
        "The autoscaler, this project's own": [
            metric_family
            for metric_family in families
            if metric_family in metric_definitions.METRIC_FAMILIES and not _is_peers(metric_family)
        ],
        "Shadow mode": [one for one in families if one.name.startswith("windlass_shadow_")],
        "The operator": [
            one for one in families if one not in metric_definitions.METRIC_FAMILIES and "_shadow_" not in one.name
        ],
    }
    lines = markdown_tables.begin("Metrics", _PAGE)
    for title, several in parts.items():
        rows = ([markdown_tables.code(one.name), one.kind, _labels(one), _report(one)] for one in several)
        lines += [f"## {title}", "", *markdown_tables.table(("metric", "type", "labels", "what it says"), rows)]
    functions = ", ".join(markdown_tables.code(str(loop_function)) for loop_function in MEASURED)
    lines += [f"Values of `function` in `{metric_definitions.FUNCTION_DURATIONS.name}`: {functions}.", ""]
    lines += ["Beside these, every process shows the usual `process_*` and `python_*` metrics of its runtime.", ""]
    return "\n".join(lines)


def _is_peers(family: metric_definitions.MetricFamily) -> bool:
    return family.name.startswith(metric_definitions.CA_PREFIX)


def _labels(family: metric_definitions.MetricFamily) -> str:
    return ", ".join(map(markdown_tables.code, family.labels))


def _report(family: metric_definitions.MetricFamily) -> str:
    only = " Only with `--emit-per-nodegroup-metrics`." if family.per_group else ""
    constant = f" **Constant**, {family.constant}" if family.constant else ""
    return family.help + only + constant + (f" **Normally 0**: {family.normally_zero}" if family.normally_zero else "")


def _find_declared() -> Iterator[metric_definitions.MetricFamily]:
    """Calls of `prometheus_client.Counter("name", "help", labels …)` and its kin."""
    declaring = [module for module in source_analysis.modules().values() if "prometheus_client." in module.text]
    for module in declaring:
        for called, call in module.find_calls():
            if called in _KINDS and len(call.args) >= 2 and isinstance(call.args[0], ast.Constant):
                name, told = (next(source_analysis.resolve(module, argument), "") for argument in call.args[:2])
                labels = tuple(_find_labels(module, call))
                total = "_total" if called == "Counter" and not name.endswith("_total") else ""
                yield metric_definitions.MetricFamily(
                    name + total, metric_definitions.MetricKind(called.lower()), told, labels
                )


def _find_labels(module: source_analysis.Module, call: ast.Call) -> Iterator[str]:
    if len(call.args) > 2 and isinstance(call.args[2], ast.List | ast.Tuple):
        for element in call.args[2].elts:
            yield from source_analysis.resolve(module, element)
