"""The Lattice controller on the embedded server, in virtual time."""

from typing import Any

from tests.controllers.worker_pool_cluster import LATTICE, TEMPLATES, World, in_virtual_time, owners
from windlass.controllers import controller_interface, controller_runtime, machine_deployments
from windlass.controllers.lattice import controller
from windlass.controllers.lattice.model import LatticeSettings
from windlass.kube import request_builders, resources

NS = "capi-system"
MD = "my-pool-general"
Json = dict[str, Any]


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    """Without an autoscaler: the embedded server has no RBAC."""
    return controller.new_controller(site, LatticeSettings(deploys_autoscaler=False))


async def put(scene: World, **pool: int) -> None:
    pools = {"general": {**TEMPLATES, **pool}}
    await scene.put(LATTICE, "my", NS, {"nodes": {"worker_pools": pools}})


async def status(scene: World) -> Json:
    found: Json = (await scene.api.get(LATTICE, "my", NS))["status"]["worker_pools"]["general"]
    return found


async def events(scene: World, reason: str) -> list[Json]:
    found = (await scene.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(NS))).items
    return [event for event in found if event["reason"] == reason]


@in_virtual_time
async def test_a_pool_lives_through_every_row_of_the_matrix(scene: World) -> None:
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, replicas=3)
        assert await scene.size(MD, NS) == (3, False)
        await scene.scale(MD, NS, 5)
        assert await scene.size(MD, NS) == (3, False)
        await put(scene, replicas=3, min=1, max=10)
        assert await scene.size(MD, NS) == (3, True)
        await scene.scale(MD, NS, 7)
        await scene.settle(3600.0)
        assert await scene.size(MD, NS) == (7, True)
        await put(scene, replicas=3, min=2, max=5)
        assert await scene.size(MD, NS) == (7, True)
        await put(scene, replicas=3)
        assert await scene.size(MD, NS) == (3, False)
        await put(scene)
        assert await scene.size(MD, NS) == (0, False)


@in_virtual_time
async def test_a_new_autoscaled_pool_begins_where_it_should_and_fields_belong_to_whom_they_should(scene: World) -> None:
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, replicas=15, min=1, max=10)
        assert await scene.size(MD, NS) == (15, True)
        assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"lattice-operator-handover"}
        await scene.scale(MD, NS, 4)
        await scene.catch_up()
        found = await scene.deployment(MD, NS)
        assert owners(found, "spec", "replicas") == {"cluster-autoscaler"}
        for name in (machine_deployments.MIN_SIZE_ANNOTATION, machine_deployments.MAX_SIZE_ANNOTATION):
            assert owners(found, "metadata", "annotations", name) == {"lattice-operator"}
        assert owners(found, "spec", "template", "spec", "clusterName") == {"lattice-operator"}
        assert owners(found, "status", "replicas") == {"client"}


@in_virtual_time
async def test_ignored_replicas_are_told_once_and_stay_in_the_status(scene: World) -> None:
    await scene.set(NS, "my")
    told = "pool 'general': replicas (100) ignored, autoscaler will manage within [1, 10]"
    async with scene.controlled(make):
        await put(scene, replicas=100, min=1, max=10)
        await scene.scale(MD, NS, 4)
        await scene.catch_up()
        await scene.settle(900.0)
    async with scene.controlled(make):  # another leader does not tell it again
        await scene.settle(900.0)
        (event,) = await events(scene, "ReplicasIgnored")
        assert (event["type"], event["action"], event["message"]) == ("Warning", "Reconciling", told)
        assert event["involvedObject"]["name"] == "my"
        assert await status(scene) == {
            "desired_replicas": 4,
            "current_replicas": 4,
            "ready_replicas": 4,
            "autoscaling_enabled": True,
            "autoscaling_min": 1,
            "autoscaling_max": 10,
            "message": told,
        }
        await put(scene, min=1, max=10)
        assert "message" not in await status(scene)


