"""ReplicaSets: as many pods as are wanted, no more and no less."""

from typing import Any

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.ownership import OwnedPods
from windlass.simulator.world.pulse import Pulse
from windlass.simulator.world.stamps import Stamps

Json = dict[str, Any]

STATUS_LAG_S = 1.0
"""Statuses are written together, a moment after the pods changed, as a busy controller does it."""


class ReplicaSets:
    """The ReplicaSet controller."""

    hears = (kinds.REPLICA_SETS, kinds.PODS)

    def __init__(self, pulse: Pulse) -> None:
        self._pulse, self._api = pulse, pulse.api
        self._stamps = Stamps(pulse.api)
        self._pods = OwnedPods("ReplicaSet")
        self._due: dict[str, None] = {}
        self._counting: set[str] = set()

    def react(self, change: Change) -> None:
        key = self._pods.hear(change)
        if change.kind == kinds.REPLICA_SETS:
            key = change.key
            if change.now is None:
                self._stamps.forget(change.obj["metadata"]["uid"])
        if key is not None:
            self._due[key] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(kinds.REPLICA_SETS, key)
            if found is not None and not edit.is_deleting(found):
                self._reconcile(key, found)
        return bool(due)

    def _reconcile(self, key: str, found: Json) -> None:
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
