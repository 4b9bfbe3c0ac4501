"""The live loop on a MachineDeployment whose replicas a Cluster topology applies: known before the first resize."""

import asyncio
import random
from typing import Any

import pytest
import yaml

from tests.autoscaler.capacity_apis.test_provisioning_requests_atomic import ALONE
from tests.autoscaler.in_process_cluster import Cluster, Json, play
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_cluster_api import VERSION, G, arrange, autoscaling, find_size, put
from tests.providers.clusterapi import management_cluster
from tests.providers.clusterapi.management_cluster import GROUP, MAX, MIN, enough
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import Autoscaler, run_inline
from windlass.explain import explain_context, queries
from windlass.explain.queries import ExplainQuery, SubjectKind
from windlass.kube import resources
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import auto_discovery

REMEDY = "remove replicas from the entry md-0 of machineDeployments in spec.topology.workers of Cluster default/work"
MESSAGE = f"spec.replicas is applied by capi-topology, which reverts every other size: {REMEDY}"
LABELS = {"topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "md-0"}


def apply_topology(cluster: Cluster, **spec: Any) -> None:
    """As the topology controller does when it reconciles."""
    body = {"clusterName": "work", **spec}
    put(cluster, "MachineDeployment", "g", "capi-topology", metadata={"labels": LABELS}, spec=body)


def start(cluster: Cluster) -> None:
    """Two nodes, of which one could be emptied, and a pod that neither has room for."""
    arrange(cluster, 2)
    apply_topology(cluster, replicas=2)
    cluster.add_pod("p", "2", "g-1-0")
    cluster.add_pod("q", "500m", "g-1-1")
    cluster.add_pod("w", "4")
    cluster.writes_events = True


def list_writes(cluster: Cluster) -> list[str]:
    return [call for call in cluster.carrier.calls if call.endswith(("/scale", "/eviction"))]


async def find_warnings(cluster: Cluster) -> list[Json]:
    return [event for event in await cluster.events() if event["reason"] == "TopologyOwnsReplicas"]


async def explain(running: Autoscaler, *question: str) -> str:
    asked = ExplainQuery(SubjectKind(question[0]), *question[1:])
    answer = await running.query(lambda *at: queries.answer_query(asked, explain_context.evaluate(*at)))
    assert not isinstance(answer, queries.ObjectNotFound)
    return "\n".join(queries.render_explanation(answer))


async def read_status(cluster: Cluster) -> Json:
    found = await cluster.api.get(resources.CONFIG_MAPS.untyped(), "cluster-autoscaler-status", "kube-system")
    told: Json = yaml.safe_load(found["data"]["status"])
    return told


def test_a_group_that_a_topology_owns_is_left_alone_until_the_topology_gives_the_size_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster):
            await cluster.clock.sleep(120.0)
            assert (list_writes(cluster), await find_size(cluster)) == ([], 2)
            apply_topology(cluster)
            await cluster.wait(lambda: list_writes(cluster))
            assert await find_size(cluster) == 3

    play(scenario, quick())


def test_one_event_on_the_machine_deployment_names_the_remedy() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster):
            await cluster.clock.sleep(60.0)
            (event,) = await find_warnings(cluster)
            assert (event["type"], event["count"]) == ("Warning", 1)
            assert event["message"] == f"Node group cannot be scaled: {MESSAGE}"
            about = event["involvedObject"]
            assert (about["kind"], about["namespace"], about["name"]) == ("MachineDeployment", "default", "g")
            assert about["apiVersion"] == "cluster.x-k8s.io/v1beta2"
            assert about["uid"]
            await cluster.clock.sleep(900.0)
            assert [item["count"] for item in await find_warnings(cluster)] == [1], "the owner is the same"
            apply_topology(cluster)
            await cluster.clock.sleep(30.0)
            apply_topology(cluster, replicas=3)
            await cluster.clock.sleep(30.0)
            assert [entry["count"] for entry in await find_warnings(cluster)] == [2], "it owns the size once more"

    play(scenario, quick())


def test_explain_names_the_owner_and_the_remedy_of_group_pod_node_and_cluster() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster) as running:
            await cluster.clock.sleep(30.0)
            group = await explain(running, "group", "g")
            assert "It is left alone." in group
            assert f"It is neither raised nor lowered: {MESSAGE}." in group
            pod = await explain(running, "pod", "w", "default")
            assert "would take it" in pod
            assert "cannot grow: replicas set in the Cluster topology" in pod
            assert f"{G}  {REMEDY}" in pod
            node = await explain(running, "node", "g-1-1")
            assert f"belongs to a group that is not lowered: {MESSAGE}" in node
            assert f"{G} is left alone: {MESSAGE}" in await explain(running, "cluster")

    play(scenario, quick())


def test_the_pod_event_counts_the_group_as_one_whose_replicas_are_set() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster):
            await cluster.clock.sleep(30.0)
            (event,) = [item for item in await cluster.events() if item["reason"] == "NotTriggerScaleUp"]
            assert "1 replicas set in the Cluster topology" in event["message"]

    play(scenario, quick())


