"""Authority moves: through Migrating, with one side acting at a time, and nothing is lost on the way."""

import pytest

from tests.controllers.openshift.machineset_sync.machine_set_pairs import World, in_virtual_time, play
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.kube import errors, request_builders, resources, transport


async def is_paused(scene: World) -> bool:
    return machine_apis.PAUSED_ANNOTATION in await scene.annotations(CLUSTER_API)


async def wait_held(scene: World, by: str) -> None:
    for _ in range(100):
        await scene.settle(1.0)
        if await scene.authority() == by and (await scene.synchronized()).get("status") == "True":
            return
    raise AssertionError(f"not held by {by}: {await scene.get(MACHINE_API)}")


@in_virtual_time
async def test_there_and_back(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled(), scene.pausing():
        await wait_held(scene, "MachineAPI")
        assert await is_paused(scene)
        await scene.migrate("ClusterAPI")
        await wait_held(scene, "ClusterAPI")
        assert not await is_paused(scene)
        await scene.resize(5, CLUSTER_API)
        await scene.settle()
        assert await scene.sizes() == (5, 5)
        await scene.migrate("MachineAPI")
        await wait_held(scene, "MachineAPI")
        assert await is_paused(scene)
        await scene.resize(2)
        await scene.settle()
        assert await scene.sizes() == (2, 2)


@in_virtual_time
async def test_what_is_first_seen_has_the_authority_that_is_wanted(scene: World) -> None:
    await scene.add_pair("MachineAPI")
    await scene.say(MACHINE_API, {"authoritativeAPI": None})
    async with scene.controlled():
        assert await scene.authority() == "MachineAPI"
        assert (await scene.synchronized())["status"] == "True"


@in_virtual_time
async def test_nothing_moves_before_both_are_equal(scene: World) -> None:
    """Lost otherwise: while migrating nothing is mirrored any more."""
    await scene.add_pair(replicas=3)
    await scene.edit(MACHINE_API, {"spec": {"template": {"spec": {"providerSpec": {"value": {"kind": "Foreign"}}}}}})
    async with scene.controlled(), scene.pausing():
        await scene.migrate("ClusterAPI")
        await scene.settle(30.0)
        assert await scene.authority() == "MachineAPI"
        assert (await scene.synchronized())["reason"] == "FailedToConvertMAPIMachineSetToCAPI"


@in_virtual_time
async def test_a_pause_that_cluster_api_tells_wakes_the_migration(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    async with scene.controlled():
        await scene.migrate("MachineAPI")
        await scene.settle(10.0)
        assert (await scene.authority(), await is_paused(scene)) == ("Migrating", True)
        before = scene.clock.now_s()
        await scene.say_paused(CLUSTER_API, await scene.get(CLUSTER_API))
        await scene.settle(0.2)
        assert await scene.authority() == "MachineAPI"
        assert scene.clock.now_s() - before < 1.0


@in_virtual_time
async def test_what_cluster_api_holds_from_the_start_is_not_made_paused(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    await scene.edit(
        MACHINE_API, {"metadata": {"annotations": {machine_apis.PAUSED_ANNOTATION: ""}}}
    )  # means nothing there
    async with scene.controlled():
        assert not await is_paused(scene)


@in_virtual_time
async def test_what_was_mirrored_is_reset_with_the_change_of_authority(scene: World) -> None:
    await scene.add_pair(replicas=3)
    said: list[tuple[str, int, str]] = []
    async with scene.controlled(), scene.pausing():
        await wait_held(scene, "MachineAPI")

        class Listening:
            def __init__(self, carrier: transport.Transport) -> None:
                self._carrier = carrier

            async def send(self, request: transport.Request) -> transport.Response:
                response = await self._carrier.send(request)
                if request.method == "PATCH" and request.path.endswith("/status"):
                    status = (await scene.get(MACHINE_API)).get("status", {})
                    condition = (await scene.synchronized()).get("status", "")
                    said.append((status["authoritativeAPI"], status.get("synchronizedGeneration", 0), condition))
                return response

    async with scene.controlled(Listening), scene.pausing():
        await scene.migrate("ClusterAPI")
        await wait_held(scene, "ClusterAPI")
    assert ("ClusterAPI", 0, "Unknown") in said


class LosingWhatFollowsTheUnpausing:
    """A transport that loses the first write that comes after it."""

    def __init__(self, carrier: transport.Transport) -> None:
        self._carrier, self.state = carrier, 0

    async def send(self, request: transport.Request) -> transport.Response:
        if self.state == 1 and request.path.endswith("/status"):
            self.state = 2
            raise errors.ConnectionLost(request.call, "lost")
        response = await self._carrier.send(request)
        if self.state == 0 and b'"cluster.x-k8s.io/paused":null' in (request.body or b""):
            self.state = 1
        return response


@in_virtual_time
async def test_a_lost_write_after_the_unpausing_is_made_again(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled(LosingWhatFollowsTheUnpausing), scene.pausing():
        await wait_held(scene, "MachineAPI")
        await scene.migrate("ClusterAPI")
        await wait_held(scene, "ClusterAPI")
        assert not await is_paused(scene)


@pytest.mark.parametrize("first", ["MachineAPI", "ClusterAPI"])
def test_someone_who_changes_their_mind_midway_gets_back_what_was(first: str) -> None:
    other = "ClusterAPI" if first == "MachineAPI" else "MachineAPI"

    async def story(scene: World) -> None:
        await scene.add_pair(first, replicas=3)
        async with scene.controlled():
            await scene.say_paused(CLUSTER_API, await scene.get(CLUSTER_API))
            await scene.settle(10.0)
            await scene.migrate(other)
            await scene.settle(10.0)
            assert await scene.authority() == "Migrating"
            await scene.migrate(first)
            async with scene.pausing():
                await wait_held(scene, first)
            assert await is_paused(scene) == (first == "MachineAPI")
            assert await scene.sizes() == (3, 3)

    play(story)


@pytest.mark.parametrize("first", ["MachineAPI", "ClusterAPI"])
def test_a_scale_by_the_autoscaler_while_migrating_is_not_lost(first: str) -> None:
    other = "ClusterAPI" if first == "MachineAPI" else "MachineAPI"

    async def story(scene: World) -> None:
        await scene.add_pair(first, replicas=3)
        async with scene.controlled():
            await scene.migrate(other)
            await scene.settle(10.0)
            assert await scene.authority() == "Migrating"
            await scene.scale(6)
            await scene.settle()
            assert await scene.authority() in ("Migrating", first)
            async with scene.pausing():
                await wait_held(scene, other)
            assert await scene.sizes() == (6, 6)

    play(story)


@in_virtual_time
async def test_an_edit_of_the_old_holder_while_migrating_is_mirrored_first(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.migrate("ClusterAPI")
        await scene.settle(10.0)
        assert await scene.authority() == "Migrating"
        await scene.resize(7)
        async with scene.pausing():
            await wait_held(scene, "ClusterAPI")
        assert await scene.sizes() == (7, 7)


async def last_stable(scene: World) -> str | None:
    value: str | None = (await scene.get(MACHINE_API))["status"].get("synchronizedAPI")
    return value


@pytest.mark.parametrize("has_field", [True, False])
def test_the_last_stable_authority_is_recorded_where_the_definition_has_room_for_it(has_field: bool) -> None:
    async def story(scene: World) -> None:
        if not has_field:
            await prune_synchronized_api(scene)
        await scene.add_pair("MachineAPI", replicas=3)
        async with scene.controlled():
            await scene.settle(10.0)
            await scene.migrate("ClusterAPI")
            await scene.settle(10.0)
            assert await scene.authority() == "Migrating"
            assert await last_stable(scene) == ("MachineAPI" if has_field else None)
            async with scene.pausing():
                await wait_held(scene, "ClusterAPI")
                assert await last_stable(scene) == ("ClusterAPI" if has_field else None)
                await scene.migrate("MachineAPI")
                await wait_held(scene, "MachineAPI")
                assert await last_stable(scene) == ("MachineAPI" if has_field else None)
                assert await scene.is_quiet()
            if has_field:
                await scene.say(MACHINE_API, {"synchronizedAPI": "ClusterAPI"})
                await scene.settle()
                assert await last_stable(scene) == "MachineAPI", "an interrupted record is put right"

    play(story)


async def prune_synchronized_api(scene: World) -> None:
    name = f"machinesets.{MACHINE_API.group}"
    found = await scene.api.get(DEFINITIONS, name)
    properties = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    counts = ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
    known = (*counts, "observedGeneration", "synchronizedGeneration")
    properties["status"] = {
        "type": "object",
        "properties": {
            **{field: {"type": "integer"} for field in known},
            "authoritativeAPI": {"type": "string"},
            "conditions": properties["status"]["properties"]["conditions"],
        },
    }
    await scene.api.update(DEFINITIONS, found)


@pytest.mark.parametrize("lost", [[], [{"type": "Other", "status": "True"}]])
@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("taken_back", [False, True])
@pytest.mark.parametrize("first", ["MachineAPI", "ClusterAPI"])
def test_a_pair_that_loses_its_condition_while_migrating_is_not_stuck(
    first: str, taken_back: bool, is_recorded: bool, lost: list[dict[str, str]]
) -> None:
    """Some writers of a status replace its conditions."""
    last = "ClusterAPI" if first == "MachineAPI" else "MachineAPI"

    async def story(scene: World) -> None:
        await scene.add_pair(first, replicas=3)
        async with scene.controlled():
            await scene.settle(10.0)
            await scene.migrate(last)
            await scene.settle(10.0)
            assert await scene.authority() == "Migrating"
        await scene.say(MACHINE_API, {"conditions": lost, **({} if is_recorded else {"synchronizedAPI": None})})
        if taken_back:
            await scene.migrate(first)
        async with scene.controlled(), scene.pausing():
            await wait_held(scene, first if taken_back else last)
            assert await scene.sizes() == (3, 3)
            await scene.scale(5)
            await scene.settle()
            assert await scene.sizes() == (5, 5)
            about = (
                await scene.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(MACHINE_API.namespace))
            ).items
            told = [event["message"] for event in about if event["reason"] == "SynchronizationError"]
            # Where nothing says whose it was, the mirror's pause suggests Machine API.
            source, wanted = first if is_recorded else "MachineAPI", first if taken_back else last
            assert bool(told) == (source != wanted), told
            assert all("Synchronized condition" in text for text in told)
            assert await scene.is_quiet()

    play(story)
