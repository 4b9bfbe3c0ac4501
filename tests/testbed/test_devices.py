"""Claims on devices: what the engine says of a pod before the real scheduler sees it is what that then does."""

from collections.abc import Iterator

import pytest

from testbed import api, objects
from testbed.bed import Bed
from windlass.autoscaler.observe import cluster, pods
from windlass.autoscaler.observe import snapshot as observed
from windlass.engine import predicates
from windlass.engine.predicates import config
from windlass.engine.verdict import Judgement
from windlass.kube import models
from windlass.kube.models import pods as pod_models

SPACE, GROUP, DRIVER = "devices", "resource.k8s.io/v1", "gpu.example.com"
NODES = ("devices-a", "devices-b", "devices-c", "devices-none")
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def _node(name: str) -> api.Object:
    node = objects.made("v1", "Node", name, "", {}, {"devices": "yes"}, {"kwok.x-k8s.io/node": "fake"})
    size = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return {**node, "status": {"capacity": size, "allocatable": size}}


def _slice(name: str, node: str, count: int, **offered: object) -> api.Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return objects.made(GROUP, "ResourceSlice", name, "", {"driver": DRIVER, "nodeName": node, "pool": pool, **offered})


def _gpu(name: str, numa: int, **more: object) -> api.Object:
    return {"name": name, "attributes": {"numa": {"int": numa}, "model": {"string": "a100"}}, **more}


def _part(name: str, memory: str) -> api.Object:
    draws = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
    return _gpu(name, 0, consumesCounters=draws)


def _offer(server: api.Api) -> None:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    named = objects.made(GROUP, "DeviceClass", "devices-gpu", "", {"selectors": [selector]})
    server.call("POST", f"/apis/{GROUP}/deviceclasses", named)
    server.add(_slice("devices-a", "devices-a", 1, devices=[_gpu("x", 0), _gpu("y", 1), _gpu("z", 0)]))
    card = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    server.add(_slice("devices-b-card", "devices-b", 2, sharedCounters=card))
    parts = [_part("whole", "40Gi"), _part("half-1", "20Gi"), _part("half-2", "20Gi")]
    server.add(_slice("devices-b", "devices-b", 2, devices=parts))
    shared = _gpu("shared", 7, allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    server.add(_slice("devices-c", "devices-c", 1, devices=[shared]))


def _request(selector: str = "", **more: object) -> api.Object:
    asked: api.Object = {"deviceClassName": "devices-gpu", **more}
    return {**asked, "selectors": [{"cel": {"expression": selector}}]} if selector else asked


CLAIMS: dict[str, api.Object] = {
    "two-of-a-kind": {
        "requests": [{"name": "r", "exactly": _request(f"{_ATTRIBUTES}.numa < 2", count=2)}],
        "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
    },
    "the-other": {"requests": [{"name": "r", "exactly": _request(f"{_ATTRIBUTES}.numa == 1")}]},
    "the-other-again": {"requests": [{"name": "r", "exactly": _request(f"{_ATTRIBUTES}.numa == 1")}]},
    "share": {"requests": [{"name": "r", "exactly": _request(capacity={"requests": {"memory": "6Gi"}})}]},
    "share-again": {"requests": [{"name": "r", "exactly": _request(capacity={"requests": {"memory": "6Gi"}})}]},
    "one-or-three": {
        "requests": [
            {
                "name": "r",
                "firstAvailable": [
                    {"name": "three", **_request(f"{_ATTRIBUTES}.numa == 0", count=3)},
                    {"name": "one", **_request(f"{_ATTRIBUTES}.numa == 0")},
                ],
            }
        ]
    },
    "a-half": {"requests": [{"name": "r", "exactly": _request(f'{_ATTRIBUTES}.model == "a100"')}]},
    "too-late": {"requests": [{"name": "r", "exactly": _request(f"{_ATTRIBUTES}.numa == 0")}]},
    "broken": {"requests": [{"name": "r", "exactly": _request(f'{_ATTRIBUTES}.absent == "x"')}]},
    "no-class": {"requests": [{"name": "r", "exactly": {**_request(), "deviceClassName": "devices-unheard-of"}}]},
}
"""In the order in which pods ask for them."""


def _pod(name: str) -> api.Object:
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "c"}]}}
    claims = [{"name": "c", "resourceClaimName": name}]
    spec = {"containers": [container], "resourceClaims": claims, "nodeSelector": {"devices": "yes"}}
    return objects.made("v1", "Pod", name, SPACE, spec)


