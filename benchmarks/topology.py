"""20,000 pods in 100 apps with five kinds of constraints against 3,000 nodes in three zones.

One fifth of the apps each: plain, spread over zones, spread over hostnames, together in one zone, apart on hostnames.
Pods come interleaved, as a cluster's list of pending pods does.
"""

import time

from benchmarks import clusters
from windlass.engine.model import facts, settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot import cluster_snapshot as snapshots

APPS, NODES, PODS = 100, 3_000, 20_000


def app_spec(number: int) -> facts.PodSpec:
    app = f"app-{number}"
    requests = clusters.requests(100 + 50 * (number % 7), (1 + number % 5) * clusters.GIB // 8)
    match number % 5:
        case 0:
            return facts.PodSpec(requests=requests)
        case 1:
            return facts.PodSpec(requests=requests, spread=clusters.spread_over(app, facts.ZONE))
        case 2:
            return facts.PodSpec(requests=requests, spread=clusters.spread_over(app, facts.HOSTNAME))
        case 3:
            return facts.PodSpec(requests=requests, affinity=clusters.near_or_apart(app, facts.ZONE))
        case _:
            return facts.PodSpec(requests=requests, anti_affinity=clusters.near_or_apart(app, facts.HOSTNAME))


def decide(pods: int) -> tuple[float, int]:
    """(seconds, pods placed) for one decision over so many pending pods."""
    snapshot = snapshots.build_snapshot((clusters.node(n, 8_000, 32 * clusters.GIB) for n in range(NODES)), [])
    per_app = [list(clusters.pods_of(f"app-{n}", pods // APPS, app_spec(n))) for n in range(APPS)]
    rows = [row for pod in (p for group in zip(*per_app, strict=True) for p in group)
            if (row := snapshot.add_pod(pod)) is not None]  # fmt: skip
    started = time.perf_counter()
    snapshot.fork()
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    scheduling_result = hinting.try_schedule_pods(placer, rows, hinting.HintingState(), snapshot.nodes.alive)
    snapshot.commit()
    return time.perf_counter() - started, len(scheduling_result.placed)


def run() -> dict[str, float]:
    decide(1_000)
    quarter_seconds, _ = min(decide(PODS // 4) for _ in range(2))
    seconds, placed = min(decide(PODS) for _ in range(2))
    return {
        "seconds": seconds,
        "pods_per_second": PODS / seconds,
        "placed": placed,
        "quarter_seconds": quarter_seconds,
        "growth": seconds / quarter_seconds,
    }
