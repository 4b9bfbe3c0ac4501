"""Beside OpenShift's own sync only what the autoscaler wrote to a mirror is carried over, and nobody fights."""

from typing import Any

import pytest

from tests.controllers.openshift.faulty_transports import Refusing
from tests.controllers.openshift.machineset_sync import machine_set_pairs, openshift_sync
from tests.controllers.openshift.machineset_sync.machine_set_pairs import AUTOSCALER, NAME, World, in_virtual_time, play
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import controller, model
from windlass.controllers.openshift.machineset_sync.model import MachineSetSyncSettings

Json = dict[str, Any]
WITHIN_S = 5.0


async def add(scene: World, replicas: int = 2) -> None:
    """A pair as that sync has it."""
    body = machine_set_pairs.machine_api_set(replicas=replicas)
    body["spec"]["authoritativeAPI"] = "MachineAPI"
    provider = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig"}
    body["spec"]["template"]["spec"]["providerSpec"] = {"value": provider}
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    mirror = machine_set_pairs.cluster_api_set(
        replicas=replicas, annotations={machine_apis.PAUSED_ANNOTATION: ""}, labels={"theirs": "yes"}
    )
    await scene.as_manager(openshift_sync.NAME).create(CLUSTER_API.machine_sets(), mirror, CLUSTER_API.namespace)


async def mark(scene: World, machine: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {CLUSTER_API.delete_machine: value}}}
    await scene.as_manager(AUTOSCALER).merge_patch(CLUSTER_API.machines(), machine, body, CLUSTER_API.namespace)


@pytest.mark.parametrize("delay_s", [0.001, 0.02, 1.0])
def test_sizes_and_marks_of_the_autoscaler_reach_machine_api_though_they_are_reverted(delay_s: float) -> None:
    async def story(scene: World) -> None:
        await add(scene)
        for name in ("m-0", "m-1", "m-2"):
            await scene.add_machine(name)
        async with openshift_sync.at_work(scene, delay_s), scene.controlled():
            await scene.settle(30.0)
            before = (await scene.get(CLUSTER_API))["metadata"]["annotations"]
            for size in (5, 7, 0, 3):
                await scene.scale(size)
                await scene.settle(WITHIN_S)
                assert await scene.sizes() == (size, size)
            await scene.resize(6)
            await scene.settle(WITHIN_S)
            assert await scene.sizes() == (6, 6), "an administrator is not undone"
            await mark(scene, "m-1", "now")
            await scene.scale(5)
            await scene.settle(WITHIN_S)
            assert await scene.sizes() == (5, 5)
            assert [await scene.mark(MACHINE_API, name) for name in ("m-0", "m-1", "m-2")] == [None, "now", None]
            assert await scene.mark(CLUSTER_API, "m-1") == "now", "and their sync brings it back"
            await mark(scene, "m-1", None)
            await scene.settle(WITHIN_S)
            assert [await scene.mark(api, "m-1") for api in machine_apis.MACHINE_APIS] == [None, None]
            assert (await scene.get(CLUSTER_API))["metadata"]["annotations"] == before
            assert (await scene.synchronized())["message"] == "theirs"
            for api in machine_apis.MACHINE_APIS:
                assert model.FINALIZER not in (await scene.get(api))["metadata"].get("finalizers", [])
            assert await scene.is_quiet(300.0)

    play(story)


@in_virtual_time
async def test_all_else_is_theirs(scene: World) -> None:
    """Bounds, authority, conditions, templates, deletion: nothing of it is written here."""
    await add(scene)
    async with openshift_sync.at_work(scene), scene.controlled():
        await scene.settle(30.0)
        scene.written.writes.clear()
        await scene.annotate(MACHINE_API, min_size="1", max_size="5", owner="openshift-machine-api/workers")
        await scene.edit(MACHINE_API, {"metadata": {"labels": {"new": "yes"}}})
        await scene.migrate("ClusterAPI")
        await scene.settle(30.0)
        found = await scene.annotations(CLUSTER_API)
        assert found[MACHINE_API.max_size] == "5"
        assert CLUSTER_API.max_size not in found
        await scene.say(MACHINE_API, {"authoritativeAPI": "Migrating"})
        await scene.scale(4)
        await scene.settle(30.0)
        assert scene.written.writes == []
        await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
        await scene.settle(30.0)
        assert await scene.find(MACHINE_API) is None
        assert await scene.find(CLUSTER_API) is not None
        assert scene.written.writes == []


@in_virtual_time
async def test_it_takes_over_when_their_sync_has_been_gone_for_long_and_gives_way_when_it_comes(scene: World) -> None:
    await scene.add_pair(replicas=2)
    async with scene.controlled():
        await scene.settle(30.0)
        assert (await scene.synchronized())["message"] == model.SYNCHRONIZED_TO_CLUSTER_API
        async with openshift_sync.at_work(scene):
            await scene.settle(30.0)
            assert (await scene.synchronized())["message"] == "theirs"
        await scene.settle(500.0)
        assert (await scene.synchronized())["message"] == "theirs", "it may only have been restarted"
        await scene.settle(200.0)
        assert (await scene.synchronized())["message"] == model.SYNCHRONIZED_TO_CLUSTER_API


@in_virtual_time
async def test_while_nobody_knows_whether_their_sync_runs_nothing_is_written_and_it_is_said(scene: World) -> None:
    await scene.add_pair(replicas=2)
    made: list[controller.MachineSetSyncController] = []

    def make(site: Any) -> controller.MachineSetSyncController:
        made.append(controller.new_controller(site, MachineSetSyncSettings(cluster=machine_set_pairs.CLUSTER)))
        return made[0]

    lease = f"{openshift_sync.NAME}-leader"
    refusing: list[Refusing] = []

    def between(carrier: Any) -> Refusing:
        refusing.append(Refusing(carrier, lease, method="GET"))
        return refusing[0]

    async with scene.running(make, between=between):
        await scene.settle(60.0)
        assert lease in made[0].check_ready()
        assert await scene.find(CLUSTER_API) is None
        refusing[0].is_on = False
        await scene.settle(30.0)
        assert made[0].check_ready() == ""
        assert await scene.find(CLUSTER_API) is not None
