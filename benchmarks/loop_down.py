"""2,000 nodes, 80,000 pods, 1,200 nodes to remove in one loop: the peer's BenchmarkRunOnceScaleDown."""

import dataclasses

from benchmarks import clusters, loops
from windlass.engine import loop_memory
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings

NODES, PODS_PER_NODE = 2_000, 40


def settings() -> Settings:
    chosen = Settings()
    return dataclasses.replace(
        chosen,
        groups=dataclasses.replace(chosen.groups, scale_down_unneeded_time_s=0.0),
        scale_down=dataclasses.replace(
            chosen.scale_down,
            max_scale_down_parallelism=NODES,
            max_drain_parallelism=NODES,
            scale_down_delay_after_add_s=0.0,
        ),
    )


def run() -> dict[str, float]:
    nodes = [loops.member(n, "a", 10_000, 25 * clusters.GIB) for n in range(NODES)]
    spec = facts.PodSpec(requests=clusters.requests(100, clusters.GIB // 4))
    pods = [
        pod
        for n, node in enumerate(nodes)
        for pod in clusters.pods_of("app", PODS_PER_NODE, spec, first=n * PODS_PER_NODE, node_name=node.name)
    ]
    observation, ingest_seconds = loops.observe(nodes, pods, [loops.group("a", nodes, nodes[0], NODES)])
    del pods  # the snapshot keeps none of these objects
    controller = facts.Controller("ReplicaSet", "default", "app", replicas=NODES * PODS_PER_NODE)
    observation = dataclasses.replace(observation, controllers={("ReplicaSet", "default", "app"): controller})
    chosen = settings()
    seconds, decision = loops.best(3, lambda: loops.decide_once(observation, chosen, loop_memory.LoopMemory()))
    going = sum(isinstance(instruction, plan.Drain) for instruction in decision.plan)
    return {"seconds": seconds, "seconds_with_ingest": seconds + ingest_seconds, "removed": going}
