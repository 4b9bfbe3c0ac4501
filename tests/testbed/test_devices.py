"""Claims on devices: what the engine says of a pod before the real scheduler sees it is what that then does."""

import random
from collections.abc import Iterator, Sequence

import pytest

from testbed import api, objects
from testbed.bed import Bed
from tests.differential import devices
from windlass.autoscaler.readers import cluster_dump, pods
from windlass.engine.model import settings
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import registry
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models

SPACE, GROUP, DRIVER = "devices", "resource.k8s.io/v1", "gpu.example.com"
NODES = ("devices-a", "devices-b", "devices-c", "devices-none")
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def _node(name: str, purpose: str = "yes") -> api.Object:
    labels = {"devices": purpose, "topology.kubernetes.io/zone": "z1"}
    node = objects.made("v1", "Node", name, "", {}, labels, {"kwok.x-k8s.io/node": "fake"})
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
    server.add(objects.made(GROUP, "DeviceClass", "devices-gpu", "", {"selectors": [selector]}))
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


def _pod(name: str, claim: str = "", purpose: str = "yes") -> api.Object:
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "c"}]}}
    claims = [{"name": "c", "resourceClaimName": claim or name}]
    spec = {"containers": [container], "resourceClaims": claims, "nodeSelector": {"devices": purpose}}
    return objects.made("v1", "Pod", name, SPACE, spec)


def _probe(server: api.Api) -> list[api.Object]:
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


def _evaluate(server: api.Api, pod: api.Object) -> tuple[list[str], set[str]]:
    """The nodes that take the pod, and if there is none, why not, as far as devices go.

    A filter that fails on one node fails for the pod: the scheduler looks at no other node then.
    """
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(_probe(server)))
    shape = snapshot.shape_of(pods.read_pod(scheme.decode_as(pod_models.Pod, pod), pending=True))
    judged = registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
    refusals = [judged.everywhere] if judged.everywhere else [refusal for _, refusal in judged.refusals()]
    failures = [one for one in refusals if one.code is StatusCode.ERROR]
    about = [one for one in failures or refusals if one.rule == "DynamicResources"]
    feasible = [] if failures else [snapshot.nodes.names[row] for row in judged.feasible.tolist()]
    return feasible, {text for one in about for text in one.texts}


def _wait(server: api.Api, name: str, expected: set[str]) -> str:
    """The node that the scheduler chose; empty once it says one of the expected reasons.

    Anything else that it says may be from before it saw all there is: it tries again.
    """

    def ask() -> tuple[str, str]:
        found = server.get(f"/api/v1/namespaces/{SPACE}/pods/{name}")
        conditions = found.get("status", {}).get("conditions", ())
        said = [
            item.get("message", "")
            for item in conditions
            if (item["type"], item["status"]) == ("PodScheduled", "False")
        ]
        return found["spec"].get("nodeName", ""), "".join(said)

    what = f"{name} is on a node, or not for one of {expected}"
    node, _ = api.wait_for(what, ask, lambda seen: bool(seen[0]) or any(text in seen[1] for text in expected))
    return node


def _wait_ready(server: api.Api, names: Sequence[str]) -> None:
    def ready() -> int:
        nodes = [item for item in server.items("/api/v1/nodes") if item["metadata"]["name"] in names]
        return sum(not entry["spec"].get("taints") for entry in nodes)

    api.wait_for("all nodes are ready", ready, lambda count: count == len(names))


