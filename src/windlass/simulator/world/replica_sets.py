"""ReplicaSets: as many pods as are wanted, no more and no less."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.ownership import OwnedPods
from windlass.simulator.world.pod_keeping import PodKeeping
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

STATUS_LAG_S = 1.0
"""Statuses are written together, a moment after the pods changed, as a busy controller does it."""


class ReplicaSets(PodKeeping):
    """The ReplicaSet controller."""

    def __init__(self, pulse: Pulse) -> None:
        self._pods = OwnedPods("ReplicaSet")
        super().__init__(pulse, kinds.REPLICA_SETS, self._pods)
        self._counting: set[str] = set()

    def reconcile(self, key: str, found: Json) -> None:
        active = self._pods.active(found)
        surplus = len(active) - found["spec"]["replicas"]
        if surplus < 0:
            for _ in range(-surplus):
                self._api.create(kinds.PODS, self._stamps.make(found))
        elif surplus > 0:
            for pod in least_valuable(list(active.values()))[:surplus]:
                self._api.delete_pod(pod)
        if key not in self._counting:
            self._counting.add(key)
            self._pulse.later(STATUS_LAG_S, lambda: self._count(key))

    def _count(self, key: str) -> None:
        self._counting.discard(key)
        found = self._api.find(kinds.REPLICA_SETS, key)
        if found is None:
            return
        active, ready = len(self._pods.active(found)), self._pods.ready_count(found)
        status = {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if found.get("status") != status:
            self._api.update(kinds.REPLICA_SETS, {**found, "status": status})


def least_valuable(pods: list[Json]) -> list[Json]:
    """Those first that are missed least: without a node, not ready, sharing their node with others, the youngest."""
    crowd: dict[str, int] = {}
    for pod in pods:
        crowd[edit.node_of(pod)] = crowd.get(edit.node_of(pod), 0) + 1

    def value(pod: Json) -> tuple[bool, bool, int]:
        return bool(edit.node_of(pod)), edit.is_ready(pod), -crowd[edit.node_of(pod)]

    newest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return sorted(newest_first, key=value)
