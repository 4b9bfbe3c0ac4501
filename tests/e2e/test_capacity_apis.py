"""CapacityBuffers and CapacityQuotas on a real control plane, by an autoscaler with the role shipped for them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import api, objects
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e import rbac
from tests.e2e.autoscaler_process import Live
from tests.e2e.node_groups import LABEL, Group
from tests.e2e.polling import wait_for
from tests.e2e.scale_scenario import Scene

DEFINITIONS = Path(__file__).parents[2] / "deploy" / "crds"
VERSION = "autoscaling.x-k8s.io/v1beta1"
ROOT = f"/apis/{VERSION}"
FLAGS = (
    "--capacity-buffer-controller-enabled=true",
    "--capacity-buffer-pod-injection-enabled=true",
    "--capacity-quotas-enabled=true",
)
VALID = "cluster-autoscaler.kubernetes.io/valid"


@pytest.fixture(scope="module", autouse=True)
def serving(bed: Bed, autoscaler: Live) -> Iterator[None]:
    """The autoscaler serves both meanwhile."""
    for kind in ("capacitybuffers", "capacityquotas"):
        definition = DEFINITIONS / f"autoscaling.x-k8s.io_{kind}.yaml"
        bed.api.add(yaml.safe_load(definition.read_text()))
        wait_for(f"{kind} are served", lambda kind=kind: bed.api.find(f"{ROOT}/{kind}"))  # type: ignore[misc]
    rbac.grant_capacity(bed.api)
    if autoscaler.is_alive:
        autoscaler.kill()
    autoscaler.start(*FLAGS)
    yield
    autoscaler.kill()


def pod_template(scene: Scene, group: Group, cpu: str = "1500m") -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": cpu}}}
    labels = {"e2e/test": scene.name, "app": f"{scene.name}-web"}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeSelector": {LABEL: group.name}}}


def add_template(scene: Scene, group: Group) -> None:
    metadata = {"name": scene.name, "namespace": "default"}
    template = pod_template(scene, group)
    scene.add({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template})


def deploy(scene: Scene, group: Group, replicas: int) -> Object:
    template = pod_template(scene, group)
    spec = {"replicas": replicas, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    return scene.add(objects.made("apps/v1", "Deployment", scene.name, "default", spec))


def buffer(scene: Scene, name: str, namespace: str = "default", **spec: Any) -> Callable[[], Object]:
    """A buffer; what its status says from now on."""
    name = f"{scene.name}-{name}"
    scene.add(objects.made(VERSION, "CapacityBuffer", name, namespace, spec))
    return lambda: scene.api.get(f"{ROOT}/namespaces/{namespace}/capacitybuffers/{name}").get("status", {})


def said(status: Object) -> dict[str, str]:
    return {item["type"]: f"{item['status']} {item['reason']}" for item in status.get("conditions", ())}


def say_why(status: Object, about: str) -> str:
    return "".join(item["message"] for item in status.get("conditions", ()) if item["type"] == about)


def refused(scene: Scene, body: Object) -> str:
    """What the server has against an object."""
    with pytest.raises(api.Refused) as caught:
        scene.api.add(body)
    assert caught.value.code == 422
    return caught.value.body


KEPT = {
    "ReadyForProvisioning": "True AttributesSetSuccessfully",
    "LimitedByQuotas": "False ResourceQuotasAllocated",
    "Provisioning": "True FakePodsInjected",
}


def test_a_buffer_brings_a_node_that_pods_use_and_is_filled_again(scene: Scene) -> None:
    group = scene.group("a")
    add_template(scene, group)
    look = buffer(scene, "b", podTemplateRef={"name": scene.name}, replicas=2)
    scene.wait("room is kept", look, lambda now: said(now) == KEPT and now.get("replicas") == 2)
    (spare,) = group.wait_nodes(1)
    assert f"{scene.name}-b" in scene.bed.kubectl("get", "capacitybuffers")
    own = scene.api.get(f"/api/v1/namespaces/default/podtemplates/{look()['podTemplateRef']['name']}")
    pod = own["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}
    assert pod["tolerations"], "as the API server would complete a pod"

    scene.pods("web", 2, [group], cpu="1500m")
    scene.wait_running(2)
    assert scene.places() == {spare: 2}, "they waited for no node"
    group.wait_replicas(2)
    scene.live.wait_looped(2)
    assert (group.replicas, look()["replicas"]) == (2, 2)
    assert not [pod for pod in scene.find_pods() if pod["metadata"]["name"].startswith("fake-pod-")]


def test_a_buffer_grows_with_its_deployment(scene: Scene) -> None:
    group = scene.group("a")
    made = deploy(scene, group, 2)
    target = {"apiGroup": "apps", "kind": "Deployment", "name": scene.name}
    look = buffer(scene, "b", scalableRef=target, percentage=50)
    scene.wait("half of two", look, lambda now: said(now) == KEPT and now.get("replicas") == 1)
    scene.wait_running(2)
    group.wait_nodes(2)
    scene.api.merge(f"{api.path_of(made)}/{scene.name}", {"spec": {"replicas": 3}})
    scene.wait_running(3)
    scene.wait("half of three, rounded up", look, lambda now: now.get("replicas") == 2)
    group.wait_replicas(3)


UNREADY: dict[str, tuple[Object, str]] = {
    "missing": ({"podTemplateRef": {"name": "nowhere"}, "replicas": 1}, 'podtemplates "nowhere" not found'),
    "gone": (
        {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "gone"}, "replicas": 1},
        'deployments.apps "gone" not found',
    ),
    "kind": (
        {"scalableRef": {"apiGroup": "apps", "kind": "Daemon", "name": "x"}, "replicas": 1},
        "kind apps/Daemon is not supported",
    ),
}
"""Buffers that cannot be kept, and what must be said of it."""
UNSERVED: dict[str, Object] = {
    "replicas": {"podTemplateRef": {"name": "t"}, "replicas": -1},
    "percentage": {"scalableRef": {"kind": "Deployment", "name": "d"}, "percentage": -1},
    "podTemplateRef needs replicas or limits": {"podTemplateRef": {"name": "t"}},
    "exclude each other": {
        "podTemplateRef": {"name": "t"},
        "scalableRef": {"kind": "Deployment", "name": "d"},
        "replicas": 1,
    },
    "limits": {"podTemplateRef": {"name": "t"}, "limits": {"cpu": "much"}},
}
"""Those that the definition refuses, by what is said of it."""


def test_what_is_wrong_with_a_buffer_is_said_and_quotas_of_its_namespace_hold(scene: Scene) -> None:
    for text, spec in UNSERVED.items():
        assert text in refused(scene, objects.made(VERSION, "CapacityBuffer", "bad", "default", spec))
    group = scene.group("a", max_size="0")
    add_template(scene, group)
    here: Any = {"podTemplateRef": {"name": scene.name}}
    looks = {name: buffer(scene, name, **spec) for name, (spec, _) in UNREADY.items()}
    looks["unsized"] = buffer(scene, "unsized", **here, limits={"example.com/gpu": 1})
    empty = buffer(scene, "empty", **here, replicas=0)
    foreign = buffer(scene, "foreign", **here, replicas=1, provisioningStrategy="example.com/else")
    why = {name: text for name, (_, text) in UNREADY.items()} | {"unsized": "resources in configured limits not found"}

    scene.add(objects.made("v1", "Namespace", scene.name, "", {}))
    metadata = {"name": "t", "namespace": scene.name}
    scene.add({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": pod_template(scene, group)})
    scene.add(objects.made("v1", "ResourceQuota", "q", scene.name, {"hard": {"requests.cpu": "4"}}))
    limited = buffer(scene, "limited", scene.name, podTemplateRef={"name": "t"}, replicas=5)

    for name, look in looks.items():
        scene.wait(
            f"{name} says why",
            lambda look=look: say_why(look(), "ReadyForProvisioning"),  # type: ignore[misc]
            lambda now, text=why[name]: text in now,  # type: ignore[misc]
        )
    scene.wait("it is empty", empty, lambda now: said(now).get("Provisioning") == "False BufferIsEmpty")
    scene.wait("2 of 5, by the quota", limited, lambda now: now.get("replicas") == 2)
    assert "limited from 5 to 2 due to quotas: q" in say_why(limited(), "LimitedByQuotas")
    assert foreign() == {}, "somebody else's"


def test_a_quota_holds_growth_back_says_what_its_nodes_have_and_lets_more_come_when_it_is_raised(scene: Scene) -> None:
    group = scene.group("a")
    name = scene.name
    bad = {"resources": {"nodes": -1}}
    assert "amounts are whole numbers" in refused(
        scene, objects.made(VERSION, "CapacityQuota", name, "", {"limits": bad})
    )
    chosen = {"matchLabels": {LABEL: group.name}}
    spec = {"limits": {"resources": {"nodes": 2}}, "selector": chosen}
    scene.add(objects.made(VERSION, "CapacityQuota", name, "", spec))
    near = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    scene.add(objects.made(VERSION, "CapacityQuota", f"{name}-bad", "", {**spec, "selector": near}))

    def look(suffix: str = "") -> Object:
        found: Object = scene.api.get(f"{ROOT}/capacityquotas/{name}{suffix}").get("status", {})
        return found

    def count_nodes() -> Any:
        return look().get("used", {}).get("resources")

    valid = {VALID: "True ValidationSucceeded", "Reconciled": "True ReconciliationSucceeded"}
    scene.wait("it is valid", look, lambda now: said(now) == valid)
    scene.pods("web", 3, [group], cpu="3")
    scene.wait_running(2)
    scene.wait("its nodes are counted", count_nodes, lambda now: now == {"nodes": "2"})
    scene.wait("the third pod is told", lambda: scene.events("NotTriggerScaleUp", name))
    assert group.replicas == 2
    wrong = scene.wait("the other says why not", lambda: say_why(look("-bad"), VALID))
    assert "Near" in wrong
    scene.api.merge(f"{ROOT}/capacityquotas/{name}", {"spec": {"limits": {"resources": {"nodes": 3}}}})
    scene.wait_running(3)
    scene.wait("all are counted", count_nodes, lambda now: now == {"nodes": "3"})
