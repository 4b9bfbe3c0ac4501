"""What is mirrored, and what is not: labels, annotations, templates, Machines, deletion. And that quiet is quiet."""

import logging

import pytest

from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.openshift.faulty_transports import Refusing
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import (
    AUTOSCALER,
    CLUSTER,
    NAME,
    TEMPLATES,
    World,
    in_virtual_time,
    play,
)
from tests.controllers.worker_pool_cluster import DEFINITIONS
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model
from windlass.kube import request_builders, resources

BOTH = pytest.mark.parametrize("holder", ["MachineAPI", "ClusterAPI"])


@BOTH
def test_a_quiet_pair_is_not_written(holder: str) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair(holder, replicas=3)
        async with scene.controlled(), scene.pausing():
            await scene.settle(30.0)
            await scene.annotate(MACHINE_API if holder == "MachineAPI" else CLUSTER_API, min_size="1", max_size="3")
            await scene.settle(30.0)
            assert (await scene.synchronized())["status"] == "True"
            assert await scene.is_quiet()
        async with scene.controlled():
            assert await scene.is_quiet(), "nor by a controller that starts"

    play(story)


@BOTH
def test_what_is_settled_is_looked_at_again_when_anything_of_it_changes(holder: str) -> None:
    async def story(scene: World) -> None:
        await scene.api.create(TEMPLATES, {"metadata": {"name": "shared"}, "spec": {}}, CLUSTER_API.namespace)
        body = machine_set_pairs.machine_api_set()
        body["spec"] |= {"authoritativeAPI": holder}
        body["spec"]["template"]["spec"]["providerSpec"] = machine_set_pairs.provider_spec(template="shared")
        await scene.add(MACHINE_API, body, {"authoritativeAPI": holder})
        async with scene.controlled():
            await scene.settle(30.0)
            said = await scene.synchronized()
            assert said["status"] == "True"
            await scene.say(MACHINE_API, {"conditions": []})
            await scene.settle()
            assert (await scene.synchronized())["status"] == "True", "the condition was someone else's"
            await scene.api.delete(TEMPLATES, "shared", CLUSTER_API.namespace)
            await scene.settle()
            assert (await scene.synchronized())["reason"] == "FailedToGetCAPIInfraResources"
            await scene.api.create(TEMPLATES, {"metadata": {"name": "shared"}, "spec": {}}, CLUSTER_API.namespace)
            await scene.settle()
            assert (await scene.synchronized())["status"] == "True"

    play(story)


@in_virtual_time
async def test_nothing_and_empty_are_the_same(scene: World) -> None:
    body = machine_set_pairs.machine_api_set(replicas=2)
    body["metadata"] |= {"labels": {}, "annotations": {}}
    body["spec"]["template"]["spec"] |= {"metadata": {}, "taints": [], "lifecycleHooks": {}}
    body["spec"] |= {"minReadySeconds": 0, "authoritativeAPI": "MachineAPI"}
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    async with scene.controlled():
        assert await scene.is_quiet()


@in_virtual_time
async def test_selectors_are_converted_and_those_that_are_there_stay(scene: World) -> None:
    body = machine_set_pairs.machine_api_set(replicas=2)
    labels = {"machine.openshift.io/cluster-api-machine-role": "infra", "a": "b"}
    body["spec"] |= {"selector": {"matchLabels": labels}, "authoritativeAPI": "MachineAPI"}
    body["spec"]["template"]["metadata"]["labels"] = labels
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    async with scene.controlled(), scene.pausing():
        spec = (await scene.get(CLUSTER_API))["spec"]
        assert spec["selector"] == {"matchLabels": {"node-role.kubernetes.io/infra": "", "a": "b"}}
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        await scene.settle(10.0)
        await scene.migrate("ClusterAPI")
        await scene.settle(30.0)
        assert await scene.authority() == "ClusterAPI"
        assert (await scene.get(MACHINE_API))["spec"]["selector"] == {"matchLabels": labels}
        assert await scene.is_quiet()


