"""The live loop on groups of Cluster API: what people and controllers do to the same objects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from tests.providers.clusterapi.management_cluster import GROUP, MAX, MIN, define, enough
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine import taints
from windlass.kube import request_builders, resources
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import provider as clusterapi_provider

G = "MachineDeployment/default/g"
VERSION = "v1beta2"
_DEPLOYMENTS = Resource(f"{GROUP}/{VERSION}", "machinedeployments", "MachineDeployment", True, resources.Unstructured)


def put(cluster: Cluster, kind: str, name: str, manager: str = "test", **body: Any) -> dict[str, Any]:
    """Apply an object. What owns others by it."""
    metadata = {"name": name, "namespace": "default", **body.pop("metadata", {})}
    api = f"{GROUP}/{VERSION}"
    made = cluster.server.apply({"apiVersion": api, "kind": kind, "metadata": metadata, **body}, manager)
    owner = {"apiVersion": api, "kind": kind, "name": name, "uid": made["metadata"]["uid"], "controller": True}
    return {"ownerReferences": [owner]}


def arrange(cluster: Cluster, size: int) -> dict[str, Any]:
    """A MachineDeployment of so many Machines, each with its node. What Machines are owned by."""
    for kind in ("MachineDeployment", "MachineSet", "MachinePool", "Machine"):
        cluster.server.apply(define(GROUP, kind, VERSION))
    annotations, replicas = {MIN: "0", MAX: "9", **enough("4", "16Gi")}, {"replicas": size}
    deployment = put(cluster, "MachineDeployment", "g", "made", metadata={"annotations": annotations}, spec=replicas)
    revision = {"annotations": {"machinedeployment.clusters.x-k8s.io/revision": "1"}}
    machine_set = put(cluster, "MachineSet", "g-1", metadata={**deployment, **revision}, spec=replicas)
    for i in range(size):
        name = f"g-1-{i}"
        spec, told = {"providerID": f"fake:///{name}"}, {"phase": "Running", "nodeRef": {"name": name}}
        put(cluster, "Machine", name, metadata=machine_set, spec=spec, status=told)
        cluster.server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}, "kubelet")
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        patch = request_builders.build_merge_patch(resources.NODES, name, {"status": status}, "", subresource="status")
        assert cluster.server.handle(patch).status == 200
    return machine_set


@contextlib.asynccontextmanager
async def autoscaling(cluster: Cluster, **more: Any) -> AsyncIterator[Autoscaler]:
    provider = clusterapi_provider.Provider(cluster.api)
    cluster.provider = provider  # type: ignore[assignment]
    following = asyncio.create_task(provider.run())
    try:
        await provider.wait_synced()
        async with cluster.autoscaling(**more) as running:
            yield running
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def find_size(cluster: Cluster) -> int:
    found = await cluster.api.get(_DEPLOYMENTS, "g", "default")
    return int(found["spec"]["replicas"])


def test_a_group_whose_size_is_put_back_backs_off_and_says_who_owns_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        arrange(cluster, 1)
        cluster.add_pod("p", "3", "g-1-0")
        raised: list[int] = []

        async def put_back() -> None:
            while True:
                await cluster.clock.sleep(0.5)
                if (size := await find_size(cluster)) != 1:
                    raised.append(size)
                    put(cluster, "MachineDeployment", "g", "kustomize-controller", spec={"replicas": 1})

        async with autoscaling(cluster) as running:
            applying = asyncio.create_task(put_back())
            cluster.add_pod("w", "3")
            await cluster.clock.sleep(290.0)
            applying.cancel()
            assert raised == [2, 2]
            ((id, backoff),) = running.memory.durable.health.backoffs.items()
            assert (id, backoff.error.code) == (G, "sizePutBack")
            assert "kustomize-controller, which owns spec.replicas" in backoff.error.message

    play(scenario, quick())


def test_no_node_of_a_paused_cluster_is_drained() -> None:
    async def scenario(cluster: Cluster) -> None:
        arrange(cluster, 2)
        cluster.add_pod("p", "3", "g-1-0")
        cluster.add_pod("q", "500m", "g-1-1")
        paused = {
            "type": "Paused",
            "status": "True",
            "reason": "Paused",
            "message": "Cluster spec.paused is set to true",
        }
        put(cluster, "MachineDeployment", "g", "capi", status={"conditions": [paused]})
        async with autoscaling(cluster) as running:
            await cluster.clock.sleep(120.0)
            assert await find_size(cluster) == 2
            assert not any("eviction" in call for call in cluster.carrier.calls)
            assert taints.TO_BE_DELETED_KEY not in await cluster.taints("g-1-1")
            assert list(running.memory.durable.held) == [G]
            put(cluster, "MachineDeployment", "g", "capi", status={"conditions": [{**paused, "status": "False"}]})
            await cluster.wait(lambda: any("eviction" in call for call in cluster.carrier.calls))

    play(scenario, quick())


def test_a_machine_that_someone_deleted_costs_no_other_drained_node_its_deletion() -> None:
    async def scenario(cluster: Cluster) -> None:
        arrange(cluster, 4)
        cluster.add_pod("p", "3", "g-1-0")
        async with autoscaling(cluster) as running:
            await cluster.wait(lambda: len(running.memory.durable.drains) == 3)
            machine = Resource(f"{GROUP}/{VERSION}", "machines", "Machine", True, resources.Unstructured)
            await cluster.api.delete(machine, "g-1-2", "default")  # its Node object stays
            await cluster.clock.sleep(60.0)
            assert await find_size(cluster) == 2
            assert all([taints.TO_BE_DELETED_KEY in await cluster.taints(f"g-1-{i}") for i in (1, 2, 3)])

    play(scenario, quick())
