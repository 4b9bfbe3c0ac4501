"""Metrics of MachinePools: what is wanted, what is there, and where each pool is on its way."""

import prometheus_client

from windlass.controllers.machine_pool import facts, names

_PHASES = (
    names.PENDING,
    names.PROVISIONING,
    names.PROVISIONED,
    names.RUNNING,
    names.SCALING_UP,
    names.SCALING_DOWN,
    names.SCALING,
    names.FAILED,
    names.DELETING,
)
_COUNTS = ("wanted", "observed", "ready", "available")


class Measures:
    """The pools of a process, as numbers."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._replicas = prometheus_client.Gauge(
            "windlass_machine_pool_replicas",
            "Replicas of a MachinePool: wanted, observed by its infrastructure, and Nodes ready and available.",
            ["namespace", "name", "count"],
            registry=registry,
        )
        self._phase = prometheus_client.Gauge(
            "windlass_machine_pool_phase",
            "1 for the phase that a MachinePool is in.",
            ["namespace", "name", "phase"],
            registry=registry,
        )
        self._shown: dict[str, str] = {}

    def show(self, pool: facts.Pool) -> None:
        status = pool.status
        found = (pool.replicas or 0, status.replicas or 0, status.nodes.ready, status.nodes.available)
        for word, count in zip(_COUNTS, found, strict=True):
            self._replicas.labels(pool.namespace, pool.name, word).set(count)
        before = self._shown.get(pool.key)
        if before and before != status.phase:
            self._phase.remove(pool.namespace, pool.name, before)
        if status.phase in _PHASES:
            self._phase.labels(pool.namespace, pool.name, status.phase).set(1)
            self._shown[pool.key] = status.phase

    def forget(self, key: str) -> None:
        """A pool is gone."""
        phase = self._shown.pop(key, None)
        if phase is None:
            return
        namespace, _, name = key.partition("/")
        self._phase.remove(namespace, name, phase)
        for word in _COUNTS:
            self._replicas.remove(namespace, name, word)