@BOTH
@pytest.mark.parametrize("side", machine_apis.MACHINE_APIS, ids=lambda api: api.authority)
def test_what_the_operator_writes_reaches_the_other_from_either_side(
    holder: str, side: machine_apis.MachineApi
) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair(holder)
        async with scene.controlled():
            for least in ("1", "2", "0"):
                await scene.annotate(side, min_size=least, max_size="5", owner="ns/ma")
                await scene.settle()
                for api in machine_apis.MACHINE_APIS:
                    found = await scene.annotations(api)
                    assert (found.get(api.min_size), found.get(api.max_size)) == (least, "5"), api.group
                    assert found.get(machine_apis.OWNER_ANNOTATION) == "ns/ma"
            await scene.annotate(side, min_size=None, max_size=None, owner=None)
            await scene.settle()
            for api in machine_apis.MACHINE_APIS:
                left = await scene.annotations(api)
                assert not [key for key in left if "node-group" in key or key == machine_apis.OWNER_ANNOTATION], (
                    api.group
                )
            assert await scene.is_quiet()

    play(story)


@in_virtual_time
async def test_what_the_operator_wrote_to_the_mirror_wins_over_what_it_wrote_to_the_holder_before(scene: World) -> None:
    await scene.add_pair()
    async with scene.controlled():
        await scene.annotate(MACHINE_API, min_size="1")
        await scene.settle()
        await scene.annotate(CLUSTER_API, min_size="2")
        await scene.settle()
        assert (await scene.annotations(MACHINE_API))[MACHINE_API.min_size] == "2"
        await scene.annotate(MACHINE_API, min_size="3")
        await scene.settle()
        assert (await scene.annotations(CLUSTER_API))[CLUSTER_API.min_size] == "3"


@in_virtual_time
async def test_what_anyone_else_writes_to_a_mirror_goes_but_what_is_cluster_apis_own_stays(scene: World) -> None:
    """Upstream replaces all annotations of a mirror."""
    await scene.add_pair()
    async with scene.controlled():
        said = {"free": "1", "cluster.x-k8s.io/conversion-data": "{}", CLUSTER_API.min_size: "9"}
        await scene.edit(CLUSTER_API, {"metadata": {"annotations": said}})
        await scene.annotate(CLUSTER_API, max_size="7")
        await scene.settle()
        found = await scene.annotations(CLUSTER_API)
        assert "free" not in found
        assert CLUSTER_API.min_size not in found
        assert found["cluster.x-k8s.io/conversion-data"] == "{}"
        assert found[CLUSTER_API.max_size] == "7", "what only the autoscaler's operator wrote is not wiped"


@in_virtual_time
async def test_capacities_are_translated_and_what_cannot_be_read_is_told(scene: World) -> None:
    await scene.add_pair()
    async with scene.controlled():
        said = {
            "machine.openshift.io/vCPU": "4",
            "machine.openshift.io/memoryMb": "lots",
            "machine.openshift.io/GPU": "1",
        }
        await scene.edit(MACHINE_API, {"metadata": {"annotations": said}})
        await scene.settle()
        found = await scene.annotations(CLUSTER_API)
        assert found["capacity.cluster-autoscaler.kubernetes.io/cpu"] == "4"
        assert found["capacity.cluster-autoscaler.kubernetes.io/gpu-type"] == "nvidia.com/gpu"
        assert "capacity.cluster-autoscaler.kubernetes.io/memory" not in found
        assert (await scene.synchronized())["status"] == "True"
        events = (
            await scene.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(MACHINE_API.namespace))
        ).items
        (event,) = [item for item in events if item["reason"] == model.CONVERSION_WARNING]
        assert "memoryMb" in event["message"]
        assert "lots" in event["message"]


@in_virtual_time
async def test_a_template_by_reference_is_referred_to_and_never_deleted(scene: World) -> None:
    await scene.api.create(TEMPLATES, {"metadata": {"name": "shared"}, "spec": {}}, CLUSTER_API.namespace)
    body = machine_set_pairs.machine_api_set(replicas=1)
    body["spec"]["authoritativeAPI"] = "MachineAPI"
    body["spec"]["template"]["spec"]["providerSpec"] = machine_set_pairs.provider_spec(template="shared")
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    async with scene.controlled():
        spec = (await scene.get(CLUSTER_API))["spec"]["template"]["spec"]
        assert spec["infrastructureRef"]["name"] == "shared"
        assert spec["bootstrap"] == {"dataSecretName": "data"}
        await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
        await scene.settle(10.0)
        assert await scene.find(MACHINE_API) is None
        assert await scene.find(CLUSTER_API) is None
        assert list(await scene.templates()) == ["shared"]


