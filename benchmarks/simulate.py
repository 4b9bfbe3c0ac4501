"""A simulated cluster under changing load: simulated seconds per second, with the autoscaler, all checks and measures.

100, 1,000 and 5,000 nodes with fifteen pods each, for some simulated hours: a quarter of the pods follow the day, jobs
come and go, a budget holds for every service, and the autoscaler makes machines come and go. Seconds are those of one
core, so that neighbours on a shared machine do not count. `DAEMON_SETS` in the environment is how many DaemonSets run a
pod on every node (1), pinned to it as their controller does; `SIZES=100,1000` leaves sizes out.
"""

import os
import time
from dataclasses import dataclass

from windlass.simulator import autoscaler_run, simulation
from windlass.simulator.cluster import api_client
from windlass.simulator.scenario import loader, model

_STORY = """
name: benchmark
seed: 1
duration: {hours}h
begins: "2026-01-05T06:00:00Z"
sample: 5m
groups:
  - {{name: general, zones: [a, b, c], max: 10000, initial: {initial}, capacity: {{cpu: 8, memory: 32Gi}}, price: 0.4}}
workloads:
{daemons}
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


_DAEMON = "  - {{name: agent-{number}, kind: DaemonSet, requests: {{cpu: 100m, memory: 128Mi}}}}"
DAEMON_SETS = int(os.environ.get("DAEMON_SETS", "1"))
HOURS = {100: 6, 1000: 2, 5000: 1}
SIZES = [int(nodes) for nodes in os.environ.get("SIZES", "100,1000,5000").split(",")]


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
        daemons="\n".join(_DAEMON.format(number=number) for number in range(DAEMON_SETS)),
        hours=hours,
        initial=nodes // 3,
        low=per_kind // 2,
        high=per_kind * 3 // 2,
        rest=per_kind,
        jobs=nodes,
    )
    return loader.parse_scenario(text, "benchmark")


def measure(nodes: int, hours: int) -> Figures:
    began_s = time.process_time()
    story = simulation.Simulation(make_scenario(nodes, hours))
    founded: list[float] = []
    turns: list[int] = []

    async def play(story: simulation.Simulation) -> None:
        founded.append(time.process_time())
        turns.append(story.cluster.event_loop.turns)
        await autoscaler_run.run_autoscaler(story)

    result = story.run(play)
    if result.violations:
        raise SystemExit(f"simulate: {result.violations[0]}")
    ended_s = time.process_time()
    lived_s = ended_s - founded[0]
    pods = len(story.cluster.api.list_objects(api_client.PODS))
    events = story.cluster.event_loop.turns - turns[0]
    return Figures(nodes, pods, founded[0] - began_s, story.scenario.duration / lived_s, events / lived_s)


def run() -> dict[str, float]:
    began_s = time.perf_counter()
    told: dict[str, float] = {}
    for nodes in SIZES:
        figures = measure(nodes, HOURS[nodes])
        told |= {
            f"simulated_s_per_cpu_s_at_{nodes}_nodes": round(figures.simulated_s_per_s, 1),
            f"pods_at_{nodes}_nodes": figures.pods,
            f"founding_s_at_{nodes}_nodes": round(figures.founding_s, 2),
        }
    return {"seconds": round(time.perf_counter() - began_s, 2), **told}
