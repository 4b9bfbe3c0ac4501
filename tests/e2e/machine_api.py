"""Machine API's controllers, played: MachineSets that they hold have Machines, and these have Nodes and mirrors.

Besides what `machineset_sync` mirrors there are Machines, which OpenShift mirrors, too: here they come and go in pairs.
"""

import contextlib
import threading
import time

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import unstructured

SYNC = "system:serviceaccount:openshift-cluster-api:capi-controllers"
_EVERY_S = 0.3
_LATER = (api.Refused, OSError)
"""Of a server that is busy, and of writes that others overtook: the next round does it."""


class MachineApi:
    """A thread that looks after every MachineSet of Machine API."""

    def __init__(self, bed: Bed, cluster: str, size: Object) -> None:
        self._api, self._cluster, self._size = bed.api.acting_as(SYNC), cluster, size
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._made = 0
        self.removed: list[str] = []
        """Machines, in the order in which they went."""
        self.unmarked: list[str] = []
        """Those of them that nobody had marked."""

    def __enter__(self) -> "MachineApi":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            with contextlib.suppress(*_LATER):
                for found in self._api.items(self._sets()):
                    with contextlib.suppress(*_LATER):
                        self._look_after(found)

    @staticmethod
    def _sets(name: str = "") -> str:
        at = f"/apis/machine.openshift.io/v1beta1/namespaces/{MACHINE_API.namespace}/machinesets"
        return f"{at}/{name}" if name else at

    @staticmethod
    def machines(name: str = "") -> str:
        at = f"/apis/machine.openshift.io/v1beta1/namespaces/{MACHINE_API.namespace}/machines"
        return f"{at}/{name}" if name else at

    @staticmethod
    def mirrors(name: str = "") -> str:
        at = f"/apis/{objects.CLUSTER_API}/namespaces/{CLUSTER_API.namespace}/machines"
        return f"{at}/{name}" if name else at

    def _look_after(self, found: Object) -> None:
        status, name = found.get("status", {}), found["metadata"]["name"]
        # Before anyone mirrors MachineSets, nobody says which API holds them.
        holds = (status.get("authoritativeAPI") or found["spec"]["authoritativeAPI"]) == "MachineAPI"
        said = unstructured.find_condition(status.get("conditions"), "Paused") or {}
        if said.get("status") != str(not holds):
            after = list(
                unstructured.set_condition(status.get("conditions"), "Paused", not holds, "Paused", "", time.time())
            )
            metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
            self._api.merge(f"{self._sets(name)}/status", {"metadata": metadata, "status": {"conditions": after}})
            return
        if holds:
            self._scale(found)

    def _scale(self, found: Object) -> None:
        name, wanted = found["metadata"]["name"], found["spec"]["replicas"]
        there = self._api.items(self.machines(), labelSelector=f"{model.SET_LABEL}={name}")
        mirror = self._api.find(f"{self.mirrors().removesuffix('machines')}machinesets/{name}")
        if mirror is not None:
            for item in there:
                self._mirror(item["metadata"]["name"], mirror)
        if len(there) < wanted:
            self._add(found, mirror)
        elif len(there) > wanted:
            marked = [entry for entry in there if self._is_marked(entry)]
            gone = (marked or there)[0]["metadata"]["name"]
            if not marked and gone not in self.removed:
                self.unmarked.append(gone)
            self._remove(gone)
        counts = {"replicas": len(there), "readyReplicas": len(there), "availableReplicas": len(there)}
        observed = {**counts, "observedGeneration": found["metadata"]["generation"]}
        if any(found.get("status", {}).get(key) != value for key, value in observed.items()):
            self._api.merge(f"{self._sets(name)}/status", {"status": observed})

    @staticmethod
    def _is_marked(machine: Object) -> bool:
        return MACHINE_API.delete_machine in machine["metadata"].get("annotations", {})

    def _add(self, found: Object, mirror: Object | None) -> None:
        """A Machine, its Node, and, where its set has one, its mirror."""
        self._made += 1
        machine_set = found["metadata"]["name"]
        name = f"{machine_set}-{self._made}"
        node_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        node: Object = {"apiVersion": "v1", "kind": "Node", "spec": {"providerID": _identify(name)}}
        node["metadata"] = {
            "name": name,
            "labels": {**node_labels, "pool": machine_set},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        }
        node["status"] = {"capacity": self._size, "allocatable": self._size}
        try:
            self._api.add(node)
            self._add_machine(found, name, mirror)
        except _LATER:
            self._delete(name)  # a Node without its Machine would stay, and pods on it
            raise

    def _add_machine(self, found: Object, name: str, mirror: Object | None) -> None:
        if mirror is not None:
            self._mirror(name, mirror)
        labels = _labels(found)
        version = "machine.openshift.io/v1beta1"
        ours: Object = {"name": name, "namespace": MACHINE_API.namespace, "labels": labels}
        ours |= {"ownerReferences": [_own(version, found)]}
        spec = {"providerID": _identify(name)}
        self._api.add({"apiVersion": version, "kind": "Machine", "metadata": ours, "spec": spec})
        status = {"authoritativeAPI": "MachineAPI", "nodeRef": {"kind": "Node", "name": name}}
        self._api.merge(f"{self.machines(name)}/status", {"status": status})

    def _mirror(self, name: str, machine_set: Object) -> None:
        """The mirror of a Machine, if it has none."""
        if self._api.find(self.mirrors(name)) is not None:
            return
        labels = _labels(machine_set)
        body = objects.machine(name, cluster=self._cluster, namespace=CLUSTER_API.namespace, labels=labels)[1]
        body["metadata"] |= {
            "annotations": {machine_apis.PAUSED_ANNOTATION: ""},
            "ownerReferences": [_own(objects.CLUSTER_API, machine_set)],
        }
        body["spec"].pop("version", None)
        body["spec"]["providerID"] = _identify(name)
        self._api.add(body)
        self._api.merge(f"{self.mirrors(name)}/status", {"status": {"nodeRef": {"name": name}, "phase": "Running"}})

    def _remove(self, name: str) -> None:
        if name not in self.removed:
            self.removed.append(name)
        self._delete(name)

    def _delete(self, name: str) -> None:
        for path in (self.machines(name), self.mirrors(name), f"/api/v1/nodes/{name}"):
            with contextlib.suppress(api.Refused):
                self._api.delete(path)


def _labels(machine_set: Object) -> dict[str, str]:
    """The labels of a set's Machines, by which it selects them."""
    labels = machine_set["spec"]["template"].get("metadata", {}).get("labels", {})
    return {**labels, model.SET_LABEL: machine_set["metadata"]["name"]}


def _identify(name: str) -> str:
    """What a Machine and its Node have in common."""
    return f"played:///{name}"


def _own(version: str, found: Object) -> Object:
    metadata = found["metadata"]
    return {"apiVersion": version, "kind": "MachineSet", "name": metadata["name"], "uid": metadata["uid"]}
