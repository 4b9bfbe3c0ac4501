"""Drains through the live loop: what becomes of nodes when machines, servers and people do not do as they should."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from windlass.engine import taints
from windlass.engine.model.settings import Settings
from windlass.kube import request_builders, resources, transport


def idle_beside_busy(cluster: Cluster) -> None:
    """Two nodes, of which a-2 is idle."""
    cluster.add_group("a", 2)
    cluster.register_nodes()
    cluster.add_pod("p", "3", "a-1")


def test_a_node_that_outlives_its_machine_is_never_reopened() -> None:
    async def scenario(cluster: Cluster) -> None:
        idle_beside_busy(cluster)
        async with cluster.autoscaling() as running:
            await cluster.wait(lambda: cluster.provider.groups["a"].size == 1)
            for _ in range(600):  # nobody deletes the Node object
                await cluster.clock.sleep(1.0)
                assert taints.TO_BE_DELETED_KEY in await cluster.taints("a-2")
                assert (await cluster.node("a-2"))["spec"]["unschedulable"] is True
            assert not running.memory.durable.drains

    play(scenario, quick())


def test_another_node_that_came_under_the_name_of_one_that_was_chosen_is_not_marked() -> None:
    async def scenario(cluster: Cluster) -> None:
        idle_beside_busy(cluster)
        replaced: list[str] = []

        def replace_when_asked(request: transport.Request) -> transport.Response | None:
            if request.path.endswith("/nodes/a-2") and running.memory.durable.drains and not replaced:
                before = cluster.server.handle(request_builders.build_get(resources.NODES, "a-2")).body
                old = json.loads(before)
                cluster.server.handle(request_builders.build_delete(resources.NODES, "a-2"))
                spec = {"providerID": "simulated:///another"}
                made = cluster.server.apply(
                    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-2"}, "spec": spec}
                )
                replaced.extend([old["metadata"]["uid"], made["metadata"]["uid"]])
            return None

        cluster.carrier.refuse = replace_when_asked
        async with cluster.autoscaling() as running:
            await cluster.wait(lambda: replaced)
            assert replaced[0] != replaced[1]
            await cluster.clock.sleep(60.0)
            assert taints.TO_BE_DELETED_KEY not in await cluster.taints("a-2")
            assert "unschedulable" not in (await cluster.node("a-2"))["spec"]
            assert not running.memory.durable.drains

    play(scenario, quick())


# ── Evictions that take long to be sent ──────────────────────────────────────────────────────────────────────────


def count_evictions(cluster: Cluster) -> Counter[str]:
    """How often each pod was asked to leave."""
    return Counter(
        request.path.split("/")[-2] for request in cluster.carrier.sent if request.path.endswith("/eviction")
    )


async def end_pods(cluster: Cluster) -> None:
    """As kubelets do with pods that were told to leave."""
    objects = await cluster.api.list(resources.PODS.untyped(), request_builders.ListOptions("default"))
    for pod in objects.items:
        if "deletionTimestamp" in pod["metadata"]:
            gone = request_builders.DeleteOptions(grace_s=0)
            cluster.server.handle(
                request_builders.build_delete(resources.PODS, pod["metadata"]["name"], "default", gone)
            )


def one_node_at_a_time() -> Settings:
    settings = quick()
    return replace(settings, scale_down=replace(settings.scale_down, max_drain_parallelism=1))


def many_pods(cluster: Cluster, count: int = 30) -> list[str]:
    """a-2 can be emptied onto a-1. The pods of a-2."""
    cluster.add_group("a", 2)
    cluster.register_nodes()
    names = [f"p{i}" for i in range(count)]
    for name in names:
        cluster.add_pod(name, "10m", "a-2")
    cluster.add_pod("stays", "2", "a-1", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    return names


def test_pods_whose_evictions_take_long_to_be_sent_are_each_asked_once_and_their_node_goes() -> None:
    async def scenario(cluster: Cluster) -> None:
        names = many_pods(cluster)
        cluster.acting_qps = 1 / 8  # 240 s together, twice --max-pod-eviction-time
        async with cluster.autoscaling() as running:
            while cluster.provider.groups["a"].size > 1:
                assert cluster.clock.monotonic_s() < 600.0, "not in time"
                await cluster.clock.sleep(1.0)
                await end_pods(cluster)
            assert count_evictions(cluster) == Counter(dict.fromkeys(names, 1))
            assert running.memory.durable.activity.failed_s is None

    play(scenario, one_node_at_a_time())


def test_other_nodes_go_while_evictions_wait_to_be_sent() -> None:
    async def scenario(cluster: Cluster) -> None:
        many_pods(cluster, 100)
        cluster.acting_qps = 1.0
        other = cluster.add_group("b", 2)
        cluster.register_nodes()
        names = [node.name for node in cluster.provider.nodes if node.name.startswith("b-")]
        keep = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
        for name in names:
            cluster.add_pod(f"on-{name}", "3", name, annotations=keep)
        async with cluster.autoscaling():
            await cluster.wait(lambda: count_evictions(cluster))
            cluster.server.handle(
                request_builders.build_delete(
                    resources.PODS, f"on-{names[1]}", "default", request_builders.DeleteOptions(grace_s=0)
                )
            )
            await cluster.until(lambda: other.size == 1, 60.0)
            assert count_evictions(cluster).total() < 100

    play(scenario, quick())


@pytest.mark.parametrize("after_s", [30.0, 130.0, 200.0])
def test_a_restart_while_evictions_wait_to_be_sent_loses_none_of_them(after_s: float) -> None:
    async def scenario(cluster: Cluster) -> None:
        many_pods(cluster)
        cluster.acting_qps = 1 / 8
        async with cluster.autoscaling():
            await cluster.wait(lambda: count_evictions(cluster))
            await cluster.clock.sleep(after_s)
        async with cluster.autoscaling() as running:
            while cluster.provider.groups["a"].size > 1:
                assert cluster.clock.monotonic_s() < 900.0, "not in time"
                await cluster.clock.sleep(1.0)
                await end_pods(cluster)
            assert running.memory.durable.activity.failed_s is None

    play(scenario, one_node_at_a_time())


def test_evictions_that_are_not_sent_yet_are_withdrawn_when_the_drain_fails() -> None:
    async def scenario(cluster: Cluster) -> None:
        many_pods(cluster)
        cluster.acting_qps = 1 / 8
        async with cluster.autoscaling() as running:
            await cluster.wait(lambda: count_evictions(cluster))
            (name,) = running.memory.durable.drains
            node = await cluster.node(name)
            node["spec"]["taints"] = []  # someone takes the mark off: the node is to stay
            await cluster.api.update(resources.NODES.untyped(), node)
            await cluster.clock.sleep(20.0)
            sent = count_evictions(cluster).total()
            await cluster.clock.sleep(120.0)
            assert count_evictions(cluster).total() == sent

    play(scenario, one_node_at_a_time())
