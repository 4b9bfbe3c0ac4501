"""MachineAutoscalers as the gate of Cluster API is turned on and off: upgrades and downgrades."""

from tests.controllers.openshift.controller_harness import machine_sets_definition
from tests.controllers.openshift.faulty_transports import Asked
from tests.controllers.openshift.machine_autoscaler.machine_set_pair import (
    CAPI_V1BETA1,
    CAPI_V1BETA2,
    CLUSTER_API,
    MACHINE_API,
    READY,
    bounds,
    make,
)
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import controller as cluster_autoscaler_controller
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler_model
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.controllers.openshift.machine_autoscaler import controller
from windlass.controllers.openshift.machine_autoscaler.model import MachineAutoscalerSettings


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
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        await scene.stop_autoscaling("ma")
        assert await scene.annotations(MACHINE_API, "set") == {}
        await scene.autoscale("ma", "set")
        await scene.turn(on=True)
        assert await scene.ready("ma") == READY
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
    settings = MachineAutoscalerSettings(release_version="4.20.0")
    async with scene.controlled(lambda site: controller.new_controller(site, settings)):
        await scene.autoscale("ma", "set", CAPI_V1BETA2)
        assert (await scene.ready("ma"))[1] == "MachineAutoscalerTargetInvalid"
        await scene.turn(on=True, version="4.20.0")
        assert await scene.ready("ma") == READY


@in_virtual_time
async def test_where_sets_are_not_mirrored_those_of_machine_api_are_autoscaled(scene: Cluster) -> None:
    """As on Azure today: Cluster API is on, its migration is not. No one ever says who is authoritative."""
    platform = {"status": {"platformStatus": {"type": "Azure"}}}
    await scene.api.merge_patch(
        machine_apis.INFRASTRUCTURES, machine_apis.CLUSTER_SINGLETON, platform, subresource="status"
    )
    enabled = ["ClusterAPIMachineManagement", "ClusterAPIMachineManagementAzure", "MachineAPIMigration"]
    gates = {"version": "4.22.0", "enabled": [{"name": name} for name in enabled]}
    gates["disabled"] = [{"name": "MachineAPIMigrationAzure"}]
    await scene.api.merge_patch(
        machine_apis.FEATURE_GATES,
        machine_apis.CLUSTER_SINGLETON,
        {"status": {"featureGates": [gates]}},
        subresource="status",
    )
    for name, wanted in (("set", "MachineAPI"), ("undecided", "ClusterAPI")):
        await scene.add_set(MACHINE_API, name, wanted)
        await scene.say_authority(name, "")
    await scene.add_set(CLUSTER_API, "capi")
    version = "4.22.0"
    own = MachineAutoscalerSettings(release_version=version)
    whole = ClusterAutoscalerSettings(release_version=version)
    async with scene.controlled(
        lambda site: controller.new_controller(site, own),
        lambda site: cluster_autoscaler_controller.new_controller(site, whole),
    ):
        await scene.autoscale("ma", "set")
        await scene.autoscale("other", "undecided")
        await scene.autoscale("capi", "capi", CAPI_V1BETA2)
        assert await scene.ready("ma") == await scene.ready("other") == READY
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)
        assert (await scene.ready("capi"))[1] == "MachineAutoscalerTargetInvalid", "the autoscaler does not look there"
        await scene.api.create(cluster_autoscaler_model.CLUSTER_AUTOSCALERS, {"metadata": {"name": "default"}})
        await scene.settle()
        deployment = await scene.api.get(
            cluster_autoscaler_model.DEPLOYMENT, "cluster-autoscaler-default", MACHINE_API.namespace
        )
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environment = {item["name"]: item.get("value") for item in container["env"]}
        assert environment["CAPI_GROUP"] == "machine.openshift.io"
        assert not [arg for arg in container["args"] if "auto-discovery" in arg]


@in_virtual_time
async def test_cluster_api_that_is_removed_and_comes_in_another_version_is_followed(scene: Cluster) -> None:
    name, old = f"machinesets.{CLUSTER_API.group}", CLUSTER_API.machine_sets("v1beta1")
    await scene.add_pair("set", "MachineAPI")
    await scene.add_set(CLUSTER_API, "alone")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.autoscale("capi", "alone", CAPI_V1BETA2)
        assert await scene.ready("ma") == await scene.ready("capi") == READY
        await scene.api.delete(DEFINITIONS, name)
        await scene.settle(900.0)  # this server ends a watch when its time is over
        assert (await scene.ready("capi"))[1] == "MachineAutoscalerTargetInvalid", "no server has it"
        await scene.autoscale("ma", "set", most=7)
        assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API, most=7)
        await scene.api.create(DEFINITIONS, machine_sets_definition(CLUSTER_API, "v1beta1"))
        body = {"metadata": {"name": "alone"}, "spec": {"replicas": 1, "template": {}}}
        await scene.api.create(old, body, CLUSTER_API.namespace)
        await scene.settle(60.0)
        assert await scene.ready("capi") == READY
        found = await scene.api.get(old, "alone", CLUSTER_API.namespace)
        assert found["metadata"]["annotations"] == bounds(CLUSTER_API, "capi")
        assert await scene.is_quiet()
