"""OpenShift before Cluster API: the same provider speaks Machine API, as its Deployment's environment tells it to."""

from typing import Any

import pytest

from tests.providers.clusterapi.management_cluster import CAPACITY, Bed, Json, define, node, play
from windlass.controllers.openshift.cluster_autoscaler import manifests
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.controllers.openshift.machine_apis import MACHINE_API, FeatureGates
from windlass.engine.model import plan
from windlass.kube import resources
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import auto_discovery

CONFIG = auto_discovery.read_config(
    (), manifests.autoscaler_environment(ClusterAutoscalerSettings(), FeatureGates("AWS"))
)
VERSION = f"{MACHINE_API.group}/{MACHINE_API.versions[0]}"
SETS, MACHINES = (
    Resource(VERSION, f"{kind.lower()}s", kind, True, resources.Unstructured) for kind in ("MachineSet", "Machine")
)
G = f"MachineSet/{MACHINE_API.namespace}/workers"
EMPTY = {CAPACITY + "cpu": "4", CAPACITY + "memory": "16Gi", CAPACITY + "labels": "pool=workers"}


def put(bed: Bed, kind: str, name: str, metadata: Json, **body: Any) -> Json:
    metadata = {"name": name, "namespace": MACHINE_API.namespace, **metadata}
    return bed.server.apply({"apiVersion": VERSION, "kind": kind, "metadata": metadata, **body})


def arrange(bed: Bed, size: int) -> None:
    """A MachineSet and its Machines as Machine API has them, and one of Cluster API that is none of our business."""
    for kind in ("MachineSet", "Machine"):
        bed.server.apply(define(MACHINE_API.group, kind, MACHINE_API.versions[0]))
    bed.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MACHINE_API.namespace}})
    annotations = {MACHINE_API.min_size: "0", MACHINE_API.max_size: "4", **EMPTY}
    template = {"spec": {"providerSpec": {"value": {"instanceType": "m6i.xlarge"}}}}
    spec = {"replicas": size, "selector": {"matchLabels": {"set": "workers"}}, "template": template}
    made = put(bed, "MachineSet", "workers", {"annotations": annotations}, spec=spec)
    owner = {"apiVersion": VERSION, "kind": "MachineSet", "name": "workers", "uid": made["metadata"]["uid"]}
    for name in (f"workers-{number}" for number in range(size)):
        spec, status = {"providerID": f"fake:///{name}"}, {"nodeRef": {"kind": "Node", "name": name}}
        put(bed, "Machine", name, {"ownerReferences": [{**owner, "controller": True}]}, spec=spec, status=status)
    bed.group("other", 1)


async def size(bed: Bed) -> int:
    return int((await bed.api.get(SETS, "workers", MACHINE_API.namespace))["spec"]["replicas"])


@pytest.mark.parametrize("before", [0, 2])
def test_its_machine_sets_are_groups_and_grow_through_their_scale(before: int) -> None:
    async def scenario(bed: Bed) -> None:
        (group,) = (await bed.observe([node(f"workers-{number}") for number in range(before)])).values()
        assert (group.id, group.min_size, group.max_size, group.target_size) == (G, 0, 4, before)
        assert group.template is not None
        assert group.template.labels["pool"] == "workers"
        await bed.provider.resize(plan.Resize(G, before, 3, 4))
        assert await size(bed) == 3
        written = [request.path for request in bed.carrier.sent if request.method != "GET"]
        assert written == [f"/apis/{VERSION}/namespaces/{MACHINE_API.namespace}/machinesets/workers/scale"]

    play(scenario, lambda bed: arrange(bed, before), config=CONFIG)


def test_its_machines_are_marked_in_its_own_words_before_their_set_shrinks() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, [node("workers-1")])
        found = (await bed.api.list(MACHINES)).items
        marked = [item["metadata"]["name"] for item in found if MACHINE_API.delete_machine in _annotations(item)]
        assert (marked, await size(bed)) == (["workers-1"], 2)

    play(scenario, lambda bed: arrange(bed, 3), config=CONFIG)


def test_nothing_of_cluster_api_is_asked_for() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.observe()
        assert {request.path.split("/")[2] for request in bed.carrier.sent if request.path.count("/") > 2} == {
            MACHINE_API.group
        }

    play(scenario, lambda bed: arrange(bed, 1), config=CONFIG)


def _annotations(found: Json) -> Json:
    return dict(found["metadata"].get("annotations") or {})
