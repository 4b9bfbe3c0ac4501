"""Who goes with whom: both with the holder; with a mirror, what Machine API holds; what Cluster API holds stays."""

from typing import Any

import pytest

from tests.controllers.openshift.faulty_transports import Refusing
from tests.controllers.openshift.machineset_sync.machine_set_pairs import (
    CLUSTER,
    CLUSTERS,
    NAME,
    World,
    in_virtual_time,
    play,
)
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import resources


async def delete(scene: World, api: machine_apis.MachineApi) -> None:
    await scene.api.delete(api.machine_sets(), NAME, api.namespace)
    await scene.settle(10.0)


async def finalize(scene: World, *finalizers: str) -> None:
    """Of Cluster API's: what its own controller puts on, and takes off once its machines are gone."""
    await scene.edit(CLUSTER_API, {"metadata": {"finalizers": [*finalizers, model.FINALIZER]}})
    await scene.settle(10.0)


@pytest.mark.parametrize("deleted", machine_apis.MACHINE_APIS, ids=lambda api: api.authority)
def test_where_machine_api_holds_to_delete_either_deletes_both(deleted: machine_apis.MachineApi) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair()
        async with scene.controlled():
            await finalize(scene, model.CLUSTER_API_FINALIZER)  # paused: nobody else takes it off
            await delete(scene, deleted)
            assert [await scene.find(api) for api in machine_apis.MACHINE_APIS] == [None, None]
            assert await scene.templates() == {}, "what was made for it goes, too"

    play(story)


def everything_of_cluster_api(what: str) -> tuple[resources.Resource[dict[str, Any]], str, str]:
    """What mirrors go with: resource, name, namespace."""
    if what == "definition":
        return DEFINITIONS, f"machinesets.{CLUSTER_API.group}", ""
    if what == "namespace":
        return resources.NAMESPACES.untyped(), CLUSTER_API.namespace, ""
    return CLUSTERS, CLUSTER, CLUSTER_API.namespace


@pytest.mark.parametrize("what", ["definition", "namespace", "Cluster", "Cluster that is gone"])
def test_where_cluster_api_is_removed_mirrors_go_and_machine_api_stays(what: str) -> None:
    """Nobody has deleted a MachineSet: the server deletes the mirrors with their definition, namespace or owner."""

    async def story(scene: World) -> None:
        await scene.add_pair(replicas=3)
        async with scene.controlled():
            await finalize(scene, model.CLUSTER_API_FINALIZER)
            resource, name, namespace = everything_of_cluster_api(what)
            if what != "Cluster that is gone":  # a removal takes its time: it waits for the mirrors, or for others
                held = {"metadata": {"finalizers": ["example.test/waits"]}}
                await scene.api.merge_patch(resource, name, held, namespace)
            await scene.api.delete(resource, name, namespace)
            await delete(scene, CLUSTER_API)
            left = await scene.get(MACHINE_API)
            assert not left["metadata"].get("deletionTimestamp")
            assert left["spec"]["replicas"] == 3
            mirror = await scene.find(CLUSTER_API)
            assert mirror is None or not mirror["metadata"].get("deletionTimestamp"), "no finalizer holds it"

    play(story)


@in_virtual_time
async def test_nothing_is_deleted_while_nobody_knows_why_a_mirror_goes(scene: World) -> None:
    await scene.add_pair()
    refusing: list[Refusing] = []

    def between(carrier: Any) -> Refusing:
        refusing.append(Refusing(carrier, f"machinesets.{CLUSTER_API.group}", method="GET"))
        return refusing[0]

    async with scene.controlled(between=between):
        await scene.settle(10.0)
        await delete(scene, CLUSTER_API)
        assert not (await scene.get(MACHINE_API))["metadata"].get("deletionTimestamp")
        refusing[0].is_on = False
        await scene.settle(60.0)
        assert [await scene.find(api) for api in machine_apis.MACHINE_APIS] == [None, None]


@in_virtual_time
async def test_where_cluster_api_holds_both_go_with_it_once_its_machines_are_gone(scene: World) -> None:
    await scene.add_pair("ClusterAPI")
    async with scene.controlled():
        await finalize(scene, model.CLUSTER_API_FINALIZER)
        await delete(scene, CLUSTER_API)
        for api in machine_apis.MACHINE_APIS:
            found = await scene.get(api)
            assert found["metadata"].get("deletionTimestamp"), api.group
            assert model.FINALIZER in found["metadata"]["finalizers"], api.group
        await finalize(scene)
        assert [await scene.find(api) for api in machine_apis.MACHINE_APIS] == [None, None]
        assert await scene.templates() == {}


@in_virtual_time
async def test_where_cluster_api_holds_to_delete_machine_apis_alone_leaves_the_other_running(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    async with scene.controlled():
        await delete(scene, MACHINE_API)
        assert await scene.find(MACHINE_API) is None
        left = await scene.get(CLUSTER_API)
        assert not left["metadata"].get("deletionTimestamp")
        assert left["spec"]["replicas"] == 3
        assert len(await scene.templates()) == 1
        assert await scene.is_quiet()
