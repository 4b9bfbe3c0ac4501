"""20 groups, 50,000 pending pods in 100 shapes: which groups grow, in one loop."""

import dataclasses

from benchmarks import clusters, loops
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings

GROUPS, PODS, SHAPES = 20, 50_000, 100


def run() -> dict[str, float]:
    random = clusters.generator()
    groups = []
    for number in range(GROUPS):
        cores = 4 * (1 + number % 5)
        template = clusters.node(number, cores * 1_000, cores * 4 * clusters.GIB, pool=f"pool-{number % 4}")
        groups.append(loops.group(f"group-{number:02d}", [], template, 5_000))
    pods = []
    for number in range(SHAPES):
        spec = facts.PodSpec(
            requests=clusters.requests(
                100 * int(random.integers(1, 20)), clusters.GIB // 4 * int(random.integers(1, 16))
            ),
            node_selector=(("pool", f"pool-{number % 4}"),),
        )
        pods += [loops.pending(pod) for pod in clusters.pods_of(f"app-{number}", PODS // SHAPES, spec)]
    observation, ingest_seconds = loops.observe([], pods, groups)
    settings = Settings()
    settings = dataclasses.replace(
        settings, scale_up=dataclasses.replace(settings.scale_up, max_nodes_per_scaleup=5_000)
    )
    seconds, decision = loops.best(3, lambda: loops.decide_once(observation, settings))
    resizes = [instruction for instruction in decision.plan if isinstance(instruction, plan.Resize)]
    return {
        "seconds": seconds,
        "seconds_with_ingest": seconds + ingest_seconds,
        "groups": len({resize.group for resize in resizes}),
        "nodes": sum(one.to_size - one.from_size for one in resizes),
        "helped": sum(len(proposal.helped) for proposal in decision.story.scale_ups),
    }
