"""Writing to MachineSets on a real API server while Cluster API's kinds come and go: who is refused what.

Administrators, and the accounts that OpenShift's own policies do not concern, create, update, scale and delete.
"""

import contextlib
import copy
import functools
import itertools
import json
import threading
from collections.abc import Collection, Iterator

from testbed import api, manifests, openshift
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e.polling import wait_for

MACHINE_API, CLUSTER_API = openshift.NAMESPACES
SETS = f"/apis/machine.openshift.io/v1beta1/namespaces/{MACHINE_API}/machinesets"
MIRRORS = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{CLUSTER_API}/machinesets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMIN = "kubernetes-admin"
EXEMPT = tuple(
    f"system:serviceaccount:{account}"
    for account in (f"{MACHINE_API}:machine-api-controllers", f"{CLUSTER_API}:capi-controllers")
)
"""The accounts that OpenShift's own policies do not concern."""
USERS = (ADMIN, *EXEMPT, f"system:serviceaccount:{MACHINE_API}:cluster-autoscaler-operator")
AUTOSCALER = f"system:serviceaccount:{MACHINE_API}:cluster-autoscaler"
NOWHERE = "https://127.0.0.1:1"


def refusal(server: api.Api, method: str, path: str, body: Object | None = None) -> str:
    """What a request is refused for; empty if it is not."""
    try:
        server.call(method, path, body, api.MERGE if method == "PATCH" else "application/json")
    except api.Refused as refused:
        return str(json.loads(refused.body).get("message"))
    return ""


def machine_set(name: str, **spec: object) -> Object:
    labels = {"machine.openshift.io/cluster-api-machineset": name}
    provider = {"value": {"kind": "AWSMachineProviderConfig"}}
    template = {"metadata": {"labels": labels}, "spec": {"providerSpec": provider}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template, **spec}
    metadata = {"name": name, "namespace": MACHINE_API}
    return {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec}


def add_set(bed: Bed, name: str, **spec: object) -> None:
    bed.api.add(machine_set(name, **spec))


NUMBERS = itertools.count(1)


def write(bed: Bed, user: str) -> Iterator[str]:
    """What a user is refused for, of all that may be done with a MachineSet; each write changes something."""
    server, number = bed.api.acting_as(user), next(NUMBERS)
    name = f"set-{number}"
    path = f"{SETS}/{name}"
    annotated = {"metadata": {"annotations": {"machine.openshift.io/vCPU": str(number)}}}
    labelled = {"metadata": {"labels": {"machine.openshift.io/zone": str(number)}}}
    paths: tuple[tuple[str, str, Object | None], ...] = (
        ("POST", SETS, machine_set(name)),
        ("PATCH", path, annotated),
        ("PATCH", path, labelled),
        ("PATCH", path, {"spec": {"replicas": 2, "deletePolicy": "Oldest"}}),
        ("PATCH", f"{path}/scale", {"spec": {"replicas": 3}}),
        ("DELETE", path, None),
    )
    for method, where, body in paths:
        if text := refusal(server, method, where, body):
            yield f"{user}: {method} {where}: {text}"


def scale(bed: Bed, user: str, name: str, size: int) -> str:
    return refusal(bed.api.acting_as(user), "PATCH", f"{SETS}/{name}/scale", {"spec": {"replicas": size}})


@contextlib.contextmanager
def writing(bed: Bed) -> Iterator[list[str]]:
    """All users write without pause, and the autoscaler scales; what any of them is refused for."""
    refusals: list[str] = []
    ended = threading.Event()

    def run(user: str) -> None:
        sizes = itertools.cycle((4, 5))
        while not ended.wait(0.05):
            refusals.extend(write(bed, user))
            if user == ADMIN and (text := scale(bed, AUTOSCALER, "scaled", next(sizes))):
                refusals.append(f"{AUTOSCALER}: {text}")

    threads = [threading.Thread(target=run, args=(user,)) for user in USERS]
    for thread in threads:
        thread.start()
    try:
        yield refusals
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def cluster_api_definitions(
    *served: str, url: str = "", kinds: Collection[str] = ("machinesets", "machines")
) -> list[Object]:
    """Cluster API's MachineSet and Machine, served in these versions, of which the first is stored.

    Converted by a webhook, if there is a URL.
    """
    found = [
        copy.deepcopy(item)
        for item in manifests.definitions(url or NOWHERE, "")
        if item["metadata"]["name"] in {f"{kind}.cluster.x-k8s.io" for kind in kinds}
    ]
    for body in found:
        if not url:
            body["spec"]["conversion"] = {"strategy": "None"}
        body["spec"]["versions"] = [item for item in body["spec"]["versions"] if item["name"] in served]
        for version in body["spec"]["versions"]:
            version["served"], version["storage"] = True, version["name"] == served[0]
    return found


def put_definitions(bed: Bed, bodies: list[Object]) -> None:
    """Make them what they are to be, whatever they are now."""
    for body in bodies:
        put_definition(bed, body)
        for version in body["spec"]["versions"]:
            plural = f"{body['spec']['group']}/{version['name']}/{body['spec']['names']['plural']}"
            openshift.wait_served(bed.api, f"/apis/{plural}")


def put_definition(bed: Bed, body: Object) -> None:
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    there = bed.api.find(path)
    if there is None:
        openshift.define(bed.api, body)
    else:
        metadata = {**body["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
        bed.api.call("PUT", path, {**body, "metadata": metadata})


def remove_definitions(bed: Bed, bodies: list[Object]) -> None:
    for body in bodies:
        path = f"{DEFINITIONS}/{body['metadata']['name']}"
        bed.api.delete(path)
        wait_for(f"{path} is gone", functools.partial(bed.api.find, path), lambda there: there is None)


def add_twin(bed: Bed, name: str) -> None:
    """A MachineSet that Cluster API holds, as its own controllers make the pair."""
    template = {"clusterName": "work", "bootstrap": {"dataSecretName": "worker-user-data"}}
    template["infrastructureRef"] = {
        "apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "AWSMachineTemplate",
        "name": "workers",
    }
    labels = {"set": name}
    spec = {"clusterName": "work", "replicas": 1, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": template}
    metadata = {"name": name, "namespace": CLUSTER_API}
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "metadata": metadata, "spec": spec}
    bed.api.acting_as(EXEMPT[1]).add(body)
    bed.api.merge(f"{SETS}/{name}/status", {"status": {"authoritativeAPI": "ClusterAPI"}})


def resume(bed: Bed) -> None:
    """Wait until all users have written again, several times."""
    seen = next(NUMBERS)
    wait_for("everybody writes", lambda: next(NUMBERS), lambda now: now > seen + 100)
