"""Real MachineSets of five platforms end to end: the autoscaler scales their mirrors, and Machine API follows.

The MachineSets are from ../shared/upstream, under names of their own. The autoscaler, the two controllers, the
scheduler and Cluster API's manager are real, under the admission policies; Machine API is played.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import clusterapi, fixtures, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.openshift import real_objects
from tests.e2e import openshift_cluster, test_openshift
from tests.e2e.machine_api import MachineApi
from tests.e2e.openshift_cluster import CLUSTER, RELEASE
from tests.e2e.operator_process import operating
from tests.e2e.polling import wait_for
from tests.e2e.test_openshift import SIZE, autoscale, machines, nodes_of_pods, put_pods, wait_running
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import manifests
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model

pytestmark = real_objects.needed

FILES = (
    "aws/worker",
    "aws/windows",
    "aws/infra-tainted",
    "aws/edge-local-zone",
    "azure/worker",
    "azure/windows",
    "gcp/worker",
    "gcp/gpu-live",
    "openstack/worker",
    "vsphere/worker",
    "vsphere/vm-host-group",
)
ROLES = (
    "machineset-sync",
    "machine-autoscaler",
    "cluster-autoscaler",
    "cluster-autoscaler-machine-api",
    "cluster-autoscaler-provisioning-requests",
    "cluster-autoscaler-priority-expander",
)
SPEC: Object = {
    "logVerbosity": 4,
    "scaleDown": {"enabled": True, "delayAfterAdd": "0s", "delayAfterFailure": "1s", "unneededTime": "4s"},
}


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """OpenShift with its gates for Cluster API on, as far as autoscaling can tell."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice(scheduler=True, kwok=True, capi=True)) as found:
        openshift_cluster.install(found, ROLES, "autoscaling.x-k8s.io_provisioningrequests.yaml")
        clusterapi.add_cluster(found.api, found.kubeconfig, CLUSTER, CLUSTER_API.namespace)
        openshift_cluster.enforce(found)
        yield found


def machine_set(file: str) -> Object:
    """A real MachineSet with one machine, under a name of its own. Its nodes are told apart by their pool."""
    body = real_objects.read(f"machinesets/{file}.yaml")
    name = file.replace("/", "-")
    annotations = {**(body["metadata"].get("annotations") or {}), **test_openshift.advertise(name)}
    labels = body["metadata"].get("labels") or {}
    body["metadata"] = {"name": name, "namespace": MACHINE_API.namespace, "labels": labels, "annotations": annotations}
    spec = body["spec"]
    spec |= {"replicas": 1, "authoritativeAPI": "MachineAPI"}
    for selected in (spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
        selected[model.SET_LABEL] = name
    return {name: value for name, value in body.items() if name != "status"}


@contextlib.contextmanager
def lags(bed: Bed) -> Iterator[list[float]]:
    """How long the two sizes of a set differed, each time that they did, in seconds."""
    ended, found = threading.Event(), list[float]()
    since_s: dict[str, float] = {}

    def sizes(api: machine_apis.MachineApi) -> dict[str, int]:
        path = test_openshift.place(api, "").rstrip("/")
        return {item["metadata"]["name"]: item["spec"].get("replicas", 0) for item in bed.api.items(path)}

    def run() -> None:
        while not ended.wait(0.2):
            ours, theirs = sizes(MACHINE_API), sizes(CLUSTER_API)
            for name in ours.keys() & theirs.keys():
                if ours[name] != theirs[name]:
                    since_s.setdefault(name, time.monotonic())
                elif name in since_s:
                    found.append(time.monotonic() - since_s.pop(name))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def container() -> Object:
    """What the operator would run for this ClusterAutoscaler, looking more often."""
    settings = cluster_autoscaler.ClusterAutoscalerSettings(
        release_version=RELEASE, image="windlass", extra_args="--scan-interval=2s"
    )
    gates = machine_apis.FeatureGates("AWS", frozenset({openshift_cluster.GATE}))
    owner = cluster_autoscaler.ClusterAutoscaler("default", spec=SPEC)
    pod = manifests.build_deployment(owner, settings, gates)["spec"]["template"]["spec"]
    (found,) = pod["containers"]
    return dict(found)


def test_real_machine_sets_follow_their_mirrors_both_ways(
    bed: Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [file.replace("/", "-") for file in FILES]
    flag = "--no-leader-elect"
    sync = operating(bed, tmp_path, "machineset_sync", CLUSTER_API.namespace, "capi-controllers", flag)
    bounds = operating(bed, tmp_path, "machine_autoscaler", MACHINE_API.namespace, "machine-autoscaler", flag)
    with contextlib.ExitStack() as running:
        played = running.enter_context(MachineApi(bed, CLUSTER, SIZE))
        running.enter_context(sync)
        running.enter_context(bounds)
        for file in FILES:
            bed.api.add(machine_set(file))
        for name in names:
            autoscale(bed, name, "machine.openshift.io/v1beta1")
        made_of = {name: wait_mirrored(bed, name) for name in names}
        seen = running.enter_context(lags(bed))
        running.enter_context(test_openshift.autoscaling(bed, tmp_path, container()))
        for count in (3, 1):
            for name in names:
                put_pods(bed, name, count)
            for name in names:
                wait_running(bed, name, count)
                test_openshift.wait_sizes(bed, name, count, *machine_apis.MACHINE_APIS)
        for name in names:
            left = wait_for("one machine is left", functools.partial(machines, bed, name), lambda now: len(now) == 1)
            assert left == nodes_of_pods(bed, name), "the busy one stays"
            found = bed.api.get(test_openshift.place(MACHINE_API, name))
            assert found["spec"]["template"]["spec"]["providerSpec"] == made_of[name]
    assert len(played.removed) == 2 * len(names)
    assert played.unmarked == [], "each that went was marked before"
    with capsys.disabled():
        print(f"\n{len(names)} MachineSets; Machine API followed within {max(seen):.1f} s, {len(seen)} times")


def wait_mirrored(bed: Bed, name: str) -> Object:
    """Until there is a paused mirror with bounds; what the MachineSet is made of."""

    def look() -> bool:
        found = (bed.api.find(test_openshift.place(CLUSTER_API, name)) or {}).get("metadata", {}).get("annotations", {})
        return machine_apis.PAUSED_ANNOTATION in found and found.get(CLUSTER_API.max_size) == "4"

    wait_for(f"{name} is mirrored", look)
    made_of: Object = bed.api.get(test_openshift.place(MACHINE_API, name))["spec"]["template"]["spec"]["providerSpec"]
    return made_of
