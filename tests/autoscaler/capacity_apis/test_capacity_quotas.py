"""CapacityQuotas on an API server: enforced once they are valid, and their status kept."""

from tests.autoscaler.capacity_apis.api_objects import add_quota, message, played, serving, status
from tests.autoscaler.in_process_cluster import Cluster
from windlass.engine.model.settings import LimitSettings, Settings
from windlass.kube import resources

ENFORCED = Settings(limits=LimitSettings(capacity_quotas_enabled=True))
VALID = "cluster-autoscaler.kubernetes.io/valid"


@played(ENFORCED)
async def test_a_quota_holds_growth_back_and_says_what_its_nodes_have(cluster: Cluster) -> None:
    add_quota(cluster, "q", {"nodes": "2", "cpu": "100"})
    async with serving(cluster, nodes=0):
        await cluster.clock.sleep(15)
        for number in range(5):
            cluster.add_pod(f"p{number}", "4")
        await cluster.until(lambda: len(cluster.provider.nodes) == 2)
        await cluster.clock.sleep(60)
        assert len(cluster.provider.nodes) == 2
        cluster.register_nodes()
        await cluster.clock.sleep(15)
        told = await status(cluster, resources.CAPACITY_QUOTAS, "q")
        assert told["used"] == {"resources": {"nodes": "2", "cpu": "8"}}
        assert [(item["type"], item["status"]) for item in told["conditions"]] == [
            (VALID, "True"),
            ("Reconciled", "True"),
        ]


@played(ENFORCED)
async def test_a_quota_that_is_not_valid_says_why_and_holds_nothing_back(cluster: Cluster) -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    add_quota(cluster, "q", {"nodes": "0"}, selector=bad)
    async with serving(cluster, nodes=0):
        cluster.add_pod("p", "4")
        await cluster.until(lambda: cluster.provider.nodes)
        told = await status(cluster, resources.CAPACITY_QUOTAS, "q")
        assert told["conditions"][0]["status"] == "False"
        assert "Near" in message(told, VALID)


@played(ENFORCED)
async def test_a_status_that_is_right_is_not_written_again(cluster: Cluster) -> None:
    add_quota(cluster, "q", {"memory": "64Gi"})
    async with serving(cluster):
        await cluster.clock.sleep(25)
        before = await cluster.api.get(resources.CAPACITY_QUOTAS, "q")
        await cluster.clock.sleep(100)
        after = await cluster.api.get(resources.CAPACITY_QUOTAS, "q")
        assert before.meta.resource_version == after.meta.resource_version
        assert (await status(cluster, resources.CAPACITY_QUOTAS, "q"))["used"]["resources"] == {"memory": "16Gi"}
