"""Provider specs of real clouds: what the mirror states for scaling, against upstream's own mirrors if there are any.

Each platform prints how many MachineSets were converted, and on how many of them upstream has a mirror to agree with.
"""

from typing import Any

import msgspec
import pytest

from tests.controllers.openshift import real_objects
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import World, play
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.engine.model import facts
from windlass.kube.models import clusterapi
from windlass.providers.clusterapi import scale_from_zero

Json = dict[str, Any]

PLATFORMS = {
    "aws": "AWSMachineProviderConfig",
    "azure": "AzureMachineProviderSpec",
    "gcp": "GCPMachineProviderSpec",
    "vsphere": "VSphereMachineProviderSpec",
    "openstack": "OpenstackProviderSpec",
}
UNKNOWN_PLATFORMS = ("baremetal", "ibmcloud", "nutanix", "powervs")
pytestmark = real_objects.needed


def originals(platform: str) -> list[Json]:
    """MachineSets of Machine API: those that upstream has mirrors of, or refuses, and those without either."""
    paths = [f"{name}.mapi.yaml" for name in real_objects.names(f"pairs/{platform}/*.mapi.yaml")]
    paths += [f"{name}.yaml" for name in real_objects.names(f"machinesets/{platform}/*.yaml")]
    paths += [f"{name}.json" for name in real_objects.names("live/gcp-machineset-*.json")] * (platform == "gcp")
    found = [(path, real_objects.read(path)) for path in paths]
    return [{**body, "path": path} for path, body in found if body["kind"] == "MachineSet"]


def upstreams_mirror(path: str) -> Json | None:
    """Upstream's mirror of a set; None where it has none, because it refuses, or because nobody ran it."""
    there = path.replace(".mapi.yaml", ".capi.yaml")
    if there == path or not (real_objects.UPSTREAM / there).exists():
        return None
    return real_objects.read(there)


def scaling(mirror: Json) -> Json:
    """All that scaling reads of a MachineSet of Cluster API, of whomever it is."""
    annotations = dict(mirror["metadata"].get("annotations") or {})
    bounds = {key: annotations.get(key) for key in (MACHINE_API.min_size, MACHINE_API.max_size)}
    # Capacities may be stated in OpenShift's keys alone, which stand for the autoscaler's.
    annotations |= machine_apis.translate_capacity(annotations)
    template = mirror["spec"]["template"]
    machine = template["spec"]
    return {
        "bounds": bounds,
        "owner": annotations.get(machine_apis.OWNER_ANNOTATION),
        "paused": machine_apis.PAUSED_ANNOTATION in annotations,
        "capacity": {key: value for key, value in annotations.items() if key.startswith(machine_apis.CAPACITY_PREFIX)},
        "replicas": mirror["spec"].get("replicas"),
        "order": mirror["spec"]["deletion"]["order"],
        "selector": mirror["spec"]["selector"],
        "zone": machine.get("failureDomain"),
        "labels": template["metadata"]["labels"],
        "kind": machine["infrastructureRef"]["kind"],
        "data": machine["bootstrap"].get("dataSecretName"),
        "seconds": machine.get("minReadySeconds"),
        "node": node_template(mirror, annotations),
    }


def node_template(mirror: Json, annotations: dict[str, str]) -> Any:
    """The node that scale from zero expects; None where its size is unknown."""
    template = msgspec.convert(mirror["spec"]["template"], clusterapi.MachineTemplate)
    source = scale_from_zero.TemplateSource(mirror["metadata"]["name"], annotations, template)
    made = scale_from_zero.make_node_template(source, "amd64")
    return None if made is None else (made.node.capacity, dict(made.node.labels), made.node.taints)


def mirror_of(body: Json) -> tuple[Json | None, Json]:
    """What the controller makes of a MachineSet, and what it says of it."""

    async def story(scene: World) -> tuple[Json | None, Json]:
        metadata = {key: body["metadata"].get(key) for key in ("name", "labels", "annotations")}
        name, labels = metadata["name"], metadata["labels"] or {}
        cluster = labels.get("machine.openshift.io/cluster-api-cluster", "demo-4k7vx")
        made = {"metadata": {"name": cluster}, "spec": {}}
        await scene.api.create(machine_set_pairs.CLUSTERS, made, CLUSTER_API.namespace)
        await scene.add(MACHINE_API, {**body, "metadata": metadata, "status": {}}, {"authoritativeAPI": "MachineAPI"})
        async with scene.controlled(cluster=cluster):
            await scene.settle(10.0)
            found = await scene.find(CLUSTER_API, name)
            said = await scene.synchronized(name)
            assert await scene.is_quiet()
        return found, said

    return play(story)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_scaling_reads_agrees_with_upstreams_mirrors(platform: str, capsys: pytest.CaptureFixture[str]) -> None:
    converted, compared = 0, 0
    for body in originals(platform):
        path = body.pop("path")
        mirror, said = mirror_of(body)
        assert mirror is not None, path
        converted += 1
        made = scaling(mirror)
        assert said["status"] == "False", "it cannot become authoritative"
        assert PLATFORMS[platform] in said["message"]
        check_against_source(body, mirror, made)
        theirs = upstreams_mirror(path)
        if theirs is not None:
            compared += 1
            expected = scaling(theirs)
            expected["labels"].pop("cluster.x-k8s.io/cluster-name", None)
            made["labels"].pop("cluster.x-k8s.io/cluster-name", None)
            assert made == expected, path
    assert converted >= 2
    with capsys.disabled():
        print(f"\n{platform}: {converted} MachineSets converted; {compared} of {compared} mirrors of upstream agree")


def check_against_source(body: Json, mirror: Json, made: Json) -> None:
    """Where upstream has no mirror: everything that Machine API states is there, and nothing else."""
    machine = body["spec"]["template"]["spec"]
    value = machine["providerSpec"]["value"]
    zones = (value.get("zone"), value.get("availabilityZone"), (value.get("placement") or {}).get("availabilityZone"))
    assert made["zone"] == next((zone for zone in zones if zone), None)
    assert made["replicas"] == body["spec"].get("replicas")
    assert made["data"] == value["userDataSecret"]["name"]
    assert made["paused"]
    selected = made["selector"]["matchLabels"]
    assert selected.items() <= made["labels"].items(), "Cluster API refuses a template that its selector does not match"
    on_nodes = ((machine.get("metadata") or {}).get("labels") or {}).items()
    assert {(key, value) for key, value in on_nodes if key not in selected} <= made["labels"].items()
    stated = body["metadata"].get("annotations") or {}
    taints, _ = scale_from_zero.read_taints(mirror["metadata"]["annotations"], None)
    expected = tuple(
        facts.Taint(taint["key"], taint.get("value") or "", taint["effect"]) for taint in machine.get("taints") or ()
    )
    assert taints == expected
    cpus = stated.get(machine_apis.VCPU_ANNOTATION) or str(value.get("numCPUs") or "")
    assert made["capacity"].get(machine_apis.CPU_CAPACITY, "") == cpus, "a size that nobody states is left out"


@pytest.mark.parametrize("platform", UNKNOWN_PLATFORMS)
def test_a_provider_that_is_not_known_gets_no_mirror(platform: str) -> None:
    for body in originals(platform):
        path = body.pop("path")
        mirror, said = mirror_of(body)
        assert mirror is None, path
        assert (said["status"], said["reason"]) == ("False", "FailedToConvertMAPIMachineSetToCAPI")
