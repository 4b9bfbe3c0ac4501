"""2,000 nodes with 40 pods each, every node a candidate: which can go, their pods moving to the others?

All pods together need 800 nodes, so 1,200 can go. Each node runs four pods of each of ten apps out of fifty
(`seconds`); with forty pods of random apps it holds 28 different ones on average (`diverse_seconds`). Drain rules and
disruption budgets are asked for every pod.
"""

import time

import numpy as np

from benchmarks import clusters
from windlass.engine.drainability import context, pdb, rules
from windlass.engine.model import facts, settings
from windlass.engine.placement import hinting
from windlass.engine.scale_down import removal_simulator
from windlass.engine.snapshot import cluster_snapshot as snapshots

NODES, PODS_PER_NODE, APPS, TOGETHER = 2_000, 40, 50, 4


def build(together: int) -> tuple[snapshots.Snapshot, removal_simulator.RemovalSimulator]:
    """Nodes at two fifths of what they hold: 100 pods of a tenth of a core and their share of memory."""
    random = clusters.generator()
    apps = [
        facts.PodSpec(requests=clusters.requests(100, clusters.GIB // 4), tolerations=_tolerations(number))
        for number in range(APPS)
    ]
    snapshot = snapshots.build_snapshot(
        (clusters.node(n, 10_000, 25 * clusters.GIB, pods=110) for n in range(NODES)), []
    )
    for number in range(NODES):
        drawn = np.repeat(random.integers(APPS, size=PODS_PER_NODE // together), together)
        for app, count in zip(*np.unique(drawn, return_counts=True), strict=True):
            for pod in clusters.pods_of(
                f"app-{app}", int(count), apps[app], first=number * PODS_PER_NODE, node_name=f"node-{number:05d}"
            ):
                snapshot.add_pod(pod)
    budgets = pdb.RemainingPdbTracker(
        facts.PodDisruptionBudget("default", f"app-{app}", clusters.app_selector(f"app-{app}"), NODES)
        for app in range(APPS)
    )
    controllers = {
        ("ReplicaSet", "default", f"app-{app}"): facts.Controller("ReplicaSet", "default", f"app-{app}", replicas=1600)
        for app in range(APPS)
    }
    judge = rules.PodDrainability(snapshot.pods, context.DrainContext(0.0, budgets=budgets, controllers=controllers))
    everywhere = np.ones(NODES, bool)
    return snapshot, removal_simulator.RemovalSimulator(
        snapshot, judge, budgets, everywhere, hinting.HintingState(), settings.DEFAULT_FILTER_CONFIG
    )


def _tolerations(number: int) -> tuple[facts.Toleration, ...]:
    return (facts.Toleration(f"team-{number}", "Exists", "", ""),)


def once(together: int) -> tuple[float, int]:
    snapshot, simulator = build(together)
    started = time.perf_counter()
    results = [simulator.simulate(name) for name in list(snapshot.nodes.names)]
    return time.perf_counter() - started, sum(result.is_removable for result in results)


def run() -> dict[str, float]:
    seconds, removable = min(once(TOGETHER) for _ in range(3))
    diverse_seconds, _ = min(once(1) for _ in range(2))
    return {
        "seconds": seconds,
        "removable": removable,
        "nodes_per_second": NODES / seconds,
        "diverse_seconds": diverse_seconds,
    }
