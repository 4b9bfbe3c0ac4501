"""Nodes that are Ready before their device plugin or CSI driver is: awaited, not doubled."""

from typing import Any

import pytest

from testbed import objects
from testbed.api import Object
from tests.e2e.node_groups import Group
from tests.e2e.scale_scenario import Scene

GPU, ACCELERATOR = "nvidia.com/gpu", "cluster-api/accelerator"
DRIVER = "disks.example.com"
WITH_GPU: Any = {"cores": "4", "memory": "16Gi", "gpu-type": GPU, "gpu-count": "1"}
WITH_VOLUMES: Any = {"cores": "8", "memory": "32Gi", "csi-driver": f"{DRIVER}=2"}


def gpu_group(scene: Scene, **more: Any) -> Group:
    """A group at zero that promises one GPU a node; its nodes have none before their device plugin runs."""
    labels = {ACCELERATOR: "a100"}
    return scene.group("a", node={"labels": labels}, **WITH_GPU, **more)


def gpu_pod(scene: Scene, group: Group) -> None:
    limits = {"requests": {"cpu": "100m", GPU: "1"}, "limits": {GPU: "1"}}
    scene.pods("train", 1, [group], containers=[{"name": "main", "image": "none", "resources": limits}])


def counts(scene: Scene, group: Group) -> Object:
    found: Object = scene.status(group).get("health", {}).get("nodeCounts", {}).get("registered", {})
    return found


@pytest.mark.together
def test_a_late_device_plugin_gets_a_pod_one_node(scene: Scene) -> None:
    group = gpu_group(scene)
    gpu_pod(scene, group)
    (name,) = group.wait_nodes(1)
    scene.wait("the node is awaited", lambda: counts(scene, group), lambda now: now.get("notStarted") == 1)
    plain = scene.group("b")
    scene.pods("later", 1, [plain])  # once it runs, there were loops that saw the node Ready
    scene.wait_running(1, "later")
    assert counts(scene, group).get("ready", 0) == 0
    assert group.replicas == 1
    has = {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}
    scene.api.merge(f"/api/v1/nodes/{name}/status", {"status": has})
    scene.wait_running(1, "train")
    assert scene.places("train") == {name: 1}
    assert scene.count_resized(group) == 1


@pytest.mark.together
def test_a_device_plugin_that_never_comes_makes_its_node_unready(scene: Scene) -> None:
    group = gpu_group(scene, startup="5s")
    gpu_pod(scene, group)
    group.wait_nodes(1)
    scene.wait(
        "the node is unready, for its device",
        lambda: counts(scene, group).get("unready"),
        lambda now: now == {"total": 1, "resourceUnready": 1},
    )
    assert group.replicas == 1


@pytest.mark.together
def test_new_nodes_attach_as_many_volumes_as_their_group_says(scene: Scene) -> None:
    group = scene.group("a", boot_seconds="3600", **WITH_VOLUMES)
    spec = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    storage_class = objects.made("storage.k8s.io/v1", "StorageClass", scene.name, "", {})
    del storage_class["spec"]
    scene.add({**storage_class, **spec})
    claim = {
        "storageClassName": scene.name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    scene.pods("web", 6, [group], cpu="100m", volumes=[volume])
    scene.wait("three nodes are ordered before one has come", lambda: group.replicas, lambda now: now == 3)
    scene.live.wait_looped(2)
    assert group.replicas == 3
    assert group.nodes() == []
