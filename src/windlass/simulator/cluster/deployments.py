"""Deployment, ReplicaSet and StatefulSet controllers.

A Deployment has one ReplicaSet per template and moves its replicas from the old to the new within surge and
unavailability; a StatefulSet makes pods with stable names in order and removes them from the end.
"""

import math
import zlib
from typing import Any

import msgspec

from windlass.simulator.cluster import api_objects, api_resources
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects, OwnedPods, PodController

Json = dict[str, Any]

POD_TEMPLATE_HASH = "pod-template-hash"


class DeploymentController:
    """Keeps one ReplicaSet per template of each Deployment, and rolls out changes."""

    watched_kinds = (api_resources.DEPLOYMENTS, api_resources.REPLICA_SETS)

    def __init__(self, pulse: EventLoop) -> None:
        self._api = pulse.api
        self._sets = OwnedObjects("Deployment", api_resources.REPLICA_SETS)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_resources.DEPLOYMENTS else self._sets.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(api_resources.DEPLOYMENTS, key)
            if found is not None and not api_objects.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        sets = [item for item in self._sets.of(found) if not api_objects.is_deleting(item)]
        hash_ = hash_template(found["spec"]["template"])
        new = next((entry for entry in sets if entry["metadata"]["labels"].get(POD_TEMPLATE_HASH) == hash_), None)
        old = [one for one in sets if one is not new and _desired_replicas(one)]
        if new is None:
            first = 0 if old else found["spec"]["replicas"]
            self._api.post(api_resources.REPLICA_SETS, make_replica_set(found, hash_, first))
        elif not old:
            self._scale(new, found["spec"]["replicas"])
        else:
            self._roll(found, new, old)
        self._count(found, sets)

    def _roll(self, found: Json, new: Json, old: list[Json]) -> None:
        """One step: scale the new set up within maxSurge, and the old ones down within maxUnavailable."""
        replicas = found["spec"]["replicas"]
        limits = found["spec"]["strategy"].get("rollingUpdate") or {}
        surge = _scale_limit(limits.get("maxSurge", "25%"), replicas, is_rounded_up=True)
        missing = _scale_limit(limits.get("maxUnavailable", "25%"), replicas, is_rounded_up=False)
        if not surge and not missing:
            missing = 1
        total = _desired_replicas(new) + sum(map(_desired_replicas, old))
        raised = max(min(replicas + surge - total, replicas - _desired_replicas(new)), 0)
        self._scale(new, min(_desired_replicas(new) + raised, replicas))
        spare = total - (replicas - missing) - (_desired_replicas(new) - _available_replicas(new))
        for item in old:
            unhealthy = min(_desired_replicas(item) - _available_replicas(item), max(spare, 0))
            taken = unhealthy + max(min(spare - unhealthy, _desired_replicas(item) - unhealthy), 0)
            spare -= taken
            self._scale(item, _desired_replicas(item) - taken)

    def _scale(self, one: Json, replicas: int) -> None:
        if _desired_replicas(one) != replicas:
            self._api.update_spec(api_resources.REPLICA_SETS, one, replicas=replicas)

    def _count(self, found: Json, sets: list[Json]) -> None:
        total = sum((item.get("status") or {}).get("replicas", 0) for item in sets)
        ready = sum(map(_available_replicas, sets))
        status = {
            "replicas": total,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(found["spec"]["replicas"] - ready, 0),
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if found.get("status") != status:
            self._api.update(api_resources.DEPLOYMENTS, {**found, "status": status})


def hash_template(template: Json) -> str:
    return f"{zlib.crc32(msgspec.json.encode(template, order='deterministic')):08x}"


def make_replica_set(deployment: Json, hash_: str, replicas: int) -> Json:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**(template["metadata"].get("labels") or {}), POD_TEMPLATE_HASH: hash_}
    selector = {
        **spec["selector"],
        "matchLabels": {**(spec["selector"].get("matchLabels") or {}), POD_TEMPLATE_HASH: hash_},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [api_objects.owned_by(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _desired_replicas(one: Json) -> int:
    return int(one["spec"]["replicas"])


def _available_replicas(one: Json) -> int:
    return int((one.get("status") or {}).get("availableReplicas", 0))


def _scale_limit(limit: int | str, replicas: int, *, is_rounded_up: bool) -> int:
    """A number, or a percentage of the replicas."""
    if isinstance(limit, int):
        return limit
    share = int(limit.rstrip("%")) * replicas / 100
    return math.ceil(share) if is_rounded_up else math.floor(share)


STATUS_LAG_S = 1.0
"""Delay after a change of pods before statuses are written, so that changes are batched."""


class ReplicaSetController(PodController):
    """Creates and deletes the pods of ReplicaSets."""

    def __init__(self, pulse: EventLoop) -> None:
        self._pods = OwnedPods("ReplicaSet")
        super().__init__(pulse, api_resources.REPLICA_SETS, self._pods)
        self._counting: set[str] = set()

    def reconcile(self, key: str, found: Json) -> None:
        active = self._pods.active(found)
        surplus = len(active) - found["spec"]["replicas"]
        if surplus < 0:
            for _ in range(-surplus):
                self._api.create(api_resources.PODS, self._stamps.make_pod(found))
        elif surplus > 0:
            for pod in deletion_order(list(active.values()))[:surplus]:
                self._api.delete_pod(pod)
        if key not in self._counting:
            self._counting.add(key)
            self._pulse.call_later(STATUS_LAG_S, lambda: self._count(key))

    def _count(self, key: str) -> None:
        self._counting.discard(key)
        found = self._api.find(api_resources.REPLICA_SETS, key)
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
            self._api.update(api_resources.REPLICA_SETS, {**found, "status": status})


def deletion_order(pods: list[Json]) -> list[Json]:
    """Deletion order: pods without a node, not ready, with more siblings on their node, the youngest."""
    crowd: dict[str, int] = {}
    for pod in pods:
        crowd[api_objects.node_of(pod)] = crowd.get(api_objects.node_of(pod), 0) + 1

    def value(pod: Json) -> tuple[bool, bool, int]:
        return bool(api_objects.node_of(pod)), api_objects.is_ready(pod), -crowd[api_objects.node_of(pod)]

    newest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    return sorted(newest_first, key=value)


class StatefulSetController(PodController):
    """Creates and deletes the pods of StatefulSets in order."""

    def __init__(self, pulse: EventLoop) -> None:
        self._pods = OwnedObjects("StatefulSet", api_resources.PODS)
        super().__init__(pulse, api_resources.STATEFUL_SETS, self._pods)

    def reconcile(self, key: str, found: Json) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self._pods.of(found)}
        is_ordered = found["spec"].get("podManagementPolicy") != "Parallel"
        names = [f"{found['metadata']['name']}-{i}" for i in range(found["spec"]["replicas"])]
        for name in names:
            pod = pods.pop(name, None)
            if pod is None:
                index = {"statefulset.kubernetes.io/pod-name": name}
                self._api.create(api_resources.PODS, self._stamps.make_pod(found, name, index))
            # The next pod waits until this one is ready; a terminating pod keeps its name until it is deleted.
            if is_ordered and (pod is None or not api_objects.is_ready(pod) or api_objects.is_deleting(pod)):
                break
        self._shrink([pod for name, pod in pods.items() if name not in names], is_ordered)
        self._count(found)

    def _shrink(self, surplus: list[Json], is_ordered: bool) -> None:
        last_first = sorted(surplus, key=lambda pod: -int(pod["metadata"]["name"].rpartition("-")[2]))
        if is_ordered and any(api_objects.is_deleting(pod) for pod in last_first):
            return
        for pod in last_first[:1] if is_ordered else last_first:
            self._api.delete_pod(pod)

    def _count(self, found: Json) -> None:
        pods = [pod for pod in self._pods.of(found) if api_objects.is_active(pod)]
        ready = sum(map(api_objects.is_ready, pods))
        status = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if found.get("status") != status:
            self._api.update(api_resources.STATEFUL_SETS, {**found, "status": status})
