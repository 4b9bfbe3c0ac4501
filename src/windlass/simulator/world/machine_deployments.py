"""MachineDeployments: one MachineSet per template, the replicas handed down, and rollouts one machine at a time."""

from typing import Any

from windlass.simulator.world import edit, groups, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.deployments import hash_template
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

HASH = "machine-template-hash"
REVISION = "machinedeployment.clusters.x-k8s.io/revision"
_SURGE = 1


class MachineDeployments:
    """The MachineDeployment controller."""

    hears = (kinds.MACHINE_DEPLOYMENTS, kinds.MACHINE_SETS)

    def __init__(self, pulse: Pulse) -> None:
        self._api = pulse.api
        self._sets = Owned("MachineDeployment", kinds.MACHINE_SETS)
        self._due: dict[str, None] = {}

    def react(self, change: Change) -> None:
        key = change.key if change.kind == kinds.MACHINE_DEPLOYMENTS else self._sets.hear(change)
        if key is not None:
            self._due[key] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(kinds.MACHINE_DEPLOYMENTS, key)
            if found is not None and not edit.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        sets = self._sets.of(found)
        hash_ = hash_template(found["spec"]["template"])
        new = next((one for one in sets if one["metadata"]["labels"].get(HASH) == hash_), None)
        old = [one for one in sets if one is not new and (_wanted(one) or _count(one, "replicas"))]
        replicas = found["spec"].get("replicas", 1)
        if new is None:
            first = replicas if not old else 0
            self._api.create(kinds.MACHINE_SETS, _make(found, hash_, first, len(sets) + 1))
        elif not old:
            self._scale(new, replicas)
        else:
            self._roll(replicas, new, old)
        self._report(found, sets, new)

    def _roll(self, replicas: int, new: Json, old: list[Json]) -> None:
        """One more of the new, then one less of the old, as soon as the new one is there."""
        total = _wanted(new) + sum(map(_wanted, old))
        self._scale(new, min(_wanted(new) + max(replicas + _SURGE - total, 0), replicas))
        spare = total - replicas - (_wanted(new) - _count(new, "availableReplicas"))
        for one in old:
            taken = min(max(spare, 0), _wanted(one))
            spare -= taken
            self._scale(one, _wanted(one) - taken)

    def _scale(self, one: Json, replicas: int) -> None:
        if _wanted(one) != replicas:
            self._api.respec(kinds.MACHINE_SETS, one, replicas=replicas)

    def _report(self, found: Json, sets: list[Json], new: Json | None) -> None:
        replicas, ready = (sum(_count(one, name) for one in sets) for name in ("replicas", "readyReplicas"))
        wanted = found["spec"].get("replicas", 1)
        phase = "Running" if replicas == wanted == ready else ("ScalingUp" if replicas <= wanted else "ScalingDown")
        status = {
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": _count(new, "replicas") if new is not None else 0,
            "observedGeneration": found["metadata"].get("generation", 0),
            "selector": f"{groups.DEPLOYMENT_NAME}={found['metadata']['name']}",
            "phase": phase,
        }
        if found.get("status") != status:
            self._api.update(kinds.MACHINE_DEPLOYMENTS, {**found, "status": status})


def _wanted(one: Json) -> int:
    return int(one["spec"]["replicas"])


def _count(one: Json, name: str) -> int:
    return int((one.get("status") or {}).get(name, 0))


def _make(found: Json, hash_: str, replicas: int, revision: int) -> Json:
    template = found["spec"]["template"]
    labels = {**(template.get("metadata") or {}).get("labels", {}), HASH: hash_}
    return {
        "metadata": {
            "name": f"{found['metadata']['name']}-{hash_}",
            "namespace": found["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(revision)},
            "ownerReferences": [edit.owned_by(found)],
        },
        "spec": {
            "clusterName": found["spec"]["clusterName"],
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        },
        "status": {},
    }