@pytest.mark.parametrize("respects", [True, False])
def test_the_status_shows_the_owner_and_whether_the_group_is_left_alone(respects: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster):
            await cluster.wait(lambda: "cluster-autoscaler-status" in "".join(cluster.carrier.calls))
            await cluster.clock.sleep(1.0)
            status = await read_status(cluster)
            (group,) = status["nodeGroups"]
            held = [{"name": G, "reason": MESSAGE}] if respects else []
            assert status.get("heldNodeGroups", []) == held
            if respects:
                assert group["replicasOwner"] == {"manager": "capi-topology", "remedy": REMEDY}

    play(scenario, quick(respect_topology_replicas=respects))


def test_with_the_behavior_of_cluster_autoscaler_the_group_is_scaled_and_named_all_the_same() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        async with autoscaling(cluster) as running:
            await cluster.wait(lambda: list_writes(cluster))
            assert await find_size(cluster) == 3
            apply_topology(cluster, replicas=2)
            await cluster.clock.sleep(1.0)
            assert f"It is scaled in vain: {MESSAGE}." in await explain(running, "group", "g")
            assert MESSAGE in await explain(running, "pod", "w", "default")
            assert [item["type"] for item in await find_warnings(cluster)] == ["Warning"]

    play(scenario, quick(respect_topology_replicas=False))


def test_a_refused_event_costs_nothing_else() -> None:
    async def scenario(cluster: Cluster) -> None:
        start(cluster)
        cluster.carrier.forbid("POST", "/events")
        async with autoscaling(cluster):
            await cluster.clock.sleep(30.0)
            apply_topology(cluster)
            await cluster.wait(lambda: list_writes(cluster))

    play(scenario, quick())


def test_where_the_machines_are_in_another_cluster_the_event_is_written_there() -> None:
    time = clock.VirtualClock(management_cluster.NOW_S)
    workload, management = (management_cluster.Bed(time, "v1beta2", auto_discovery.Config()) for _ in range(2))
    workload.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    management.group("g", 1, annotations=management_cluster.enough())
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "spec": {"replicas": 1}}
    management.server.apply({**body, "metadata": {"name": "g", "namespace": "default"}}, "capi-topology")

    async def list_events(bed: management_cluster.Bed) -> list[str]:
        return [item["involvedObject"]["name"] for item in (await bed.api.list(resources.EVENTS.untyped())).items]

    async def main() -> None:
        servers = app.ApiServers(workload.carrier, management.carrier)
        running = app.AutoscalerProcess(
            servers, quick(), ALONE, auto_discovery.Config(), time, run_inline, random.Random(1)
        )
        parts = (running.cluster_state.run(), running.provider.run(), running.lead())
        tasks = [asyncio.create_task(part) for part in parts]
        await time.sleep(30.0)
        assert await list_events(management) == ["g"]
        assert "g" not in await list_events(workload)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    time.run(main())


@pytest.mark.parametrize("respects", [True, False])
def test_a_pool_that_another_autoscaler_scales_is_left_alone_and_named(respects: bool) -> None:
    managed_by = "cluster.x-k8s.io/replicas-managed-by"
    remedy = f"remove the annotation {managed_by}, or both size annotations, from MachinePool default/pool"
    message = (
        "spec.replicas is applied by the infrastructure provider (replicas-managed-by: external-autoscaler), which "
        f"reverts every other size: {remedy}"
    )

    async def scenario(cluster: Cluster) -> None:
        arrange(cluster, 0)
        annotations = {MIN: "0", MAX: "9", **enough("8", "16Gi"), managed_by: "external-autoscaler"}
        put(cluster, "MachinePool", "pool", metadata={"annotations": annotations}, spec={"replicas": 0})
        cluster.add_pod("w", "6")
        cluster.writes_events = True
        async with autoscaling(cluster) as running:
            await cluster.clock.sleep(30.0)
            events = {item["reason"]: item for item in await cluster.events()}
            assert events["ReplicasManagedExternally"]["message"] == f"Node group cannot be scaled: {message}"
            assert events["ReplicasManagedExternally"]["involvedObject"]["kind"] == "MachinePool"
            pools = Resource(f"{GROUP}/{VERSION}", "machinepools", "MachinePool", True, resources.Unstructured)
            pool = await cluster.api.get(pools, "pool", "default")
            assert pool["spec"]["replicas"] == (0 if respects else 1)
            effect = "neither raised nor lowered" if respects else "scaled in vain"
            assert f"It is {effect}: {message}." in await explain(running, "group", "pool")
            if respects:
                assert "1 replicas set by the infrastructure provider" in events["NotTriggerScaleUp"]["message"]
                told = await explain(running, "pod", "w", "default")
                assert "cannot grow: replicas set by the infrastructure provider" in told
                assert remedy in told

    play(scenario, quick(respect_replicas_managed_by=respects))
