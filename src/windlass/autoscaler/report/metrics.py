"""Metrics: the numbers on /metrics, in a registry of their own.

`readings.py` and `counting.py` say what the numbers are, as values; here they are kept and written down.
"""

from collections.abc import Iterable, Mapping

import prometheus_client
from prometheus_client import gc_collector, platform_collector, process_collector

from windlass.autoscaler.report import exposition, families
from windlass.autoscaler.report.counting import Count
from windlass.autoscaler.report.families import PEER, Family, Function, Kind
from windlass.autoscaler.report.readings import Readings
from windlass.runtime import unexpected_errors

_UNTOTALLED = frozenset(
    family.name for family in families.FAMILIES if family.kind is Kind.COUNTER and not family.name.endswith("_total")
)
_CLEARED = frozenset(
    {
        f"{PEER}unremovable_nodes_count",
        f"{PEER}node_taints_count",
        f"{PEER}dra_node_template_resources_mismatch",
        families.DRAINS.name,
    }
)
"""Gauges whose series stay, at 0, when nothing of their kind is left. Others whose object is gone disappear."""


class Metrics:
    """All metrics of one process."""

    def __init__(self, *, per_group: bool = False) -> None:
        self.registry = prometheus_client.CollectorRegistry(auto_describe=False)
        process_collector.ProcessCollector(registry=self.registry)
        platform_collector.PlatformCollector(registry=self.registry)
        gc_collector.GCCollector(registry=self.registry)
        unexpected_errors.register(self.registry)
        shown = [family for family in families.FAMILIES if per_group or not family.per_group]
        self._gauges = {one.name: _gauge(one, self.registry) for one in shown if one.kind is Kind.GAUGE}
        self._counters = {one.name: _counter(one, self.registry) for one in shown if _is_counted_here(one)}
        self._histograms = {one.name: _histogram(one, self.registry) for one in shown if one.kind is Kind.HISTOGRAM}
        self._sums = prometheus_client.Summary(
            families.DURATION_SUMS.name, families.DURATION_SUMS.help, families.DURATION_SUMS.labels,
            registry=self.registry,
        )  # fmt: skip
        self._labels: dict[str, set[tuple[str, ...]]] = {}
        for name, labels in families.INITIAL:
            self.count((Count(PEER + name, labels, 0.0),))

    def render(self) -> bytes:
        """What /metrics answers."""
        return write(self.registry)

    def read(self, readings: Readings) -> None:
        """Set gauges. Series that a gauge had before and that are not read any more disappear, or are 0."""
        for name, values in readings.items():
            gauge = self._gauges.get(name)
            if gauge is None:
                continue
            for labels, value in values.items():
                (gauge.labels(*labels) if labels else gauge).set(value)
            gone = self._labels.get(name, set()) - set(values)
            for labels in gone:
                if name in _CLEARED:
                    gauge.labels(*labels).set(0.0)
                else:
                    gauge.remove(*labels)
            self._labels[name] = set(values) | (gone if name in _CLEARED else set())

    def count(self, counts: Iterable[Count]) -> None:
        """Add to counters."""
        for one in counts:
            counter = self._counters[one.name]
            (counter.labels(*one.labels) if one.labels else counter).inc(one.by)

    def observe(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        """Note a value of a histogram."""
        self._histograms[family.name].labels(*labels).observe(value)

    def took(self, function: Function, seconds: float) -> None:
        """Note how long a part of the loop took."""
        self.observe(families.DURATIONS, (str(function),), seconds)
        self._sums.labels(str(function)).observe(seconds)

    def began(self, function: Function, now_s: float) -> None:
        """Note that a part of the loop begins."""
        self._gauges[f"{PEER}last_activity"].labels(str(function)).set(float(int(now_s)))

    def set_aside(self, by_kind: Mapping[str, int]) -> None:
        """Note how many objects of each kind cannot be read."""
        self.read({families.SET_ASIDE.name: {(kind,): float(count) for kind, count in by_kind.items()}})


def write(registry: prometheus_client.CollectorRegistry) -> bytes:
    """The text of a registry in which these metrics are, for `runtime.serving`."""
    return exposition.render(registry, _UNTOTALLED)


def _is_counted_here(one: Family) -> bool:
    return one.kind is Kind.COUNTER and one.name != families.UNEXPECTED_ERRORS.name  # the whole process counts that


def _gauge(one: Family, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(one.name, one.help, one.labels, registry=registry)


def _counter(one: Family, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Counter:
    return prometheus_client.Counter(one.name, one.help, one.labels, registry=registry)


def _histogram(one: Family, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Histogram:
    return prometheus_client.Histogram(one.name, one.help, one.labels, buckets=one.buckets, registry=registry)
