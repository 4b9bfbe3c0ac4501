"""MachineDrainRules of Cluster API, through the live loop."""

from pathlib import Path
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_cluster_api import VERSION, arrange, autoscaling, find_size, put
from tests.autoscaler.test_autoscaler_drains import count_evictions, end_pods
from tests.providers.clusterapi.management_cluster import GROUP, define
from windlass.autoscaler.record_replay import recorder, replay, snapshot_journal
from windlass.kube import request_builders, resources

STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
WEB = [{"selector": {"matchLabels": {"app": "web"}}}]


def start(cluster: Cluster, **drain: Any) -> None:
    """g-1-1 has one pod that a rule selects and one that it does not, and could be emptied onto g-1-0."""
    arrange(cluster, 2)
    for kind in ("MachineDrainRule", "Cluster"):
        cluster.server.apply(define(GROUP, kind, VERSION))
    put(cluster, "MachineDrainRule", "web", spec={"drain": drain, "pods": WEB})
    cluster.add_pod("busy", "3", "g-1-0", annotations=STAYS)
    cluster.add_pod("selected", "10m", "g-1-1", labels={"app": "web"})
    cluster.add_pod("other", "10m", "g-1-1")


async def wait_until_gone(cluster: Cluster) -> None:
    since_s = cluster.clock.monotonic_s()
    while await find_size(cluster) > 1:
        assert cluster.clock.monotonic_s() < since_s + 300.0, "not in time"
        await cluster.clock.sleep(1.0)
        await end_pods(cluster)


def test_a_pod_to_skip_is_never_evicted_and_its_node_goes() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster, behavior="Skip")
        async with autoscaling(cluster):
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1}

    play(scenario, quick())


def test_a_node_goes_only_after_the_pod_to_wait_for_has_finished() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster, behavior="WaitCompleted")
        async with autoscaling(cluster):
            await cluster.clock.sleep(120.0)
            assert await find_size(cluster) == 2
            assert not count_evictions(cluster)
            assert not (await cluster.node("g-1-1"))["spec"].get("unschedulable")
            done = {"status": {"phase": "Succeeded"}}
            patch = request_builders.build_merge_patch(
                resources.PODS, "selected", done, "default", subresource="status"
            )
            assert cluster.server.handle(patch).status == 200
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1}

    play(scenario, quick())


def test_a_rule_that_cannot_be_read_keeps_nodes_until_it_can() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster, behavior="Explode")
        async with autoscaling(cluster):
            await cluster.clock.sleep(120.0)
            assert await find_size(cluster) == 2
            assert not count_evictions(cluster)
            put(cluster, "MachineDrainRule", "web", spec={"drain": {"behavior": "Drain"}, "pods": WEB})
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1, "selected": 1}

    play(scenario, quick())


@pytest.mark.parametrize("behavior", ["Skip", "WaitCompleted", "Explode"])
def test_without_the_flag_every_pod_is_evicted(behavior: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster, behavior=behavior)
        async with autoscaling(cluster):
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1, "selected": 1}

    play(scenario, quick(respect_machine_drain_rules=False))


def test_a_recording_holds_the_rules_and_is_decided_again_as_it_was(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "file", snapshot_journal.JournaledSnapshot()
    kept = recorder.DecisionRecorder(snapshot, path, recorded_clusters.PLENTY)

    async def scenario(cluster: Cluster) -> None:
        start(cluster, behavior="WaitCompleted")
        async with autoscaling(cluster, snapshot=snapshot, recorder=kept):
            await cluster.clock.sleep(60.0)
            put(cluster, "MachineDrainRule", "web", spec={"drain": {"behavior": "Skip"}, "pods": WEB})
            await wait_until_gone(cluster)
        kept.close()

    play(scenario, quick())
    assert recorded_clusters.differences(path) == []
    seen = [turn.step.seen.machine_drain_rules for turn in replay.replay_steps(replay.Recording(path))]
    assert list(dict.fromkeys(rule.behavior for rules in seen for rule in rules)) == ["WaitCompleted", "Skip"]
