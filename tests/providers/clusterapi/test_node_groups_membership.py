"""Which Machine belongs to which group, and which groups discovery finds.

The cases are those of Cluster Autoscaler's tests of its provider.
"""

import pytest

from tests.providers.clusterapi.management_cluster import INFRASTRUCTURE, Bed, define, enough, node, play
from windlass.kube import request_builders
from windlass.providers.clusterapi import auto_discovery

KINDS = ("MachineDeployment", "MachineSet")
kinds = pytest.mark.parametrize("kind", KINDS)


def add_group(bed: Bed, kind: str, name: str, count: int, namespace: str = "default", **more: object) -> None:
    """A group of so many Machines, each with its node."""
    bed.group(name, count, kind=kind, namespace=namespace, annotations=enough(), **more)  # type: ignore[arg-type]
    owner = f"{name}-1" if kind == "MachineDeployment" else name
    for i in range(count):
        bed.machine(f"{namespace}-{name}-{i}", owner, namespace=namespace)


def nodes_of(namespace: str, name: str, count: int) -> list[str]:
    return [f"fake:///{namespace}-{name}-{i}" for i in range(count)]


async def find_members(bed: Bed) -> dict[str, list[str]]:
    groups = await bed.observe()
    return {id: sorted(instance.provider_id for instance in group.instances) for id, group in groups.items()}


@kinds
def test_each_group_has_its_own_machines_and_no_others(kind: str) -> None:
    def arrange(bed: Bed) -> None:
        for namespace, name in (("default", "g"), ("default", "g-2"), ("a", "g")):
            add_group(bed, kind, name, 3, namespace)

    async def scenario(bed: Bed) -> None:
        assert await find_members(bed) == {
            f"{kind}/default/g": nodes_of("default", "g", 3),
            f"{kind}/default/g-2": nodes_of("default", "g-2", 3),
            f"{kind}/a/g": nodes_of("a", "g", 3),
        }
        await bed.remove(kind, "g-2")
        assert sorted(await find_members(bed)) == [f"{kind}/a/g", f"{kind}/default/g"]

    play(scenario, arrange)


@kinds
def test_a_machine_without_owner_belongs_to_no_group_and_its_node_is_not_deleted(kind: str) -> None:
    def arrange(bed: Bed) -> None:
        add_group(bed, kind, "g", 2)

    async def scenario(bed: Bed) -> None:
        patch = {"metadata": {"ownerReferences": None}}
        await bed.api.call(request_builders.build_merge_patch(bed.resource("Machine"), "default-g-0", patch, "default"))
        assert await find_members(bed) == {f"{kind}/default/g": ["fake:///default-g-1"]}
        orphan = node("default-g-0")
        with pytest.raises(Exception, match="default-g-0"):
            await bed.provider.delete_nodes(f"{kind}/default/g", [orphan])
        assert await bed.replicas(f"{kind}/default/g") == 2
        assert not await bed.marked()

    play(scenario, arrange)


def test_machines_of_a_machine_set_without_owner_belong_to_no_deployment() -> None:
    async def scenario(bed: Bed) -> None:
        patch = {"metadata": {"ownerReferences": None}}
        await bed.api.call(request_builders.build_merge_patch(bed.resource("MachineSet"), "g-1", patch, "default"))
        assert await find_members(bed) == {"MachineDeployment/default/g": []}

    play(scenario, lambda bed: add_group(bed, "MachineDeployment", "g", 2))


@kinds
def test_a_node_of_an_id_that_no_machine_has_is_in_no_group(kind: str) -> None:
    async def scenario(bed: Bed) -> None:
        assert await bed.provider.delete_nodes(f"{kind}/default/g", [node("stranger", "does-not-exist")]) == {}
        assert await bed.replicas(f"{kind}/default/g") == 2, "its machine counts as gone"
        assert not await bed.marked()

    play(scenario, lambda bed: add_group(bed, kind, "g", 2))


