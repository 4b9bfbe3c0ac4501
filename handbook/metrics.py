"""Metrics: every family that a process of the project can show, read from where it is declared."""

import ast
import functools
from collections.abc import Iterator

from handbook import source, tables
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
    return (*metric_definitions.METRIC_FAMILIES, *sorted(_find_declared(), key=lambda one: one.name))


def page() -> str:
    found = find()
    parts = {
        "The autoscaler, under the names of Cluster Autoscaler": [one for one in found if _is_peers(one)],
        "The autoscaler, this project's own": [
            one for one in found if one in metric_definitions.METRIC_FAMILIES and not _is_peers(one)
        ],
        "Shadow mode": [one for one in found if one.name.startswith("windlass_shadow_")],
        "The operator": [
            one for one in found if one not in metric_definitions.METRIC_FAMILIES and "_shadow_" not in one.name
        ],
    }
    lines = tables.begin("Metrics", _PAGE)
    for title, several in parts.items():
        rows = ([tables.code(one.name), one.kind, _labels(one), _tell(one)] for one in several)
        lines += [f"## {title}", "", *tables.table(("metric", "type", "labels", "what it says"), rows)]
    functions = ", ".join(tables.code(str(one)) for one in MEASURED)
    lines += [f"Values of `function` in `{metric_definitions.FUNCTION_DURATIONS.name}`: {functions}.", ""]
    lines += ["Beside these, every process shows the usual `process_*` and `python_*` metrics of its runtime.", ""]
    return "\n".join(lines)


def _is_peers(one: metric_definitions.MetricFamily) -> bool:
    return one.name.startswith(metric_definitions.CA_PREFIX)


def _labels(one: metric_definitions.MetricFamily) -> str:
    return ", ".join(map(tables.code, one.labels))


def _tell(one: metric_definitions.MetricFamily) -> str:
    only = " Only with `--emit-per-nodegroup-metrics`." if one.per_group else ""
    constant = f" **Constant**, {one.constant}" if one.constant else ""
    return one.help + only + constant + (f" **Normally 0**: {one.normally_zero}" if one.normally_zero else "")


def _find_declared() -> Iterator[metric_definitions.MetricFamily]:
    """Calls of `prometheus_client.Counter("name", "help", labels …)` and its kin."""
    declaring = [module for module in source.modules().values() if "prometheus_client." in module.text]
    for module in declaring:
        for called, call in module.find_calls():
            if called in _KINDS and len(call.args) >= 2 and isinstance(call.args[0], ast.Constant):
                name, told = (next(source.resolve(module, argument), "") for argument in call.args[:2])
                labels = tuple(_find_labels(module, call))
                total = "_total" if called == "Counter" and not name.endswith("_total") else ""
                yield metric_definitions.MetricFamily(
                    name + total, metric_definitions.MetricKind(called.lower()), told, labels
                )


def _find_labels(module: source.Module, call: ast.Call) -> Iterator[str]:
    if len(call.args) > 2 and isinstance(call.args[2], ast.List | ast.Tuple):
        for element in call.args[2].elts:
            yield from source.resolve(module, element)
