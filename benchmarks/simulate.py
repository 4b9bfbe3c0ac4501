"""A cluster that breathes, in virtual time: simulated seconds per second, with all checks and measures running.

100, 1,000 and 5,000 nodes with fifteen pods each, for some simulated hours: a quarter of the pods follow the day, jobs
come and go, a budget holds for every service, and machines come and go.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.simulator import simulation
from windlass.simulator.scenario import model, reading
from windlass.simulator.world import kinds

_STORY = """
name: benchmark
seed: 1
duration: {hours}h
begins: "2026-01-05T06:00:00Z"
sample: 5m
groups:
  - {{name: general, zones: [a, b, c], max: 10000, initial: {initial}, capacity: {{cpu: 8, memory: 32Gi}}, price: 0.4}}
workloads:
  - {{name: agent, kind: DaemonSet, requests: {{cpu: 100m, memory: 128Mi}}}}
  - name: shop
    requests: {{cpu: 480m, memory: 1Gi}}
    daily: {{low: {low}, high: {high}, noise: 0.02}}
    spread: [{{over: zone, skew: 3}}]
    budget: {{max_unavailable: 10%}}
  - {{name: search, replicas: {rest}, requests: {{cpu: 480m, memory: 1500Mi}}, budget: {{max_unavailable: 10%}}}}
  - {{name: ledger, replicas: {rest}, requests: {{cpu: 480m, memory: 2Gi}}, budget: {{max_unavailable: 10%}}}}
  - name: mail
    kind: Job
    requests: {{cpu: 250m, memory: 512Mi}}
    run: {{median: 5m, spread: 0.5}}
    arrivals: {{per_hour: {jobs}}}
"""


@dataclass(frozen=True, slots=True)
class Figures:
    nodes: int
    pods: int
    founding_s: float
    simulated_s_per_s: float
    events_per_s: float


def make_scenario(nodes: int, hours: int) -> model.Scenario:
    per_kind = nodes * 14 // 4
    text = _STORY.format(
        hours=hours, initial=nodes // 3, low=per_kind // 2, high=per_kind * 3 // 2, rest=per_kind, jobs=nodes
    )
    return reading.read(text, "benchmark")


async def _come_and_go(story: simulation.Simulation) -> None:
    """Every ten minutes one machine in fifty comes, or goes."""
    api, turn = story.world.api, 0
    while True:
        await story.clock.sleep(600)
        turn += 1
        for found in list(api.all(kinds.MACHINE_DEPLOYMENTS).values()):
            size = found["spec"]["replicas"]
            change = max(size // 50, 1) * (1 if turn % 2 else -1)
            api.respec(kinds.MACHINE_DEPLOYMENTS, found, replicas=size + change)


def measure(nodes: int, hours: int) -> Figures:
    began_s = time.process_time()
    story = simulation.Simulation(make_scenario(nodes, hours))
    founded: list[float] = []
    turns: list[int] = []

    async def play(story: simulation.Simulation) -> None:
        founded.append(time.process_time())
        turns.append(story.world.pulse.turns)
        await _come_and_go(story)

    result = story.play(play)
    if result.violations:
        raise SystemExit(f"simulate: {result.violations[0]}")
    ended_s = time.process_time()
    lived_s = ended_s - founded[0]
    pods = len(story.world.api.all(kinds.PODS))
    events = story.world.pulse.turns - turns[0]
    return Figures(nodes, pods, founded[0] - began_s, story.scenario.duration / lived_s, events / lived_s)


def run() -> Iterator[Figures]:
    for nodes, hours in ((100, 12), (1000, 3), (5000, 1)):
        yield measure(nodes, hours)


def main() -> None:
    for found in run():
        print(
            f"simulate: {found.nodes} nodes, {found.pods} pods: {found.simulated_s_per_s:,.0f} simulated seconds per "
            f"second, {found.events_per_s:,.0f} events per second; founded in {found.founding_s:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
