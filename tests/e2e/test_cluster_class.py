"""A Cluster of a ClusterClass, on Cluster API's own topology controller: owners of a MachineDeployment's size."""

from collections.abc import Iterator
from typing import Any

import pytest

from testbed import clusterapi, fixtures, objects, sharing
from testbed.api import Object, Refused
from testbed.bed import Bed
from testbed.infrastructure import definitions
from testbed.site import Choice
from tests.e2e.autoscaler_process import FLAGS, Live
from tests.e2e.node_groups import CAPI
from tests.e2e.polling import wait_for

CLASS, POOL = "small", "md-0"
TEMPLATES = ("FakeClusterTemplate", "FakeControlPlaneTemplate", "FakeBootstrapTemplate")
KINDS = (*TEMPLATES, "FakeControlPlane", "FakeBootstrap")
CLUSTERS = f"/apis/{objects.CLUSTER_API}/namespaces/default/clusters"
DEPLOYMENTS = f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedeployments"
SIZES = {f"{CAPI}cluster-api-autoscaler-node-group-{bound}-size": size for bound, size in (("min", "1"), ("max", "5"))}
INITIALIZED = {"controlPlaneInitialized": True, "dataSecretCreated": True}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if reason := fixtures.why_not():
        pytest.skip(reason)
    choice = Choice(scheduler=True, kwok=True, capi=True, capi_topology=True)
    with sharing.shared(tmp_path_factory.mktemp("cluster-class"), choice) as started:
        for body in definitions.of_kinds(KINDS):
            started.api.add(body)
        clusterapi.wait_established(started.api)
        yield started


@pytest.fixture
def live(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    process = Live(bed.kubeconfig, tmp_path_factory.mktemp("autoscaler") / "log", FLAGS)
    process.start()
    yield process
    process.kill()
    print(process.log.read_text()[-6000:])


def reference(kind: str) -> Object:
    return {"apiVersion": objects.INFRASTRUCTURE, "kind": kind, "name": CLASS}


def cluster_class() -> list[Object]:
    machine = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    specs: dict[str, Any] = {"FakeMachineTemplate": machine, **{kind: {} for kind in TEMPLATES}}
    templates = [
        objects.made(objects.INFRASTRUCTURE, kind, CLASS, "default", {"template": {"spec": spec}})
        for kind, spec in specs.items()
    ]
    worker = {
        "class": "worker",
        "bootstrap": {"templateRef": reference("FakeBootstrapTemplate")},
        "infrastructure": {"templateRef": reference("FakeMachineTemplate")},
    }
    spec = {
        "infrastructure": {"templateRef": reference("FakeClusterTemplate")},
        "controlPlane": {"templateRef": reference("FakeControlPlaneTemplate")},
        "workers": {"machineDeployments": [worker]},
    }
    return [*templates, objects.made(objects.CLUSTER_API, "ClusterClass", CLASS, "default", spec)]


def topology(**pool: Any) -> Object:
    """The spec of a Cluster with one pool of workers."""
    workers = {"machineDeployments": [{"class": "worker", "name": POOL, **pool}]}
    return {"topology": {"classRef": {"name": CLASS}, "version": "v1.36.3", "workers": workers}}


def add_cluster(bed: Bed, **pool: Any) -> None:
    bed.api.add(objects.made(objects.CLUSTER_API, "Cluster", "work", "default", topology(**pool)))


def provide(bed: Bed) -> None:
    """Play the control plane and bootstrap providers: each object is as it should be."""
    for plural in ("fakecontrolplanes", "fakebootstraps"):
        path = f"/apis/{objects.INFRASTRUCTURE}/namespaces/default/{plural}"
        for body in bed.api.items(path):
            if not body.get("status"):
                status = {
                    "initialization": INITIALIZED,
                    "dataSecretName": "work-bootstrap",
                    "version": body["spec"].get("version", ""),
                }
                bed.api.merge(f"{path}/{body['metadata']['name']}/status", {"status": status})


def find_deployment(bed: Bed) -> Object:
    provide(bed)
    return next(iter(bed.api.items(DEPLOYMENTS)), {})


def running_pods(bed: Bed) -> int:
    provide(bed)
    pods = bed.api.items("/api/v1/namespaces/default/pods")
    return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)


def node_names(bed: Bed) -> set[str]:
    return {node["metadata"]["name"] for node in bed.api.items("/api/v1/nodes")}


def events(bed: Bed, reason: str) -> list[Object]:
    return bed.api.items("/api/v1/namespaces/default/events", fieldSelector=f"reason={reason}")


def test_a_size_in_the_topology_is_left_alone_until_the_topology_gives_it_up(bed: Bed, live: Live) -> None:
    for body in [*objects.cluster("work", bed.kubeconfig.read_bytes())[:2], *cluster_class()]:
        bed.api.add(body)
    # Cluster API refuses a size and bounds in one topology. Bounds on the MachineDeployment itself it cannot refuse.
    both = objects.made(
        objects.CLUSTER_API, "Cluster", "work", "default", topology(replicas=2, metadata={"annotations": SIZES})
    )
    with pytest.raises(Refused, match="autoscaler annotations"):
        bed.api.add(both)
    bed.api.add(objects.made(objects.CLUSTER_API, "Cluster", "work", "default", topology(replicas=2)))
    deployment = wait_for("the topology controller made it", lambda: find_deployment(bed))
    name = deployment["metadata"]["name"]
    bed.api.merge(f"{DEPLOYMENTS}/{name}", {"metadata": {"annotations": SIZES}})
    pod: Object = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}]}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    bed.api.add(objects.made("apps/v1", "ReplicaSet", "web", "default", spec))

    (event, *_) = wait_for("a warning", lambda: events(bed, "TopologyOwnsReplicas"))
    assert event["involvedObject"]["name"] == name
    assert f"remove replicas from the entry {POOL} of machineDeployments in spec.topology.workers" in event["message"]
    wait_for("two pods run", lambda: running_pods(bed), lambda count: count == 2)
    assert find_deployment(bed)["spec"]["replicas"] == 2
    first_two = node_names(bed)

    bed.api.merge(f"{CLUSTERS}/work", {"spec": topology(metadata={"annotations": SIZES})})
    wait_for("all pods run", lambda: running_pods(bed), lambda count: count == 3)
    live.wait_looped(3)
    assert find_deployment(bed)["spec"]["replicas"] == 3
    assert first_two < node_names(bed)
