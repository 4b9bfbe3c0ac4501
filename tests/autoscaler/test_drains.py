"""Drains through the live loop: what becomes of nodes when machines, servers and people do not do as they should."""

from tests.autoscaler.little_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from windlass.engine import taints


def idle_beside_busy(cluster: Cluster) -> None:
    """Two nodes, of which a-2 is idle."""
    cluster.add_group("a", 2)
    cluster.register_nodes()
    cluster.add_pod("p", "3", "a-1")


def test_a_node_that_outlives_its_machine_is_never_reopened() -> None:
    async def scenario(cluster: Cluster) -> None:
        idle_beside_busy(cluster)
        async with cluster.autoscaling() as running:
            while cluster.provider.groups["a"].size > 1:
                await cluster.clock.sleep(1.0)
            for _ in range(600):  # nobody deletes the Node object
                await cluster.clock.sleep(1.0)
                assert taints.TO_BE_DELETED in await cluster.taints("a-2")
                assert (await cluster.node("a-2"))["spec"]["unschedulable"] is True
            assert not running.memory.durable.drains

    play(scenario, quick())
