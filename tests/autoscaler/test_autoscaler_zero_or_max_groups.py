"""Groups that have all of their nodes or none (ZeroOrMaxNodeScaling), in the live loop."""

from tests.autoscaler.in_process_cluster import Cluster, play, template
from tests.providers import fake_provider
from windlass.engine.model import node_groups
from windlass.engine.model.settings import GroupDefaults, Settings
from windlass.kube import request_builders, resources

QUICK = Settings(groups=GroupDefaults(scale_down_unneeded_time_s=30.0))
WHOLE = node_groups.GroupOptions(zero_or_max=True)
SIZE = 3
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"


def add_whole_group(cluster: Cluster, size: int) -> fake_provider.Group:
    group = fake_provider.Group("whole", 0, SIZE, template("whole"), size=size, options=WHOLE)
    cluster.provider.add(group)
    cluster.register_nodes()
    return group


def test_one_pod_brings_all_nodes() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = add_whole_group(cluster, 0)
        async with cluster.autoscaling():
            cluster.add_pod("p")
            await cluster.until(lambda: group.size)
            assert group.size == SIZE

    play(scenario, QUICK)


def test_no_node_goes_while_one_is_needed_and_then_all_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = add_whole_group(cluster, SIZE)
        names = [node.name for node in cluster.provider.nodes]
        cluster.add_pod("p", "3", node=names[0])
        async with cluster.autoscaling():
            await cluster.clock.sleep(300)
            assert group.size == SIZE
            assert not any([TO_BE_DELETED in await cluster.taints(name) for name in names])
            await cluster.api.delete(resources.PODS, "p", "default")
            await cluster.until(lambda: group.size == 0)
            assert not cluster.provider.nodes

    play(scenario, QUICK)


def test_all_go_together_where_their_pods_find_room_elsewhere() -> None:
    """More of them than may be drained at a time otherwise, and none before all are marked."""

    async def scenario(cluster: Cluster) -> None:
        group = add_whole_group(cluster, SIZE)
        names = [node.name for node in cluster.provider.nodes]
        other = cluster.add_group("other", 1)
        other.min_size = 1
        cluster.register_nodes()
        for number, name in enumerate(names):
            cluster.add_pod(f"p{number}", "100m", node=name)
        async with cluster.autoscaling():
            marked: list[int] = []
            while group.size == SIZE:
                await cluster.clock.sleep(0.5)
                marked.append(sum([TO_BE_DELETED in await cluster.taints(name) for name in names]))
            assert set(marked) == {0, SIZE}
            await cluster.until(lambda: group.size == 0)
            assert other.size == 1

    play(scenario, QUICK)


def test_empty_nodes_that_wait_for_a_drain_of_their_group_are_pending_deletions() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = add_whole_group(cluster, SIZE)
        names = [node.name for node in cluster.provider.nodes]
        cluster.add_group("other", 1).min_size = 1
        cluster.register_nodes()
        cluster.add_pod("p", "100m", node=names[0], finalizers=["test/hold"])
        async with cluster.autoscaling() as running:

            def count_pending() -> float | None:
                return running._reporter.metrics.registry.get_sample_value("cluster_autoscaler_pending_node_deletions")

            await cluster.until(lambda: count_pending() == SIZE - 1)
            assert group.size == SIZE
            release = request_builders.build_merge_patch(
                resources.PODS, "p", {"metadata": {"finalizers": None}}, "default"
            )
            assert cluster.server.handle(release).status == 200
            await cluster.until(lambda: group.size == 0)
            await cluster.until(lambda: count_pending() == 0)

    play(scenario, QUICK)
