"""Events of the process on Cluster API: what is refused, does not come, cannot be asked or cannot be read."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.autoscaler.in_process_cluster import Cluster, Json, play
from tests.autoscaler.test_autoscaler_cluster_api import VERSION, arrange, put
from tests.providers.clusterapi.management_cluster import GROUP, MAX, MIN, define, enough
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import run_inline
from windlass.autoscaler.options import flags
from windlass.engine import taints
from windlass.kube import resources
from windlass.observability import reporter
from windlass.providers.clusterapi import auto_discovery

STATUS = "cluster-autoscaler-status"
_DEPLOYMENTS = resources.Resource(
    f"{GROUP}/{VERSION}", "machinedeployments", "MachineDeployment", True, resources.Unstructured
)


def add_groups(cluster: Cluster, **cpu: str) -> None:
    """MachineDeployments at zero, by the processors of their nodes; no controller makes Machines."""
    for kind in ("MachineDeployment", "MachineSet", "MachinePool", "Machine"):
        cluster.server.apply(define(GROUP, kind, VERSION))
    for name, amount in cpu.items():
        annotations = {MIN: "0", MAX: "20", **enough(amount, "16Gi")}
        put(cluster, "MachineDeployment", name, "made", metadata={"annotations": annotations}, spec={"replicas": 0})


@contextlib.asynccontextmanager
async def autoscaling(cluster: Cluster, **given: str) -> AsyncIterator[None]:
    """The whole process meanwhile, with these flags."""
    words = {"leader-elect": "false", **{name.replace("_", "-"): value for name, value in given.items()}}
    servers = app.ApiServers(cluster.carrier, cluster.carrier)
    settings, wiring = flags.parse_settings(words), flags.parse_process_options(words)
    running = app.AutoscalerProcess(
        servers, settings, wiring, auto_discovery.Config(), cluster.clock, run_inline, random.Random(1)
    )
    task = asyncio.create_task(running.run_without_serving())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def sizes(cluster: Cluster) -> dict[str, int]:
    objects = await cluster.api.list(_DEPLOYMENTS)
    return {item["metadata"]["name"]: int(item["spec"]["replicas"]) for item in objects.items}


async def find_events(cluster: Cluster, reason: str) -> list[Json]:
    return [event for event in await cluster.events() if event["reason"] == reason]


async def find_texts(cluster: Cluster, reason: str) -> set[tuple[str, str, str]]:
    """(type, name of the object, message) of each event of this reason."""
    found = await find_events(cluster, reason)
    return {(event["type"], event["involvedObject"]["name"], event["message"]) for event in found}


def write_priorities(cluster: Cluster, text: str) -> None:
    metadata = {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"priorities": text}}
    cluster.server.apply(body)


def played(scenario: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a scenario."""
    return lambda: play(scenario)


@played
async def test_the_process_that_begins_to_lead_says_so_on_the_lease(cluster: Cluster) -> None:
    add_groups(cluster)
    async with autoscaling(cluster, leader_elect="true"):
        await cluster.clock.sleep(60.0)
        (event,) = await find_events(cluster, "LeaderElection")
    assert (event["type"], event["involvedObject"]["kind"]) == ("Normal", "Lease")
    assert event["message"].endswith(" became leader")


@played
async def test_the_limit_of_all_nodes_is_named_when_it_keeps_a_node_from_being_added(cluster: Cluster) -> None:
    arrange(cluster, 1)
    cluster.add_pod("runs", "3", "g-1-0")
    cluster.add_pod("waits", "3")
    async with autoscaling(cluster, max_nodes_total="1"):
        await cluster.clock.sleep(60.0)
    expected = ("Warning", STATUS, "Max total nodes in cluster reached: 1")
    assert await find_texts(cluster, "MaxNodesTotalReached") == {expected}
    assert await sizes(cluster) == {"g": 1}


