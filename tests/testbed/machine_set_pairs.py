"""Pairs of MachineSets, one in each API: what somebody does to them on the real server, and what is seen of them."""

import json
from collections.abc import Callable
from typing import Any

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e.openshift_cluster import CLUSTER
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import unstructured

AUTOSCALER = "system:serviceaccount:openshift-machine-api:cluster-autoscaler"
ADMIN = "kubernetes-admin"
SYNC = "system:serviceaccount:openshift-cluster-api:capi-controllers"
V1BETA1 = "cluster.x-k8s.io/v1beta1"
WITHIN_S = 180.0


def place(which: machine_apis.MachineApi, name: str = "", version: str = "") -> str:
    resource = which.machine_sets()
    at = f"/apis/{version or resource.api_version}/namespaces/{which.namespace}/machinesets"
    return f"{at}/{name}" if name else at


def place_machine(which: machine_apis.MachineApi, name: str) -> str:
    return f"{place(which).removesuffix('machinesets')}machines/{name}"


def add_set(bed: Bed, name: str, replicas: int, wanted: str = "MachineAPI") -> None:
    labels = {model.SET_LABEL: name}
    value = {
        "apiVersion": objects.INFRASTRUCTURE,
        "kind": "FakeMachineTemplate",
        "metadata": {"name": "workers"},
        "userDataSecret": {"name": f"{CLUSTER}-bootstrap"},
    }
    spec = {
        "replicas": replicas,
        "authoritativeAPI": wanted,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": value}}},
    }
    metadata = {"name": name, "namespace": MACHINE_API.namespace}
    body = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec}
    bed.api.add(body)


def add_mirror(bed: Bed, name: str, replicas: int) -> None:
    """As the sync would make it."""
    labels = {model.SET_LABEL: name}
    machine = {
        "clusterName": CLUSTER,
        "bootstrap": {"dataSecretName": f"{CLUSTER}-bootstrap"},
        "infrastructureRef": {
            "apiGroup": objects.INFRASTRUCTURE.partition("/")[0],
            "kind": "FakeMachineTemplate",
            "name": "workers",
        },
    }
    spec = {
        "clusterName": CLUSTER,
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": machine},
    }
    metadata = {"name": name, "namespace": CLUSTER_API.namespace, "annotations": {machine_apis.PAUSED_ANNOTATION: ""}}
    body = {"apiVersion": objects.CLUSTER_API, "kind": "MachineSet", "metadata": metadata, "spec": spec}
    bed.api.acting_as(SYNC).add(body)


def add_twins(bed: Bed, name: str, labels: dict[str, str] | None = None) -> None:
    """A Machine that Machine API holds, and its mirror."""
    bed.api.add(objects.made("machine.openshift.io/v1beta1", "Machine", name, MACHINE_API.namespace, {}, labels))
    bed.api.merge(f"{place_machine(MACHINE_API, name)}/status", {"status": {"authoritativeAPI": "MachineAPI"}})
    for body in objects.machine(name, cluster=CLUSTER, namespace=CLUSTER_API.namespace, labels=labels):
        body["metadata"]["annotations"] = {machine_apis.PAUSED_ANNOTATION: ""}
        body["spec"].pop("version", None)
        bed.api.acting_as(SYNC).add(body)


def hold(bed: Bed, name: str, by: str | None) -> None:
    bed.api.merge(f"{place(MACHINE_API, name)}/status", {"status": {"authoritativeAPI": by}})


def count(bed: Bed, name: str, replicas: int, ready: int) -> None:
    """Machine API's controller says how many Machines there are; the mirror says so as well."""
    observed = bed.api.get(place(MACHINE_API, name))["metadata"]["generation"]
    status = {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready, "observedGeneration": observed}
    bed.api.merge(f"{place(MACHINE_API, name)}/status", {"status": status})

    def look() -> tuple[Any, Any]:
        found = bed.api.get(place(CLUSTER_API, name)).get("status", {})
        return found.get("replicas"), found.get("readyReplicas")

    wait("counts are mirrored", look, lambda now: now == (replicas, ready))


def resize(
    bed: Bed, user: str, name: str, size: int, which: machine_apis.MachineApi = CLUSTER_API, version: str = ""
) -> Object:
    path = f"{place(which, name, version)}?fieldManager={user.rpartition(':')[2]}"
    return bed.api.acting_as(user).merge(path, {"spec": {"replicas": size}})


def scale(
    bed: Bed, user: str, name: str, size: int, which: machine_apis.MachineApi = CLUSTER_API, version: str = ""
) -> Object:
    path = f"{place(which, name, version)}/scale?fieldManager={user.rpartition(':')[2]}"
    return bed.api.acting_as(user).merge(path, {"spec": {"replicas": size}})


def refusal(act: Callable[..., Any], *given: Any, **more: Any) -> str:
    """What something is refused for; empty if it is not."""
    try:
        act(*given, **more)
    except api.Refused as refused:
        return str(json.loads(refused.body).get("message"))
    return ""


def wait(what: str, look: Callable[[], Any], until: Callable[[Any], object], poll_s: float = 0.1) -> Any:
    return api.wait_for(what, look, until, WITHIN_S, poll_s)


def wait_allowed(what: str, act: Callable[[], Any]) -> None:
    """Do something as soon as no policy is against it: policies hear of who holds by a watch of their own."""
    wait(f"{what} is allowed", lambda: refusal(act), lambda text: text == "")


def resize_unlocked(bed: Bed, user: str, name: str, size: int, which: machine_apis.MachineApi) -> None:
    wait_allowed(f"a size of {name}", lambda: resize(bed, user, name, size, which))


def sizes(bed: Bed, name: str) -> tuple[int | None, int | None]:
    found = [
        (bed.api.find(place(which, name)) or {}).get("spec", {}).get("replicas") for which in machine_apis.MACHINE_APIS
    ]
    return found[0], found[1]


def wait_sizes(bed: Bed, name: str, size: int, poll_s: float = 0.1) -> None:
    wait(f"{name} has {size} on both sides", lambda: sizes(bed, name), lambda now: now == (size, size), poll_s)


def held(bed: Bed, name: str) -> tuple[str, str, bool, str]:
    """(authority, status of Synchronized, is the generation recorded, what is said of it)."""
    ours, theirs = [bed.api.find(place(which, name)) or {} for which in machine_apis.MACHINE_APIS]
    status = ours.get("status", {})
    by = status.get("authoritativeAPI", "")
    holder = ours if by == "MachineAPI" else theirs
    said = unstructured.find_condition(status.get("conditions"), model.SYNCHRONIZED) or {}
    recorded = status.get("synchronizedGeneration") == holder.get("metadata", {}).get("generation")
    return by, said.get("status", ""), recorded, said.get("message", "")


def wait_held(bed: Bed, name: str, by: str) -> None:
    wait(f"{name} is held by {by}", lambda: held(bed, name), lambda now: now[:3] == (by, "True", True))


def marks(bed: Bed, name: str) -> list[bool]:
    """Whether sizes are marked, on both sides."""
    found = [
        unstructured.find_field_owners(bed.api.get(place(which, name)), ("spec", "replicas"))
        for which in machine_apis.MACHINE_APIS
    ]
    return [any((o.manager, o.operation) == (model.MANAGER, "Apply") for o in owners) for owners in found]


def wait_marked(bed: Bed, name: str) -> None:
    """Everything that was written is known: what comes next is news."""
    wait(f"{name} is marked on both sides", lambda: marks(bed, name), all)
