"""Metrics: how often objects are reconciled, with what result, how long it takes, and how many wait."""

import contextlib
import time
from collections.abc import Iterator

import prometheus_client

from windlass.runtime import unexpected_errors, workqueue

_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The measures of all controllers of a process."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self.registry = registry
        unexpected_errors.register(registry)
        self._passes = prometheus_client.Counter(
            "windlass_controller_reconcile_total",
            "Objects reconciled, by controller and result (success, error).",
            ["controller", "result"],
            registry=registry,
        )
        self._seconds = prometheus_client.Histogram(
            "windlass_controller_reconcile_time_seconds",
            "Time to reconcile one object, by controller.",
            ["controller"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._waiting = prometheus_client.Gauge(
            "windlass_controller_queue_depth",
            "Objects that wait to be reconciled, by controller.",
            ["controller"],
            registry=registry,
        )

    def watch(self, controller: str, queue: workqueue.WorkQueue[str]) -> None:
        """Show how many keys wait."""
        self._waiting.labels(controller).set_function(lambda: len(queue))

    @contextlib.contextmanager
    def measure(self, controller: str) -> Iterator[None]:
        """Count and time what is done in here."""
        since_s = time.perf_counter()
        result = "error"
        try:
            yield
            result = "success"
        finally:
            self._passes.labels(controller, result).inc()
            self._seconds.labels(controller).observe(time.perf_counter() - since_s)
