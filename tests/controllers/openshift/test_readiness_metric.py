"""`windlass_controller_object_not_ready`: which MachineAutoscalers and MachineSets need attention, and why."""

from typing import Any

from tests.controllers.openshift.controller_harness import Scene
from tests.controllers.openshift.machine_autoscaler.machine_set_pair import make
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import World
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time
from windlass.controllers.openshift.machine_apis import MACHINE_API

Json = dict[str, Any]


def not_ready(scene: Scene) -> dict[str, str]:
    """The reasons that are exported, by name."""
    found = (item for item in scene.registry.collect() if item.name == "windlass_controller_object_not_ready")
    return {
        sample.labels["name"]: sample.labels["reason"]
        for family in found
        for sample in family.samples
        if sample.value == 1 and sample.labels["namespace"] == MACHINE_API.namespace
    }


@in_virtual_time
async def test_a_machine_autoscaler_is_exported_while_it_is_not_ready(scene: Cluster) -> None:
    await scene.add_pair("set", "MachineAPI")
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        await scene.autoscale("early", "later")
        await scene.autoscale("second", "set")
        duplicate = "MachineAutoscalerDuplicateTargetScaleRef"
        assert not_ready(scene) == {"early": "MachineAutoscalerTargetNotFound", "second": duplicate}
        await scene.add_pair("later", "MachineAPI")
        await scene.stop_autoscaling("second")
        assert not_ready(scene) == {}


@machine_set_pairs.in_virtual_time
async def test_a_pair_is_exported_while_it_cannot_be_scaled_or_migrates(scene: World) -> None:
    unknown: Json = {"kind": "NutanixMachineProviderConfig", "apiVersion": "machine.openshift.io/v1"}
    for name, value in (("aws", {**unknown, "kind": "AWSMachineProviderConfig"}), ("nutanix", unknown)):
        body = machine_set_pairs.machine_api_set(name)
        body["spec"]["template"]["spec"]["providerSpec"] = {"value": value}
        await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    await scene.add_pair("ClusterAPI")
    async with scene.controlled():
        await scene.settle(10.0)
        assert not_ready(scene) == {"nutanix": "FailedToConvertMAPIMachineSetToCAPI"}, "aws has a mirror that is scaled"
        await scene.api.delete(MACHINE_API.machine_sets(), "nutanix", MACHINE_API.namespace)
        await scene.say(MACHINE_API, {"authoritativeAPI": "Migrating"})
        await scene.migrate("MachineAPI")  # nobody says that Cluster API has paused: it goes on for ever
        await scene.settle(10.0)
        assert not_ready(scene) == {"foo": "Migrating"}
