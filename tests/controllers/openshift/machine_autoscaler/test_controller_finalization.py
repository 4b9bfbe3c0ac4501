"""What a MachineAutoscaler lets go: when it is pointed elsewhere, and when it is deleted."""

import pytest

from tests.controllers.openshift.faulty_transports import Losing
from tests.controllers.openshift.machine_autoscaler.machine_set_pair import (
    CAPI_V1BETA1,
    CLUSTER_API,
    MACHINE_API,
    READY,
    autoscaled,
    bounds,
    make,
    paired,
)
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time


@in_virtual_time
async def test_another_target_is_served_and_the_old_one_let_go_first(scene: Cluster) -> None:
    await scene.add_pair("old", "MachineAPI")
    await scene.add_pair("new", "ClusterAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "old")
        await scene.autoscale("ma", "missing")
        assert await scene.annotations(MACHINE_API, "old") == {}, "let go, whatever is wrong with the new one"
        await scene.autoscale("ma", "new", CAPI_V1BETA1)
        assert await scene.annotations(CLUSTER_API, "new") == bounds(CLUSTER_API)
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_a_target_of_another_kind_is_another_one_though_it_has_the_same_name(scene: Cluster) -> None:
    async with autoscaled(scene):
        await scene.autoscale("next", "set", most=5)
        await scene.autoscale("ma", "set", "apps/v1", kind="Deployment")
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetInvalid"
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "next", most=5)
        assert await scene.ready("next") == READY
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "next", most=5)


@in_virtual_time
async def test_one_that_was_pointed_at_another_kind_and_deleted_at_once_leaves_nothing_behind(scene: Cluster) -> None:
    async with autoscaled(scene):
        pass
    await scene.autoscale("ma", "set", "apps/v1", kind="Deployment")  # while nobody looks
    await scene.stop_autoscaling("ma")
    async with scene.controlled(make):
        await scene.settle(60.0)
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(MACHINE_API, "set") == {}


@in_virtual_time
async def test_deletion_takes_off_what_was_put_on_and_nothing_else(scene: Cluster) -> None:
    await scene.add_set(MACHINE_API, "set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", {"keep": "this", "machine.openshift.io/vCPU": "4"})
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is None
        left = await scene.annotations(MACHINE_API, "set")
        assert left["keep"] == "this"
        assert not any(key in left for key in bounds(MACHINE_API))
        assert left["capacity.cluster-autoscaler.kubernetes.io/cpu"] == "4", "what it promises stays true"


@in_virtual_time
async def test_deleting_one_that_was_pointed_at_anothers_set_leaves_that_set_alone(scene: Cluster) -> None:
    """Upstream strips it."""
    async with paired(scene):
        await scene.autoscale("owner", "set")
        await scene.autoscale("other", "set", most=3)
        await scene.stop_autoscaling("other")
        assert await scene.find_autoscaler("other") is None
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "owner")
        assert await scene.ready("owner") == READY


@in_virtual_time
async def test_one_that_is_pointed_elsewhere_and_deleted_at_once_leaves_nothing_behind(scene: Cluster) -> None:
    """Upstream strips the new target, and forgets the old one."""
    await scene.add_pair("old", "MachineAPI")
    await scene.add_pair("new", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "old")
        await scene.autoscale("owner", "new")
    await scene.autoscale("ma", "new")  # while nobody looks
    await scene.stop_autoscaling("ma")
    async with scene.controlled(make):
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(MACHINE_API, "old") == {}
        assert await scene.annotations(MACHINE_API, "new") == bounds(MACHINE_API, "owner")


@in_virtual_time
async def test_deletion_waits_for_a_migration(scene: Cluster) -> None:
    async with autoscaled(scene):
        await scene.annotate(CLUSTER_API, "set", dict(bounds(CLUSTER_API)))  # as it is mirrored
        await scene.say_authority("set", "Migrating")
        await scene.stop_autoscaling("ma")
        status, reason, message = await scene.ready("ma")
        assert (status, reason) == ("False", "MachineAutoscalerTargetMigrating"), "it says what it waits for"
        assert "neither is written to" in message
        await scene.say_authority("set", "ClusterAPI")
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(CLUSTER_API, "set") == {}


@pytest.mark.parametrize("writes", range(1, 10))
def test_ended_after_any_write_nothing_is_left_behind(writes: int) -> None:
    async def play(scene: Cluster) -> None:
        for name in ("one", "two"):
            await scene.add_pair(name, "MachineAPI")
        async with scene.controlled(make, between=lambda carrier: Losing(carrier, writes, for_good=True)):
            await scene.autoscale("ma", "one")
            await scene.autoscale("ma", "two")
        await scene.autoscale("ma", "three")
        await scene.stop_autoscaling("ma")
        async with scene.controlled(make):
            assert await scene.find_autoscaler("ma") is None
            for name in ("one", "two"):
                assert await scene.annotations(MACHINE_API, name) == {}

    in_virtual_time(play)()
