"""450,000 pods of 500 shapes, each with a label of its own, on 15,000 nodes: what the snapshot weighs and takes.

The facts come one by one, as informers hand them over; only what the snapshot keeps stays.
"""

import gc
import resource
import time
from collections.abc import Iterator

from benchmarks import clusters
from windlass.engine import facts
from windlass.engine import snapshot as snapshots

NODES, PODS, SHAPES = 15_000, 450_000, 500


def pods() -> Iterator[facts.Pod]:
    specs = [
        facts.PodSpec(requests=clusters.requests(10 + number, clusters.GIB // 64 + number), priority=number % 3)
        for number in range(SHAPES)
    ]
    owners = [facts.Owner("apps/v1", "ReplicaSet", f"app-{n}", f"uid-app-{n}") for n in range(SHAPES)]
    for number in range(PODS):
        app = number % SHAPES
        yield facts.Pod(
            f"team-{app % 20}",
            f"app-{app}-{number}",
            f"00000000-0000-4000-8000-{number:012d}",
            {"app": f"app-{app}", "tier": "web", "pod-name": f"app-{app}-{number}"},
            owner=owners[app],
            spec=specs[app],
            digest=f"digest-{app}",
            node_name=f"node-{number % NODES:05d}",
            phase="Running",
            created_s=float(number),
        )


def run() -> dict[str, float]:
    before_mb = _resident_mb()
    snapshot = snapshots.Snapshot()
    seconds = 0.0
    gc.disable()
    for number in range(NODES):
        node = clusters.node(number, 32_000, 128 * clusters.GIB)
        started = time.perf_counter()
        snapshot.add_node(node)
        seconds += time.perf_counter() - started
    for pod in pods():
        started = time.perf_counter()
        snapshot.add_pod(pod)
        seconds += time.perf_counter() - started
    gc.enable()
    assert len(snapshot.pods) == PODS
    assert len(snapshot.shapes) == SHAPES
    return {
        "seconds": seconds,
        "rss_mb": _resident_mb(),
        "before_mb": before_mb,
        "pods_per_second": PODS / seconds,
        "shapes": len(snapshot.shapes),
    }


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
