"""What MachineSets of real clouds are made of: whatever it is, sizes, bounds, capacities and delete marks are settled.

The mirrors are there as OpenShift's own sync makes them; the controller need not be able to make them.
"""

from typing import Any

import pytest

from tests.controllers.openshift.faulty_transports import Refusing
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import (
    AUTOSCALER,
    NAME,
    TEMPLATES,
    World,
    in_virtual_time,
    play,
)
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.kube import resources

Json = dict[str, Any]

CONFIG_MAPS = resources.CONFIG_MAPS.untyped()
UNKNOWN: Json = {"apiVersion": "machine.openshift.io/v1", "kind": "NutanixMachineProviderConfig", "vcpuSockets": 4}
TAINTED: Json = {"effect": "NoSchedule", "key": "node-role.kubernetes.io/infra"}


def unconvertible(what: str) -> Json:
    """A MachineSet of Machine API that nobody can express in Cluster API."""
    body = machine_set_pairs.machine_api_set()
    machine = body["spec"]["template"]["spec"]
    if what == "a provider without a converter":
        machine["providerSpec"] = {"value": UNKNOWN}
    elif what == "no provider spec":
        del machine["providerSpec"]
    elif what == "taints":
        machine["taints"] = [TAINTED]
    elif what == "an owner":
        body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "someone"}]
    else:
        machine["providerSpec"] = machine_set_pairs.provider_spec(template="missing")
    return body


WHATS = ("a provider without a converter", "no provider spec", "taints", "an owner", "a template that is not there")


async def add(scene: World, what: str, holder: str = "MachineAPI") -> None:
    body = unconvertible(what)
    body["spec"]["authoritativeAPI"] = holder
    owner = await scene.api.create(CONFIG_MAPS, {"metadata": {"name": "someone"}}, MACHINE_API.namespace)
    for reference in body["metadata"].get("ownerReferences") or ():
        reference["uid"] = owner["metadata"]["uid"]
    await scene.add(MACHINE_API, body, {"authoritativeAPI": holder})
    await scene.add(CLUSTER_API, machine_set_pairs.cluster_api_set(annotations={machine_apis.PAUSED_ANNOTATION: ""}))


@pytest.mark.parametrize("what", WHATS)
def test_what_scaling_needs_is_settled_though_the_machines_cannot_be_converted(what: str) -> None:
    async def story(scene: World) -> None:
        await add(scene, what)
        async with scene.controlled():
            await scene.settle(10.0)
            said = await scene.synchronized()
            assert said["status"] == "False"
            made_of = (await scene.get(CLUSTER_API))["spec"]["template"]

            await scene.annotate(MACHINE_API, min_size="1", max_size="5", owner="openshift-machine-api/workers")
            capacity = {"machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "16384"}
            await scene.edit(MACHINE_API, {"metadata": {"annotations": {**capacity, "team": "a"}}})
            await scene.settle()
            found = await scene.annotations(CLUSTER_API)
            assert (found[CLUSTER_API.min_size], found[CLUSTER_API.max_size]) == ("1", "5")
            assert found[machine_apis.OWNER_ANNOTATION] == "openshift-machine-api/workers"
            assert found[machine_apis.CPU_CAPACITY] == "4"
            assert found[machine_apis.MEMORY_CAPACITY] == str(16384 << 20)
            await scene.edit(MACHINE_API, {"metadata": {"annotations": {machine_apis.VCPU_ANNOTATION: None}}})
            await scene.settle()
            assert machine_apis.CPU_CAPACITY not in await scene.annotations(CLUSTER_API)

            await scene.scale(4)
            await scene.settle()
            assert await scene.sizes() == (4, 4)
            await scene.resize(2)
            await scene.settle()
            assert await scene.sizes() == (2, 2)
            for name in ("m-0", "m-1"):
                await scene.add_machine(name)
            key = {CLUSTER_API.delete_machine: "now"}
            as_autoscaler = scene.as_manager(AUTOSCALER)
            await as_autoscaler.merge_patch(
                CLUSTER_API.machines(), "m-0", {"metadata": {"annotations": key}}, CLUSTER_API.namespace
            )
            await scene.scale(1)
            await scene.settle()
            assert await scene.sizes() == (1, 1)
            assert await scene.mark(MACHINE_API, "m-0") == "now"
            assert await scene.mark(MACHINE_API, "m-1") is None

            assert (await scene.synchronized()) == said, "it cannot be converted still"
            assert (await scene.get(CLUSTER_API))["spec"]["template"] == made_of
            assert await scene.is_quiet()

    play(story)


@in_virtual_time
async def test_what_is_held_by_cluster_api_and_has_no_template_is_settled_too(scene: World) -> None:
    await add(scene, "a provider without a converter", "ClusterAPI")
    async with scene.controlled():
        await scene.settle(10.0)
        assert (await scene.synchronized())["reason"] == "FailedToGetCAPIInfraResources"
        await scene.annotate(CLUSTER_API, min_size="1", max_size="5")
        await scene.scale(4)
        await scene.settle()
        assert await scene.sizes() == (4, 4)
        assert (await scene.annotations(MACHINE_API))[MACHINE_API.max_size] == "5"
        assert (await scene.synchronized())["status"] == "False"
        assert await scene.is_quiet()


@in_virtual_time
async def test_templates_that_cannot_be_read_do_not_stop_the_sizes_nor_count_as_gone(scene: World) -> None:
    await scene.add_pair(replicas=2)
    async with scene.controlled():
        await scene.settle()
    async with scene.controlled(between=lambda carrier: Refusing(carrier, TEMPLATES.plural, method="GET")):
        await scene.settle(60.0)
        await scene.scale(5)
        await scene.settle(15.0)
        assert await scene.sizes() == (5, 5)
        said = await scene.synchronized()
        assert (said["status"], said["reason"]) == ("False", "FailedToGetCAPIInfraResources")
        await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
        await scene.settle(60.0)
        assert await scene.find(MACHINE_API) is not None, "its template may be there still"
    async with scene.controlled():
        await scene.settle(60.0)
        assert await scene.find(MACHINE_API) is None
        assert await scene.templates() == {}
