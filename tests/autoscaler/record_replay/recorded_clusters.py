"""Little clusters whose autoscaler is recorded."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.autoscaler.in_process_cluster import Cluster
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.autoscaler.record_replay import recorder, replay, snapshot_journal
from windlass.engine.model import node_groups
from windlass.engine.model.settings import Settings
from windlass.kube import request_builders, resources

PLENTY = 2**30


def quick() -> Settings:
    """Nodes go after half a minute."""
    settings = Settings()
    return replace(
        settings,
        groups=replace(settings.groups, scale_down_unneeded_time_s=30.0),
        scale_down=replace(settings.scale_down, scale_down_delay_after_add_s=10.0),
    )


@contextlib.asynccontextmanager
async def recording(cluster: Cluster, path: Path, limit_bytes: int = PLENTY, **more: Any) -> AsyncIterator[Autoscaler]:
    snapshot = snapshot_journal.JournaledSnapshot()
    kept = recorder.DecisionRecorder(snapshot, path, limit_bytes)
    async with cluster.autoscaling(snapshot, recorder=kept, **more) as running:
        yield running
    kept.close()


async def live(cluster: Cluster, running: Autoscaler) -> None:
    """Pods come, one group refuses, nodes come, pods go, a node is drained and goes."""
    cluster.add_group("a", 1, boot_s=20.0, delete_s=1.0)
    refusing = cluster.add_group("b", 0)
    refusing.refuses = node_groups.InstanceError("Other", "cloudProviderError", "no")
    cluster.register_nodes()
    for number in range(6):
        cluster.add_pod(f"p{number}", "2")
    await cluster.until(lambda: cluster.provider.groups["a"].size >= 3)
    await cluster.until(lambda: len(cluster.provider.nodes) >= 3)
    for number in range(6):
        assert (
            cluster.server.handle(request_builders.build_delete(resources.PODS, f"p{number}", "default")).status == 200
        )
    await cluster.until(lambda: cluster.provider.groups["a"].size == 0, 600.0)
    await cluster.until(lambda: not running.memory.durable.drains)


def differences(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """Steps that are not decided again as they were."""
    turns = replay.replay_steps(replay.Recording(path))
    return [(turn.step.number, turn.differences) for turn in turns if turn.differences]


def count(path: Path, counted: Callable[[replay.ReplayedStep], bool] = lambda turn: True) -> int:
    return sum(map(counted, replay.replay_steps(replay.Recording(path))))
