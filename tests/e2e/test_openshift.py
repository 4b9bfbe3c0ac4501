"""OpenShift end to end: someone names a MachineSet, pods wait, and the real autoscaler has machines made for them.

The real autoscaler, operator, scheduler and Cluster API, each as its own ServiceAccount, under the admission policies.
Machine API's controllers are played (`machine_api`).
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import clusterapi, fixtures, objects, openshift, parts, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e.live import FLAGS, Live
from tests.e2e.machine_api import MachineApi
from tests.e2e.waiting import wait_for
from windlass.controllers.openshift import apis, names
from windlass.controllers.openshift.apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import names as sync_names

DEPLOY = Path(__file__).parents[2] / "deploy"
CLUSTER = "work"
SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
GATE = "ClusterAPIMachineManagementAWS"
CONFIG = "/apis/config.openshift.io/v1"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """OpenShift, as far as autoscaling can tell."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.shared(tmp_path_factory.mktemp("openshift"), Choice(scheduler=True, kwok=True, capi=True)) as found:
        try:
            openshift.install(found.api)
            for body in openshift.config_definitions():
                openshift.define(found.api, body)
        except openshift.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        for path in sorted((DEPLOY / "crds").glob("autoscaling.openshift.io_*.yaml")):
            openshift.define(found.api, yaml.safe_load(path.read_text()))
        clusterapi.add_cluster(found.api, found.kubeconfig, CLUSTER, CLUSTER_API.namespace)
        for name in ("machineset-sync", "machine-autoscaler", "cluster-autoscaler"):
            openshift.add_all(found.api, DEPLOY / "rbac" / f"{name}.yaml")
        for path in sorted((DEPLOY / "policies").glob("*.yaml")):
            openshift.add_all(found.api, path)
        _turn_on(found)
        yield found


