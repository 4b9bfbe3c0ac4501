"""MachineAutoscalers where the server refuses, somebody else is faster, or a definition is an older one."""

from tests.controllers.openshift.faulty_transports import Interrupted, Refusing
from tests.controllers.openshift.machine_autoscaler.machine_set_pair import MACHINE_API, READY, autoscaled, bounds, make
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers import controller_interface, controller_runtime


@in_virtual_time
async def test_a_set_that_is_scaled_while_it_is_written_to_gets_its_bounds_at_once(scene: Cluster) -> None:
    """A size wakes nobody: a write that it made outdated must not wait to be woken."""

    async def scale() -> None:
        await scene.api.scale(MACHINE_API.machine_sets(), "set", 7, MACHINE_API.namespace)

    async with autoscaled(scene, between=lambda carrier: Interrupted(carrier, "/machinesets/", scale)):
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert sum("/machinesets/" in item for item in scene.written.writes) == 2, "one is refused, one is not"


@in_virtual_time
async def test_a_definition_without_conditions_is_told_once(scene: Cluster) -> None:
    """The definition that OpenShift publishes has no room for them."""
    definitions = DEFINITIONS
    name = "machineautoscalers.autoscaling.openshift.io"
    found = await scene.api.get(definitions, name)
    del found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    await scene.api.update(definitions, found)
    async with autoscaled(scene):
        await scene.autoscale("missing", "nothing")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert await scene.is_quiet()
        assert len(await scene.events("FailedGetTarget")) == 1


@in_virtual_time
async def test_a_target_that_refuses_is_said_and_tried_again(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    await scene.add_pair("other", "MachineAPI")
    refusing = Refusing(scene.carrier, "/machinesets/set")
    async with scene.controlled(make, between=lambda _: refusing):
        await scene.autoscale("ma", "set")
        await scene.autoscale("other", "other")
        status, reason, message = await scene.ready("ma")
        assert (status, reason) == ("False", "MachineAutoscalerTargetUpdateFailed")
        assert "denied by a policy" in message
        assert [event["type"] for event in await scene.events("FailedUpdateTarget")] == ["Warning"]
        assert await scene.ready("other") == READY
        refusing.is_on = False
        await scene.settle(600.0)
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_a_target_that_cannot_be_written_down_is_not_written_to(scene: Cluster) -> None:
    """Nobody would remember what has to be taken off again."""
    await scene.add_pair("set", "MachineAPI")
    refusing = Refusing(scene.carrier, "/machineautoscalers/ma/status")
    async with scene.controlled(make, between=lambda _: refusing):
        await scene.autoscale("ma", "set")
        assert [event["type"] for event in await scene.events("FailedSetLastTarget")] == ["Warning"]
        assert await scene.annotations(MACHINE_API, "set") == {}
        refusing.is_on = False
        await scene.settle(600.0)
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_an_old_target_that_refuses_to_be_let_go_keeps_the_new_one_waiting(scene: Cluster) -> None:
    await scene.add_pair("old", "MachineAPI")
    await scene.add_pair("new", "MachineAPI")
    refusing = Refusing(scene.carrier, "/machinesets/old", is_on=False)
    async with scene.controlled(make, between=lambda _: refusing):
        await scene.autoscale("ma", "old")
        refusing.is_on = True
        await scene.autoscale("ma", "new")
        assert await scene.events("FailedFinalizeTarget")
        assert await scene.annotations(MACHINE_API, "new") == {}
        refusing.is_on = False
        await scene.settle(600.0)
        assert await scene.annotations(MACHINE_API, "old") == {}
        assert await scene.annotations(MACHINE_API, "new") == bounds(MACHINE_API)


@in_virtual_time
async def test_sets_that_may_not_be_read_are_complained_of_and_nothing_is_guessed(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    made: list[controller_interface.Controller] = []

    def make_and_keep(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
        made.append(make(site))
        return made[0]

    refusing = Refusing(scene.carrier, "/openshift-cluster-api/machinesets", method="GET")
    async with scene.controlled(make_and_keep, between=lambda _: refusing):
        await scene.autoscale("ma", "set")
        assert "denied by a policy" in made[0].check_ready()
        assert await scene.annotations(MACHINE_API, "set") == {}, "whose it is may be said by what cannot be read"
        refusing.is_on = False
        await scene.settle(120.0)
        assert made[0].check_ready() == ""
        assert await scene.ready("ma") == READY
