"""Cluster API's label cluster.x-k8s.io/drain, through the live loop."""

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_drains import count_evictions, end_pods
from windlass.kube import request_builders, resources

STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def labelled_beside_others(cluster: Cluster, value: str) -> None:
    """a-2 has one pod with the label and one without, and could be emptied onto a-1."""
    cluster.add_group("a", 2)
    cluster.register_nodes()
    cluster.add_pod("busy", "3", "a-1", annotations=STAYS)
    cluster.add_pod("labelled", "10m", "a-2", labels={"cluster.x-k8s.io/drain": value})
    cluster.add_pod("other", "10m", "a-2")


async def wait_until_gone(cluster: Cluster) -> None:
    since_s = cluster.clock.monotonic_s()
    while cluster.provider.groups["a"].size > 1:
        assert cluster.clock.monotonic_s() < since_s + 300.0, "not in time"
        await cluster.clock.sleep(1.0)
        await end_pods(cluster)


def test_a_pod_to_skip_is_never_evicted_and_its_node_goes() -> None:
    async def scenario(cluster: Cluster) -> None:
        labelled_beside_others(cluster, "skip")
        async with cluster.autoscaling():
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1}

    play(scenario, quick())


def test_a_node_goes_only_after_the_pod_to_wait_for_has_finished() -> None:
    async def scenario(cluster: Cluster) -> None:
        labelled_beside_others(cluster, "wait-completed")
        async with cluster.autoscaling():
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["a"].size == 2
            assert not count_evictions(cluster)
            assert not (await cluster.node("a-2"))["spec"].get("unschedulable")
            done = {"status": {"phase": "Succeeded"}}
            cluster.server.handle(
                request_builders.build_merge_patch(resources.PODS, "labelled", done, "default", subresource="status")
            )
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"other": 1}

    play(scenario, quick())


def test_without_the_flag_every_pod_is_evicted() -> None:
    async def scenario(cluster: Cluster) -> None:
        labelled_beside_others(cluster, "wait-completed")
        async with cluster.autoscaling():
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"labelled": 1, "other": 1}

    play(scenario, quick(respect_machine_drain_rules=False))
