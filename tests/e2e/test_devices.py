"""Nodes with devices come for pods with claims, and go when the pods have devices elsewhere."""

from typing import Any

import pytest

from testbed import objects
from tests.e2e.node_groups import Group
from tests.e2e.scale_scenario import Scene

GROUP, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
EACH = 4
"""Devices of a node."""
PROMISED: Any = {"cores": "4", "memory": "16Gi", "dra-driver": DRIVER, "gpu-count": str(EACH)}
"""What groups say of nodes to come; a node itself is believed after its first minute only."""


def offer(scene: Scene) -> None:
    """A class of devices, and a template of claims on one of them, both named after the test."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    scene.add(objects.made(GROUP, "DeviceClass", scene.name, "", {"selectors": [selector]}))
    request = {"name": "gpu", "exactly": {"deviceClassName": scene.name}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    scene.add(objects.made(GROUP, "ResourceClaimTemplate", scene.name, "default", spec))


def drive(scene: Scene, *groups: Group) -> None:
    """What the driver does: publish what nodes have that are new. It goes with the node."""
    known = {item["spec"].get("nodeName") for item in scene.api.items(f"/apis/{GROUP}/resourceslices")}
    for node in (entry for group in groups for entry in group.nodes()):
        name = node["metadata"]["name"]
        if name not in known:
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{number}"} for number in range(EACH)]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            body = objects.made(GROUP, "ResourceSlice", name, "", spec)
            body["metadata"]["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ]
            scene.api.add(body)


def claiming(scene: Scene, name: str, count: int, group: Group, **more: Any) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": scene.name}]
    scene.pods(name, count, [group], cpu="100m", resourceClaims=claims, **more)


def wait_running(scene: Scene, count: int, name: str, *groups: Group) -> dict[str, int]:
    """How many pods run on each node, once so many do; drivers do their work meanwhile."""

    def probe() -> dict[str, int]:
        drive(scene, *groups)
        return scene.places(name)

    return scene.wait(f"{count} pods of {name} run", probe, lambda now: sum(now.values()) == count)


def allocated(scene: Scene) -> list[str]:
    """The nodes on which claims of the test have devices."""
    claims = scene.api.items(f"/apis/{GROUP}/namespaces/default/resourceclaims")
    mine = [item for item in claims if item["metadata"]["name"].startswith(scene.name)]
    found = [entry.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()) for entry in mine]
    return sorted(result["pool"] for results in found for result in results)


@pytest.mark.together
def test_a_node_with_claims_is_drained_for_devices_elsewhere_and_one_comes_when_there_are_too_few(scene: Scene) -> None:
    offer(scene)
    group = scene.group("a", 2, **PROMISED)
    group.wait_nodes(2)
    drive(scene, group)
    claiming(scene, "web", 2, group, spread=True)
    assert sorted(wait_running(scene, 2, "web", group).values()) == [1, 1]

    group.annotate(unneeded="1s")
    (left,) = group.wait_nodes(1)
    assert group.replicas == 1
    assert wait_running(scene, 2, "web", group) == {left: 2}
    scene.wait("claims of pods that are gone are gone", lambda: allocated(scene), lambda now: now == [left, left])
    asked = [call.status for call in scene.calls() if call.path.endswith("/eviction") and scene.name in call.path]
    assert 201 in asked
    assert not {429, 500} & set(asked), "none in vain"

    scene.scale_pods("web", EACH + 2)
    places = wait_running(scene, EACH + 2, "web", group)
    assert max(places.values()) <= EACH
    assert group.replicas == 2


@pytest.mark.together
def test_a_group_at_zero_grows_by_the_devices_that_it_promises(scene: Scene) -> None:
    offer(scene)
    group = scene.group("a", **PROMISED)
    plain = scene.group("b", cpu=8)
    claiming(scene, "web", EACH + 1, group)
    wait_running(scene, EACH + 1, "web", group, plain)
    assert (group.replicas, plain.replicas) == (2, 0)
    # Promised devices have attributes, those of the driver here have none.
    scene.live.wait_metric("cluster_autoscaler_dra_node_template_resources_mismatch", driver=DRIVER)
