"""Of several MachineAutoscalers about one MachineSet, or about it and its mirror, one has it."""

from tests.controllers.openshift.machine_autoscaler.machine_set_pair import (
    CAPI_V1BETA1,
    CAPI_V1BETA2,
    CLUSTER_API,
    DUPLICATE,
    MACHINE_API,
    READY,
    bounds,
    make,
    paired,
)
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from windlass.controllers.openshift import machine_apis


@in_virtual_time
async def test_the_second_of_two_autoscalers_loses_whichever_of_the_pair_it_names(scene: Cluster) -> None:
    async with paired(scene):
        await scene.autoscale("first", "set")
        await scene.autoscale("same", "set", most=5)
        await scene.autoscale("mirror", "set", CAPI_V1BETA1, most=6)
        assert await scene.ready("first") == READY
        assert await scene.ready("same") == await scene.ready("mirror") == DUPLICATE
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "first")
        assert await scene.annotations(CLUSTER_API, "set") == {}
        assert {event["involvedObject"]["name"] for event in await scene.events("FailedSetOwner")} == {"same", "mirror"}


@in_virtual_time
async def test_when_the_first_goes_the_second_recovers(scene: Cluster) -> None:
    async with paired(scene, "ClusterAPI"):
        await scene.autoscale("first", "set")
        await scene.autoscale("second", "set", CAPI_V1BETA1, most=6)
        await scene.autoscale("third", "set", most=7)
        await scene.stop_autoscaling("first")
        assert await scene.ready("second") == READY
        assert await scene.ready("third") == DUPLICATE
        assert await scene.annotations(CLUSTER_API, "set") == bounds(CLUSTER_API, "second", most=6)
        await scene.autoscale("second", "elsewhere")
        assert await scene.ready("third") == READY
        assert await scene.annotations(CLUSTER_API, "set") == bounds(CLUSTER_API, "third", most=7)


@in_virtual_time
async def test_of_two_that_waited_for_a_set_the_older_has_it_also_after_a_restart(scene: Cluster) -> None:
    await scene.autoscale("b", "set")
    await scene.autoscale("a", "set", CAPI_V1BETA2)
    await scene.add_pair("set", "ClusterAPI")
    for _ in range(2):
        async with scene.controlled(make):
            await scene.settle()
            assert await scene.ready("b") == READY
            assert await scene.ready("a") == DUPLICATE


@in_virtual_time
async def test_of_two_made_in_the_same_second_the_first_by_name_has_it(scene: Cluster) -> None:
    for name in ("b", "a", "c"):
        reference = {"apiVersion": CAPI_V1BETA2, "kind": "MachineSet", "name": "set"}
        spec = {"minReplicas": 1, "maxReplicas": 12, "scaleTargetRef": reference}
        body = {"metadata": {"name": name}, "spec": spec}
        await scene.api.create(machine_apis.MACHINE_AUTOSCALERS, body, machine_apis.MACHINE_API_NAMESPACE)
    async with paired(scene, "ClusterAPI"):
        assert await scene.ready("a") == READY
        assert await scene.ready("b") == await scene.ready("c") == DUPLICATE


@in_virtual_time
async def test_an_owner_that_is_no_longer_there_does_not_keep_a_set_for_ever(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", dict(bounds(MACHINE_API, "gone", most=3)))
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)


@in_virtual_time
async def test_an_owner_that_nobody_here_can_know_is_left_alone(scene: Cluster) -> None:
    foreign = {**bounds(MACHINE_API), machine_apis.OWNER_ANNOTATION: "elsewhere/ma"}
    await scene.add_pair("set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", dict(foreign))
    async with scene.controlled(make):
        await scene.autoscale("ma", "set", most=5)
        assert await scene.ready("ma") == DUPLICATE
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(MACHINE_API, "set") == foreign
