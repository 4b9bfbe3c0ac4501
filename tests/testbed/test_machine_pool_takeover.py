"""A Cluster with MachinePools is deleted to the end, whoever looks after the pools: Cluster API's controller or ours.

Its providers are as real ones are: kubeadm's control plane waits for workers and pools, and a network goes only when
no instance is left in it.
"""

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import api, fixtures, objects, openshift, sharing
from testbed.bed import Bed
from tests.conformance import machinepool_bed
from tests.controllers.machine_pool import management_cluster
from tests.e2e import operator_process

_CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"
_POOLS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools"
_INFRASTRUCTURE = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default"
_CONTROL_PLANES = "controlplane.cluster.x-k8s.io"
_CONTROL_PLANE = f"/apis/{_CONTROL_PLANES}/v1beta2/namespaces/default/kubeadmcontrolplanes"
_WAITS = "example.test/waits"


def _add_cluster(bed: Bed, name: str) -> None:
    """A Cluster whose control plane and network wait for its pools and instances."""
    control_plane = objects.made(f"{_CONTROL_PLANES}/v1beta2", "KubeadmControlPlane", name, "default", {"replicas": 1})
    control_plane["metadata"]["finalizers"] = [_WAITS]
    bed.api.add(control_plane)
    initialized = {"initialization": {"controlPlaneInitialized": True}}
    bed.api.merge(f"{_CONTROL_PLANE}/{name}/status", {"status": initialized})
    for body in objects.cluster(name, bed.kubeconfig.read_bytes()):
        if body["kind"] == "FakeCluster":
            body["metadata"]["finalizers"] = [_WAITS]
        if body["kind"] == "Cluster":
            reference = {"apiGroup": _CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": name}
            body["spec"]["controlPlaneRef"] = reference
        if body["kind"] in ("Secret", "FakeCluster", "Cluster"):
            bed.api.add(body)
    for number in range(2):
        for body in objects.machine_pool(f"{name}-{number}", 2, cluster=name):
            bed.api.add(body)
    api.wait_for("its pools run", lambda: _phases(bed, name), lambda phases: phases == ["Running", "Running"])


def _phases(bed: Bed, name: str) -> list[str]:
    pools = (pool for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name)
    return [pool.get("status", {}).get("phase", "") for pool in pools]


def _let_go(bed: Bed, name: str) -> None:
    """What the two providers do at a look at their objects."""
    pools = [pool for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name]
    instances = [
        one for one in bed.api.items(f"{_INFRASTRUCTURE}/fakemachines") if one["metadata"]["name"].startswith(name)
    ]
    for path, are_left in ((_CONTROL_PLANE, pools), (f"{_INFRASTRUCTURE}/fakeclusters", instances)):
        found = bed.api.find(f"{path}/{name}")
        if found is not None and found["metadata"].get("deletionTimestamp") and not are_left:
            finalizers = [item for item in found["metadata"].get("finalizers", ()) if item != _WAITS]
            if finalizers != found["metadata"].get("finalizers", []):
                bed.api.merge(f"{path}/{name}", {"metadata": {"finalizers": finalizers or None}})


def _delete_cluster(bed: Bed, name: str) -> float:
    """The seconds until nothing of the Cluster is left, and pools that were left behind when it went."""
    began_s = time.monotonic()
    bed.api.delete(f"{_CLUSTERS}/{name}")

    def is_gone() -> bool:
        _let_go(bed, name)
        return bed.api.find(f"{_CLUSTERS}/{name}") is None

    api.wait_for(f"Cluster {name} is gone", is_gone)
    took_s = time.monotonic() - began_s
    assert [pool["metadata"]["name"] for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name] == []
    return took_s


@contextmanager
def _bed(*, ours: bool) -> Iterator[Bed]:
    if reason := fixtures.why_not():
        pytest.skip(reason)
    choice = dataclasses.replace(machinepool_bed.choose(ours=ours), capi_rate_limiting=True)  # as in production
    with sharing.alone(choice) as found:
        contract = {"cluster.x-k8s.io/v1beta2": "v1beta2"}
        openshift.define(
            found.api, management_cluster.definition(_CONTROL_PLANES, "KubeadmControlPlane", "v1beta2", contract)
        )
        yield found


def _delete_two(bed: Bed) -> float:
    """The faster of two deletions: other work on the machine slows single ones down."""
    for name in ("one", "two"):
        _add_cluster(bed, name)
    return min(_delete_cluster(bed, name) for name in ("one", "two"))


def test_a_cluster_with_pools_is_deleted_to_the_end_within_twice_the_time_of_cluster_api(tmp_path: Path) -> None:
    with _bed(ours=False) as theirs:
        their_s = _delete_two(theirs)
    with (
        _bed(ours=True) as ours,
        operator_process.run(ours.kubeconfig, tmp_path / "log", "machine_pool", "--no-leader-elect"),
    ):
        our_s = _delete_two(ours)
    print(f"deleted in {our_s:.1f} s, by Cluster API's own controller in {their_s:.1f} s")
    assert our_s <= 2.0 * their_s
