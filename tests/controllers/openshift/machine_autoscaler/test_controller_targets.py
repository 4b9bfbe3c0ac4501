"""Which MachineSet a MachineAutoscaler writes to, and what it says where there is none."""

from tests.controllers.openshift.machine_autoscaler.machine_set_pair import (
    CAPI_V1BETA1,
    CAPI_V1BETA2,
    CLUSTER_API,
    MACHINE_API,
    READY,
    autoscaled,
    bounds,
    make,
)
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from windlass.controllers.openshift import machine_apis
from windlass.kube import unstructured


@in_virtual_time
async def test_a_machine_api_set_gets_bounds_and_its_autoscaler_is_ready(scene: Cluster) -> None:
    async with autoscaled(scene):
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert await scene.annotations(CLUSTER_API, "set") == {}, "the mirror is for whoever mirrors it"
        assert await scene.ready("ma") == READY
        found = await scene.find_autoscaler("ma") or {}
        assert found["metadata"]["finalizers"] == ["machinetarget.autoscaling.openshift.io"]
        assert found["status"]["lastTargetRef"] == found["spec"]["scaleTargetRef"]
        (event,) = await scene.events("SuccessfulUpdate")
        assert event["message"] == "Updated MachineAutoscaler target: openshift-machine-api/set"


@in_virtual_time
async def test_what_is_written_is_known_by_its_manager_in_managed_fields(scene: Cluster) -> None:
    async with autoscaled(scene):
        found = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        for key in bounds(MACHINE_API):
            (owner,) = unstructured.find_field_owners(found, ("metadata", "annotations", key))
            assert owner.manager == machine_apis.OPERATOR_MANAGER


@in_virtual_time
async def test_either_name_of_a_pair_leads_to_the_set_that_holds(scene: Cluster) -> None:
    await scene.add_pair("one", "ClusterAPI")
    await scene.add_pair("two", "MachineAPI")
    await scene.add_set(CLUSTER_API, "three")
    async with scene.controlled(make):
        await scene.autoscale("a", "one")
        await scene.autoscale("b", "two", CAPI_V1BETA1)
        await scene.autoscale("c", "three", CAPI_V1BETA2)
        for name, holder, owner in (("one", CLUSTER_API, "a"), ("two", MACHINE_API, "b"), ("three", CLUSTER_API, "c")):
            assert await scene.annotations(holder, name) == bounds(holder, owner)
            assert await scene.ready(owner) == READY
        assert await scene.annotations(MACHINE_API, "one") == {}
        assert await scene.annotations(CLUSTER_API, "two") == {}


@in_virtual_time
async def test_authority_is_followed_when_it_moves_and_waited_for_while_it_does(scene: Cluster) -> None:
    async with autoscaled(scene):
        await scene.say_authority("set", "Migrating")
        status, reason, message = await scene.ready("ma")
        assert (status, reason) == ("False", "MachineAutoscalerTargetMigrating")
        assert "set is moving" in message
        await scene.autoscale("ma", "set", most=20)
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API), "nothing is written meanwhile"
        assert await scene.annotations(CLUSTER_API, "set") == {}
        await scene.say_authority("set", "ClusterAPI")
        assert await scene.annotations(CLUSTER_API, "set") == bounds(CLUSTER_API, most=20)
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_nothing_is_written_before_anyone_says_who_is_authoritative(scene: Cluster) -> None:
    await scene.add_pair("set", "ClusterAPI")
    await scene.say_authority("set", "")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetMigrating"
        assert await scene.annotations(MACHINE_API, "set") == {}
        await scene.say_authority("set", "ClusterAPI")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_a_set_of_machine_api_without_a_status_is_machine_apis(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    await scene.say_authority("set", "")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.ready("ma") == READY
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert await scene.annotations(CLUSTER_API, "set") == {}


@in_virtual_time
async def test_a_missing_target_is_said_and_found_when_it_comes(scene: Cluster) -> None:
    async with scene.controlled(make):
        await scene.autoscale("ma", "set", CAPI_V1BETA1)
        missing = "MachineSet openshift-cluster-api/set (cluster.x-k8s.io) not found"
        assert await scene.ready("ma") == ("False", "MachineAutoscalerTargetNotFound", missing)
        (event,) = await scene.events("FailedGetTarget")
        assert (event["type"], event["message"]) == ("Warning", f"Error getting target: {missing}")
        await scene.add_set(CLUSTER_API, "set")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_a_target_that_goes_away_is_said_and_forgotten(scene: Cluster) -> None:
    await scene.add_set(CLUSTER_API, "set")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set", CAPI_V1BETA2)
        await scene.api.delete(CLUSTER_API.machine_sets(), "set", CLUSTER_API.namespace)
        await scene.settle()
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetNotFound"
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is None


@in_virtual_time
async def test_the_other_name_of_the_same_pair_is_the_same_target(scene: Cluster) -> None:
    async with autoscaled(scene):
        before = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        await scene.autoscale("ma", "set", CAPI_V1BETA2)
        after = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        assert after == before
        found = await scene.find_autoscaler("ma") or {}
        assert found["status"]["lastTargetRef"]["apiVersion"] == CAPI_V1BETA2


@in_virtual_time
async def test_capacity_is_saved_though_bounds_are_as_they_should_be(scene: Cluster) -> None:
    """Upstream works it out, and saves it only with other bounds."""
    async with autoscaled(scene):
        await scene.annotate(
            MACHINE_API, "set", {"machine.openshift.io/memoryMb": "8192", "machine.openshift.io/GPU": "1"}
        )
        found = await scene.annotations(MACHINE_API, "set")
        prefix = "capacity.cluster-autoscaler.kubernetes.io"
        assert found[f"{prefix}/memory"] == "8589934592"
        assert (found[f"{prefix}/gpu-count"], found[f"{prefix}/gpu-type"]) == ("1", "nvidia.com/gpu")
        (event,) = await scene.events("InvalidOrMissingGPUAcceleratorLabel")
        assert event["involvedObject"]["kind"] == "MachineSet"
        assert event["message"].startswith("GPU accelerator label not found on MachineSet set.")


@in_virtual_time
async def test_bounds_that_someone_overwrites_are_put_right(scene: Cluster) -> None:
    async with autoscaled(scene):
        await scene.annotate(MACHINE_API, "set", {MACHINE_API.max_size: "99", machine_apis.OWNER_ANNOTATION: None})
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)


@in_virtual_time
async def test_a_quiet_system_writes_nothing(scene: Cluster) -> None:
    await scene.add_pair("one", "MachineAPI")
    await scene.add_pair("two", "Migrating")
    async with scene.controlled(make):
        await scene.autoscale("ready", "one")
        await scene.autoscale("duplicate", "one", CAPI_V1BETA1)
        await scene.autoscale("waiting", "two")
        await scene.autoscale("missing", "three")
        await scene.autoscale("invalid", "one", least=3, most=2)
        assert await scene.is_quiet()
        assert len(await scene.events("FailedSetOwner")) == 1


@in_virtual_time
async def test_replicas_that_change_all_the_time_cause_no_write(scene: Cluster) -> None:
    async with autoscaled(scene):
        await scene.settle()
        scene.written.writes.clear()
        for replicas in range(50):
            await scene.api.scale(CLUSTER_API.machine_sets(), "set", replicas, CLUSTER_API.namespace)
            await scene.settle(1.0)
        assert scene.written.writes == []
