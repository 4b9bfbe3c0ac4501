"""200 shapes × 15,000 nodes: the full mask of what may run where, against the real kube-scheduler plugins.

Nodes: 3,000 distinct label sets (zone × rack × pool) beside their hostname, 60 taint sets, three sizes, two running
pods each. Shapes: requests and tolerations on all; node affinity, host ports, spread over zones, racks and hostnames,
anti-affinity and affinity on a fifth each. The mask is computed from cold: no cache is warm, no count is known.

The reference is the oracle's own pace (`reference_pairs_per_second`): the real PreFilter and Filter plugins on the
cases that its generator draws, start to end. On a cluster of this benchmark's own making, a tenth of the size, it is
asked the very same question (`same_cluster_pairs_per_second`), and must give the same answer.
"""

import json
import time
from typing import Any

from tests.differential import oracle
from windlass.autoscaler.readers import cluster_dump, pods
from windlass.engine.model import facts, settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models

NODES, SHAPES = 15_000, 200
Json = dict[str, Any]

RACK, POOL = "example.com/rack", "example.com/pool"
SIZES = (("4", "16Gi"), ("8", "32Gi"), ("16", "64Gi"))
KEYS = (facts.ZONE, RACK, facts.HOSTNAME)


def node(number: int) -> Json:
    name = f"node-{number}"
    cpu, memory = SIZES[number % 3]
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        facts.HOSTNAME: name,
        facts.ZONE: f"zone-{number % 3}",
        RACK: f"rack-{number // 3 % 50}",
        POOL: f"pool-{number // 150 % 20}",
    }
    taints = [
        {"key": f"team-{number % 6}", "value": f"v{number // 6 % 5}", "effect": "NoSchedule"} for _ in range(number % 2)
    ]
    if number % 4 >= 2:
        taints.append({"key": "spot", "effect": "NoExecute"})
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def pod(name: str, number: int, node_name: str = "") -> Json:
    app = f"app-{number % 50}"
    selector = {"matchLabels": {"app": app}}
    requests = {"cpu": f"{100 * (1 + number % 9)}m", "memory": "512Mi"}
    container: Json = {"name": "main", "image": "image", "resources": {"requests": requests}}
    spec: Json = {"containers": [container]}
    spec["tolerations"] = [{"key": f"team-{team}", "operator": "Exists"} for team in range(number % 6)]
    if number % 3 == 0:
        spec["tolerations"].append({"key": "spot", "operator": "Exists"})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    match number % 5:
        case 0:
            expression = {"key": POOL, "operator": "NotIn", "values": [f"pool-{number % 20}", "pool-3"]}
            term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {required: term}}
        case 1:
            container["ports"] = [{"containerPort": 80, "hostPort": 8000 + number % 10}]
        case 2:
            spec["topologySpreadConstraints"] = [
                {"topologyKey": KEYS[number % 3], "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": selector}
            ]  # fmt: skip
        case 3:
            anti = {"topologyKey": KEYS[1 + number % 2], "labelSelector": selector}
            spec["affinity"] = {"podAntiAffinity": {required: [anti]}}
        case _:
            near = {"topologyKey": KEYS[number % 2], "labelSelector": selector}
            spec["affinity"] = {"podAffinity": {required: [near]}}
    found: Json = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}},
        "spec": spec,
        "status": {"phase": "Running" if node_name else "Pending"},
    }  # fmt: skip
    if node_name:
        spec["nodeName"] = node_name
    return found


def case(nodes: int, shapes: int) -> Json:
    """A cluster and the pods to judge. Few running pods repel others, or nothing would fit anywhere."""
    objects = [node(number) for number in range(nodes)]
    objects += [
        pod(f"running-{number}", number * 10 + (3 if number % 100 == 0 else number % 3), f"node-{number % nodes}")
        for number in range(2 * nodes)
    ]
    objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    return {"name": "filters", "objects": objects, "pending": [pod(f"new-{n}", n) for n in range(shapes)]}


def snapshot_of(made: Json) -> tuple[cluster_snapshot.Snapshot, list[facts.Pod]]:
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(made["objects"]))
    waiting = [pods.read_pod(scheme.decode_as(pod_models.Pod, raw), pending=True) for raw in made["pending"]]
    return snapshot, waiting


def measure() -> tuple[float, int]:
    """(seconds, feasible pairs) of one full mask, from cold."""
    snapshot, waiting = snapshot_of(case(NODES, SHAPES))
    started = time.perf_counter()
    feasible = sum(
        int(registry.find_feasible(snapshot, snapshot.shape_of(one), settings.DEFAULT_FILTER_CONFIG).sum())
        for one in waiting
    )
    return time.perf_counter() - started, feasible


def run() -> dict[str, float]:
    seconds, feasible = min(measure() for _ in range(2))
    pace = NODES * SHAPES / seconds
    found = {"seconds": seconds, "pairs_per_second": pace, "feasible_pairs": feasible}
    binary = oracle.find("1.36")
    if binary is not None:
        found |= compare(binary, pace)
    return found


def compare(binary: Any, pace: float) -> dict[str, float]:
    """The oracle's pace on its own cases and on this cluster; its verdicts on the latter must be ours."""
    drawn = oracle.draw("mixed", 1, 150, "1.36")
    started = time.perf_counter()
    answered = oracle.evaluate(binary, drawn)
    own_seconds = time.perf_counter() - started
    own_pairs = sum(len(nodes) for item in answered for nodes in item["verdicts"].values())

    made = case(NODES // 10, SHAPES // 5)
    started = time.perf_counter()
    (same,) = oracle.evaluate(binary, [made])
    same_seconds = time.perf_counter() - started
    pairs = sum(len(nodes) for nodes in same["verdicts"].values())
    check(made, same)
    reference = own_pairs / own_seconds
    return {
        "reference_seconds": NODES * SHAPES / reference,
        "reference_pairs_per_second": reference,
        "ratio": pace / reference,
        "same_cluster_pairs_per_second": pairs / same_seconds,
        "same_cluster_ratio": pace / (pairs / same_seconds),
    }


def check(made: Json, judged: Json) -> None:
    snapshot, waiting = snapshot_of(made)
    for one in waiting:
        mask = registry.find_feasible(snapshot, snapshot.shape_of(one), settings.DEFAULT_FILTER_CONFIG)
        for name, verdict in judged["verdicts"][one.name].items():
            if bool(mask[snapshot.nodes.rows[name]]) != (verdict is None):
                raise SystemExit(f"filters: {one.name} on {name}: kube-scheduler says {json.dumps(verdict)}")
