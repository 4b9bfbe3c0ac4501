"""A whole story is recorded and decided again as it was, in one file or in many."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autoscaler.record_replay import recorded_clusters
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import run_inline
from windlass.autoscaler.options import flags, process_options
from windlass.autoscaler.record_replay import recorder, recording_file
from windlass.providers.clusterapi import auto_discovery
from windlass.simulator import simulation
from windlass.simulator.scenario import loader

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
        servers = app.ApiServers(story.transport, story.transport)
        wired = replace(
            flags.parse_process_options(GIVEN), recording=process_options.RecordingOptions(str(path), limit_mib)
        )
        settings, config, chance = flags.parse_settings(GIVEN), auto_discovery.read_config((), {}), random.Random(1)
        running = app.AutoscalerProcess(servers, settings, wired, config, story.clock, run_inline, chance)
        async with asyncio.TaskGroup() as together:
            together.create_task(running.cluster_state.run())
            together.create_task(running.provider.run())
            together.create_task(running.lead())

    assert simulation.Simulation(loader.parse_scenario(EVENTFUL, "eventful")).run(player).violations == ()


@pytest.mark.parametrize("limit_mib", [100, 0])
def test_a_story_is_decided_again_as_it_was(tmp_path: Path, limit_mib: int) -> None:
    path = tmp_path / "file"
    play(path, limit_mib)
    assert recording_file.rotated_path(path).exists() == (limit_mib == 0)
    parts = (path, recording_file.rotated_path(path)) if limit_mib == 0 else (path,)
    assert [recorded_clusters.differences(part) for part in parts] == [[]] * len(parts)
    assert sum(recorded_clusters.count(part, lambda turn: turn.step.of == recorder.DECIDE) for part in parts) > 10
    assert sum(recorded_clusters.count(part, lambda turn: bool(turn.step.recorded.plan)) for part in parts) > 1
