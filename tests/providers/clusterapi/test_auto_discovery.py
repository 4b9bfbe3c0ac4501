"""Which groups are ours: discovery specs, namespaces, pauses, mirrors."""

import pytest

from tests.providers.clusterapi.management_cluster import GROUP, Bed, Json, define, node, play
from windlass import errors
from windlass.kube import resources
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import auto_discovery


def name_groups(*specs: str) -> list[str]:
    """Groups in two namespaces, two clusters and two colours; those that specs select."""
    found: list[str] = []

    def make(bed: Bed) -> None:
        bed.group("one", 1, namespace="a", cluster="x", labels={"color": "red"})
        bed.group("two", 1, namespace="b", cluster="x", labels={"color": "green"})
        bed.group("three", 1, namespace="b", cluster="y", labels={"color": "red"})
        bed.group("four", 1, cluster="y")

    async def scenario(bed: Bed) -> None:
        found.extend(id.rpartition("/")[2] for id in await bed.observe())

    play(scenario, make, config=auto_discovery.read_config(specs))
    return sorted(found)


def test_without_a_spec_every_group_is_ours() -> None:
    assert name_groups() == name_groups("clusterapi:") == ["four", "one", "three", "two"]


def test_everything_that_a_spec_names_must_hold() -> None:
    assert name_groups("clusterapi:namespace=b,clusterName=x") == ["two"]
    assert name_groups("clusterapi:clusterName=y,color=red") == ["three"]
    assert name_groups("clusterapi:color=red") == ["one", "three"]


def test_d1_each_spec_has_its_own_namespace() -> None:
    assert name_groups("clusterapi:namespace=a", "clusterapi:namespace=b") == ["one", "three", "two"]
    assert name_groups("clusterapi:clusterName=y", "clusterapi:namespace=b") == ["four", "three", "two"]


def test_only_the_namespaces_that_specs_name_are_read() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.settle()
        listed = {request.path for request in bed.carrier.sent if "machine" in request.path}
        assert listed
        assert all("/namespaces/a/" in path or "/namespaces/b/" in path for path in listed)

    play(
        scenario,
        lambda bed: bed.group("g", 1, namespace="a"),
        config=auto_discovery.read_config(["clusterapi:namespace=a", "clusterapi:namespace=b,clusterName=x"]),
    )


@pytest.mark.parametrize(
    "spec", ["clusterapi:word", "clusterapi:a=b=c", "asg:tag=x", "clusterapi", "clusterapi:a=b:c", "clusterapi:-=x"]
)
def test_a_spec_that_cannot_be_understood_is_named(spec: str) -> None:
    with pytest.raises(errors.InvalidInput, match="--node-group-auto-discovery") as caught:
        auto_discovery.parse_discovery_spec(spec)
    assert spec in str(caught.value)


def test_the_environment_renames_the_group_and_chooses_the_version() -> None:
    config = auto_discovery.read_config(
        (), {"CAPI_GROUP": "x.example", "CAPI_VERSION": "v9", "CAPI_SCALE_ZERO_DEFAULT_ARCH": "arm64"}
    )
    assert config == auto_discovery.Config(group="x.example", version="v9", default_architecture="arm64")


def test_the_environment_says_where_groups_are_unless_a_spec_does() -> None:
    told = {"CAPI_NAMESPACE": "a"}
    assert auto_discovery.read_config((), told).specs == (auto_discovery.DiscoverySpec("a"),)
    assert auto_discovery.read_config(["clusterapi:namespace=b"], told).specs == (auto_discovery.DiscoverySpec("b"),)


def test_a_renamed_group_renames_its_keys() -> None:
    def arrange(bed: Bed) -> None:
        bed.server.apply(define("x.example", "Machine", "v1"))
        bed.server.apply(define("x.example", "MachineSet", "v1"))
        bounds = {f"x.example/cluster-api-autoscaler-node-group-{which}-size": "3" for which in ("min", "max")}
        metadata = {"name": "s", "namespace": "default", "annotations": bounds}
        body = {"apiVersion": "x.example/v1", "kind": "MachineSet", "metadata": metadata, "spec": {"replicas": 3}}
        bed.server.apply(body)
        bed.group("other", 1)

    async def scenario(bed: Bed) -> None:
        (group,) = (await bed.observe()).values()
        assert (group.id, group.min_size, group.max_size) == ("MachineSet/default/s", 3, 3)

    play(scenario, arrange, config=auto_discovery.Config(group="x.example"))


def test_a_machine_set_of_a_deployment_is_no_group_of_its_own() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("d", 1)
        bed.group("s", 1, kind="MachineSet")

    async def scenario(bed: Bed) -> None:
        assert list(await bed.observe()) == ["MachineDeployment/default/d", "MachineSet/default/s"]

    play(scenario, arrange)


def test_a_paused_group_is_hidden_until_it_is_not_paused_any_more() -> None:
    def arrange(bed: Bed, annotations: Json | None = None) -> None:
        bed.group("g", 1, annotations=annotations)

    async def scenario(bed: Bed) -> None:
        assert await bed.observe() == {}
        arrange(bed)
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]

    play(scenario, lambda bed: arrange(bed, {f"{GROUP}/paused": ""}))


