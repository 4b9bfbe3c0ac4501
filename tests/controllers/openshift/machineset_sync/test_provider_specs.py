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


# Mirrors for scaling alone

AWS: Json = {
    "apiVersion": "awsproviderconfig.openshift.io/v1beta1",
    "kind": "AWSMachineProviderConfig",
    "instanceType": "m6i.large",
    "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"},
    "userDataSecret": {"name": "worker-user-data"},
}


async def add_aws(scene: World, value: Json = AWS, **metadata: Any) -> None:
    body = machine_set_pairs.machine_api_set(**metadata)
    body["spec"]["template"]["spec"]["providerSpec"] = {"value": value}
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})


@in_virtual_time
async def test_a_mirror_for_scaling_follows_the_provider_spec_and_goes_with_its_set(scene: World) -> None:
    await add_aws(scene)
    async with scene.controlled():
        await scene.settle(10.0)
        machine = (await scene.get(CLUSTER_API))["spec"]["template"]["spec"]
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate"}
        assert machine["infrastructureRef"] == {**reference, "name": "foo-not-converted"}
        assert machine["failureDomain"] == "us-east-1a"
        await scene.scale(4)
        await scene.settle()
        assert await scene.sizes() == (4, 4)
        moved = {**AWS, "placement": {"availabilityZone": "us-east-1b"}}
        spec = {"providerSpec": {"value": moved}, "taints": [TAINTED]}
        await scene.edit(MACHINE_API, {"spec": {"template": {"spec": spec}}})
        await scene.settle(10.0)
        found = await scene.get(CLUSTER_API)
        assert found["spec"]["template"]["spec"]["failureDomain"] == "us-east-1b"
        annotation = found["metadata"]["annotations"]["capacity.cluster-autoscaler.kubernetes.io/taints"]
        assert annotation == "node-role.kubernetes.io/infra=:NoSchedule"
        said = await scene.synchronized()
        assert "taints are not currently supported" in said["message"]
        assert await scene.is_quiet()
        await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
        await scene.settle(10.0)
        assert [await scene.find(api) for api in machine_apis.MACHINE_APIS] == [None, None]


@in_virtual_time
async def test_a_mirror_for_scaling_never_becomes_authoritative(scene: World) -> None:
    await add_aws(scene)
    async with scene.pausing(), scene.controlled():
        await scene.settle(10.0)
        await scene.edit(MACHINE_API, {"spec": {"authoritativeAPI": "ClusterAPI"}})
        await scene.settle(60.0)
        assert await scene.authority() == "MachineAPI"
        mirror = await scene.get(CLUSTER_API)
        assert machine_apis.PAUSED_ANNOTATION in mirror["metadata"]["annotations"]
        await scene.scale(3)
        await scene.settle()
        assert await scene.sizes() == (3, 3)
        assert await scene.is_quiet()


@in_virtual_time
async def test_a_template_that_another_sync_makes_is_never_replaced(scene: World) -> None:
    """OpenShift's sync, once its gate is on, gives the mirror a template. Should it go again, the template stays."""
    await add_aws(scene)
    async with scene.controlled():
        await scene.settle(10.0)
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "foo-da428ae9"}
    await scene.edit(CLUSTER_API, {"spec": {"template": {"spec": {"infrastructureRef": reference}}}})
    async with scene.controlled():
        await scene.settle(60.0)
        assert (await scene.get(CLUSTER_API))["spec"]["template"]["spec"]["infrastructureRef"] == reference
        await scene.scale(2)
        await scene.settle()
        assert await scene.sizes() == (2, 2)


ODD: tuple[Json, ...] = (
    {"placement": "here", "userDataSecret": "secret"},
    {"placement": {"availabilityZone": 3}, "userDataSecret": {"name": 7}},
    {"placement": None, "userDataSecret": None},
    {"kind": "VSphereMachineProviderSpec", "numCPUs": "4", "memoryMiB": -1},
    {"kind": "VSphereMachineProviderSpec", "numCPUs": True, "memoryMiB": 1.5},
    {"kind": "GCPMachineProviderSpec", "zone": ["a"]},
)


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_read_of_a_provider_spec_is_left_out(odd: Json) -> None:
    async def story(scene: World) -> None:
        await add_aws(scene, {**AWS, **odd})
        async with scene.controlled():
            await scene.settle(10.0)
            found = await scene.get(CLUSTER_API)
            if odd.get("kind") or "placement" in odd:
                assert "failureDomain" not in found["spec"]["template"]["spec"]
            assert not [key for key in found["metadata"]["annotations"] if key.startswith("capacity.")]
            await scene.scale(2)
            await scene.settle()
            assert await scene.sizes() == (2, 2)

    play(story)
