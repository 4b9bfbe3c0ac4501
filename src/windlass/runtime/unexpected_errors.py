"""The metric of unexpected errors, for every process that has a registry."""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import metrics_core
from prometheus_client.registry import Collector

from windlass import unexpected

NAME = "windlass_unexpected_errors_total"
HELP = "Exceptions that no code foresaw, by place; each cost the object that it was met with. Any is a bug."
LABELS = ("place",)


class _Collector(Collector):
    def collect(self) -> Iterator[metrics_core.Metric]:
        family = metrics_core.CounterMetricFamily(NAME, HELP, labels=LABELS)
        for place, count in unexpected.ERRORS.counts().items():
            family.add_metric((str(place),), float(count))
        yield family


def register(registry: prometheus_client.CollectorRegistry) -> None:
    """Show the process's count in a registry, every place from the start."""
    registry.register(_Collector())