@pytest.mark.parametrize(("authority", "is_seen"), [("MachineAPI", True), ("ClusterAPI", False), ("Migrating", False)])
def test_a_paused_mirror_stays_a_group_while_its_twin_has_the_authority(authority: str, is_seen: bool) -> None:
    def arrange(bed: Bed) -> None:
        bed.server.apply(define("machine.openshift.io", "MachineSet", "v1beta1"))
        metadata = {"name": "s", "namespace": "a"}
        twin = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata}
        bed.server.apply({**twin, "status": {"authoritativeAPI": authority}})
        bed.group("s", 1, kind="MachineSet", annotations={f"{GROUP}/paused": ""})
        bed.group("alone", 1, kind="MachineSet", annotations={f"{GROUP}/paused": ""})

    async def scenario(bed: Bed) -> None:
        assert list(await bed.observe()) == (["MachineSet/default/s"] if is_seen else [])

    play(scenario, arrange, config=auto_discovery.Config(mirrored_namespace="a"))


MIRRORED = "machine.openshift.io"
BOUNDS = "cluster-api-autoscaler-node-group-{}-size"


def bounds_of(group: str, least: int, most: int) -> dict[str, str]:
    return {f"{group}/{BOUNDS.format('min')}": str(least), f"{group}/{BOUNDS.format('max')}": str(most)}


@pytest.mark.parametrize(
    ("annotations", "namespace", "expected"),
    [
        (bounds_of(MIRRORED, 1, 5), "a", (1, 5)),
        (bounds_of(MIRRORED, 1, 5) | bounds_of(GROUP, 2, 7), "a", (2, 7)),
        (bounds_of(MIRRORED, 1, 5), "", None),
    ],
)
def test_openshifts_mirrors_have_bounds_under_the_prefix_that_they_were_copied_with(
    annotations: dict[str, str], namespace: str, expected: tuple[int, int] | None
) -> None:
    def arrange(bed: Bed) -> None:
        bed.server.apply(define(MIRRORED, "MachineSet", "v1beta1"))
        bed.group("s", 1, None, kind="MachineSet", annotations=annotations)
        bed.machine("s-0", "s")

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        found = {group.id: group for group in bed.provider.observe([node("s-0")]).groups}.get("MachineSet/default/s")
        assert (found and (found.min_size, found.max_size)) == expected

    play(scenario, arrange, config=auto_discovery.Config(mirrored_namespace=namespace))


def test_paused_machines_of_a_mirror_can_be_deleted_while_its_twin_has_the_authority() -> None:
    def arrange(bed: Bed) -> None:
        bed.server.apply(define("machine.openshift.io", "MachineSet", "v1beta1"))
        metadata = {"name": "s", "namespace": "a"}
        twin = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata}
        bed.server.apply({**twin, "status": {"authoritativeAPI": "MachineAPI"}})
        bed.group("s", 2, kind="MachineSet", annotations={f"{GROUP}/paused": ""})
        for name in ("s-0", "s-1"):
            bed.machine(name, "s", conditions=[{"type": "Paused", "status": "True", "reason": "Paused"}])

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        (group,) = bed.provider.observe([node("s-0"), node("s-1")]).groups
        assert group.kept == frozenset()
        assert await bed.provider.delete_nodes(group.id, [node("s-0")]) == {}
        assert await bed.marked() == {"s-0"}
        assert await bed.replicas(group.id) == 1

    play(scenario, arrange, config=auto_discovery.Config(mirrored_namespace="a"))


@pytest.mark.parametrize(
    ("authority", "is_seen"),
    [(None, True), ("", True), ("MachineAPI", True), ("ClusterAPI", False), ("Migrating", False)],
)
def test_on_machine_api_a_set_that_another_api_holds_is_no_group(authority: str | None, is_seen: bool) -> None:
    group = "machine.openshift.io"

    def arrange(bed: Bed) -> None:
        for kind in ("Machine", "MachineSet"):
            bed.server.apply(define(group, kind, "v1beta1"))
        bounds = {f"{group}/cluster-api-autoscaler-node-group-{which}-size": "3" for which in ("min", "max")}
        metadata = {"name": "s", "namespace": "default", "annotations": bounds}
        body = {"apiVersion": f"{group}/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": {"replicas": 3}}
        bed.server.apply(body if authority is None else {**body, "status": {"authoritativeAPI": authority}})

    async def scenario(bed: Bed) -> None:
        assert list(await bed.observe()) == (["MachineSet/default/s"] if is_seen else [])

    play(scenario, arrange, config=auto_discovery.Config(group=group))


def test_groups_come_and_go_and_whoever_wants_to_know_is_told() -> None:
    async def scenario(bed: Bed) -> None:
        assert await bed.observe() == {}
        told = bed.told
        bed.group("g", 1)
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]
        assert bed.told > told
        told = bed.told
        await bed.remove("MachineDeployment", "g")
        assert await bed.observe() == {}
        assert bed.told > told

    play(scenario)


def test_only_changes_that_matter_are_told() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 1)
        bed.machine("g-0", "g-1", node=False)

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        told = bed.told
        patch = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
        await bed.api.merge_patch(bed.resource("MachineDeployment"), "g", patch, "default")
        bed.machine("g-0", "g-1", node=False, phase="Provisioning")
        await bed.settle()
        assert bed.told == told
        bed.machine("g-0", "g-1")
        await bed.settle()
        assert bed.told == told + 1

    play(scenario, arrange)


def test_a_kind_that_goes_away_takes_no_other_along() -> None:
    async def scenario(bed: Bed) -> None:
        resource = Resource(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            False,
            resources.Unstructured,
        )
        await bed.api.delete(resource, "machinepools.cluster.x-k8s.io")
        await bed.settle()
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]

    play(scenario, lambda bed: bed.group("g", 1))
