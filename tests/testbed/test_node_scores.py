"""Scores: of the nodes that the simulator's scheduler has for the best, the real scheduler takes one, pod by pod."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from testbed import api, objects
from testbed.bed import Bed
from windlass.simulator.reference_scheduler import node_scores, scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView

SPACE, PURPOSE = "scores", {"purpose": "scores"}
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SEED, PODS = 5, 40
NODES = (
    # name, zone, cores, memory, soft taints
    ("scores-a", "a", "8", "16Gi", 0),
    ("scores-b", "b", "8", "32Gi", 0),
    ("scores-c", "c", "16", "32Gi", 0),
    ("scores-d", "a", "16", "64Gi", 1),
    ("scores-e", "b", "4", "16Gi", 2),
    ("scores-f", "c", "32", "64Gi", 1),
)
LISTS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/services",
}


def _node(name: str, zone: str, cpu: str, memory: str, soft_taints: int) -> api.Object:
    labels = {**PURPOSE, ZONE: zone, HOST: name, "zone-of": zone}
    taints = [{"key": f"spare-{number}", "effect": "PreferNoSchedule"} for number in range(soft_taints)]
    made = objects.made("v1", "Node", name, "", {"taints": taints}, labels, {"kwok.x-k8s.io/node": "fake"})
    size = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {**made, "status": {"capacity": size, "allocatable": size}}


def _pod(chance: random.Random, number: int) -> api.Object:
    asked = {"cpu": f"{chance.randint(100, 1500)}m", "memory": f"{chance.randint(100, 3000)}Mi"}
    if chance.random() < 0.2:
        del asked[chance.choice(("cpu", "memory"))]
    app = chance.choice(("web", "data"))
    container = {"name": "main", "image": "none", "resources": {"requests": asked}}
    spec: dict[str, Any] = {"containers": [container], "nodeSelector": PURPOSE}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "spare-0", "operator": "Exists"}]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    match chance.randint(0, 4):
        case 0:
            wish = {"matchExpressions": [{"key": "zone-of", "operator": "In", "values": ["a", "b"]}]}
            spec["affinity"] = {"nodeAffinity": {preferred: [{"weight": 50, "preference": wish}]}}
        case 1:
            term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
            kind = chance.choice(("podAffinity", "podAntiAffinity"))
            spec["affinity"] = {kind: {preferred: [{"weight": 30, "podAffinityTerm": term}]}}
        case 2:
            constraint = {"topologyKey": ZONE, "maxSkew": 2, "labelSelector": {"matchLabels": {"app": app}}}
            spec["topologySpreadConstraints"] = [{**constraint, "whenUnsatisfiable": "ScheduleAnyway"}]
    return objects.made("v1", "Pod", f"p{number}", SPACE, spec, {"app": app})


def _best(server: api.Api, pod: api.Object) -> set[str]:
    """The nodes with the highest score, by what the API server shows now; none: no node passes the filters."""
    listed = [{"kind": kind, **item} for kind, path in LISTS.items() for item in server.items(path)]
    cluster = ClusterView.of(listed)
    verdicts = scheduling_cycle.run_filters(cluster, pod)
    passed = [node for name, node in cluster.nodes.items() if verdicts[name] is None]
    return {node.name for node in node_scores.best_nodes(cluster, pod, passed)} if passed else set()


@pytest.fixture(scope="module")
def server(control_plane: Bed) -> Iterator[api.Api]:
    server = control_plane.api
    server.add(objects.made("v1", "Namespace", SPACE, "", {}))
    account = f"/api/v1/namespaces/{SPACE}/serviceaccounts/default"
    api.wait_for("pods can be made", lambda: server.find(account))
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    server.add(objects.made("v1", "Service", "web", SPACE, spec))
    for node in NODES:
        server.add(_node(*node))

    def ready() -> int:
        nodes = [item for item in server.items(LISTS["Node"]) if item["metadata"]["name"].startswith("scores-")]
        hard = [
            taint
            for entry in nodes
            for taint in entry["spec"].get("taints", ())
            if taint["effect"] != "PreferNoSchedule"
        ]
        return len(nodes) if not hard else 0

    api.wait_for("all nodes are ready", ready, lambda count: count == len(NODES))
    _wait_seen_by_scheduler(server)
    yield server
    server.call("DELETE", f"/api/v1/namespaces/{SPACE}")
    for name, *_ in NODES:
        server.call("DELETE", f"/api/v1/nodes/{name}")


def _wait_seen_by_scheduler(server: api.Api) -> None:
    """Until each node is free of taints for the scheduler as well: a pod that only fits there gets there.

    The scheduler hears that they are gone before it hears of the next pod: both come by the same watch.
    """
    for name, *_ in NODES:
        spec = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {HOST: name}}
        server.add(objects.made("v1", "Pod", f"on-{name}", SPACE, spec))
    for name, *_ in NODES:
        _wait_for_node(server, f"on-{name}")
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        server.call("DELETE", f"/api/v1/namespaces/{SPACE}/pods/on-{name}", options)
    api.wait_for("they are gone", lambda: server.items(f"/api/v1/namespaces/{SPACE}/pods"), lambda left: not left)


def test_the_real_scheduler_takes_one_of_the_nodes_with_the_highest_score(server: api.Api) -> None:
    chance = random.Random(SEED)
    taken: list[str] = []
    narrow = 0
    for number in range(PODS):
        # As the server stores it, defaults filled in.
        pod = server.call("POST", f"/api/v1/namespaces/{SPACE}/pods?dryRun=All", _pod(chance, number))
        best = _best(server, pod)
        assert best
        server.add(_without_server_fields(pod))
        chosen = _wait_for_node(server, f"p{number}")
        assert chosen in best, f"p{number}, after {taken}"
        taken.append(chosen)
        narrow += len(best) == 1
    assert narrow > PODS // 2, "mostly there is one best node"
    assert len(set(taken)) > len(NODES) // 2


def _wait_for_node(server: api.Api, name: str) -> str:
    def ask() -> str:
        return str(server.get(f"/api/v1/namespaces/{SPACE}/pods/{name}")["spec"].get("nodeName") or "")

    return api.wait_for(f"{name} is on a node", ask, bool)


def _without_server_fields(pod: api.Object) -> api.Object:
    kept = {name: pod["metadata"][name] for name in ("name", "namespace", "labels")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}