@played
async def test_a_cluster_with_too_many_unready_nodes_is_said_to_be_unhealthy_and_left_alone(cluster: Cluster) -> None:
    arrange(cluster, 3)
    for number in (1, 2):
        silent = {"type": "Ready", "status": "False", "lastTransitionTime": "2023-01-01T00:00:00Z"}
        status = {"status": {"conditions": [silent]}}
        await cluster.api.merge_patch(resources.NODES, f"g-1-{number}", status, subresource="status")
    async with autoscaling(cluster, ok_total_unready_count="1", max_node_startup_time="1m"):
        await cluster.clock.sleep(90.0)
        cluster.add_pod("waits", "5")
        await cluster.clock.sleep(30.0)
    assert await find_texts(cluster, "ClusterUnhealthy") == {("Warning", STATUS, "Cluster is unhealthy")}
    assert await sizes(cluster) == {"g": 3}


@played
async def test_a_node_whose_pod_may_not_be_evicted_is_given_back_and_both_say_so(cluster: Cluster) -> None:
    arrange(cluster, 2)
    cluster.add_pod("large", "3", "g-1-0")
    cluster.add_pod("small", "500m", "g-1-1")
    cluster.carrier.forbid("POST", "/eviction")
    async with autoscaling(cluster, scale_down_unneeded_time="30s", max_pod_eviction_time="1m"):
        await cluster.clock.sleep(300.0)
    found = await find_texts(cluster, "ScaleDownFailed")
    assert ("Warning", "small", "failed to delete pod for ScaleDown") in found
    (message,) = {message for _, name, message in found if name == "g-1-1"}
    assert message.startswith("failed to drain and delete node: Failed to drain node /g-1-1, due to following errors: ")
    assert await sizes(cluster) == {"g": 2}


@played
async def test_a_mark_that_an_earlier_process_left_is_removed_and_the_node_says_so(cluster: Cluster) -> None:
    arrange(cluster, 1)
    cluster.add_pod("runs", "3", "g-1-0")
    left = {"key": taints.TO_BE_DELETED_KEY, "value": "1600000000", "effect": "NoSchedule"}
    await cluster.api.merge_patch(resources.NODES, "g-1-0", {"spec": {"taints": [left]}})
    async with autoscaling(cluster):
        await cluster.clock.sleep(60.0)
    message = f"removed {taints.TO_BE_DELETED_KEY} taint from node g-1-0"
    assert await find_texts(cluster, "ClusterAutoscalerCleanup") == {("Normal", "g-1-0", message)}
    assert await cluster.taints("g-1-0") == set()


@played
async def test_a_size_that_may_not_be_lowered_after_a_scale_up_timed_out_is_an_event(cluster: Cluster) -> None:
    add_groups(cluster, a="4")
    cluster.add_pod("waits", "3")
    async with autoscaling(cluster, max_node_provision_time="5m"):
        await cluster.clock.sleep(60.0)
        assert await sizes(cluster) == {"a": 1}
        cluster.carrier.forbid("PATCH", "/scale")
        await cluster.clock.sleep(600.0)
    ((kind, name, message),) = await find_texts(cluster, "FailedToRevertScaleUp")
    assert (kind, name) == ("Warning", STATUS)
    said = "Failed to decrease target size for group MachineDeployment/default/a after scale-up timeout: "
    assert message.startswith(said)
    assert message.endswith("403 Forbidden: not today")
    assert await find_events(cluster, "ScaleUpTimedOut")


@played
async def test_a_machine_that_never_registers_and_may_not_be_deleted_is_an_event(cluster: Cluster) -> None:
    owned = arrange(cluster, 1)
    cluster.add_pod("runs", "3", "g-1-0")
    cluster.add_pod("waits", "3")
    cluster.carrier.forbid("PUT", "/machines/g-1-9")
    async with autoscaling(cluster, max_node_provision_time="5m"):
        await cluster.clock.sleep(30.0)
        assert await sizes(cluster) == {"g": 2}
        provisioned = {"providerID": "fake:///g-1-9"}
        put(cluster, "Machine", "g-1-9", metadata=owned, spec=provisioned, status={"phase": "Provisioned"})
        await cluster.clock.sleep(900.0)
    ((kind, name, message),) = await find_texts(cluster, "DeleteUnregisteredFailed")
    assert (kind, name) == ("Warning", STATUS)
    assert message.startswith("Failed to remove node pending-machine-default_g-1-9: PUT ")


