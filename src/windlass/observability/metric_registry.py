"""Metric registry: keeps gauges, counters and histograms, and renders the Prometheus exposition format.

Values come from `gauge_values` and `counter_values`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import prometheus_client
from prometheus_client import gc_collector, platform_collector, process_collector
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from windlass.observability import metric_definitions
from windlass.observability.metric_definitions import (
    CA_PREFIX,
    CounterIncrement,
    GaugeValues,
    LoopFunction,
    MetricFamily,
    MetricKind,
)
from windlass.runtime import http_server

_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("", "_count", "_sum")}


def render_exposition(registry: prometheus_client.CollectorRegistry, untotalled: Collection[str] = ()) -> bytes:
    """Render all metrics. `untotalled`: counters whose names do not end in `_total`."""
    return "".join(line for family in registry.collect() for line in _sample_lines(family, untotalled)).encode()


def _sample_lines(family: Metric, untotalled: Collection[str]) -> Iterator[str]:
    name = family.name
    if family.type == "counter" and name not in untotalled:
        name += "_total"
    kind = {"info": "gauge", "stateset": "gauge", "unknown": "untyped", "gaugehistogram": "histogram"}
    samples = [(_sample_name(sample, family, name), sample) for sample in family.samples]
    kept = [(spelled, sample) for spelled, sample in samples if spelled]
    if not kept:
        return
    if family.type == "info":
        name += "_info"
    yield f"# HELP {name} {_escape_label(family.documentation)}\n"
    yield f"# TYPE {name} {kind.get(family.type, family.type)}\n"
    for spelled, sample in kept:
        yield f"{spelled}{_format_labels(sample)} {metric_definitions.format_go_float(sample.value)}\n"


def _sample_name(sample: Sample, family: Metric, name: str) -> str:
    """Return the name of a sample; empty if it is not shown."""
    if family.type == "counter":
        return "" if sample.name.endswith("_created") else name
    known = _SUFFIXES.get(family.type)
    return sample.name if known is None or sample.name.removeprefix(family.name) in known else ""


def _format_labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    parts = (f'{key}="{_escape_label(value, quoted=True)}"' for key, value in sorted(sample.labels.items()))
    return f"{{{','.join(parts)}}}"


def _escape_label(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


_WITHOUT_TOTAL_SUFFIX = frozenset(
    family.name
    for family in metric_definitions.METRIC_FAMILIES
    if family.kind is MetricKind.COUNTER and not family.name.endswith("_total")
)

_KEPT_AT_ZERO = frozenset(
    {
        f"{CA_PREFIX}unremovable_nodes_count",
        f"{CA_PREFIX}node_taints_count",
        f"{CA_PREFIX}dra_node_template_resources_mismatch",
        metric_definitions.DRAINING_NODES.name,
    }
)
"""Gauges whose series stay at 0 without objects of their kind. Other series disappear with their object."""


class MetricRegistry:
    """All metrics of one process."""

    def __init__(self, *, per_group: bool = False) -> None:
        self.registry = prometheus_client.CollectorRegistry(auto_describe=False)
        process_collector.ProcessCollector(registry=self.registry)
        platform_collector.PlatformCollector(registry=self.registry)
        gc_collector.GCCollector(registry=self.registry)
        http_server.register_unexpected_errors(self.registry)
        shown = [family for family in metric_definitions.METRIC_FAMILIES if per_group or not family.per_group]
        self._gauges = {
            metric_family.name: _gauge(metric_family, self.registry)
            for metric_family in shown
            if metric_family.kind is MetricKind.GAUGE
        }
        self._counters = {one.name: _counter(one, self.registry) for one in shown if _is_counted_here(one)}
        self._histograms = {
            one.name: _histogram(one, self.registry) for one in shown if one.kind is MetricKind.HISTOGRAM
        }
        sums = metric_definitions.FUNCTION_DURATION_SUMS
        self._sums = prometheus_client.Summary(
            sums.name, sums.help, sums.labels,
            registry=self.registry,
        )  # fmt: skip
        self._labels: dict[str, set[tuple[str, ...]]] = {}
        for name, labels in metric_definitions.INITIAL_SERIES:
            self.increment((CounterIncrement(CA_PREFIX + name, labels, 0.0),))

    def render(self) -> bytes:
        """Render the response of /metrics."""
        return render_metrics(self.registry)

    def set_gauges(self, readings: GaugeValues) -> None:
        """Set gauges. Series that are missing now disappear, or become 0."""
        for name, values in readings.items():
            gauge = self._gauges.get(name)
            if gauge is None:
                continue
            for labels, value in values.items():
                (gauge.labels(*labels) if labels else gauge).set(value)
            gone = self._labels.get(name, set()) - set(values)
            for labels in gone:
                if name in _KEPT_AT_ZERO:
                    gauge.labels(*labels).set(0.0)
                else:
                    gauge.remove(*labels)
            self._labels[name] = set(values) | (gone if name in _KEPT_AT_ZERO else set())

    def increment(self, counts: Iterable[CounterIncrement]) -> None:
        """Increment counters."""
        for counter_increment in counts:
            counter = self._counters[counter_increment.name]
            (counter.labels(*counter_increment.labels) if counter_increment.labels else counter).inc(
                counter_increment.by
            )

    def observe(self, family: MetricFamily, labels: tuple[str, ...], value: float) -> None:
        """Observe a histogram value."""
        self._histograms[family.name].labels(*labels).observe(value)

    def observe_duration(self, function: LoopFunction, seconds: float) -> None:
        """Observe the duration of a part of the loop."""
        self.observe(metric_definitions.FUNCTION_DURATIONS, (str(function),), seconds)
        self._sums.labels(str(function)).observe(seconds)

    def set_last_activity(self, function: LoopFunction, now_s: float) -> None:
        """Record the start of a part of the loop."""
        self._gauges[f"{CA_PREFIX}last_activity"].labels(str(function)).set(float(int(now_s)))

    def set_aside(self, by_kind: Mapping[str, int]) -> None:
        """Set the number of invalid objects by kind."""
        self.set_gauges(
            {metric_definitions.SET_ASIDE_OBJECTS.name: {(kind,): float(count) for kind, count in by_kind.items()}}
        )


def render_metrics(registry: prometheus_client.CollectorRegistry) -> bytes:
    """Render a registry with these metrics, for `runtime.http_server`."""
    return render_exposition(registry, _WITHOUT_TOTAL_SUFFIX)


def _is_counted_here(family: MetricFamily) -> bool:
    return (
        family.kind is MetricKind.COUNTER and family.name != metric_definitions.UNEXPECTED_ERRORS.name
    )  # counted by the process-wide registry


def _gauge(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(family.name, family.help, family.labels, registry=registry)


def _counter(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Counter:
    return prometheus_client.Counter(family.name, family.help, family.labels, registry=registry)


def _histogram(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Histogram:
    return prometheus_client.Histogram(
        family.name, family.help, family.labels, buckets=family.buckets, registry=registry
    )
