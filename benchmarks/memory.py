"""450,000 pods of 500 shapes, each with a label of its own, on 15,000 nodes: what the snapshot weighs and takes.

Eight pods of every node are of DaemonSets, as their controller writes them (`daemon_pods`). The facts come one by one,
as informers hand them over; only what the snapshot keeps stays. `seconds` is what the snapshot takes,
`read_cpu_seconds` what the reading of the DaemonSet pods takes besides.
"""

import gc
import resource
import time
from collections.abc import Iterator

from benchmarks import clusters, daemon_pods
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot as snapshots

NODES, PODS, SHAPES = 15_000, 450_000, 500


def pods() -> Iterator[facts.Pod]:
    specs = [
        facts.PodSpec(requests=clusters.requests(10 + number, clusters.GIB // 64 + number), priority=number % 3)
        for number in range(SHAPES)
    ]
    owners = [facts.Owner("apps/v1", "ReplicaSet", f"app-{n}", f"uid-app-{n}") for n in range(SHAPES)]
    for number in range(PODS - NODES * daemon_pods.COUNT):
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
    before_mb, cpu_s = _resident_mb(), time.process_time()
    snapshot = snapshots.Snapshot()
    seconds = 0.0
    gc.disable()
    for number in range(NODES):
        node = clusters.node(number, 32_000, 128 * clusters.GIB)
        started = time.perf_counter()
        snapshot.add_node(node)
        seconds += time.perf_counter() - started
    daemons, read_cpu_s = daemon_pods.DaemonPods(), 0.0
    for name in list(snapshot.nodes.rows):
        started_cpu_s = time.process_time()
        found = list(daemons.on(name))
        read_cpu_s += time.process_time() - started_cpu_s
        started = time.perf_counter()
        for pod in found:
            snapshot.add_pod(pod)
        seconds += time.perf_counter() - started
    for pod in pods():
        started = time.perf_counter()
        snapshot.add_pod(pod)
        seconds += time.perf_counter() - started
    gc.enable()
    assert len(snapshot.pods) == PODS
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu_s,
        "rss_mb": _resident_mb(),
        "before_mb": before_mb,
        "pods_per_second": PODS / seconds,
        "daemonsets": daemon_pods.COUNT,
        "read_cpu_seconds": read_cpu_s,
        "kinds": len(snapshot.pods.template_keys),
        "shapes": len(snapshot.shapes),
    }


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
