"""Metrics of a shadow: `windlass_shadow_*`."""

import prometheus_client

from windlass.autoscaler.shadow.verdicts import Direction, Kind, Verdict


class Metrics:
    """Counts verdicts. Every series is there from the start, at 0, so that rates can be taken of it."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._verdicts = prometheus_client.Counter(
            "windlass_shadow_verdicts",
            "Comparisons of what windlass would do with what the other autoscaler did, by outcome.",
            ("direction", "verdict"),
            registry=registry,
        )
        self._nodes = prometheus_client.Counter(
            "windlass_shadow_nodes",
            "Nodes that windlass would have added or removed, and that the other autoscaler did.",
            ("direction", "autoscaler"),
            registry=registry,
        )
        self._lead = prometheus_client.Summary(
            "windlass_shadow_lead_seconds",
            "How much sooner windlass wanted what the other autoscaler did; negative: later.",
            ("direction",),
            registry=registry,
        )
        for direction in Direction:
            self._lead.labels(direction.value)
            for kind in Kind:
                self._verdicts.labels(direction.value, kind.value)
            for who in ("windlass", "other"):
                self._nodes.labels(direction.value, who)

    def count(self, verdict: Verdict) -> None:
        direction = verdict.direction.value
        self._verdicts.labels(direction, verdict.kind.value).inc()
        if verdict.kind is not Kind.LATE:  # counted when it was told as a difference
            self._nodes.labels(direction, "windlass").inc(verdict.wanted)
        self._nodes.labels(direction, "other").inc(verdict.done)
        if verdict.kind.is_agreement and verdict.lead_s is not None:
            self._lead.labels(direction).observe(verdict.lead_s)
