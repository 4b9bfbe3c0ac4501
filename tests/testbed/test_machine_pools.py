"""`windlass operator` as a process, looking after MachinePools on the real control plane."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import api, clusterapi, fixtures, objects, parts, sharing
from testbed.bed import Bed
from tests import read_only
from tests.conformance import machinepool_bed
from tests.controllers.machine_pool import management_cluster
from tests.e2e import autoscaler_process, operator_process
from tests.e2e.gateway import Gateway

POOLS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/windlass-operator"


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """A control plane whose Cluster API does not look after MachinePools, with a Cluster `work`."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(machinepool_bed.choose(ours=True)) as found:
        clusterapi.add_cluster(found.api, found.site.kubeconfig("admin-by-certificate"))
        yield found


@pytest.fixture(scope="module")
def operator(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The operator, and its log. It and its workload cluster are known by client certificates; it can write nowhere."""
    log = tmp_path_factory.mktemp("operator") / "log"
    kubeconfig = str(bed.site.kubeconfig("admin-by-certificate"))
    port = autoscaler_process.free_port()
    flags = ["--kubeconfig", kubeconfig, "--controllers", "machine_pool", "--metrics-address", f"127.0.0.1:{port}"]
    flags += ["--machine-pool-allow-insecure-kubeconfigs"]  # the bed is on a loopback address
    with log.open("w") as lines:
        command = [sys.executable, "-m", "windlass", "operator", *flags]
        words = read_only.wrap_if_possible(command)
        process = subprocess.Popen(words, stderr=lines, env={**os.environ, **parts.IMPORTABLE})
    yield log
    api.wait_for("its metrics", lambda: autoscaler_process.scrape(port))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert bed.api.get(LEASE)["spec"]["holderIdentity"] == "", "the lease is released"


class Pool:
    """A MachinePool with the fake infrastructure under it: its Nodes are KWOK's."""

    def __init__(self, server: api.Api, name: str, replicas: int) -> None:
        self.server, self.name = server, name
        self.path = f"{POOLS}/{name}"
        for body in objects.machine_pool(name, replicas):
            server.add(body)

    def wait(self, phase: str, replicas: int) -> dict[str, Any]:
        def probe() -> tuple[str, int, int]:
            status = (self.server.find(self.path) or {}).get("status", {})
            ready = status.get("deprecated", {}).get("v1beta1", {}).get("readyReplicas", 0)
            return status.get("phase", ""), ready, len(status.get("nodeRefs", ()))

        wanted = (phase, replicas, replicas)
        api.wait_for(f"{self.name}: {wanted}", probe, lambda seen: seen == wanted)
        return self.server.get(self.path)

    def scale(self, replicas: int) -> None:
        self.server.merge(f"{self.path}/scale", {"spec": {"replicas": replicas}})

    def nodes(self) -> list[str]:
        return [
            name
            for node in self.server.items("/api/v1/nodes")
            if (name := node["metadata"]["name"]).startswith(self.name)
        ]


def test_pools_that_wait_for_another_to_be_reconciled_are_counted(bed: Bed, tmp_path: Path) -> None:
    """Before the other tests: their operator leads until the last of them has ended."""
    pools = [Pool(bed.api, f"mp-waits-{number}", 1) for number in range(3)]
    is_held, may_go_on, port = threading.Event(), threading.Event(), autoscaler_process.free_port()

    def hold() -> None:
        is_held.set()
        may_go_on.wait(60)

    def count_waiting() -> float:
        return autoscaler_process.scrape(port).get('windlass_controller_queue_depth{controller="machine_pool"}', 0.0)

    with Gateway(bed.site.server, str(bed.site.files.ca)) as gateway:
        kubeconfig = autoscaler_process.write_kubeconfig(tmp_path / "kubeconfig", bed.kubeconfig, gateway.port)
        gateway.trap("PATCH", "/machinepools/mp-waits-", hold)
        given = ("machine_pool", "--concurrency", "1")
        with operator_process.run(kubeconfig, tmp_path / "log", *given, metrics_address=f"127.0.0.1:{port}"):
            api.wait_for("one is being reconciled", is_held.is_set, bool)
            api.wait_for("the others wait", count_waiting, lambda now: now >= 2.0)
            may_go_on.set()
            for pool in pools:
                pool.wait("Running", 1)
            api.wait_for("none waits", count_waiting, lambda now: now == 0.0)
            for pool in pools:
                bed.api.delete(pool.path)
            api.wait_for("they are gone", lambda: [bed.api.find(one.path) for one in pools], lambda now: not any(now))


def _is_observed(found: dict[str, Any]) -> bool:
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


def test_a_pool_lives_from_its_creation_over_scaling_to_its_deletion(bed: Bed, operator: Path) -> None:
    pool = Pool(bed.api, "mp-life", 2)
    found = pool.wait("Running", 2)
    assert found["metadata"]["finalizers"] == ["machinepool.cluster.x-k8s.io"]
    assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["Cluster"]
    api.wait_for("all is observed", lambda: bed.api.get(pool.path), _is_observed)
    # Annotated before the pool says that it runs; but who is overtaken there tries again later.
    name = pool.nodes()[0]
    owner = "cluster.x-k8s.io/owner-name"
    api.wait_for(
        f"{name} is annotated",
        lambda: bed.api.get(f"/api/v1/nodes/{name}")["metadata"].get("annotations", {}).get(owner),
        lambda seen: seen == "mp-life",
    )

    pool.scale(4)
    pool.wait("Running", 4)
    pool.scale(1)
    pool.wait("Running", 1)
    api.wait_for("one node is left", pool.nodes, lambda names: len(names) == 1)

    old = bed.api.get(pool.path.replace("v1beta2", "v1beta1"))
    assert (old["status"]["readyReplicas"], old["status"]["bootstrapReady"]) == (1, True)

    bed.api.delete(pool.path)
    api.wait_for("the pool is gone", lambda: bed.api.find(pool.path), lambda seen: seen is None)
    api.wait_for("its nodes are gone", pool.nodes, lambda names: not names)


def test_a_pool_with_machines_has_one_for_each_replica(bed: Bed, operator: Path) -> None:
    for body in objects.machine_pool("mp-machines", 2, machines=True):
        bed.api.add(body)
    path = f"{POOLS}/mp-machines"

    def counts() -> tuple[int, ...]:
        status = bed.api.get(path).get("status", {})
        return tuple(status.get(f"{word}Replicas", 0) for word in ("ready", "available", "upToDate"))

    api.wait_for("both are counted", counts, lambda seen: seen == (2, 2, 2))
    bed.api.merge(f"{path}/scale", {"spec": {"replicas": 1}})
    api.wait_for("one is counted", counts, lambda seen: seen == (1, 1, 1))
    bed.api.delete(path)
    api.wait_for("the pool is gone", lambda: bed.api.find(path), lambda seen: seen is None)


def _infrastructure(name: str, ids: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    body = {
        "apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1",
        "kind": "NewPool",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"providerIDList": ids},
    }
    return body, {"status": {"ready": True, "replicas": len(ids)}}


def _pool(name: str, replicas: int, cluster: str, annotations: dict[str, str]) -> dict[str, Any]:
    reference = {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "NewPool", "name": name}
    machine = {"clusterName": cluster, "bootstrap": {"dataSecretName": "own"}, "infrastructureRef": reference}
    spec = {"clusterName": cluster, "replicas": replicas, "template": {"spec": machine}}
    return objects.made("cluster.x-k8s.io/v1beta2", "MachinePool", name, "default", spec, annotations=annotations)


def _add_node(server: api.Api, name: str) -> None:
    body = management_cluster.node(name)
    server.add(management_cluster.without_status(body))
    server.merge(f"/api/v1/nodes/{name}/status", {"status": body["status"]})


@pytest.fixture(scope="module")
def kind(bed: Bed) -> str:
    """A kind of infrastructure that only tests write: the path of its objects."""
    body = management_cluster.definition(
        management_cluster.INFRASTRUCTURE, "NewPool", "v1beta1", {"cluster.x-k8s.io/v1beta2": "v1beta1"}
    )
    if bed.api.find(f"{api.path_of(body)}/{body['metadata']['name']}") is None:
        bed.api.add(body)
    path = f"/apis/{management_cluster.INFRASTRUCTURE}/v1beta1/namespaces/default/newpools"

    def is_served() -> bool:
        try:
            return bed.api.find(path) is not None
        except api.Refused:
            return False  # a new kind may answer with 429 for its first second

    api.wait_for("NewPools are served", is_served)
    return path


def _phase(bed: Bed, name: str, wanted: str) -> dict[str, Any]:
    path = f"{POOLS}/{name}"
    api.wait_for(
        f"{name}: {wanted}", lambda: bed.api.get(path).get("status", {}).get("phase"), lambda seen: seen == wanted
    )
    return bed.api.get(path)


def test_scaling_that_someone_else_manages_shows_scaling_then_running(bed: Bed, operator: Path, kind: str) -> None:
    names = ["mp-ext-0", "mp-ext-1", "mp-ext-2"]
    for name in names:
        _add_node(bed.api, name)
    body, status = _infrastructure("mp-ext", [f"test:///{name}" for name in names])
    bed.api.add(body)
    bed.api.merge(f"{kind}/mp-ext/status", status)
    bed.api.add(_pool("mp-ext", 2, "work", {"cluster.x-k8s.io/replicas-managed-by": "external-autoscaler"}))
    _phase(bed, "mp-ext", "Scaling")
    bed.api.merge(f"{POOLS}/mp-ext", {"spec": {"replicas": 3}})
    _phase(bed, "mp-ext", "Running")
    bed.api.delete(f"{POOLS}/mp-ext")
    api.wait_for("the pool is gone", lambda: bed.api.find(f"{POOLS}/mp-ext"), lambda seen: seen is None)
    assert all(bed.api.find(f"/api/v1/nodes/{name}") is None for name in names)


def test_two_clusters_have_control_planes_and_kubeconfigs_of_their_own(
    bed: Bed, operator: Path, kind: str, real_api_server: Path
) -> None:
    other = api.Api(real_api_server)
    for body in objects.cluster("second", real_api_server.read_bytes()):
        if body["kind"] in ("Secret", "Cluster", "FakeCluster"):
            bed.api.add(body)
    _add_node(bed.api, "mp-twin")
    _add_node(other, "mp-twin")
    for name, cluster in (("mp-here", "work"), ("mp-there", "second")):
        body, status = _infrastructure(name, ["test:///mp-twin"])
        bed.api.add(body)
        bed.api.merge(f"{kind}/{name}/status", status)
        bed.api.add(_pool(name, 1, cluster, {}))
    here, there = _phase(bed, "mp-here", "Running"), _phase(bed, "mp-there", "Running")
    uids = [server.get("/api/v1/nodes/mp-twin")["metadata"]["uid"] for server in (bed.api, other)]
    assert [pool["status"]["nodeRefs"][0]["uid"] for pool in (here, there)] == uids
    bed.api.delete(f"{POOLS}/mp-there")
    api.wait_for("the other node is gone", lambda: other.find("/api/v1/nodes/mp-twin"), lambda seen: seen is None)
    assert bed.api.find("/api/v1/nodes/mp-twin") is not None
    bed.api.delete(f"{POOLS}/mp-here")
    api.wait_for("this node is gone", lambda: bed.api.find("/api/v1/nodes/mp-twin"), lambda seen: seen is None)


@pytest.mark.skipif(not machinepool_bed.STORIES.is_dir(), reason="NOT JUDGED: no recorded stories beside us")
def test_recorded_lives_are_lived_again_on_the_real_control_plane() -> None:
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(machinepool_bed.choose(ours=True)) as alone:
        clusterapi.add_cluster(alone.api, alone.kubeconfig)
        told = asyncio.run(machinepool_bed.report(alone, machinepool_bed.every_story(), ours=True))
    differences = [
        f"{outcome.name}: {text}"
        for outcomes, _ in told.values()
        for outcome in outcomes
        for text in outcome.differences
    ]
    assert differences == []