@in_virtual_time
async def test_a_quiet_system_writes_nothing(scene: World) -> None:
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, replicas=100, min=1, max=10)
        await scene.scale(MD, NS, 4)
        await scene.catch_up()
        await scene.settle(60.0)
        scene.written.writes.clear()
        await scene.settle(3000.0)
        assert scene.written.writes == []


@in_virtual_time
async def test_scaling_to_nothing_and_back_is_left_to_the_autoscaler(scene: World) -> None:
    """A scale to 0 leaves nobody who owns replicas."""
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, min=1, max=10)
        await scene.scale(MD, NS, 0)
        assert await scene.size(MD, NS) == (0, True)
        await scene.scale(MD, NS, 6)
        assert await scene.size(MD, NS) == (6, True)
        assert owners(await scene.deployment(MD, NS), "spec", "replicas") == {"cluster-autoscaler"}


@in_virtual_time
async def test_a_bad_pool_leaves_what_was_there_and_says_why(scene: World) -> None:
    """The definition's rules refuse such a pool; where they are not in force the controller does."""
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, min=1, max=10)
        await scene.scale(MD, NS, 6)
        for bad, told in (
            ({"min": 1}, "min and max must both be set or both unset"),
            ({"min": 5, "max": 2}, "min (5) cannot exceed max (2)"),
            ({"min": 0, "max": 2}, "scale-from-zero not supported (min must be >= 1)"),
        ):
            await put(scene, **bad)
            assert (await status(scene))["message"] == f"pool 'general': {told}"
            assert await scene.size(MD, NS) == (6, True)
        assert len(await events(scene, "PoolInvalid")) == 3


@in_virtual_time
async def test_pools_that_leave_the_spec_are_left_running(scene: World) -> None:
    await scene.set(NS, "my")
    async with scene.controlled(make):
        await put(scene, replicas=3)
        await scene.put(LATTICE, "my", NS, {"nodes": {"worker_pools": {}}})
        assert await scene.size(MD, NS) == (3, False)
        assert (await scene.api.get(LATTICE, "my", NS))["status"].get("worker_pools", {}) == {}


def deploy(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    """With an autoscaler: its roles cannot be written, since the embedded server has no RBAC."""
    return controller.new_controller(site, LatticeSettings())


@in_virtual_time
async def test_an_autoscaler_that_cannot_be_deployed_is_an_event_on_the_cluster(scene: World) -> None:
    await scene.set(NS, "my")
    async with scene.controlled(deploy):
        await put(scene, replicas=3, min=1, max=10)
        await scene.settle(60.0)
        assert await scene.size(MD, NS) == (3, True)
        found = await events(scene, "AutoscalerNotDeployed")
        assert found
        assert {event["involvedObject"]["name"] for event in found} == {"my"}
        assert "ClusterRole cluster-autoscaler" in found[0]["message"]
        assert await events(scene, "PoolsNotDiscovered") == []


@in_virtual_time
async def test_pools_in_a_namespace_that_the_autoscaler_does_not_look_at_say_so(scene: World) -> None:
    await scene.set("default", "my")
    async with scene.controlled(deploy):
        await scene.put(
            LATTICE, "my", "default", {"nodes": {"worker_pools": {"general": {**TEMPLATES, "replicas": 2}}}}
        )
        assert await events_in(scene, "default") == []
        limited = {**TEMPLATES, "replicas": 2, "min": 1, "max": 3}
        await scene.put(LATTICE, "my", "default", {"nodes": {"worker_pools": {"general": limited}}})
        await scene.settle(1200.0)
        (message,) = {event["message"] for event in await events_in(scene, "default")}
        assert "namespace default" in message
        assert "discovers pools in capi-system" in message
        found = await scene.api.get(LATTICE, "my", "default")
        assert found["status"]["worker_pools"]["general"]["message"] == message


async def events_in(scene: World, namespace: str) -> list[Json]:
    found = (await scene.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(namespace))).items
    return [event for event in found if event["reason"] == "PoolsNotDiscovered"]
