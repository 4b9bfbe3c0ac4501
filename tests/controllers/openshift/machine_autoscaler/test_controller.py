"""MachineAutoscalers on the embedded server, in virtual time."""

import pytest

from tests.controllers.openshift.cluster import Cluster, in_virtual_time
from tests.controllers.worker_pools.world import DEFINITIONS
from windlass.controllers import controller
from windlass.controllers.openshift import apis, machine_autoscaler, names
from windlass.controllers.openshift.machine_autoscaler.settings import Settings
from windlass.kube import errors, managed_fields, transport

MACHINE_API, CLUSTER_API = apis.BOTH
CAPI_V1BETA1, CAPI_V1BETA2 = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"
READY = ("True", "MachineAutoscalerReady", "MachineAutoscaler ready for autoscaling")
DUPLICATE = (
    "False",
    "MachineAutoscalerDuplicateTargetScaleRef",
    "targetScaleRef has multiple MachineAutoscaler owners",
)


def make(site: controller.Site) -> controller.Controller:
    return machine_autoscaler.make(site, Settings())


def bounds(api: apis.Api, owner: str, least: int = 1, most: int = 12) -> dict[str, str]:
    owned = {names.OWNER_ANNOTATION: f"openshift-machine-api/{owner}"}
    return {**owned, api.min_size: str(least), api.max_size: str(most)}


