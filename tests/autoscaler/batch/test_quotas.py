"""CapacityQuotas on an API server: enforced once they say that they are valid, and what their nodes hold."""

from typing import Any

import yaml

from tests.autoscaler.batch.test_requests import CRDS, without_rules
from tests.autoscaler.little_cluster import Cluster, play
from windlass.engine.settings import Limits, Settings
from windlass.kube import resources

ENFORCED = Settings(limits=Limits(capacity_quotas_enabled=True))


def add_quota(cluster: Cluster, name: str, limits: dict[str, str], **spec: Any) -> None:
    metadata = {"name": name}
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": metadata}
    cluster.server.apply({**kind, "spec": {"limits": {"resources": limits}, **spec}}, "test")


def install(cluster: Cluster) -> None:
    definition = yaml.safe_load((CRDS / "autoscaling.x-k8s.io_capacityquotas.yaml").read_text())
    cluster.server.apply(without_rules(definition), "test")


async def status(cluster: Cluster, name: str) -> dict[str, Any]:
    found = await cluster.api.get(resources.CAPACITY_QUOTAS.untyped(), name)
    told: dict[str, Any] = found.get("status", {})
    return told


def test_a_quota_holds_growth_back_and_says_what_its_nodes_have() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        add_quota(cluster, "q", {"nodes": "2", "cpu": "100"})
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            await cluster.clock.sleep(15)
            for number in range(5):
                cluster.add_pod(f"p{number}", "4")
            await cluster.until(lambda: len(cluster.provider.nodes) == 2)
            await cluster.clock.sleep(60)
            assert group.size == 2
            cluster.register_nodes()
            await cluster.clock.sleep(15)
            told = await status(cluster, "q")
            assert told["used"] == {"resources": {"nodes": "2", "cpu": "8"}}
            assert [(one["type"], one["status"]) for one in told["conditions"]] == [
                ("cluster-autoscaler.kubernetes.io/valid", "True"),
                ("Reconciled", "True"),
            ]

    play(scenario, ENFORCED)


def test_a_quota_that_is_not_valid_says_why_and_holds_nothing_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        bad = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
        add_quota(cluster, "q", {"nodes": "0"}, selector=bad)
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            cluster.add_pod("p", "4")
            await cluster.until(lambda: group.size == 1)
            told = await status(cluster, "q")
            assert told["conditions"][0]["status"] == "False"
            assert "Near" in told["conditions"][0]["message"]

    play(scenario, ENFORCED)


def test_a_status_that_is_right_is_not_written_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        add_quota(cluster, "q", {"memory": "64Gi"})
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling():
            await cluster.clock.sleep(25)
            before = await cluster.api.get(resources.CAPACITY_QUOTAS, "q")
            await cluster.clock.sleep(100)
            after = await cluster.api.get(resources.CAPACITY_QUOTAS, "q")
            assert before.meta.resource_version == after.meta.resource_version
            assert (await status(cluster, "q"))["used"]["resources"] == {"memory": "16Gi"}

    play(scenario, ENFORCED)
