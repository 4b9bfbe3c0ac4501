"""MachineDeployment and MachineSet controllers.

A MachineDeployment has one MachineSet per template, sets its replicas and rolls out one machine at a time; a MachineSet
deletes annotated Machines first.
"""

from typing import Any

from windlass.simulator.cluster import api_objects, api_resources, node_groups
from windlass.simulator.cluster.api_client import Change
from windlass.simulator.cluster.deployments import hash_template
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.pod_controller import OwnedObjects

Json = dict[str, Any]

DELETE_MACHINE_ANNOTATION = "cluster.x-k8s.io/delete-machine"

FINALIZER = "machine.cluster.x-k8s.io"


class MachineSetController:
    """Creates and deletes the Machines of MachineSets."""

    watched_kinds = (api_resources.MACHINE_SETS, api_resources.MACHINES)

    def __init__(self, pulse: EventLoop) -> None:
        self._api = pulse.api
        self._machines = OwnedObjects("MachineSet", api_resources.MACHINES)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_resources.MACHINE_SETS else self._machines.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(api_resources.MACHINE_SETS, key)
            if found is not None and not api_objects.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        machines = [item for item in self._machines.of(found) if not api_objects.is_deleting(item)]
        surplus = len(machines) - found["spec"]["replicas"]
        for _ in range(-surplus):
            self._api.create(api_resources.MACHINES, _make_machine(found))
        for machine in sorted(machines, key=_deletion_priority)[: max(surplus, 0)]:
            now = self._api.now()
            self._api.update(api_resources.MACHINES, api_objects.with_part(machine, "metadata", deletionTimestamp=now))
        self._count(found)

    def _count(self, found: Json) -> None:
        machines = [item for item in self._machines.of(found) if not api_objects.is_deleting(item)]
        ready = sum(map(is_running, machines))
        status = {
            "replicas": len(machines),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": len(machines),
            "observedGeneration": found["metadata"].get("generation", 0),
            "selector": f"{node_groups.SET_NAME_LABEL}={found['metadata']['name']}",
        }
        if found.get("status") != status:
            self._api.update(api_resources.MACHINE_SETS, {**found, "status": status})


def is_running(machine: Json) -> bool:
    return (machine.get("status") or {}).get("phase") == "Running"


def _deletion_priority(machine: Json) -> tuple[int, str]:
    """The lowest is deleted first: annotated, then unhealthy, then by name."""
    if DELETE_MACHINE_ANNOTATION in (machine["metadata"].get("annotations") or {}):
        return 0, machine["metadata"]["name"]
    return (2 if is_running(machine) else 1), machine["metadata"]["name"]


def _make_machine(found: Json) -> Json:
    template = found["spec"]["template"]
    labels = {
        **(template.get("metadata") or {}).get("labels", {}),
        node_groups.SET_NAME_LABEL: found["metadata"]["name"],
    }
    return {
        "metadata": {
            "generateName": found["metadata"]["name"] + "-",
            "namespace": found["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [api_objects.owned_by(found)],
            "finalizers": [FINALIZER],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


MACHINE_TEMPLATE_HASH = "machine-template-hash"

REVISION_ANNOTATION = "machinedeployment.clusters.x-k8s.io/revision"

_SURGE = 1


class MachineDeploymentController:
    """Keeps one MachineSet per template of each MachineDeployment."""

    watched_kinds = (api_resources.MACHINE_DEPLOYMENTS, api_resources.MACHINE_SETS)

    def __init__(self, pulse: EventLoop) -> None:
        self._api = pulse.api
        self._sets = OwnedObjects("MachineDeployment", api_resources.MACHINE_SETS)
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.key if change.kind == api_resources.MACHINE_DEPLOYMENTS else self._sets.on_change(change)
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(api_resources.MACHINE_DEPLOYMENTS, key)
            if found is not None and not api_objects.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        sets = self._sets.of(found)
        hash_ = hash_template(found["spec"]["template"])
        new = next((item for item in sets if item["metadata"]["labels"].get(MACHINE_TEMPLATE_HASH) == hash_), None)
        old = [
            entry
            for entry in sets
            if entry is not new and (_desired_replicas(entry) or _status_count(entry, "replicas"))
        ]
        replicas = found["spec"].get("replicas", 1)
        if new is None:
            first = replicas if not old else 0
            self._api.create(api_resources.MACHINE_SETS, _make_machine_set(found, hash_, first, len(sets) + 1))
        elif not old:
            self._scale(new, replicas)
        else:
            self._roll(replicas, new, old)
        self._report(found, sets, new)

    def _roll(self, replicas: int, new: Json, old: list[Json]) -> None:
        """One step: one more new Machine, then one less of the old as soon as the new one runs."""
        total = _desired_replicas(new) + sum(map(_desired_replicas, old))
        self._scale(new, min(_desired_replicas(new) + max(replicas + _SURGE - total, 0), replicas))
        spare = total - replicas - (_desired_replicas(new) - _status_count(new, "availableReplicas"))
        for item in old:
            taken = min(max(spare, 0), _desired_replicas(item))
            spare -= taken
            self._scale(item, _desired_replicas(item) - taken)

    def _scale(self, one: Json, replicas: int) -> None:
        if _desired_replicas(one) != replicas:
            self._api.update_spec(api_resources.MACHINE_SETS, one, replicas=replicas)

    def _report(self, found: Json, sets: list[Json], new: Json | None) -> None:
        replicas, ready = (sum(_status_count(item, name) for item in sets) for name in ("replicas", "readyReplicas"))
        wanted = found["spec"].get("replicas", 1)
        phase = "Running" if replicas == wanted == ready else ("ScalingUp" if replicas <= wanted else "ScalingDown")
        status = {
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": _status_count(new, "replicas") if new is not None else 0,
            "observedGeneration": found["metadata"].get("generation", 0),
            "selector": f"{node_groups.DEPLOYMENT_NAME_LABEL}={found['metadata']['name']}",
            "phase": phase,
        }
        if found.get("status") != status:
            self._api.update(api_resources.MACHINE_DEPLOYMENTS, {**found, "status": status})


def _desired_replicas(one: Json) -> int:
    return int(one["spec"]["replicas"])


def _status_count(one: Json, name: str) -> int:
    return int((one.get("status") or {}).get(name, 0))


def _make_machine_set(found: Json, hash_: str, replicas: int, revision: int) -> Json:
    template = found["spec"]["template"]
    labels = {**(template.get("metadata") or {}).get("labels", {}), MACHINE_TEMPLATE_HASH: hash_}
    return {
        "metadata": {
            "name": f"{found['metadata']['name']}-{hash_}",
            "namespace": found["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION_ANNOTATION: str(revision)},
            "ownerReferences": [api_objects.owned_by(found)],
        },
        "spec": {
            "clusterName": found["spec"]["clusterName"],
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        },
        "status": {},
    }