def _turn_on(bed: Bed) -> None:
    head = {"apiVersion": "config.openshift.io/v1", "metadata": {"name": "cluster"}}
    bed.api.add({**head, "kind": "Infrastructure", "spec": {"platformSpec": {"type": "AWS"}}})
    platform = {"platform": "AWS", "platformStatus": {"type": "AWS"}, "infrastructureName": CLUSTER}
    topology = {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable"}
    addresses = {"apiServerURL": "", "apiServerInternalURI": "", "etcdDiscoveryDomain": ""}
    bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": {**platform, **topology, **addresses}})
    bed.api.add({**head, "kind": "FeatureGate", "spec": {}})
    listed = [{"version": "4.21.0", "enabled": [{"name": GATE}], "disabled": []}]
    bed.api.merge(f"{CONFIG}/featuregates/cluster/status", {"status": {"featureGates": listed}})


@contextlib.contextmanager
def operating(bed: Bed, directory: Path, controllers: str, namespace: str, account: str) -> Iterator[None]:
    token = openshift.token(bed.api, namespace, account)
    kubeconfig = openshift.write_kubeconfig(directory / f"{controllers}.kubeconfig", bed.kubeconfig, token)
    command = [sys.executable, "-m", "windlass.cli", "operator", "--controllers", controllers, "--metrics-address", ""]
    command += ["--kubeconfig", str(kubeconfig), "--no-leader-elect"]
    log = directory / f"{controllers}.log"
    with log.open("w") as lines:
        process = subprocess.Popen(command, stderr=lines, env={**os.environ, **parts.IMPORTABLE})
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
        print(log.read_text()[-6000:])
    assert code == 0
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def machine_api(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineApi]:
    """Everyone at work: both controllers, the autoscaler, and Machine API."""
    directory = tmp_path_factory.mktemp("at-work")
    token = openshift.token(bed.api, MACHINE_API.namespace, "cluster-autoscaler")
    kubeconfig = openshift.write_kubeconfig(directory / "autoscaler.kubeconfig", bed.kubeconfig, token)
    flags = [*FLAGS, f"--node-group-auto-discovery=clusterapi:namespace={CLUSTER_API.namespace}"]
    flags += [f"--namespace={MACHINE_API.namespace}", "--scale-down-unneeded-time=4s"]
    autoscaler = Live(kubeconfig, directory / "autoscaler.log", flags)
    with contextlib.ExitStack() as work:
        patch = work.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("CAPI_MIRRORED_NAMESPACE", MACHINE_API.namespace)
        work.enter_context(operating(bed, directory, "machineset_sync", CLUSTER_API.namespace, "capi-controllers"))
        work.enter_context(operating(bed, directory, "machine_autoscaler", MACHINE_API.namespace, "machine-autoscaler"))
        played = work.enter_context(MachineApi(bed, CLUSTER, SIZE))
        autoscaler.start()
        yield played
        assert autoscaler.stop() == 0
        print(autoscaler.log.read_text()[-6000:])


def place(which: apis.Api, name: str) -> str:
    resource = which.machine_sets()
    return f"/apis/{resource.api_version}/namespaces/{which.namespace}/machinesets/{name}"


def add_template(bed: Bed, name: str) -> None:
    node = {"capacity": SIZE, "labels": {"pool": name}}
    bed.api.add(objects.machine_deployment(name, 0, namespace=CLUSTER_API.namespace, node=node)[0])


def add_machine_api_set(bed: Bed, name: str, wanted: str) -> None:
    add_template(bed, name)
    labels = {sync_names.SET_LABEL: name}
    value = {
        "apiVersion": objects.INFRASTRUCTURE,
        "kind": "FakeMachineTemplate",
        "metadata": {"name": name},
        "userDataSecret": {"name": f"{CLUSTER}-bootstrap"},
    }
    template = {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": value}}}
    selector = {"matchLabels": labels}
    spec = {"replicas": 1, "authoritativeAPI": wanted, "selector": selector, "template": template}
    bed.api.add(objects.made("machine.openshift.io/v1beta1", "MachineSet", name, MACHINE_API.namespace, spec))


def add_cluster_api_set(bed: Bed, name: str) -> None:
    add_template(bed, name)
    labels = {sync_names.SET_LABEL: name}
    reference = {"apiGroup": objects.INFRASTRUCTURE.partition("/")[0], "kind": "FakeMachineTemplate", "name": name}
    machine = {
        "clusterName": CLUSTER,
        "bootstrap": {"dataSecretName": f"{CLUSTER}-bootstrap"},
        "infrastructureRef": reference,
    }
    spec = {"clusterName": CLUSTER, "replicas": 1, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": machine}
    bed.api.add(objects.made(objects.CLUSTER_API, "MachineSet", name, CLUSTER_API.namespace, spec))


def autoscale(bed: Bed, name: str, version: str) -> None:
    target = {"apiVersion": version, "kind": "MachineSet", "name": name}
    spec = {"minReplicas": 1, "maxReplicas": 4, "scaleTargetRef": target}
    version = "autoscaling.openshift.io/v1beta1"
    bed.api.add(objects.made(version, "MachineAutoscaler", name, MACHINE_API.namespace, spec))
    path = f"/apis/{version}/namespaces/{MACHINE_API.namespace}/machineautoscalers/{name}"
    wait_for("it is ready", lambda: bed.api.get(path), lambda found: clusterapi.has_condition(found, "Ready"))


def put_pods(bed: Bed, name: str, count: int) -> None:
    """Of three cores each, so that each needs a node of its own, in the pool of that name."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    if bed.api.find(path) is not None:
        bed.api.merge(path, {"spec": {"replicas": count}})
        return
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    pod: Object = {"containers": [container], "nodeSelector": {"pool": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", name, "default", spec))


def wait_running(bed: Bed, name: str, count: int) -> None:
    def look() -> int:
        pods = bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={name}")
        return sum(pod["status"]["phase"] == "Running" for pod in pods)

    wait_for(f"{count} pods of {name} run", look, lambda now: now == count, 150.0)


def wait_sizes(bed: Bed, name: str, size: int, *which: apis.Api) -> None:
    def look() -> list[int]:
        return [bed.api.get(place(each, name))["spec"]["replicas"] for each in which]

    wait_for(f"{name} has {size}", look, lambda now: set(now) == {size}, 150.0)


ALONE, HELD, MIRRORED = "scaling-set-1", "held", "mirrored"
"""In Cluster API alone; held by Machine API; held by Cluster API, with a mirror in Machine API."""


@pytest.fixture(scope="module")
def crowd(bed: Bed, machine_api: MachineApi) -> MachineApi:
    """An administrator's MachineSets and MachineAutoscalers, all at once, and pods that wait for nodes of each."""
    add_cluster_api_set(bed, ALONE)
    add_machine_api_set(bed, HELD, "MachineAPI")
    add_machine_api_set(bed, MIRRORED, "ClusterAPI")
    autoscale(bed, ALONE, "cluster.x-k8s.io/v1beta2")
    autoscale(bed, HELD, "machine.openshift.io/v1beta1")
    autoscale(bed, MIRRORED, "machine.openshift.io/v1beta1")
    for name in (ALONE, HELD, MIRRORED):
        put_pods(bed, name, 3)
    return machine_api


def test_a_machine_set_of_cluster_api_alone_grows(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, ALONE, 3)
    wait_sizes(bed, ALONE, 3, CLUSTER_API)


def test_where_machine_api_holds_it_follows_the_mirror_that_the_autoscaler_scales(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, HELD, 3)
    wait_sizes(bed, HELD, 3, *apis.BOTH)
    assert names.PAUSED_ANNOTATION in bed.api.get(place(CLUSTER_API, HELD))["metadata"]["annotations"]
    assert len(machines(bed, HELD)) == 3


def test_where_cluster_api_holds_machine_api_follows(bed: Bed, crowd: MachineApi) -> None:
    wait_running(bed, MIRRORED, 3)
    wait_sizes(bed, MIRRORED, 3, *apis.BOTH)
    assert names.PAUSED_ANNOTATION not in bed.api.get(place(CLUSTER_API, MIRRORED))["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
def few(bed: Bed, crowd: MachineApi) -> MachineApi:
    """One pod of each is left."""
    for name in (ALONE, HELD, MIRRORED):
        put_pods(bed, name, 1)
    return crowd


def test_a_machine_set_of_cluster_api_alone_shrinks(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, ALONE, 1, CLUSTER_API)
    wait_running(bed, ALONE, 1)


def test_where_machine_api_holds_the_marked_machines_go_and_the_busy_one_stays(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, HELD, 1, *apis.BOTH)
    left = wait_for("one machine is left", lambda: machines(bed, HELD), lambda now: len(now) == 1, 150.0)
    assert left == nodes_of_pods(bed, HELD), few.removed
    assert len(few.removed) == 2


def test_where_cluster_api_holds_both_shrink_and_the_busy_machine_stays(bed: Bed, few: MachineApi) -> None:
    wait_sizes(bed, MIRRORED, 1, *apis.BOTH)
    pool = functools.partial(bed.api.items, "/api/v1/nodes", labelSelector=f"pool={MIRRORED}")
    (node,) = wait_for("one node is left", pool, lambda now: len(now) == 1, 150.0)
    assert [node["metadata"]["name"]] == nodes_of_pods(bed, MIRRORED)


def machines(bed: Bed, name: str) -> list[str]:
    found = bed.api.items(MachineApi.machines(), labelSelector=f"{sync_names.SET_LABEL}={name}")
    return [each["metadata"]["name"] for each in found]


def nodes_of_pods(bed: Bed, name: str) -> list[str]:
    pods = bed.api.items("/api/v1/namespaces/default/pods", labelSelector=f"app={name}")
    return [pod["spec"]["nodeName"] for pod in pods if not pod["metadata"].get("deletionTimestamp")]
