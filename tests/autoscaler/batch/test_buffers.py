"""CapacityBuffers on an API server: their status kept, their room made, and kept from scale-down."""

from dataclasses import replace
from typing import Any

import yaml

from tests.autoscaler.batch.test_requests import CRDS, add_template, without_rules
from tests.autoscaler.little_cluster import Cluster, play
from windlass.engine.settings import GroupDefaults, Injection, Settings
from windlass.kube import resources

SPARE = Settings(
    injection=Injection(capacity_buffer_controller_enabled=True, capacity_buffer_pod_injection_enabled=True)
)
QUICK = replace(SPARE, groups=GroupDefaults(scale_down_unneeded_time_s=30.0))
ACTIVE = "buffer.x-k8s.io/active-capacity"


def install(cluster: Cluster) -> None:
    definition = yaml.safe_load((CRDS / "autoscaling.x-k8s.io_capacitybuffers.yaml").read_text())
    cluster.server.apply(without_rules(definition), "test")


def add_buffer(cluster: Cluster, name: str, **spec: Any) -> None:
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer"}
    metadata = {"name": name, "namespace": "default"}
    cluster.server.apply({**kind, "metadata": metadata, "spec": {"provisioningStrategy": ACTIVE, **spec}}, "test")


async def told(cluster: Cluster, name: str) -> tuple[dict[str, str], int | None]:
    """The reason of each condition, and the replicas."""
    found = await cluster.api.get(resources.CAPACITY_BUFFERS.untyped(), name, "default")
    status = found.get("status", {})
    return {one["type"]: one["reason"] for one in status.get("conditions", ())}, status.get("replicas")


def test_room_is_made_for_a_buffer_kept_while_it_is_there_and_given_back_after_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        add_template(cluster, cpu="2")
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            add_buffer(cluster, "b", podTemplateRef={"name": "t"}, replicas=4)
            await cluster.until(lambda: group.size == 2)
            ready = {
                "ReadyForProvisioning": "AttributesSetSuccessfully",
                "LimitedByQuotas": "ResourceQuotasAllocated",
                "Provisioning": "FakePodsInjected",
            }
            assert await told(cluster, "b") == (ready, 4)
            await cluster.until(lambda: len(cluster.provider.nodes) == 2)
            await cluster.clock.sleep(200)
            assert group.size == 2, "spare, but not unneeded"
            await cluster.api.delete(resources.CAPACITY_BUFFERS, "b", "default")
            await cluster.until(lambda: group.size == 0, 2000)

    play(scenario, QUICK)


def test_a_buffer_follows_its_workload() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 0)
        async with cluster.autoscaling():
            cluster.add_pod("p", "1", labels={"a": "b"})
            scaled = {"status": {"replicas": 3}}
            await cluster.api.merge_patch(resources.REPLICA_SETS, "rs", scaled, "default", subresource="status")
            target = {"apiGroup": "apps", "kind": "ReplicaSet", "name": "rs"}
            add_buffer(cluster, "b", scalableRef=target, percentage=50)
            await cluster.clock.sleep(30)
            assert (await told(cluster, "b"))[1] == 2, "half of three, rounded up"

    play(scenario, SPARE)


def test_what_is_wrong_with_a_buffer_is_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        add_template(cluster)
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            add_buffer(cluster, "missing", podTemplateRef={"name": "nowhere"}, replicas=1)
            add_buffer(cluster, "unsized", podTemplateRef={"name": "t"}, limits={"example.com/gpu": "1"})
            add_buffer(cluster, "foreign", podTemplateRef={"name": "t"}, replicas=1, provisioningStrategy="else")
            add_buffer(cluster, "widget", scalableRef={"apiGroup": "x.io", "kind": "Widget", "name": "w"}, replicas=1)
            await cluster.clock.sleep(30)
            for name in ("missing", "unsized", "widget"):
                assert (await told(cluster, name))[0]["ReadyForProvisioning"] == "error"
            assert await told(cluster, "foreign") == ({}, None)
            assert group.size == 0

    play(scenario, SPARE)