@kinds
def test_machines_that_nothing_links_to_a_node_are_pending(kind: str) -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 2, kind=kind, annotations=enough())
        for i in range(2):
            bed.machine(f"m{i}", "g-1" if kind == "MachineDeployment" else "g", provider_id=False, node=False)

    async def scenario(bed: Bed) -> None:
        (instances,) = [group.instances for group in (await bed.observe([node("m0"), node("m1")])).values()]
        assert all("pending" in instance.provider_id for instance in instances)

    play(scenario, arrange)


@kinds
def test_a_machine_that_failed_without_id_counts_beside_the_others(kind: str) -> None:
    def arrange(bed: Bed) -> None:
        add_group(bed, kind, "g", 3)
        owner = "g-1" if kind == "MachineDeployment" else "g"
        bed.machine("late", owner, provider_id=False, node=False, phase="Failed", failureMessage="no quota")

    async def scenario(bed: Bed) -> None:
        (members,) = (await find_members(bed)).values()
        assert [id for id in members if "default-g-" in id] == nodes_of("default", "g", 3)
        (failed,) = [id for id in members if "default-g-" not in id]
        assert "failed" in failed
        assert "late" in failed

    play(scenario, arrange)


SPECS = {
    "none": ([], ["MachineDeployment/default/d", "MachineDeployment/default/e", "MachineSet/a/s", "MachineSet/a/t"]),
    "a set": (["namespace=a,clusterName=work,role=s"], ["MachineSet/a/s"]),
    "a deployment": (["namespace=default,clusterName=work,role=d"], ["MachineDeployment/default/d"]),
    "either": (["namespace=a,role=s", "namespace=default,role=d"], ["MachineDeployment/default/d", "MachineSet/a/s"]),
    "either, and a restrictive one": (
        ["namespace=a,role=s", "namespace=default,role=d", "namespace=b,clusterName=other,role=none"],
        ["MachineDeployment/default/d", "MachineSet/a/s"],
    ),
    "either, and a permissive one": (
        ["namespace=a,role=s", "clusterName=work"],
        ["MachineDeployment/default/d", "MachineDeployment/default/e", "MachineSet/a/s", "MachineSet/a/t"],
    ),
    "a restrictive one": (["namespace=b,clusterName=other,role=none"], []),
}


@pytest.mark.parametrize(("specs", "found"), SPECS.values(), ids=SPECS.keys())
def test_discovery_finds_what_any_spec_names_and_only_that_has_nodes(specs: list[str], found: list[str]) -> None:
    def arrange(bed: Bed) -> None:
        for name in ("d", "e"):
            add_group(bed, "MachineDeployment", name, 1, labels={"role": name})
        for name in ("s", "t"):
            add_group(bed, "MachineSet", name, 1, "a", labels={"role": name})

    async def scenario(bed: Bed) -> None:
        members = await find_members(bed)
        assert sorted(members) == found
        assert all(len(instances) == 1 for instances in members.values())

    config = auto_discovery.read_config([f"clusterapi:{spec}" for spec in specs], {})
    play(scenario, arrange, config=config)


def test_each_template_kind_is_read_in_the_version_that_serves_it() -> None:
    """The group's newest version lacks a kind that only an older one has."""
    capacity = {"cpu": "4", "memory": "8Gi"}

    def arrange(bed: Bed) -> None:
        bed.server.apply(define(INFRASTRUCTURE, "NewMachineTemplate", "v1beta2"))
        metadata = {"name": "new", "namespace": "default"}
        new = {"apiVersion": f"{INFRASTRUCTURE}/v1beta2", "kind": "NewMachineTemplate", "metadata": metadata}
        bed.server.apply({**new, "status": {"capacity": capacity}})
        bed.apply("FakeMachineTemplate", "old", status={"capacity": capacity})
        bed.group("new", 0, refers_to="NewMachineTemplate")
        bed.group("old", 0, refers_to="FakeMachineTemplate")

    async def scenario(bed: Bed) -> None:
        groups = await bed.observe()
        assert sorted(groups) == ["MachineDeployment/default/new", "MachineDeployment/default/old"]
        for group in groups.values():
            assert group.template is not None
            assert dict(group.template.allocatable)["cpu"] == 4000

    play(scenario, arrange)