@in_virtual_time
async def test_a_machine_api_set_gets_bounds_and_its_autoscaler_is_ready(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")
        assert await scene.annotations(CLUSTER_API, "set") == {}, "the mirror is for whoever mirrors it"
        assert await scene.ready("ma") == READY
        found = await scene.find_autoscaler("ma") or {}
        assert found["metadata"]["finalizers"] == ["machinetarget.autoscaling.openshift.io"]
        assert found["status"]["lastTargetRef"] == found["spec"]["scaleTargetRef"]
        (event,) = await scene.events("SuccessfulUpdate")
        assert event["message"] == "Updated MachineAutoscaler target: openshift-machine-api/set"


@in_virtual_time
async def test_what_is_written_is_known_by_its_manager_in_managed_fields(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        found = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        for key in bounds(MACHINE_API, "ma"):
            (owner,) = managed_fields.owners(found, ("metadata", "annotations", key))
            assert owner.manager == names.OPERATOR_MANAGER


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
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.say_authority("set", "Migrating")
        status, reason, message = await scene.ready("ma")
        assert (status, reason) == ("False", "MachineAutoscalerTargetMigrating")
        assert "set is moving" in message
        await scene.autoscale("ma", "set", most=20)
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma"), "nothing is written meanwhile"
        assert await scene.annotations(CLUSTER_API, "set") == {}
        await scene.say_authority("set", "ClusterAPI")
        assert await scene.annotations(CLUSTER_API, "set") == bounds(CLUSTER_API, "ma", most=20)
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_nothing_is_written_before_anyone_says_who_is_authoritative(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    await scene.say_authority("set", "")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetMigrating"
        assert await scene.annotations(MACHINE_API, "set") == {}
        await scene.say_authority("set", "MachineAPI")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_the_second_of_two_autoscalers_loses_whichever_of_the_pair_it_names(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
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
    await scene.add_pair("set", "ClusterAPI")
    async with scene.controlled(make):
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
async def test_of_two_made_at_once_the_first_by_name_has_it_also_after_a_restart(scene: Cluster) -> None:
    await scene.autoscale("b", "set")
    await scene.autoscale("a", "set", CAPI_V1BETA2)
    await scene.add_pair("set", "ClusterAPI")
    for _ in range(2):
        async with scene.controlled(make):
            await scene.settle()
            assert await scene.ready("b") == READY, "it is older"
            assert await scene.ready("a") == DUPLICATE


@in_virtual_time
async def test_an_owner_that_is_no_longer_there_does_not_keep_a_set_for_ever(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", dict(bounds(MACHINE_API, "gone", most=3)))
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")


@in_virtual_time
async def test_an_owner_that_nobody_here_can_know_is_left_alone(scene: Cluster) -> None:
    foreign = {**bounds(MACHINE_API, "ma"), names.OWNER_ANNOTATION: "elsewhere/ma"}
    await scene.add_pair("set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", dict(foreign))
    async with scene.controlled(make):
        await scene.autoscale("ma", "set", most=5)
        assert await scene.ready("ma") == DUPLICATE
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(MACHINE_API, "set") == foreign


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
async def test_unsupported_targets_say_what_would_be_one(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        for api_version in ("apps/v1", "cluster.x-k8s.io/v1alpha4", ""):
            await scene.autoscale("ma", "set", api_version)
            status, reason, message = await scene.ready("ma")
            assert (status, reason) == ("False", "MachineAutoscalerTargetInvalid")
            assert message.startswith("unsupported MachineAutoscaler target: found")
            assert message.endswith(
                "machine.openshift.io/v1beta1 or cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1"
            )
        assert await scene.annotations(MACHINE_API, "set") == {}


@in_virtual_time
async def test_bounds_that_cannot_be_leave_what_was_there(scene: Cluster) -> None:
    """The definition refuses them; where its rules are not in force the controller does."""
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.autoscale("ma", "set", least=5, most=2)
        told = "max replicas must be greater than or equal to min"
        assert await scene.ready("ma") == ("False", "MachineAutoscalerInvalid", told)
        (event,) = await scene.events("FailedValidation")
        assert event["message"] == f"MachineAutoscaler validation error: {told}"
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")


@in_virtual_time
async def test_another_target_is_served_and_the_old_one_let_go_first(scene: Cluster) -> None:
    await scene.add_pair("old", "MachineAPI")
    await scene.add_pair("new", "ClusterAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "old")
        await scene.autoscale("ma", "missing")
        assert await scene.annotations(MACHINE_API, "old") == {}, "let go, whatever is wrong with the new one"
        await scene.autoscale("ma", "new", CAPI_V1BETA1)
        assert await scene.annotations(CLUSTER_API, "new") == bounds(CLUSTER_API, "ma")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_the_other_name_of_the_same_pair_is_the_same_target(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        before = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        await scene.autoscale("ma", "set", CAPI_V1BETA2)
        after = await scene.api.get(MACHINE_API.machine_sets(), "set", MACHINE_API.namespace)
        assert after == before
        found = await scene.find_autoscaler("ma") or {}
        assert found["status"]["lastTargetRef"]["apiVersion"] == CAPI_V1BETA2


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
        assert not any(key in left for key in bounds(MACHINE_API, "ma"))
        assert left["capacity.cluster-autoscaler.kubernetes.io/cpu"] == "4", "what it promises stays true"


@in_virtual_time
async def test_deleting_one_that_was_pointed_at_anothers_set_leaves_that_set_alone(scene: Cluster) -> None:
    """Upstream strips it."""
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
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
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.annotate(CLUSTER_API, "set", dict(bounds(CLUSTER_API, "ma")))  # as it is mirrored
        await scene.say_authority("set", "Migrating")
        await scene.stop_autoscaling("ma")
        assert await scene.find_autoscaler("ma") is not None
        await scene.say_authority("set", "ClusterAPI")
        assert await scene.find_autoscaler("ma") is None
        assert await scene.annotations(CLUSTER_API, "set") == {}


@in_virtual_time
async def test_capacity_is_saved_though_bounds_are_as_they_should_be(scene: Cluster) -> None:
    """Upstream works it out, and saves it only with other bounds."""
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
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
async def test_a_promise_that_cannot_be_read_is_said_and_disturbs_nothing_else(scene: Cluster) -> None:
    """Upstream ends at a bad GPU quantity."""
    await scene.add_pair("good", "MachineAPI")
    await scene.add_pair("bad", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("good", "good")
        await scene.autoscale("bad", "bad")
        for key, found, told in (
            ("machine.openshift.io/GPU", "many", "could not parse quantity"),
            ("machine.openshift.io/memoryMb", "8Gi", "could not parse integer"),
        ):
            await scene.annotate(MACHINE_API, "bad", {key: found})
            status, reason, message = await scene.ready("bad")
            assert (status, reason) == ("False", "MachineAutoscalerTargetInvalid")
            assert message.startswith(f'{told}: annotation "{key}": found {found!r}')
            assert any(message in event["message"] for event in await scene.events("FailedUpdateTarget"))
            await scene.annotate(MACHINE_API, "bad", {key: None})
            assert await scene.ready("bad") == READY
        await scene.autoscale("good", "good", most=4)
        assert await scene.annotations(MACHINE_API, "good") == bounds(MACHINE_API, "good", most=4)


@in_virtual_time
async def test_bounds_that_someone_overwrites_are_put_right(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.annotate(MACHINE_API, "set", {MACHINE_API.max_size: "99", names.OWNER_ANNOTATION: None})
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")


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
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.settle()
        scene.written.writes.clear()
        for replicas in range(50):
            await scene.api.scale(CLUSTER_API.machine_sets(), "set", replicas, CLUSTER_API.namespace)
            await scene.settle(1.0)
        assert scene.written.writes == []


@in_virtual_time
async def test_a_set_that_is_scaled_while_it_is_written_to_gets_its_bounds_at_once(scene: Cluster) -> None:
    """A size wakes nobody: a write that it made outdated must not wait to be woken."""
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make, between=lambda carrier: Scaled(carrier, scene)):
        await scene.autoscale("ma", "set")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")
        assert sum("/machinesets/" in each for each in scene.written.writes) == 2, "one is refused, one is not"


@in_virtual_time
async def test_a_definition_without_conditions_is_told_once(scene: Cluster) -> None:
    """The definition that OpenShift publishes has no room for them."""
    definitions = DEFINITIONS
    name = "machineautoscalers.autoscaling.openshift.io"
    found = await scene.api.get(definitions, name)
    del found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    await scene.api.update(definitions, found)
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.autoscale("missing", "nothing")
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")
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
        assert await scene.annotations(MACHINE_API, "new") == bounds(MACHINE_API, "ma")


@pytest.mark.parametrize("writes", range(1, 10))
def test_ended_after_any_write_nothing_is_left_behind(writes: int) -> None:
    async def play(scene: Cluster) -> None:
        for name in ("one", "two"):
            await scene.add_pair(name, "MachineAPI")
        ending = Ending(scene.carrier, writes)
        async with scene.controlled(make, between=lambda _: ending):
            await scene.autoscale("ma", "one")
            await scene.autoscale("ma", "two")
        await scene.autoscale("ma", "three")
        await scene.stop_autoscaling("ma")
        async with scene.controlled(make):
            assert await scene.find_autoscaler("ma") is None
            for name in ("one", "two"):
                assert await scene.annotations(MACHINE_API, name) == {}

    in_virtual_time(play)()


@in_virtual_time
async def test_sets_that_may_not_be_read_are_complained_of_and_nothing_is_guessed(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    made: list[controller.Controller] = []

    def make_and_keep(site: controller.Site) -> controller.Controller:
        made.append(make(site))
        return made[0]

    refusing = Refusing(scene.carrier, "/openshift-cluster-api/machinesets", method="GET")
    async with scene.controlled(make_and_keep, between=lambda _: refusing):
        await scene.autoscale("ma", "set")
        assert "denied by a policy" in made[0].complain()
        assert await scene.annotations(MACHINE_API, "set") == {}, "whose it is may be said by what cannot be read"
        refusing.is_on = False
        await scene.settle(120.0)
        assert made[0].complain() == ""
        assert await scene.ready("ma") == READY


# Gates, upgrades and downgrades


@in_virtual_time
async def test_before_its_gate_is_on_nothing_of_cluster_api_is_asked_for(scene: Cluster) -> None:
    await scene.turn(on=False)
    await scene.add_pair("set", "MachineAPI")
    await scene.add_set(CLUSTER_API, "other")
    asked = Asked(scene.carrier)
    async with scene.controlled(make, between=lambda _: asked):
        await scene.autoscale("ma", "set")
        await scene.autoscale("capi", "other", CAPI_V1BETA1)
        assert await scene.ready("ma") == READY
        status, reason, message = await scene.ready("capi")
        assert (status, reason) == ("False", "MachineAutoscalerTargetInvalid")
        assert message.endswith("expected a MachineSet of machine.openshift.io/v1beta1")
        await scene.settle(600.0)
    assert [path for path in asked.paths if "cluster.x-k8s.io" in path] == []


@in_virtual_time
async def test_before_its_gate_is_on_nobody_need_say_that_machine_api_holds(scene: Cluster) -> None:
    """Whoever says so comes with Cluster API; the definition may have the field before."""
    await scene.turn(on=False)
    await scene.add_set(MACHINE_API, "set", "MachineAPI")
    await scene.say_authority("set", "")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.ready("ma") == READY
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, "ma")
        await scene.stop_autoscaling("ma")
        assert await scene.annotations(MACHINE_API, "set") == {}
        await scene.autoscale("ma", "set")
        await scene.turn(on=True)
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetMigrating"
        await scene.say_authority("set", "MachineAPI")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_an_upgrade_and_a_downgrade_with_targets_left_behind(scene: Cluster) -> None:
    await scene.turn(on=False)
    await scene.add_set(MACHINE_API, "old", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("old", "old")
        before = await scene.api.get(MACHINE_API.machine_sets(), "old", MACHINE_API.namespace)

        await scene.turn(on=True)
        assert await scene.api.get(MACHINE_API.machine_sets(), "old", MACHINE_API.namespace) == before
        await scene.add_set(CLUSTER_API, "new")
        await scene.autoscale("new", "new", CAPI_V1BETA2)
        await scene.add_pair("moved", "ClusterAPI")
        await scene.autoscale("moved", "moved")
        assert await scene.ready("new") == await scene.ready("moved") == READY

        await scene.turn(on=False)
        scene.written.writes.clear()
        for name in ("new", "moved"):
            status, reason, message = await scene.ready(name)
            assert (status, reason) == ("False", "MachineAutoscalerTargetInvalid")
            assert message.startswith("unsupported MachineAutoscaler target: ")
        assert await scene.ready("old") == READY
        assert await scene.annotations(CLUSTER_API, "new") == bounds(CLUSTER_API, "new")
        await scene.stop_autoscaling("new")
        assert await scene.find_autoscaler("new") is None, "it can be deleted"
        await scene.autoscale("moved", "old2")
        assert (await scene.ready("moved"))[1] == "MachineAutoscalerTargetNotFound", "and pointed elsewhere"
        assert [path for path in scene.written.writes if "cluster.x-k8s.io" in path] == []
        assert await scene.is_quiet()


@in_virtual_time
async def test_gates_count_as_of_the_version_that_is_run(scene: Cluster) -> None:
    await scene.turn(on=True, version="4.21.0")
    await scene.add_set(CLUSTER_API, "set")
    settings = Settings(release_version="4.20.0")
    async with scene.controlled(lambda site: machine_autoscaler.make(site, settings)):
        await scene.autoscale("ma", "set", CAPI_V1BETA2)
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetInvalid"
        await scene.turn(on=True, version="4.20.0")
        assert await scene.ready("ma") == READY


class Refusing:
    """Refuses one method of one path: to change it, unless something else is said."""

    def __init__(self, carrier: transport.Transport, path: str, *, method: str = "PATCH", is_on: bool = True) -> None:
        self._carrier, self._path, self._method, self.is_on = carrier, path, method, is_on

    async def send(self, request: transport.Request) -> transport.Response:
        if self.is_on and request.method == self._method and request.path.endswith(self._path):
            body = b'{"message": "denied by a policy", "reason": "Forbidden", "code": 403}'
            raise errors.from_answer(request.call, 403, {}, body)
        return await self._carrier.send(request)


class Scaled:
    """The first write to a MachineSet comes just after somebody scaled it."""

    def __init__(self, carrier: transport.Transport, scene: Cluster) -> None:
        self._carrier, self._scene, self._is_done = carrier, scene, False

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method == "PATCH" and "/machinesets/" in request.path and not self._is_done:
            self._is_done = True
            await self._scene.api.scale(MACHINE_API.machine_sets(), "set", 7, MACHINE_API.namespace)
        return await self._carrier.send(request)


class Ending:
    """Does so many writes, and no more."""

    def __init__(self, carrier: transport.Transport, writes: int) -> None:
        self._carrier, self._left = carrier, writes

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method != "GET":
            self._left -= 1
            if self._left < 0:
                raise errors.ConnectFailed(request.call, "the process has ended")
        return await self._carrier.send(request)


class Asked:
    """Keeps the path of every call."""

    def __init__(self, carrier: transport.Transport) -> None:
        self._carrier = carrier
        self.paths: list[str] = []

    async def send(self, request: transport.Request) -> transport.Response:
        self.paths.append(request.path)
        return await self._carrier.send(request)