@played
async def test_a_machine_that_cannot_be_made_is_an_event_with_the_words_of_its_provider(cluster: Cluster) -> None:
    owned = arrange(cluster, 1)
    cluster.add_pod("runs", "3", "g-1-0")
    cluster.add_pod("waits", "3")
    async with autoscaling(cluster):
        await cluster.clock.sleep(30.0)
        assert await sizes(cluster) == {"g": 2}
        failed = {"phase": "Failed", "failureReason": "CreateError", "failureMessage": "no stock left"}
        put(cluster, "Machine", "g-1-9", metadata=owned, spec={}, status=failed)
        await cluster.clock.sleep(60.0)
    message = (
        "Failed adding 1 nodes to group MachineDeployment/default/g due to Other.ProvisioningFailed; "
        "source errors: CreateError: no stock left"
    )
    assert await find_texts(cluster, "ScaleUpFailed") == {("Warning", STATUS, message)}


@played
async def test_groups_that_no_priority_matches_are_named(cluster: Cluster) -> None:
    add_groups(cluster, a="4", b="4")
    write_priorities(cluster, "50: ['.*/b']\n")
    async with autoscaling(cluster, expander="priority"):
        cluster.add_pod("p", "3")
        await cluster.clock.sleep(30.0)
        assert await sizes(cluster) == {"a": 0, "b": 1}
        (event,) = await find_events(cluster, "PriorityConfigMapNotMatchedGroup")
        assert event["message"].startswith("Priority expander: node group MachineDeployment/default/a not found in ")
        assert await find_events(cluster, "PriorityConfigMapNoGroupMatched") == []
        write_priorities(cluster, "50: ['nowhere']\n")
        cluster.add_pod("q", "3")
        await cluster.clock.sleep(30.0)
        (event,) = await find_events(cluster, "PriorityConfigMapNoGroupMatched")
        assert event["message"].endswith("No options filtered.")
        assert sum((await sizes(cluster)).values()) == 2


def test_an_expander_that_does_not_answer_is_an_event_and_the_next_expander_decides() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen: each connection is refused
        address = f"127.0.0.1:{unheard.getsockname()[1]}"

        async def scenario(cluster: Cluster) -> None:
            add_groups(cluster, large="64", small="4")
            expander = {"expander": "grpc,least-waste", "grpc_expander_url": f"http://{address}"}
            async with autoscaling(cluster, **expander):
                for number in range(2):
                    cluster.add_pod(f"p{number}", "3")
                    await cluster.clock.sleep(reporter.EVENT_DEDUPLICATION_S + 30.0)
                assert await sizes(cluster) == {"large": 0, "small": 2}
            (event,) = await find_events(cluster, "GRPCExpanderFailed")
            assert (event["type"], event["count"]) == ("Warning", 2)
            assert event["involvedObject"]["name"] == "cluster-autoscaler-status"
            assert event["message"].startswith("the grpc expander gave no answer (Unavailable: ")
            assert f"{address}: Failed to connect" in event["message"]

        play(scenario)


def test_priorities_that_cannot_be_read_leave_those_before_in_force_and_are_one_event() -> None:
    async def grow(cluster: Cluster, names: str) -> dict[str, int]:
        for name in names:
            cluster.add_pod(name, "3")
            await cluster.clock.sleep(reporter.EVENT_DEDUPLICATION_S + 30.0)
        return await sizes(cluster)

    async def scenario(cluster: Cluster) -> None:
        add_groups(cluster, a="4", b="4")
        write_priorities(cluster, "50: ['.*/b']\n10: ['.*']\n")
        async with autoscaling(cluster, expander="priority", max_node_provision_time="24h"):
            assert await grow(cluster, "p") == {"a": 0, "b": 1}
            assert await find_events(cluster, "PriorityConfigMapInvalid") == []
            write_priorities(cluster, "fifty: [a")
            assert await grow(cluster, "qrstuvwx") == {"a": 0, "b": 9}
            (event,) = await find_events(cluster, "PriorityConfigMapInvalid")
            assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "ConfigMap")
            assert event["involvedObject"]["name"] == "cluster-autoscaler-priority-expander"
            assert event["message"].startswith("Wrong configuration for priority expander: ConfigMap kube-system/")
            assert event["count"] > 1
            write_priorities(cluster, "50: ['.*/a']\n")
            assert await grow(cluster, "yz") == {"a": 2, "b": 9}

    play(scenario)