@in_virtual_time
async def test_the_deletion_of_a_template_is_awaited(scene: World) -> None:
    await scene.add_pair()
    async with scene.controlled():
        (first,) = await scene.templates()
        held = {"metadata": {"finalizers": ["test/held"]}}
        await scene.api.merge_patch(TEMPLATES, first, held, CLUSTER_API.namespace)
        await scene.settle()
        before = (await scene.get(MACHINE_API))["status"]["synchronizedGeneration"]
        await scene.edit(
            MACHINE_API, {"spec": {"template": {"spec": {"providerSpec": machine_set_pairs.provider_spec("m7")}}}}
        )
        await scene.settle(10.0)
        assert len(await scene.templates()) == 2
        assert (await scene.get(MACHINE_API))["status"]["synchronizedGeneration"] == before
        await scene.api.merge_patch(TEMPLATES, first, {"metadata": {"finalizers": None}}, CLUSTER_API.namespace)
        await scene.settle()
        (second,) = await scene.templates()
        assert second != first
        assert (await scene.get(MACHINE_API))["status"]["synchronizedGeneration"] > before


@in_virtual_time
async def test_another_kind_of_template_takes_the_place_of_the_one_that_was_made(scene: World) -> None:
    """Its content is the same, and so is its name."""
    other = TEMPLATES.kind.replace("Foo", "Bar")
    await scene.api.create(DEFINITIONS, definition(machine_set_pairs.INFRASTRUCTURE, other, "v1beta1"))
    await scene.add_pair()
    async with scene.controlled():
        (first,) = await scene.templates()
        await scene.edit(MACHINE_API, {"spec": {"template": {"spec": {"providerSpec": {"value": {"kind": other}}}}}})
        await scene.settle(10.0)
        reference = (await scene.get(CLUSTER_API))["spec"]["template"]["spec"]["infrastructureRef"]
        assert (reference["kind"], reference["name"]) == (other, first)
        assert await scene.templates() == {}, "nobody needs the first any longer"
        assert (await scene.synchronized())["status"] == "True"


@in_virtual_time
async def test_a_kind_of_template_that_comes_later_is_found(scene: World) -> None:
    late = TEMPLATES.kind.replace("Foo", "Late")
    body = machine_set_pairs.machine_api_set()
    body["spec"]["template"]["spec"]["providerSpec"]["value"] |= {"kind": late, "metadata": {"name": "mine"}}
    del body["spec"]["template"]["spec"]["providerSpec"]["value"]["spec"]
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
    async with scene.controlled():
        await scene.settle(60.0)
        said = await scene.synchronized()
        assert (said["status"], said["reason"]) == ("False", model.FAILED_TO_GET_INFRASTRUCTURE)
        assert said["message"] == f"{late} {CLUSTER_API.namespace}/mine is not there"
        await scene.api.create(DEFINITIONS, definition(machine_set_pairs.INFRASTRUCTURE, late, "v1beta1"))
        kind = resources.Resource(TEMPLATES.api_version, f"{late.lower()}s", late, True, dict)
        await scene.api.create(kind, {"metadata": {"name": "mine"}, "spec": {}}, CLUSTER_API.namespace)
        await scene.settle(30.0)
        assert (await scene.synchronized())["status"] == "True"


def test_the_log_says_what_is_wrong_with_a_pair_and_what_is_changed_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair()
        async with scene.controlled():
            await scene.edit(MACHINE_API, {"metadata": {"labels": {"team": "a"}}})
            await scene.settle()
            await scene.edit(MACHINE_API, {"spec": {"template": {"spec": {"taints": [{"key": "a"}]}}}})
            await scene.settle(1500.0)

    caplog.set_level(logging.INFO)
    play(story)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    changed = (
        "patched MachineSet: name=foo group=cluster.x-k8s.io "
        "differences=.[metadata].[labels].[team]: <does not have key> != a"
    )
    assert ("INFO", changed) in told
    (complaint,) = [text for level, text in told if level == "WARNING"]
    assert 'name=foo reason=FailedToConvertMAPIMachineSetToCAPI message="spec.taints: Invalid value: ' in complaint


