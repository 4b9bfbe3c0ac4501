"""ProvisioningRequests on a real control plane: the FAQ's example, condition by condition."""

from pathlib import Path

import yaml

from testbed.api import Object
from tests.e2e import rbac
from tests.e2e.node_groups import LABEL, Group
from tests.e2e.scale_scenario import Scene

DEFINITION = Path(__file__).parents[2] / "deploy" / "crds" / "autoscaling.x-k8s.io_provisioningrequests.yaml"
SERVED = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
BEFORE = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/provisioningrequests"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"


def said(scene: Scene, path: str) -> dict[str, tuple[str, str]]:
    found = scene.api.get(path)
    return {item["type"]: (item["status"], item["reason"]) for item in found.get("status", {}).get("conditions", ())}


def pod_spec(group: Group) -> Object:
    """The FAQ's pod, on nodes of this test's group: the bed has others."""
    resources = {"requests": {"cpu": "1", "memory": "600Mi"}}
    return {
        "containers": [{"name": "default", "image": "ubuntu", "resources": resources}],
        "nodeSelector": {LABEL: group.name},
    }


def ask(scene: Scene, group: Group) -> None:
    """What the FAQ deploys first, with the template's name corrected."""
    template = {"metadata": {"labels": {"e2e/test": scene.name}}, "spec": pod_spec(group)}
    metadata = {"name": scene.name, "namespace": "default"}
    scene.add({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template})
    scene.add(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": metadata,
            "spec": {
                "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                "podSets": [{"podTemplateRef": {"name": scene.name}, "count": 10}],
            },
        }
    )


def consume(scene: Scene, group: Group) -> None:
    """What it deploys then, with the annotation on the pods, where it is read."""
    labels = {"e2e/test": scene.name, "app": f"{scene.name}-consumer"}
    template = {"metadata": {"labels": labels, "annotations": {CONSUME: scene.name}}, "spec": pod_spec(group)}
    scene.add(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{scene.name}-consumer", "namespace": "default"},
            "spec": {"replicas": 10, "selector": {"matchLabels": labels}, "template": template},
        }
    )


def test_the_faqs_request_is_provisioned_booked_over_a_crash_and_consumed_on_its_nodes(scene: Scene) -> None:
    scene.add(yaml.safe_load(DEFINITION.read_text()))
    scene.wait("requests are served", lambda: scene.api.find(SERVED) and scene.api.find(BEFORE))
    rbac.grant_requests(scene.api)
    scene.live.kill()
    scene.live.start("--enable-provisioning-requests=true")
    group = scene.group("a", max_size="5")
    ask(scene, group)
    path = f"{SERVED}/{scene.name}"
    provisioned = {"Accepted": ("True", "Accepted"), "Provisioned": ("True", "CapacityIsProvisioned")}
    scene.wait("it is provisioned", lambda: said(scene, path), lambda now: now == provisioned)
    asked = group.replicas
    assert asked == 4, "10 pods of one core; of 4 cores, a group at zero promises less"
    assert said(scene, f"{BEFORE}/{scene.name}") == provisioned, "in either version"
    booked = set(group.wait_nodes(asked))

    scene.live.kill()
    scene.live.start("--enable-provisioning-requests=true")
    scene.live.wait_looped(2)
    assert said(scene, path) == provisioned, "booked still"
    consume(scene, group)
    scene.wait_running(10, "consumer")
    assert set(scene.places("consumer")) <= booked
    consumed = {**provisioned, "BookingExpired": ("True", "CapacityBookingConsumed")}
    scene.wait("its booking ends", lambda: said(scene, path), lambda now: now == consumed)
    assert group.replicas == asked, "consumers trigger nothing"
    scene.live.kill()
