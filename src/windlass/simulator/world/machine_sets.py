"""MachineSets: as many Machines as are wanted; those marked for it go first."""

from typing import Any

from windlass.simulator.world import edit, groups, kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.ownership import Owned
from windlass.simulator.world.pulse import Pulse

Json = dict[str, Any]

DELETE_MARK = "cluster.x-k8s.io/delete-machine"
FINALIZER = "machine.cluster.x-k8s.io"


class MachineSets:
    """The MachineSet controller."""

    hears = (kinds.MACHINE_SETS, kinds.MACHINES)

    def __init__(self, pulse: Pulse) -> None:
        self._api = pulse.api
        self._machines = Owned("MachineSet", kinds.MACHINES)
        self._due: dict[str, None] = {}

    def react(self, change: Change) -> None:
        key = change.key if change.kind == kinds.MACHINE_SETS else self._machines.hear(change)
        if key is not None:
            self._due[key] = None

    def act(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            found = self._api.find(kinds.MACHINE_SETS, key)
            if found is not None and not edit.is_deleting(found):
                self._reconcile(found)
        return bool(due)

    def _reconcile(self, found: Json) -> None:
        machines = [one for one in self._machines.of(found) if not edit.is_deleting(one)]
        surplus = len(machines) - found["spec"]["replicas"]
        for _ in range(-surplus):
            self._api.create(kinds.MACHINES, _make(found))
        for machine in sorted(machines, key=_value)[: max(surplus, 0)]:
            now = self._api.now()
            self._api.update(kinds.MACHINES, edit.with_part(machine, "metadata", deletionTimestamp=now))
        self._count(found)

    def _count(self, found: Json) -> None:
        machines = [one for one in self._machines.of(found) if not edit.is_deleting(one)]
        ready = sum(map(is_running, machines))
        status = {
            "replicas": len(machines),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "upToDateReplicas": len(machines),
            "observedGeneration": found["metadata"].get("generation", 0),
            "selector": f"{groups.SET_NAME}={found['metadata']['name']}",
        }
        if found.get("status") != status:
            self._api.update(kinds.MACHINE_SETS, {**found, "status": status})


def is_running(machine: Json) -> bool:
    return (machine.get("status") or {}).get("phase") == "Running"


def _value(machine: Json) -> tuple[int, str]:
    """The lowest goes first: marked, then unhealthy, then by name."""
    if DELETE_MARK in (machine["metadata"].get("annotations") or {}):
        return 0, machine["metadata"]["name"]
    return (2 if is_running(machine) else 1), machine["metadata"]["name"]


def _make(found: Json) -> Json:
    template = found["spec"]["template"]
    labels = {**(template.get("metadata") or {}).get("labels", {}), groups.SET_NAME: found["metadata"]["name"]}
    return {
        "metadata": {
            "generateName": found["metadata"]["name"] + "-",
            "namespace": found["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [edit.owned_by(found)],
            "finalizers": [FINALIZER],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }
