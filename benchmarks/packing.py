"""50,000 pods in 100 shapes onto new nodes, against placing them one by one."""

import time

from benchmarks import clusters
from windlass.engine.model import settings
from windlass.engine.model.facts import PodSpec
from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.snapshot import cluster_snapshot as snapshots

SHAPES, PODS = 100, 50_000


def run() -> dict[str, float]:
    random = clusters.generator()
    snapshot = snapshots.build_snapshot([clusters.node(0, 16_000, 64 * clusters.GIB)], [])
    template = binpacking_estimator.NodeTemplate(clusters.node(1, 32_000, 128 * clusters.GIB))
    groups = []
    for number in range(SHAPES):
        spec = PodSpec(
            requests=clusters.requests(
                int(random.integers(1, 40)) * 100, int(random.integers(1, 64)) * clusters.GIB // 8
            )
        )
        pod = next(clusters.pods_of(f"app-{number}", 1, spec))
        groups.append(binpacking_estimator.ShapeCount(snapshot.shape_of(pod), PODS // SHAPES))

    def pack(these: list[binpacking_estimator.ShapeCount]) -> tuple[float, binpacking_estimator.Estimate]:
        started = time.perf_counter()
        estimate = binpacking_estimator.estimate(
            snapshot, these, template, binpacking_estimator.EstimationLimiter([]), settings.DEFAULT_FILTER_CONFIG
        )
        return time.perf_counter() - started, estimate

    seconds, found = min((pack(groups) for _ in range(5)), key=lambda pair: pair[0])
    singly = [binpacking_estimator.ShapeCount(group.shape, 1) for group in groups for _ in range(group.count)]
    reference_seconds, one_by_one = pack(singly)
    if (found.nodes, sum(found.placed)) != (one_by_one.nodes, sum(one_by_one.placed)):
        raise SystemExit(f"packing: {found.nodes} nodes class-wise, {one_by_one.nodes} one by one")
    return {
        "seconds": seconds,
        "reference_seconds": reference_seconds,
        "ratio": reference_seconds / seconds,
        "pods_per_second": PODS / seconds,
        "nodes": found.nodes,
    }
