"""10,000 pending pods in 100 apps that keep apart on hostnames, against the same loop without that."""

from benchmarks import clusters, loops
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings

PODS, APPS = 10_000, 100


def measure(apart: bool) -> tuple[float, int]:
    """(seconds, nodes asked for)."""
    template = clusters.node(0, 16_000, 64 * clusters.GIB)
    pods = []
    for number in range(APPS):
        app = f"app-{number}"
        anti = clusters.near_or_apart(app, facts.HOSTNAME) if apart else ()
        spec = facts.PodSpec(requests=clusters.requests(150, clusters.GIB // 2), anti_affinity=anti)
        pods += [loops.pending(pod) for pod in clusters.pods_of(app, PODS // APPS, spec)]
    observation, _ = loops.observe([], pods, [loops.group("a", [], template, 5_000)])
    seconds, decision = loops.best(3, lambda: loops.decide_once(observation, Settings()))
    return seconds, sum(
        instruction.to_size - instruction.from_size
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
    )


def run() -> dict[str, float]:
    seconds, nodes = measure(apart=True)
    plain_seconds, plain_nodes = measure(apart=False)
    return {
        "seconds": seconds,
        "nodes": nodes,
        "plain_seconds": plain_seconds,
        "plain_nodes": plain_nodes,
        "slowdown": seconds / plain_seconds,
    }