@in_virtual_time
async def test_what_cluster_api_changes_of_nodes_is_not_lost_when_machine_api_holds_again(scene: World) -> None:
    """Machine API tells labels of Machines from those of nodes; Cluster API has one map of both."""
    body = machine_set_pairs.machine_api_set()
    body["spec"]["authoritativeAPI"] = "MachineAPI"
    on_nodes = {"labels": {"zone": "a"}, "annotations": {"rack": "1"}}
    body["spec"]["template"]["spec"]["metadata"] = on_nodes
    await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})

    async def hold(by: str) -> None:
        await scene.migrate(by)
        await scene.settle(30.0)
        assert (await scene.authority(), (await scene.synchronized())["status"]) == (by, "True")

    async with scene.controlled(), scene.pausing():
        await scene.settle(10.0)
        await hold("ClusterAPI")
        changed = {"labels": {"zone": "b"}, "annotations": {"rack": "2"}}
        await scene.edit(CLUSTER_API, {"spec": {"template": {"metadata": changed}}})
        await scene.settle(10.0)
        template = (await scene.get(MACHINE_API))["spec"]["template"]
        assert template["spec"]["metadata"] == changed
        assert not {"zone", "rack"} & {*template["metadata"]["labels"], *template["metadata"].get("annotations", {})}
        await hold("MachineAPI")
        metadata = (await scene.get(CLUSTER_API))["spec"]["template"]["metadata"]
        assert (metadata["labels"]["zone"], metadata["annotations"]["rack"]) == ("b", "2")
        assert await scene.is_quiet()


@in_virtual_time
async def test_the_right_machine_is_marked_before_the_holder_shrinks(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        for name in ("m-0", "m-1", "m-2"):
            await scene.add_machine(name)
        await scene.settle()
        mark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}}
        autoscaler = scene.as_manager(AUTOSCALER)
        await autoscaler.merge_patch(CLUSTER_API.machines(), "m-1", mark, CLUSTER_API.namespace)
        await scene.scale(2)
        scene.written.writes.clear()
        await scene.settle()
        assert await scene.sizes() == (2, 2)
        assert [await scene.mark(MACHINE_API, name) for name in ("m-0", "m-1", "m-2")] == [None, "now", None]
        paths = [write.partition("?")[0] for write in scene.written.writes]
        marked = next(place for place, path in enumerate(paths) if path.endswith("machines/m-1"))
        shrunk = next(place for place, path in enumerate(paths) if "machine.openshift.io" in path and "sets/" in path)
        assert marked < shrunk
        unmark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: None}}}
        await autoscaler.merge_patch(CLUSTER_API.machines(), "m-1", unmark, CLUSTER_API.namespace)
        await scene.settle()
        assert await scene.mark(MACHINE_API, "m-1") is None, "what the autoscaler takes back is taken back"


@in_virtual_time
async def test_a_mark_that_an_administrator_sets_on_the_holder_reaches_the_mirror(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.add_machine("m-0")
        mark = {"metadata": {"annotations": {MACHINE_API.delete_machine: "yes"}}}
        await scene.api.merge_patch(MACHINE_API.machines(), "m-0", mark, MACHINE_API.namespace)
        await scene.settle()
        assert await scene.mark(CLUSTER_API, "m-0") == "yes"
        assert await scene.is_quiet()


@in_virtual_time
async def test_a_size_is_held_back_as_long_as_the_mark_cannot_be_written(scene: World) -> None:
    refusing = Refusing(scene.carrier, "machines/m-1")
    await scene.add_pair(replicas=3)
    async with scene.controlled(lambda carrier: refusing):
        for name in ("m-0", "m-1", "m-2"):
            await scene.add_machine(name)
        mark = {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}}
        autoscaler = scene.as_manager(AUTOSCALER)
        await autoscaler.merge_patch(CLUSTER_API.machines(), "m-1", mark, CLUSTER_API.namespace)
        await scene.scale(2)
        await scene.settle(10.0)
        assert await scene.sizes() == (3, 2)
        refusing.is_on = False
        await scene.settle(30.0)
        assert await scene.sizes() == (2, 2)
        assert await scene.mark(MACHINE_API, "m-1") == "now"


@in_virtual_time
async def test_a_set_without_its_cluster_says_so_and_is_made_when_it_comes(scene: World) -> None:
    await scene.api.delete(machine_set_pairs.CLUSTERS, CLUSTER, CLUSTER_API.namespace)
    await scene.add_pair()
    async with scene.controlled():
        said = await scene.synchronized()
        assert (said["status"], said["reason"]) == ("False", model.FAILED_TO_GET_INFRASTRUCTURE)
        assert CLUSTER in said["message"]
        await scene.api.create(
            machine_set_pairs.CLUSTERS, {"metadata": {"name": CLUSTER}, "spec": {}}, CLUSTER_API.namespace
        )
        await scene.settle()
        assert (await scene.synchronized())["status"] == "True"


