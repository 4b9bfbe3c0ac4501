"""Who owns `spec.replicas` of a group, by its managedFields: the topology controller, or not."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.providers.clusterapi.management_cluster import GROUP, MAX, MIN, Bed, enough, play
from windlass.engine.model import node_groups, plan
from windlass.kube import request_builders
from windlass.kube.models import clusterapi

G = "MachineDeployment/default/g"
POOL = "MachinePool/default/g"
LABELS = {"topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "md-0"}
UPSTREAM = Path(__file__).parents[4] / "shared/upstream/cluster-api/topology/cluster-mixed.machinedeployments.yaml"


async def apply(bed: Bed, manager: str, kind: str = "MachineDeployment", **body: Any) -> None:
    """As a controller does that applies with force."""
    metadata = {"name": "g", "namespace": "default", **body.pop("metadata", {})}
    whole = {"apiVersion": f"{GROUP}/{bed.version}", "kind": kind, "metadata": metadata, **body}
    await bed.api.call(
        request_builders.build_apply(
            bed.resource(kind), whole, force=True, writer=request_builders.WriteOptions(manager)
        )
    )


async def find_owner(bed: Bed, id: str = G) -> node_groups.ReplicasOwner | None:
    return (await bed.observe())[id].replicas_owner


def three(bed: Bed) -> None:
    bed.group("g", 3, annotations=enough())


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_topology_with_replicas_owns_the_size_and_its_entry_is_named(version: str) -> None:
    async def scenario(bed: Bed) -> None:
        await apply(bed, "capi-topology", metadata={"labels": LABELS}, spec={"clusterName": "work", "replicas": 3})
        owner = await find_owner(bed)
        assert owner is not None
        assert (owner.manager, owner.api_version) == ("capi-topology", f"{GROUP}/{version}")
        assert owner.uid == (await bed.api.get(bed.resource("MachineDeployment"), "g", "default"))["metadata"]["uid"]
        remedy = (
            "remove replicas from the entry md-0 of machineDeployments in spec.topology.workers of Cluster default/work"
        )
        assert owner.remedy == remedy

    play(scenario, three, version=version)


def test_a_machine_pool_of_a_topology_is_named_as_one() -> None:
    async def scenario(bed: Bed) -> None:
        labels = {"topology.cluster.x-k8s.io/pool-name": "mp-0"}
        await apply(bed, "capi-topology", "MachinePool", metadata={"labels": labels}, spec={"replicas": 3})
        owner = await find_owner(bed, POOL)
        assert owner is not None
        assert "the entry mp-0 of machinePools in spec.topology.workers of Cluster default/work" in owner.remedy

    play(scenario, lambda bed: bed.group("g", 3, kind="MachinePool", annotations=enough()))


@pytest.mark.parametrize(
    ("kind", "value", "manager"),
    [
        ("MachinePool", "external-autoscaler", "external-autoscaler"),
        ("MachinePool", "", "true"),
        ("MachinePool", "false", None),
        ("MachinePool", None, None),
        ("MachineDeployment", "external-autoscaler", None),
    ],
)
def test_the_provider_of_a_pool_that_others_scale_owns_the_size(
    kind: str, value: str | None, manager: str | None
) -> None:
    managed = {} if value is None else {"cluster.x-k8s.io/replicas-managed-by": value}

    async def scenario(bed: Bed) -> None:
        owner = await find_owner(bed, f"{kind}/default/g")
        assert (owner and owner.manager) == manager
        if owner is not None:
            assert not owner.is_topology
            assert "remove the annotation cluster.x-k8s.io/replicas-managed-by, or both size" in owner.remedy

    play(scenario, lambda bed: bed.group("g", 3, kind=kind, annotations={**enough(), **managed}))


def test_a_topology_without_replicas_owns_all_but_the_size() -> None:
    async def scenario(bed: Bed) -> None:
        await apply(bed, "capi-topology", metadata={"labels": LABELS}, spec={"clusterName": "work"})
        assert await find_owner(bed) is None
        await bed.provider.resize(plan.Resize(G, 3, 5, 10))
        assert await find_owner(bed) is None, "the autoscaler itself owns the size by its scale subresource"

    play(scenario, three)


@pytest.mark.parametrize("manager", ["kubectl", "argocd-controller", "cluster-autoscaler", "windlass"])
def test_no_other_manager_is_taken_for_the_topology(manager: str) -> None:
    async def scenario(bed: Bed) -> None:
        await apply(bed, manager, spec={"replicas": 3})
        assert await find_owner(bed) is None

    play(scenario, three)


def test_who_updates_in_the_name_of_the_topology_does_not_apply_the_size_again() -> None:
    async def scenario(bed: Bed) -> None:
        writer = request_builders.WriteOptions("capi-topology")
        patch = request_builders.build_merge_patch(
            bed.resource("MachineDeployment"), "g", {"spec": {"replicas": 4}}, "default", writer=writer
        )
        await bed.api.call(patch)
        assert await find_owner(bed) is None

    play(scenario, three)


def test_ownership_follows_the_last_writer_and_ends_with_the_entry_of_the_topology() -> None:
    async def scenario(bed: Bed) -> None:
        await apply(bed, "capi-topology", spec={"clusterName": "work", "replicas": 3})
        assert await find_owner(bed) is not None
        await bed.provider.resize(plan.Resize(G, 3, 5, 10))
        assert await find_owner(bed) is None, "another value takes the field from the topology"
        await apply(bed, "capi-topology", spec={"clusterName": "work", "replicas": 3})
        assert await find_owner(bed) is not None
        await apply(bed, "capi-topology", spec={"clusterName": "work"})
        assert await find_owner(bed) is None

    play(scenario, three)


def test_a_change_of_the_owner_alone_is_noticed() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.settle()
        told = bed.told
        await apply(bed, "capi-topology", spec={"replicas": 3})
        await bed.settle()
        assert bed.told == told + 1

    play(scenario, three)


def test_of_managed_fields_nothing_is_kept_but_who_owns_the_size() -> None:
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": {".": {}, 'k:{"a":"b"}': {}}},
        "f:spec": {"f:template": {"f:spec": {}}},
    }
    entry = {"manager": "m", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}
    text = msgspec.json.encode({"metadata": {"name": "g", "managedFields": [entry]}})
    machine_deployment = msgspec.json.decode(text, type=clusterapi.MachineDeployment)
    kept = clusterapi.ManagedFields("m", "Apply", None, clusterapi.OwnedFields(clusterapi.SpecFields()))
    assert isinstance(machine_deployment.metadata, clusterapi.MachineGroupMeta)
    assert machine_deployment.metadata.managed_fields == [kept]
    assert not hasattr(msgspec.json.decode(text, type=clusterapi.Machine).meta, "managed_fields")


@pytest.mark.skipif(not UPSTREAM.exists(), reason=f"{UPSTREAM} is not there: topologies of Cluster API are not tested")
def test_of_the_machine_deployments_of_a_real_topology_only_those_with_replicas_are_owned() -> None:
    made = {item["metadata"]["name"]: item for item in yaml.safe_load_all(UPSTREAM.read_text(encoding="utf-8"))}
    names = {one["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"]: name for name, one in made.items()}
    has_replicas = ("static", "fought-over")

    def arrange(bed: Bed) -> None:
        for entry, name in names.items():
            body, replicas = made[name], made[name]["spec"].pop("replicas", 1)
            body["metadata"]["annotations"] = {MIN: "0", MAX: "9", **enough()} | body["metadata"].get("annotations", {})
            size = {"spec": {"replicas": replicas}}
            identity = {key: body[key] for key in ("apiVersion", "kind")}
            key = {"name": name, "namespace": "default"}
            bed.server.apply({**identity, "metadata": key, **size}, "webhook")
            bed.server.apply(
                {**body, "spec": {**body["spec"], **(size["spec"] if entry in has_replicas else {})}}, "capi-topology"
            )

    async def scenario(bed: Bed) -> None:
        groups = await bed.observe()
        owned = {entry for entry, name in names.items() if groups[f"MachineDeployment/default/{name}"].replicas_owner}
        assert owned == set(has_replicas)

    play(scenario, arrange)