@pytest.fixture(scope="module")
def offering(control_plane: Bed) -> Iterator[api.Api]:
    server = control_plane.api
    labels = {"resource.kubernetes.io/admin-access": "true"}
    server.add(objects.made("v1", "Namespace", SPACE, "", {}, labels))
    for name in NODES:
        server.add(_node(name))
    _offer(server)
    account = f"/api/v1/namespaces/{SPACE}/serviceaccounts/default"
    api.wait_for("pods can be made", lambda: server.find(account))
    for name, spec in CLAIMS.items():
        server.add(objects.made(GROUP, "ResourceClaim", name, SPACE, {"devices": spec}))
    _wait_ready(server, NODES)
    yield server
    server.call("DELETE", f"/api/v1/namespaces/{SPACE}")
    server.call("DELETE", f"/apis/{GROUP}/deviceclasses/devices-gpu")
    for path in ("/api/v1/nodes", f"/apis/{GROUP}/resourceslices"):
        for item in server.items(path):
            if item["metadata"]["name"].startswith("devices-"):
                server.call("DELETE", f"{path}/{item['metadata']['name']}")


def _foretell(server: api.Api, pod: api.Object) -> str:
    """Let the engine judge the pod, then the scheduler: the node that both have for it, or nothing if both refuse."""
    name = pod["metadata"]["name"]
    feasible, reasons = _evaluate(server, pod)
    server.add(pod)
    chosen = _wait(server, name, set() if feasible else reasons)
    assert chosen in feasible if feasible else not chosen, name
    return chosen


def test_the_engine_says_beforehand_what_the_real_scheduler_does(offering: api.Api) -> None:
    chosen = {name: _foretell(offering, _pod(name)) for name in CLAIMS}
    refused = {name for name, node in chosen.items() if not node}
    assert {"the-other-again", "share-again", "broken", "no-class"} <= refused
    assert chosen["share"] == "devices-c"


SEED, DRAWN = 11, 24
"""Claims that are drawn by lot."""


def _draw_request(rng: random.Random, name: str) -> api.Object:
    if rng.random() < 0.25:
        parts = [{"name": f"part-{n}", **_request(count=rng.randint(1, 3))} for n in range(2)]
        return {"name": name, "firstAvailable": parts}
    many = {"allocationMode": "All"} if rng.random() < 0.1 else {"count": rng.choice((1, 1, 1, 2))}
    return {"name": name, "exactly": _request(**many)}


def _draw(rng: random.Random, nodes: Sequence[str]) -> list[api.Object]:
    """Slices for the nodes, and claims on what is in them."""
    claims = [
        objects.made(
            GROUP,
            "ResourceClaim",
            f"drawn-{number}",
            SPACE,
            {"devices": {"requests": [_draw_request(rng, f"r{n}") for n in range(rng.choice((1, 1, 2)))]}},
        )
        for number in range(DRAWN)
    ]
    drawn = devices.enrich({"objects": [*(_node(name) for name in nodes), *claims]}, rng)["objects"]
    for item in drawn:
        if item["kind"] == "ResourceSlice":
            item["metadata"]["name"] = f"devices-{item['metadata']['name']}"
    return [entry for entry in drawn if entry["kind"] != "Node"]


def _add_lawful(server: api.Api, drawn: Sequence[api.Object]) -> list[str]:
    """Add what the server has nothing against; the names of its claims. Lots know little of the API's rules."""
    claims: list[str] = []
    for item in drawn:
        try:
            server.add(item)
        except api.Refused as error:
            if error.code != 422:
                raise
        else:
            claims += [item["metadata"]["name"]] if item["kind"] == "ResourceClaim" else []
    return claims


def test_of_claims_drawn_by_lot_the_engine_says_beforehand_what_the_real_scheduler_does(offering: api.Api) -> None:
    """Every pod finds what those before it left. Every fourth claim is shared by two."""
    nodes = [f"devices-drawn-{number}" for number in range(8)]
    for name in nodes:
        offering.add(_node(name, "drawn"))
    claims = _add_lawful(offering, _draw(random.Random(SEED), nodes))
    _wait_ready(offering, nodes)
    chosen = [_foretell(offering, _pod(name, name, "drawn")) for name in claims]
    for name in claims[::4]:
        _foretell(offering, _pod(f"{name}-too", name, "drawn"))
    assert len(claims) >= DRAWN // 2
    assert 5 <= sum(map(bool, chosen)) <= len(claims) - 5, "some are refused, some are not"