@in_virtual_time
async def test_one_bad_set_does_not_keep_others_from_being_mirrored(scene: World) -> None:
    bad = machine_set_pairs.machine_api_set("bad")
    bad["spec"]["authoritativeAPI"] = "MachineAPI"
    bad["spec"]["template"]["spec"]["metadata"] = {"name": "x"}
    await scene.add(MACHINE_API, bad, {"authoritativeAPI": "MachineAPI"})
    await scene.add_pair()
    async with scene.controlled():
        assert (await scene.synchronized())["status"] == "True"
        said = await scene.synchronized("bad")
        assert said["reason"] == model.FAILED_TO_CONVERT_TO_CLUSTER_API
        assert "name is not supported" in said["message"]
        assert await scene.find(CLUSTER_API, "bad") is None
        assert await scene.is_quiet()


@in_virtual_time
async def test_what_holds_only_in_cluster_api_is_left_alone_and_can_be_deleted(scene: World) -> None:
    await scene.add(CLUSTER_API, machine_set_pairs.cluster_api_set(finalizers=[model.FINALIZER]))
    async with scene.controlled():
        assert await scene.is_quiet()
        await scene.api.delete(CLUSTER_API.machine_sets(), NAME, CLUSTER_API.namespace)
        await scene.settle()
        assert await scene.find(CLUSTER_API) is None


CLUSTER_API_SETS = f"/namespaces/{CLUSTER_API.namespace}/machinesets"


async def refused(scene: World, path: str, method: str, reason: str) -> None:
    """A write that is refused is named in the condition, and done once it is not."""
    refusing = Refusing(scene.carrier, path, method=method)
    async with scene.controlled(lambda carrier: refusing):
        await scene.resize(5)
        await scene.settle(10.0)
        said = await scene.synchronized()
        assert (said["status"], said["reason"]) == ("False", reason)
        assert "denied by a policy" in said["message"]
        refusing.is_on = False
        await scene.settle(60.0)
        assert await scene.sizes() == (5, 5)
        assert (await scene.synchronized())["status"] == "True"


@in_virtual_time
async def test_a_mirror_that_may_not_be_made_is_named(scene: World) -> None:
    await scene.add_pair(replicas=3)
    await refused(scene, CLUSTER_API_SETS, "POST", "FailedToCreateCAPIMachineSet")


@in_virtual_time
async def test_a_mirror_that_may_not_be_changed_is_named(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.settle(10.0)
    await refused(scene, f"{CLUSTER_API_SETS}/{NAME}", "PATCH", "FailedToUpdateCAPIMachineSet")


@in_virtual_time
async def test_a_template_that_may_not_be_made_is_named(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.settle(10.0)
    (template,) = await scene.templates()
    await scene.api.delete(TEMPLATES, template, CLUSTER_API.namespace)
    path = f"/{TEMPLATES.plural}/{template}"
    await refused(scene, path, "PATCH", "FailedToUpdateCAPIInfraMachineTemplate")


@in_virtual_time
async def test_a_holder_with_owners_that_machine_api_cannot_have_is_named(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    async with scene.controlled():
        await scene.settle(10.0)
        made = await scene.api.create(TEMPLATES, {"metadata": {"name": "other"}, "spec": {}}, CLUSTER_API.namespace)
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.kind, "name": "other", "uid": uid}
        await scene.edit(CLUSTER_API, {"metadata": {"ownerReferences": [owner]}})
        await scene.settle(10.0)
        said = await scene.synchronized()
        assert (said["status"], said["reason"]) == ("False", "FailedToConvertCAPIMachineSetToMAPI")
        assert "metadata.ownerReferences" in said["message"]


@in_virtual_time
async def test_a_holder_that_refers_to_no_template_is_told_of_it(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    async with scene.controlled():
        await scene.settle(10.0)
        machine = {"spec": {"template": {"spec": {"infrastructureRef": {"name": ""}}}}}
        await scene.edit(CLUSTER_API, machine)
        await scene.settle(10.0)
        assert (await scene.synchronized())["reason"] == "FailedToGetCAPIInfraResources"
        objects = await scene.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(CLUSTER_API.namespace))
        (event,) = [item for item in objects.items if item["reason"] == "SynchronizationError"]
        assert "infrastructureRef.name: Required value" in event["message"]
        assert event["involvedObject"]["name"] == NAME
