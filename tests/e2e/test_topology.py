"""A MachineDeployment whose replicas are applied as the topology controller applies them, on real webhooks."""

import json

import pytest

from tests.e2e.node_groups import CAPI, Group
from tests.e2e.scale_scenario import Scene

APPLY = "application/apply-patch+yaml"
MANAGER = "capi-topology"
LABELS = {f"topology.{CAPI}owned": "", f"topology.{CAPI}deployment-name": "md-0"}
REMEDY = "remove replicas from the entry md-0 of machineDeployments in spec.topology.workers of Cluster default/work"


def apply_topology(scene: Scene, group: Group, **spec: int) -> None:
    """As the topology controller does: with its own field manager, and force."""
    body = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": group.name, "namespace": "default", "labels": LABELS},
        "spec": {"clusterName": "work", **spec},
    }
    scene.api.call("PATCH", f"{group.path}?fieldManager={MANAGER}&force=true", body, APPLY)


@pytest.mark.together
def test_a_group_that_a_topology_owns_is_named_and_grows_once_the_topology_gives_it_up(scene: Scene) -> None:
    group = scene.group("a", 1)
    apply_topology(scene, group, replicas=2)
    (event, *_) = scene.wait("a warning", lambda: scene.events("TopologyOwnsReplicas", group.name))
    assert event["involvedObject"]["uid"] == scene.api.get(group.path)["metadata"]["uid"]
    assert (event["type"], REMEDY in event["message"]) == ("Warning", True)
    group.wait_nodes(2)
    scene.pods("web", 3, [group], cpu="3")
    scene.wait_running(2)
    scene.wait(
        "the pod is told",
        lambda: [item["message"] for item in scene.events("NotTriggerScaleUp", scene.name)],
        lambda told: any("1 replicas set in the Cluster topology" in message for message in told),
    )
    told = scene.wait(
        "it is explained",
        lambda: scene.live.find(f"/explain/group/{group.id}"),
        lambda now: "replicas_owner" in now,
    )
    explained = json.loads(told)
    assert explained["is_left_alone"]
    assert REMEDY in explained["replicas_owner"]
    assert (scene.resizes(group), group.replicas) == ([], 2)
    apply_topology(scene, group)
    scene.wait_running(3)
    assert group.replicas == 3
