"""Installing on OpenShift, on a real API server: what the documents say to apply never locks Machine API.

Cluster API's kinds are absent at first, come in an old version, in the one that the policies refer to, and go again.
Meanwhile administrators and controllers write to MachineSets all the time.
"""

import contextlib
import copy
import functools
import itertools
import json
import threading
from collections.abc import Iterator

import pytest

from testbed import api, fixtures, manifests, modules, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e.polling import wait_for
from tests.install import rendered_manifests

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


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift as it is by default: Machine API without authority, and no kind of Cluster API."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift-install"), Choice()) as found:
        try:
            openshift.install(found.api, "Default")
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        found.kubectl("apply", "--server-side", "-f-", stdin=rendered_manifests.overlay("overlays/openshift"))
        _wait_policies(found)
        yield found


def _wait_policies(bed: Bed) -> None:
    """Until one that depends on nothing counts. All are compiled together, about a second after they were made."""
    add_set(bed, "probe")
    path = f"{SETS}/probe/scale?fieldManager=probe"
    scaled = bed.api.acting_as(AUTOSCALER)
    wait_for("policies count", lambda: _refusal(scaled, "PATCH", path, {"spec": {"replicas": 1}}), lambda text: text)


def _refusal(server: api.Api, method: str, path: str, body: Object | None = None) -> str:
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


_NUMBERS = itertools.count(1)


def write(bed: Bed, user: str) -> Iterator[str]:
    """What a user is refused for, of all that may be done with a MachineSet; each write changes something."""
    server, number = bed.api.acting_as(user), next(_NUMBERS)
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
        if text := _refusal(server, method, where, body):
            yield f"{user}: {method} {where}: {text}"


def scale(bed: Bed, user: str, name: str, size: int) -> str:
    return _refusal(bed.api.acting_as(user), "PATCH", f"{SETS}/{name}/scale", {"spec": {"replicas": size}})


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


@pytest.mark.parametrize("user", USERS)
def test_on_machine_api_alone_everybody_creates_updates_scales_and_deletes_machine_sets(bed: Bed, user: str) -> None:
    assert list(write(bed, user)) == []
    assert scale(bed, AUTOSCALER, "probe", next(_NUMBERS) + 100) == ""


def cluster_api_definitions(*served: str, url: str = "") -> list[Object]:
    """Cluster API's MachineSet and Machine, served in these versions, of which the first is stored.

    Converted by a webhook, if there is a URL.
    """
    found = [
        copy.deepcopy(item)
        for item in manifests.definitions(url or NOWHERE, "")
        if item["metadata"]["name"] in {"machinesets.cluster.x-k8s.io", "machines.cluster.x-k8s.io"}
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


def test_while_cluster_api_comes_in_any_version_and_goes_nothing_is_locked(bed: Bed) -> None:
    """But for the mirror of a MachineSet that Cluster API holds, for as long as that is there."""
    add_set(bed, "scaled")
    old, both, new = (
        cluster_api_definitions(*versions)
        for versions in (("v1beta1",), ("v1beta1", "v1beta2"), ("v1beta2", "v1beta1"))
    )
    sizes = itertools.count(10)

    def resize() -> str:
        return _refusal(bed.api.acting_as(ADMIN), "PATCH", f"{SETS}/held", {"spec": {"replicas": next(sizes)}})

    with writing(bed) as refusals:
        put_definitions(bed, old)
        put_definitions(bed, openshift.definitions())  # the gate is on: MachineSets have an authority from now on
        _go_on(bed)
        put_definitions(bed, both)
        _go_on(bed)
        put_definitions(bed, new)
        add_set(bed, "held", authoritativeAPI="ClusterAPI")
        add_twin(bed, "held")
        wait_for("the mirror is locked", resize, lambda text: "You may only modify spec.authoritativeAPI" in text)
        taken = bed.api.acting_as(ADMIN)
        wait_for(
            "its name is taken",
            lambda: _refusal(taken, "POST", SETS, machine_set("held")),
            lambda text: "a Cluster API MachineSet with the same name already exists" in text,
        )
        remove_definitions(bed, new)
        wait_for("the mirror is free again", resize, lambda text: text == "")
        bed.api.delete(f"{SETS}/held")
        _go_on(bed)
        assert _refusal(bed.api.acting_as(ADMIN), "POST", SETS, machine_set("held")) == ""
        _go_on(bed)
    assert refusals == []


def _go_on(bed: Bed) -> None:
    """Wait until all users have written again, several times."""
    seen = next(_NUMBERS)
    wait_for("everybody writes", lambda: next(_NUMBERS), lambda now: now > seen + 100)


def test_a_restarted_server_locks_nothing_while_cluster_api_does_not_answer(bed: Bed) -> None:
    """Objects of a kind whose conversion webhook is down cannot be listed: what depends on them must not count."""
    put_definitions(bed, cluster_api_definitions("v1beta1"))
    template: Object = {"clusterName": "work", "bootstrap": {}}
    template["infrastructureRef"] = {"kind": "AWSMachineTemplate", "name": "workers"}
    spec = {"clusterName": "work", "selector": {}, "template": {"spec": template}}
    metadata = {"name": "old", "namespace": CLUSTER_API}
    bed.api.add({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec})
    for body in cluster_api_definitions("v1beta1", "v1beta2", url=NOWHERE):
        put_definition(bed, body)
    wait_for("conversion fails", lambda: _refusal(bed.api, "GET", MIRRORS), lambda text: "conversion webhook" in text)
    bed.kill("kube-apiserver")
    bed.start("kube-apiserver")
    for user in USERS:
        assert list(write(bed, user)) == []
