"""Deployments: one ReplicaSet per template, and the rolling change from the old to the new."""

import math
import zlib
from typing import Any

import msgspec

from windlass.simulator.world import edit, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

HASH = "pod-template-hash"


class Deployments:
    """The Deployment controller."""

    hears = (kinds.DEPLOYMENTS, kinds.REPLICA_SETS)

    def __init__(self, pulse: Pulse) -> None:
        self._api = pulse.api
        self._sets = Owned("Deployment", kinds.REPLICA_SETS)
        self._due: dict[str, None] = {}

    def react(self, change: Change) -> None:
        key = change.key if change.kind == kinds.DEPLOYMENTS else self._sets.hear(change)
        if key is not None:
            self._due[key] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(kinds.DEPLOYMENTS, key)
            if found is not None and not edit.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        sets = [one for one in self._sets.of(found) if not edit.is_deleting(one)]
        hash_ = hash_template(found["spec"]["template"])
        new = next((one for one in sets if one["metadata"]["labels"].get(HASH) == hash_), None)
        old = [one for one in sets if one is not new and _wanted(one)]
        if new is None:
            first = 0 if old else found["spec"]["replicas"]
            self._api.post(kinds.REPLICA_SETS, make_set(found, hash_, first))
        elif not old:
            self._scale(new, found["spec"]["replicas"])
        else:
            self._roll(found, new, old)
        self._count(found, sets)

    def _roll(self, found: Json, new: Json, old: list[Json]) -> None:
        """One step: raise the new set as far as the surge allows, lower the old ones as far as enough are available."""
        replicas = found["spec"]["replicas"]
        limits = found["spec"]["strategy"].get("rollingUpdate") or {}
        surge = _scaled(limits.get("maxSurge", "25%"), replicas, is_rounded_up=True)
        missing = _scaled(limits.get("maxUnavailable", "25%"), replicas, is_rounded_up=False)
        if not surge and not missing:
            missing = 1
        total = _wanted(new) + sum(map(_wanted, old))
        raised = max(min(replicas + surge - total, replicas - _wanted(new)), 0)
        self._scale(new, min(_wanted(new) + raised, replicas))
        spare = total - (replicas - missing) - (_wanted(new) - _available(new))
        for one in old:
            unhealthy = min(_wanted(one) - _available(one), max(spare, 0))
            taken = unhealthy + max(min(spare - unhealthy, _wanted(one) - unhealthy), 0)
            spare -= taken
            self._scale(one, _wanted(one) - taken)

    def _scale(self, one: Json, replicas: int) -> None:
        if _wanted(one) != replicas:
            self._api.respec(kinds.REPLICA_SETS, one, replicas=replicas)

    def _count(self, found: Json, sets: list[Json]) -> None:
        total = sum((one.get("status") or {}).get("replicas", 0) for one in sets)
        ready = sum(map(_available, sets))
        status = {
            "replicas": total,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(found["spec"]["replicas"] - ready, 0),
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if found.get("status") != status:
            self._api.update(kinds.DEPLOYMENTS, {**found, "status": status})


def hash_template(template: Json) -> str:
    return f"{zlib.crc32(msgspec.json.encode(template, order='deterministic')):08x}"


def make_set(deployment: Json, hash_: str, replicas: int) -> Json:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**(template["metadata"].get("labels") or {}), HASH: hash_}
    selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: hash_}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [edit.owned_by(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _wanted(one: Json) -> int:
    return int(one["spec"]["replicas"])


def _available(one: Json) -> int:
    return int((one.get("status") or {}).get("availableReplicas", 0))


def _scaled(limit: int | str, replicas: int, *, is_rounded_up: bool) -> int:
    """A number, or a percentage of the replicas."""
    if isinstance(limit, int):
        return limit
    share = int(limit.rstrip("%")) * replicas / 100
    return math.ceil(share) if is_rounded_up else math.floor(share)
