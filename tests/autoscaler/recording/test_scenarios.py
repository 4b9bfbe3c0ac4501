"""A whole story is recorded and decided again as it was, in one file or in many."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autoscaler.recording import recorded
from windlass.autoscaler import flags, process, wiring
from windlass.autoscaler.autoscaler import inline
from windlass.autoscaler.recording import files, recorder
from windlass.providers.clusterapi import config
from windlass.simulator import simulation
from windlass.simulator.scenario import reading

EVENTFUL = """
name: eventful
seed: 3
duration: 1h
groups:
  - name: general
    zones: [a, b]
    min: 1
    max: 9
    initial: 2
    capacity: {cpu: 8, memory: 32Gi}
    boot: {median: 90s, spread: 0.4}
    failure_rate: 0.2
workloads:
  - {name: agent, kind: DaemonSet, requests: {cpu: 100m}}
  - name: web
    daily: {low: 10, high: 60, peak: 40m, noise: 0.1}
    requests: {cpu: 500m}
    budget: {max_unavailable: 20%}
  - name: batch
    kind: Job
    replicas: 3
    run: {median: 5m, spread: 0.5}
    requests: {cpu: 1}
    arrivals: {per_hour: 20}
timeline:
  - {at: 20m, do: outage, zone: a, for: 10m}
  - {at: 40m, do: rollout, workload: web}
  - {at: 50m, do: vanish, group: general, count: 1}
"""
GIVEN = {"leader-elect": "false", "kube-client-qps": "0", "scale-down-unneeded-time": "3m"}


def play(path: Path, limit_mib: int) -> None:
    async def player(story: simulation.Simulation) -> None:
        servers = process.Servers(story.transport, story.transport)
        wired = replace(flags.read_wiring(GIVEN), recording=wiring.Recording(str(path), limit_mib))
        chosen, found, chance = flags.read_flags(GIVEN), config.read((), {}), random.Random(1)
        running = process.Process(servers, chosen, wired, found, story.clock, inline, chance)
        async with asyncio.TaskGroup() as together:
            together.create_task(running.world.run())
            together.create_task(running.provider.run())
            together.create_task(running.lead())

    assert simulation.Simulation(reading.read(EVENTFUL, "eventful")).play(player).violations == ()


@pytest.mark.parametrize("limit_mib", [100, 0])
def test_a_story_is_decided_again_as_it_was(tmp_path: Path, limit_mib: int) -> None:
    path = tmp_path / "file"
    play(path, limit_mib)
    assert files.earlier(path).exists() == (limit_mib == 0)
    parts = (path, files.earlier(path)) if limit_mib == 0 else (path,)
    assert [recorded.differences(part) for part in parts] == [[]] * len(parts)
    assert sum(recorded.count(part, lambda turn: turn.step.of == recorder.DECIDE) for part in parts) > 10
    assert sum(recorded.count(part, lambda turn: bool(turn.step.recorded.plan)) for part in parts) > 1
