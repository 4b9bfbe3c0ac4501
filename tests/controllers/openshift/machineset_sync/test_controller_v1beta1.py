"""A Cluster API that serves v1beta1 alone: its MachineSets have another form, and all the same becomes of them."""

import gzip
from typing import Any

import pytest
import yaml

from tests.controllers.openshift import controller_harness, real_objects
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import AUTOSCALER, INFRASTRUCTURE, NAME, World
from tests.controllers.openshift.machineset_sync.test_authority_migration import wait_held
from tests.controllers.worker_pool_cluster import DEFINITIONS, without_rules
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import controller
from windlass.controllers.openshift.machineset_sync.model import MachineSetSyncSettings
from windlass.kube import unstructured

Json = dict[str, Any]
CRDS = real_objects.UPSTREAM.parent / "cluster-api" / "v1beta1-only" / "crds"


class OldWorld(World):
    """v1beta1 alone, with kinds that take anything."""

    version = "v1beta1"

    async def say_paused(self, api: machine_apis.MachineApi, found: Json) -> None:
        """Cluster API 1.10 says it among its newer conditions."""
        if api is MACHINE_API:
            await super().say_paused(api, found)
            return
        is_paused = machine_apis.PAUSED_ANNOTATION in (found["metadata"].get("annotations") or {})
        status = found.get("status") or {}
        before = (status.get("v1beta2") or {}).get("conditions") or []
        said = unstructured.find_condition(before, "Paused") or {}
        generation = found["metadata"]["generation"]
        if said.get("status") != str(is_paused) or status.get("observedGeneration") != generation:
            after = unstructured.set_condition(before, "Paused", is_paused, "Paused", "", self.clock.now_s())
            news = {"v1beta2": {"conditions": list(after)}, "observedGeneration": generation}
            await self.say(api, news, found["metadata"]["name"])


class RealOldWorld(OldWorld):
    """The same, with the definitions of Cluster API 1.10."""

    def definitions(self) -> list[Json]:
        made = [body for body in super().definitions() if body["spec"]["group"] != CLUSTER_API.group]
        for plural in ("clusters", "machines", "machinesets"):
            text = gzip.decompress((CRDS / f"{CLUSTER_API.group}_{plural}.yaml.gz").read_bytes())
            body = without_rules(yaml.load(text, yaml.CSafeLoader))
            body["spec"].pop("conversion", None)
            body["spec"]["versions"] = [each for each in body["spec"]["versions"] if each["served"]]
            made.append(body)
        return made


WORLDS = [
    OldWorld,
    pytest.param(
        RealOldWorld,
        marks=pytest.mark.skipif(
            not CRDS.is_dir(),
            reason="NOT JUDGED: Cluster API's old definitions are not at ../shared/upstream/cluster-api",
        ),
    ),
]