def _look(server: api.Api) -> list[api.Object]:
    """All that the scheduler sees."""
    kinds = {
        ("v1", "Node"): "/api/v1/nodes",
        ("v1", "Pod"): "/api/v1/pods",
        ("v1", "Namespace"): "/api/v1/namespaces",
        (GROUP, "ResourceSlice"): f"/apis/{GROUP}/resourceslices",
        (GROUP, "DeviceClass"): f"/apis/{GROUP}/deviceclasses",
        (GROUP, "ResourceClaim"): f"/apis/{GROUP}/resourceclaims",
    }
    return [
        {"apiVersion": version, "kind": f"{kind}List", "items": server.items(path)}
        for (version, kind), path in kinds.items()
    ]


def _judge(server: api.Api, pod: api.Object) -> tuple[Judgement, list[str]]:
    snapshot = observed.build(cluster.read(_look(server)))
    shape = snapshot.shape_of(pods.read(models.decode_as(pod_models.Pod, pod), pending=True))
    judged = predicates.judge(snapshot, shape, config.DEFAULT)
    return judged, [snapshot.nodes.names[row] for row in judged.feasible.tolist()]


def _wait(server: api.Api, name: str, expected: set[str]) -> str:
    """The node that the scheduler chose; empty once it says one of the expected reasons.

    Anything else that it says may be from before it saw all there is: it tries again.
    """

    def ask() -> tuple[str, str]:
        found = server.get(f"/api/v1/namespaces/{SPACE}/pods/{name}")
        conditions = found.get("status", {}).get("conditions", ())
        said = [
            one.get("message", "") for one in conditions if (one["type"], one["status"]) == ("PodScheduled", "False")
        ]
        return found["spec"].get("nodeName", ""), "".join(said)

    what = f"{name} is on a node, or not for one of {expected}"
    node, _ = api.wait_for(what, ask, lambda seen: bool(seen[0]) or any(text in seen[1] for text in expected))
    return node


@pytest.fixture(scope="module")
def offering(control_plane: Bed) -> Iterator[api.Api]:
    server = control_plane.api
    server.add(objects.made("v1", "Namespace", SPACE, "", {}))
    for name in NODES:
        server.add(_node(name))
    _offer(server)
    for name, spec in CLAIMS.items():
        server.add(objects.made(GROUP, "ResourceClaim", name, SPACE, {"devices": spec}))

    def ready() -> int:
        nodes = [one for one in server.items("/api/v1/nodes") if one["metadata"]["name"] in NODES]
        return sum(not one["spec"].get("taints") for one in nodes)

    api.wait_for("all nodes are ready", ready, lambda count: count == len(NODES))
    yield server
    server.call("DELETE", f"/api/v1/namespaces/{SPACE}")
    server.call("DELETE", f"/apis/{GROUP}/deviceclasses/devices-gpu")
    for name in NODES:
        server.call("DELETE", f"/api/v1/nodes/{name}")
    for one in server.items(f"/apis/{GROUP}/resourceslices"):
        if one["metadata"]["name"].startswith("devices-"):
            server.call("DELETE", f"/apis/{GROUP}/resourceslices/{one['metadata']['name']}")


def test_the_engine_says_beforehand_what_the_real_scheduler_does(offering: api.Api) -> None:
    chosen: dict[str, str] = {}
    for name in CLAIMS:
        pod = _pod(name)
        judged, feasible = _judge(offering, pod)
        offering.add(pod)
        chosen[name] = _wait(offering, name, set() if feasible else _reasons(judged))
        assert chosen[name] in feasible if feasible else not chosen[name], name
    refused = {name for name, node in chosen.items() if not node}
    assert {"the-other-again", "share-again", "broken", "no-class"} <= refused
    assert chosen["share"] == "devices-c"


def _reasons(judged: Judgement) -> set[str]:
    """Why no node takes the pod, as far as devices go."""
    refusals = [judged.everywhere] if judged.everywhere else [refusal for _, refusal in judged.refusals()]
    return {text for refusal in refusals if refusal.rule == "DynamicResources" for text in refusal.texts}
