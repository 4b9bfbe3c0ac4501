"""A week of three hundred nodes in one process: does anything grow? `python -m tests.chaos.soak --days 7`.

Every day is like the one before, so whatever is larger at the end of a day than at the end of the third was kept and
not needed. On the first days caches fill, and the bounded history of figures and decisions: its samples last a day, or
longer where little changes. Exit code 0 if memory stays within five percent, and nothing else grows.
"""

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass.autoscaler import memory_store
from windlass.autoscaler.app import AutoscalerProcess
from windlass.observability import status_builder
from windlass.observability.status_publisher import StatusPublisher
from windlass.simulator import autoscaler_run
from windlass.simulator.scenario import loader, model
from windlass.simulator.simulation import Simulation

DAY_S = 86400.0
_TOLERATED = 0.05
_SETTLED = 3
"""The day on which caches and history are full."""
_COMPACTED_EVERY_S = 300.0
"""As often as an API server has its etcd compacted."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Reading:
    """How large everything is at the end of a day."""

    day: int
    rss_bytes: int
    objects: int
    """That the garbage collector knows."""
    tasks: int
    watches: int
    """That the API server serves."""
    descriptors: int
    memory_bytes: int
    """What is written down to survive a restart."""
    nodes: int
    pods: int

    def __str__(self) -> str:
        return (
            f"day {self.day}: {self.rss_bytes / 2**20:.1f} MiB resident, {self.objects:,} objects, {self.tasks} tasks, "
            f"{self.watches} watches, {self.descriptors} descriptors, {self.memory_bytes:,} bytes of memory kept; "
            f"{self.nodes} nodes, {self.pods:,} pods"
        )


class Soaking:
    """Plays the week, and reads at the end of each day."""

    def __init__(self, simulation: Simulation, days: int) -> None:
        self.published = StatusPublisher(simulation.clock.now_s, status_builder.PublisherInfo("simulated", "soak"))
        self.readings: list[Reading] = []
        self._simulation, self._days = simulation, days
        self._process: AutoscalerProcess | None = None

    def attach(self, process: AutoscalerProcess) -> None:
        """Everything is kept as it is live."""
        process.reporter.keeps_gauges = True
        self._process = process

    async def __call__(self, simulation: Simulation) -> None:
        self._compact()
        for day in range(1, self._days + 1):
            simulation.cluster.event_loop.call_later(day * DAY_S - 60.0, lambda day=day: self._read(day))  # type: ignore[misc]
        await autoscaler_run.run_autoscaler(simulation, observer=self)

    def _compact(self) -> None:
        """The server is part of this process, and would keep ten thousand changes of each kind for its watches."""
        self._simulation.cluster.api.server.compact()
        self._simulation.cluster.event_loop.call_later(_COMPACTED_EVERY_S, self._compact)

    def _read(self, day: int) -> None:
        gc.collect()
        process, api = self._process, self._simulation.cluster.api
        assert process is not None
        reading = Reading(
            day,
            int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES,
            len(gc.get_objects()) + gc.get_freeze_count(),
            len(asyncio.all_tasks()),
            sum(len(table.watchers) for table in api.server.core.store.tables.values()),
            len(os.listdir("/proc/self/fd")),
            len(memory_store.encode_memory(process.autoscaler.memory.durable)),
            len(process.cluster_state.nodes()),
            len(api.server.core.store.tables["", "pods"].objects),
        )
        self.readings.append(reading)
        print(reading, flush=True)


def make_scenario(days: int) -> model.Scenario:
    """Some pods follow the day, Jobs come and go, a zone is lost each afternoon, a rollout comes each morning."""
    scenario = model.Scenario(
        name="soak",
        seed=7,
        duration=model.Seconds(days * DAY_S),
        sample=model.Seconds(3600),
        flags={"scale-down-unneeded-time": "10m", "expander": "least-waste", "balance-similar-node-groups": True},
        groups=(
            model.Group(
                name="general",
                zones=("a", "b", "c"),
                min=3,
                max=130,
                initial=70,
                capacity={"cpu": 4, "memory": "16Gi", "pods": 60},
                price=0.2,
                boot=model.Timing(75.0, 0.3, 40.0),
                failure_rate=0.01,
                remediate_after=model.Seconds(1800),
            ),
        ),
        workloads=(
            model.Workload(name="agent", kind="DaemonSet", requests={"cpu": "100m", "memory": "100Mi"}),
            model.Workload(
                name="shop",
                requests={"cpu": "1800m", "memory": "2Gi"},
                daily=model.Daily(low=400, high=590, every=model.Seconds(1800)),
                budget=model.Budget(max_unavailable="10%"),
            ),
            model.Workload(
                name="mail",
                kind="Job",
                replicas=1,
                requests={"cpu": "500m", "memory": "512Mi"},
                run=model.Timing(600.0, 0.5),
                arrivals=model.Arrivals(per_hour=20),
            ),
        ),
        timeline=tuple(_draw_steps(days)),
    )
    mistakes = loader.validate(scenario)
    assert not mistakes, mistakes
    return scenario


def _draw_steps(days: int) -> Iterator[model.AnyStep]:
    for day in range(days):
        begins_s = day * DAY_S
        yield model.Rollout(at=model.Seconds(begins_s + 9 * 3600), workload="shop")
        yield model.Outage(at=model.Seconds(begins_s + 13.5 * 3600), zone="b", lasts=model.Seconds(1800))
        yield model.Vanish(at=model.Seconds(begins_s + 18 * 3600), group="general-a", count=3)


def find_growth(readings: list[Reading]) -> Iterator[str]:
    """What is larger than it was on the day on which it settled, or on the first, if there is no such day."""
    settled = readings[_SETTLED - 1 :] or readings
    first = settled[0]
    for reading in settled:
        if abs(reading.rss_bytes / first.rss_bytes - 1.0) > _TOLERATED:
            change = reading.rss_bytes / first.rss_bytes - 1.0
            yield f"day {reading.day}: resident memory {change:+.1%} since day {first.day}"
        for name in ("tasks", "watches", "descriptors"):
            if getattr(reading, name) > getattr(first, name):
                yield f"day {reading.day}: {getattr(reading, name)} {name}, {getattr(first, name)} on day {first.day}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--days", type=int, default=7)
    days = parser.parse_args().days
    began_s, cpu_s = time.monotonic(), time.process_time()
    simulation = Simulation(make_scenario(days))
    soaking = Soaking(simulation, days)
    result = simulation.run(soaking)
    growth = [*find_growth(soaking.readings), *map(str, result.violations)]
    print(*growth, sep="\n" if growth else "")
    totals = result.totals
    print(
        f"{days} days in {time.monotonic() - began_s:.0f} s ({time.process_time() - cpu_s:.0f} s of CPU): at most "
        f"{totals['most_nodes']:g} nodes, {totals['nodes_added']:g} came, {totals['nodes_removed']:g} went, "
        f"{totals['pods']:,.0f} pods, {totals['evictions']:g} evictions; "
        f"{'something grows' if growth else 'nothing grows'}"
    )
    return 1 if growth else 0


if __name__ == "__main__":
    sys.exit(main())