@pytest.mark.parametrize("world", WORLDS)
def test_a_pair_is_made_scaled_marked_moved_and_deleted(world: type[World]) -> None:
    async def story(scene: World) -> None:
        body = machine_set_pairs.machine_api_set(replicas=3)
        body["spec"] |= {"authoritativeAPI": "MachineAPI", "deletePolicy": "Oldest", "minReadySeconds": 30}
        await scene.add(MACHINE_API, body, {"authoritativeAPI": "MachineAPI"})
        async with scene.controlled(), scene.pausing():
            await wait_held(scene, "MachineAPI")
            spec = (await scene.get(CLUSTER_API))["spec"]
            assert (spec["deletePolicy"], spec["minReadySeconds"]) == ("Oldest", 30)
            reference = spec["template"]["spec"]["infrastructureRef"]
            (template,) = await scene.templates()
            assert reference["apiVersion"] == f"{INFRASTRUCTURE}/v1beta1"
            assert (reference["kind"], reference["name"]) == ("FooMachineTemplate", template)
            await scene.edit(MACHINE_API, {"spec": {"deletePolicy": "Newest"}})
            status = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "fullyLabeledReplicas": 3}
            generation = (await scene.get(MACHINE_API))["metadata"]["generation"]
            await scene.say(MACHINE_API, {**status, "observedGeneration": generation})
            await scene.annotate(MACHINE_API, min_size="1", max_size="9")
            await scene.settle(10.0)
            found = await scene.get(CLUSTER_API)
            assert found["spec"]["deletePolicy"] == "Newest"
            assert {key: found["status"][key] for key in status} == status
            assert found["metadata"]["annotations"][CLUSTER_API.max_size] == "9"
            await scene.add_machine("m-0")
            await scene.as_manager(AUTOSCALER).merge_patch(
                scene.machines(CLUSTER_API),
                "m-0",
                {"metadata": {"annotations": {CLUSTER_API.delete_machine: "now"}}},
                CLUSTER_API.namespace,
            )
            for size in (5, 0, 2):
                await scene.scale(size)
                await scene.settle()
                assert await scene.sizes() == (size, size)
            assert await scene.mark(MACHINE_API, "m-0") == "now"
            assert await scene.is_quiet()

            await scene.migrate("ClusterAPI")
            await wait_held(scene, "ClusterAPI")
            await scene.edit(CLUSTER_API, {"spec": {"deletePolicy": "Random", "replicas": 4}})
            await scene.settle(10.0)
            assert await scene.sizes() == (4, 4)
            assert (await scene.get(MACHINE_API))["spec"]["deletePolicy"] == "Random"
            await scene.migrate("MachineAPI")
            await wait_held(scene, "MachineAPI")
            await scene.migrate("ClusterAPI")
            await wait_held(scene, "ClusterAPI")
            await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)
            await scene.settle(10.0)
            assert await scene.find(MACHINE_API) is None
            assert await scene.find(CLUSTER_API) is not None

    controller_harness.play(world, story)


@controller_harness.of(World)
async def test_without_any_version_it_is_not_ready_and_begins_when_one_comes(scene: World) -> None:
    for plural in ("machinesets", "machines", "clusters"):
        await scene.api.delete(DEFINITIONS, f"{plural}.{CLUSTER_API.group}")
    await scene.settle()
    made: list[controller.MachineSetSyncController] = []

    def make(site: Any) -> controller.MachineSetSyncController:
        made.append(controller.new_controller(site, MachineSetSyncSettings(cluster=machine_set_pairs.CLUSTER)))
        return made[0]

    async with scene.running(make):
        await scene.settle(30.0)
        expected = "API group cluster.x-k8s.io: expected v1beta2 or v1beta1, the server serves none"
        assert made[0].check_ready() == expected
        for body in scene.definitions():
            if body["spec"]["group"] == CLUSTER_API.group:
                await scene.api.create(DEFINITIONS, body)
        await scene.settle(30.0)
        assert made[0].check_ready() == ""


def test_the_form_of_v1beta1_and_back_is_the_same() -> None:
    old = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "spec": {
            "deletePolicy": "Oldest",
            "minReadySeconds": 3,
            "replicas": 2,
            "template": {"spec": {"infrastructureRef": {"apiVersion": "i/v1", "kind": "T", "name": "t"}}},
        },
        "status": {
            "replicas": 2,
            "readyReplicas": 1,
            "conditions": [],
            "v1beta2": {"conditions": [{"type": "Paused"}]},
        },
    }
    new = machine_apis.to_v1beta2(old)
    assert new["spec"]["deletion"] == {"order": "Oldest"}
    assert new["spec"]["template"]["spec"] == {
        "minReadySeconds": 3,
        "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"},
    }
    assert new["status"] == {
        "replicas": 2,
        "conditions": [{"type": "Paused"}],
        "deprecated": {"v1beta1": {"readyReplicas": 1, "conditions": []}},
    }
    assert machine_apis.to_v1beta1(new, "i/v1") == old
