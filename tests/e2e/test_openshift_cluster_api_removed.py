"""MachineSet sync while Cluster API is removed from a server, and comes back in another version.

A definition that is deleted takes its objects along: every mirror is deleted, though nobody has asked for a MachineSet
to go. Machine API's MachineSets, whose Machines run the workload, have to stay.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import api, fixtures, modules, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.openshift import real_objects
from tests.e2e import openshift_cluster, operator_process
from tests.e2e.machine_set_writers import (
    AUTOSCALER,
    CLUSTER_API,
    DEFINITIONS,
    SETS,
    cluster_api_definitions,
    put_definitions,
    remove_definitions,
    write,
)
from tests.e2e.polling import wait_for

pytestmark = real_objects.needed

NAME = "demo-4k7vx-worker-us-east-1a"
CLUSTER = "demo-4k7vx"
KINDS = ("clusters", "machines", "machinesets")


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """OpenShift with its gates for Cluster API on, and nothing of Cluster API but what a test defines."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice()) as found:
        try:
            openshift.install(found.api)
        except modules.Missing as missing:
            pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
        openshift.add_all(found.api, openshift_cluster.DEPLOY / "rbac" / "machineset-sync.yaml")
        for path in sorted((openshift_cluster.DEPLOY / "policies").glob("*.yaml")):
            openshift.add_all(found.api, path)
        yield found


@pytest.fixture
def operator(bed: Bed, tmp_path: Path) -> Iterator[Path]:
    """MachineSet sync with its own rights; its log."""
    flags = ("--no-leader-elect", f"--machineset-sync-cluster={CLUSTER}")
    with operator_process.operating(bed, tmp_path, "machineset_sync", CLUSTER_API, "capi-controllers", *flags):
        yield tmp_path / "capi-controllers.log"


def serve(bed: Bed, *versions: str) -> list[Object]:
    """Cluster API in these versions, with the Cluster of MachineSets; its definitions."""
    bodies = cluster_api_definitions(*versions, kinds=KINDS)
    put_definitions(bed, bodies)
    spec: Object = {"infrastructureRef": {"kind": "AWSCluster", "name": CLUSTER}}
    group = "infrastructure.cluster.x-k8s.io"
    reference = {"apiGroup": group} if versions[0] == "v1beta2" else {"apiVersion": f"{group}/v1beta2"}
    spec["infrastructureRef"] |= reference
    bed.api.add(objects.made(f"cluster.x-k8s.io/{versions[0]}", "Cluster", CLUSTER, CLUSTER_API, spec))
    return bodies


def mirror(version: str) -> str:
    return f"/apis/cluster.x-k8s.io/{version}/namespaces/{CLUSTER_API}/machinesets/{NAME}"


def wait_scaled(bed: Bed, version: str, size: int) -> None:
    """Scale as the autoscaler does; Machine API follows."""
    path = f"{mirror(version)}/scale?fieldManager=cluster-autoscaler"

    def attempt() -> bool:
        try:
            bed.api.acting_as(AUTOSCALER).merge(path, {"spec": {"replicas": size}})
        except api.Refused as refused:
            return "same as current value" in refused.body
        return True

    wait_for("the mirror is scaled", attempt)
    wait_for("Machine API follows", lambda: bed.api.get(f"{SETS}/{NAME}")["spec"]["replicas"], lambda n: n == size)


def add_set(bed: Bed) -> str:
    """A MachineSet that Machine API holds; its uid."""
    body = real_objects.read("machinesets/aws/worker.yaml")
    assert body["metadata"]["name"] == NAME
    body["spec"] |= {"authoritativeAPI": "MachineAPI", "replicas": 1}
    uid: str = bed.api.add(body)["metadata"]["uid"]
    bed.api.merge(f"{SETS}/{NAME}/status", {"status": {"authoritativeAPI": "MachineAPI"}})
    return uid


def test_machine_api_stays_when_cluster_api_is_removed_and_its_next_version_is_followed(
    bed: Bed, operator: Path
) -> None:
    definitions = serve(bed, "v1beta2")
    uid = add_set(bed)
    wait_for("it is mirrored", lambda: bed.api.find(mirror("v1beta2")))
    wait_scaled(bed, "v1beta2", 3)
    remove_definitions(bed, definitions)
    there = bed.api.get(f"{SETS}/{NAME}")
    assert there["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in there["metadata"], "its Machines would go with it"
    assert there["spec"]["replicas"] == 3
    assert list(write(bed, "kubernetes-admin")) == []
    serve(bed, "v1beta1")
    wait_for("it is mirrored again", lambda: bed.api.find(mirror("v1beta1")))
    wait_scaled(bed, "v1beta1", 2)
    for body in definitions:
        assert bed.api.find(f"{DEFINITIONS}/{body['metadata']['name']}") is not None
