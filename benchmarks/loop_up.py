"""0 → 1,000 nodes for 50,000 identical pods without an owner, 50 to a node: the peer's BenchmarkRunOnceScaleUp."""

from benchmarks import clusters, loops
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings

PODS, PER_NODE = 50_000, 50


def run() -> dict[str, float]:
    template = clusters.node(0, 5_000, 50 * clusters.GIB)
    spec = facts.PodSpec(requests=clusters.requests(100, clusters.GIB))
    pods = [
        facts.Pod(
            "default",
            f"pod-{n}",
            f"uid-{n}",
            spec=spec,
            digest="same",
            unschedulable_since_s=loops.NOW_S - 60,
            created_s=loops.NOW_S - 60,
        )
        for n in range(PODS)
    ]
    observation, ingest_seconds = loops.observe([], pods, [loops.group("a", [], template, 2_000)])
    seconds, decision = loops.best(3, lambda: loops.decide_once(observation, Settings()))
    added = sum(
        instruction.to_size - instruction.from_size
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
    )
    return {"seconds": seconds, "seconds_with_ingest": seconds + ingest_seconds, "nodes": added}
