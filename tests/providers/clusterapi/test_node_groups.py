"""What a group says of itself: bounds, options, capacity, labels, taints."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.providers.clusterapi.management_cluster import CAPACITY, GROUP, MAX, MIN, Bed, Json, enough, node, play
from windlass.engine.model import facts, node_groups
from windlass.providers import base

GOOD = "MachineDeployment/default/good"
G = "MachineDeployment/default/g"


def see(arrange: Callable[[Bed], object], nodes: list[facts.Node] | None = None, **how: Any) -> base.ObservedNodeGroups:
    observeds: list[base.ObservedNodeGroups] = []

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        observeds.append(bed.provider.observe(nodes or []))

    play(scenario, arrange, **how)
    return observeds[0]


def see_group(
    arrange: Callable[[Bed], object], nodes: list[facts.Node] | None = None, **how: Any
) -> node_groups.NodeGroup:
    (node_group,) = (group for group in see(arrange, nodes, **how).groups if group.id == G)
    return node_group


def see_template(annotations: Json, status: Json | None = None, **more: Any) -> facts.Node:
    """The template of a group at zero."""

    def arrange(bed: Bed) -> None:
        if status is not None:
            bed.apply("FakeMachineTemplate", "g", status=status)
        bed.group("g", 0, annotations=annotations, **more)

    made = see_group(arrange).template
    assert made is not None
    return made


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bounds", "field", "found"),
    [
        (("abc", 3), MIN, "abc"),
        (("1", "5.0"), MAX, "5.0"),
        ((4, 3), MAX, "3"),
        ((-1, 3), MIN, "-1"),
        ((0, -1), MAX, "-1"),
        (("", 3), MIN, ""),
    ],
)
def test_d2_a_group_with_a_bad_bound_is_set_aside_and_all_others_stay(
    bounds: tuple[Any, Any], field: str, found: str
) -> None:
    def arrange(bed: Bed) -> None:
        bed.group("bad", 1, bounds)
        bed.group("good", 1, (1, 3))

    observed = see(arrange)
    assert [group.id for group in observed.groups] == [GOOD]
    (complaint,) = observed.set_aside
    assert (complaint.kind, complaint.name) == ("MachineDeployment", "default/bad")
    assert (complaint.field, complaint.found) == (f"metadata.annotations[{field}]", found)


def test_d2_a_repaired_bound_brings_the_group_back_at_once() -> None:
    async def scenario(bed: Bed) -> None:
        assert await bed.observe() == {}
        bed.group("g", 1, (1, 2))
        assert list(await bed.observe()) == [G]

    play(scenario, lambda bed: bed.group("g", 1, ("x", 2)))


def test_an_object_that_cannot_be_read_at_all_leaves_the_others_alone() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("bad", 1, refers_to=5)
        bed.group("good", 1)

    observed = see(arrange)
    assert [group.id for group in observed.groups] == [GOOD]
    assert [complaint.name for complaint in observed.set_aside] == ["default/bad"]


@pytest.mark.parametrize("bounds", [None, (0, 0), (0, "0")])
def test_a_group_that_may_have_no_node_is_none(bounds: tuple[Any, Any] | None) -> None:
    assert see(lambda bed: bed.group("g", 3, bounds)) == base.ObservedNodeGroups()


# ── Options ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_options_overrule_flags_and_garbage_is_told() -> None:
    prefix = f"{GROUP}/autoscaling-options-"
    options = {
        prefix + "scaledownunneededtime": "10M",
        prefix + "scaledownutilizationthreshold": "0.7",
        prefix + "maxnodeprovisiontime": "soon",
        prefix + "unheard": "of",
    }
    observed = see(lambda bed: bed.group("g", 1, annotations=options))
    assert observed.groups[0].options == node_groups.GroupOptions(
        scale_down_unneeded_s=600.0, scale_down_utilization_threshold=0.7
    )
    (complaint,) = observed.set_aside
    assert (complaint.field, complaint.found) == (f"metadata.annotations[{prefix}maxnodeprovisiontime]", "soon")


def test_options_that_no_flag_or_a_switch_sets_can_be_set_on_a_group() -> None:
    prefix = f"{GROUP}/autoscaling-options-"
    names = ("ignoredaemonsetsutilization", "zeroormaxnodescaling", "allownonatomicscaleuptomax")

    def options(said: str) -> node_groups.GroupOptions:
        annotations = {prefix + name: said for name in names}
        return see(lambda bed: bed.group("g", 1, annotations=annotations)).groups[0].options

    assert options("true") == node_groups.GroupOptions(
        ignore_daemonsets_utilization=True, zero_or_max=True, allow_non_atomic_scale_up_to_max=True
    )
    assert options("False") == node_groups.GroupOptions(ignore_daemonsets_utilization=False)
    assert options("perhaps") == node_groups.GroupOptions()


# ── From zero ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_group_at_zero_of_which_nobody_knows_the_size_of_nodes_says_what_is_missing() -> None:
    observed = see(lambda bed: bed.group("g", 0))
    assert observed.groups == ()
    (complaint,) = observed.set_aside
    assert complaint.field == "spec.template.spec.infrastructureRef"
    assert "FakeMachineTemplate default/g: no such object" in str(complaint.found)
    assert "status.capacity" in complaint.accepted


def test_annotations_overrule_the_infrastructure_template() -> None:
    status = {"capacity": {"cpu": "2", "memory": "4Gi", "example.com/thing": 3, "nonsense": "?!"}}
    made = see_template(
        {CAPACITY + "cpu": "8", CAPACITY + "gpu-type": "x.com/gpu", CAPACITY + "gpu-count": "2"}, status
    )
    assert dict(made.allocatable) == {
        "cpu": 8000,
        "memory": 4 * 2**30,
        "pods": 110,
        "example.com/thing": 3,
        "x.com/gpu": 2,
    }
    assert made.capacity == made.allocatable


@pytest.mark.parametrize(
    ("told", "annotation", "pods"), [("58", None, 58), ("58", "20", 20), (None, None, 110), (None, "30", 30)]
)
def test_d3_the_templates_pods_hold_unless_an_annotation_says_otherwise(
    told: str | None, annotation: str | None, pods: int
) -> None:
    status = {"capacity": {"cpu": "2", "memory": "4Gi", **({"pods": told} if told else {})}}
    made = see_template({CAPACITY + "maxPods": annotation} if annotation else {}, status)
    assert dict(made.capacity)["pods"] == pods


@pytest.mark.parametrize(
    ("info", "labels"),
    [
        (None, ("amd64", "linux")),
        ({}, ("amd64", "linux")),
        ({"architecture": "", "operatingSystem": ""}, ("amd64", "linux")),
        ({"architecture": "arm64"}, ("arm64", "linux")),
        ({"operatingSystem": "windows"}, ("amd64", "windows")),
    ],
)
def test_d4_a_template_that_does_not_tell_its_system_has_the_default_one(
    info: Json | None, labels: tuple[str, str]
) -> None:
    status = {"capacity": {"cpu": "2", "memory": "4Gi"}} | ({"nodeInfo": info} if info is not None else {})
    made = see_template({}, status)
    assert (made.labels["kubernetes.io/arch"], made.labels["kubernetes.io/os"]) == labels


@pytest.mark.parametrize("key", ["cpu", "memory", "ephemeral-disk", "gpu-count", "maxPods"])
@pytest.mark.parametrize("value", ["much", "-1"])
def test_garbage_in_a_capacity_annotation_sets_a_group_at_zero_aside_and_names_the_field(key: str, value: str) -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 0, annotations=enough() | {CAPACITY + key: value})
        bed.group("good", 0, annotations=enough())

    observed = see(arrange)
    assert [group.id for group in observed.groups] == [GOOD]
    (complaint,) = observed.set_aside
    assert (complaint.name, complaint.found) == ("default/g", value)
    assert complaint.field == f"metadata.annotations[{CAPACITY}{key}]"


def test_garbage_in_a_capacity_annotation_leaves_a_group_that_has_nodes_as_it_is() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 1, annotations={CAPACITY + "cpu": "much"})
        bed.members("g", 1)

    observed = see(arrange, [node("g-0")])
    assert [(group.id, group.template) for group in observed.groups] == [(G, None)]
    assert [complaint.found for complaint in observed.set_aside] == ["much"]


# ── Labels and taints ────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_that_cluster_api_copies_to_nodes_are_on_the_template() -> None:
    labels = {
        "node-role.kubernetes.io/worker": "",
        "node.cluster.x-k8s.io/pool": "p",
        "my.node-restriction.kubernetes.io/a": "b",
        "team": "not copied",
        "xnode.cluster.x-k8s.io/pool": "not copied",
    }
    template = {"metadata": {"labels": labels}, "spec": {}}
    made = see_template(enough() | {CAPACITY + "labels": "a=b,node.cluster.x-k8s.io/pool=q,none"}, template=template)
    assert made.labels == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": made.name,
        "node-role.kubernetes.io/worker": "",
        "node.cluster.x-k8s.io/pool": "q",
        "my.node-restriction.kubernetes.io/a": "b",
        "a": "b",
    }


def test_a_node_of_the_group_tells_what_all_have_in_common() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 1, annotations=enough() | {CAPACITY + "labels": "kubernetes.io/arch=s390x"})
        bed.members("g", 1)

    labels = {"kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "z", "own": "x"}
    made = see_group(arrange, [node("g-0", labels=labels)]).template
    assert made is not None
    assert made.labels["kubernetes.io/arch"] == "arm64"
    assert made.labels["topology.kubernetes.io/zone"] == "z"
    assert "own" not in made.labels


def test_taints_are_read_entry_by_entry() -> None:
    annotations = enough() | {
        CAPACITY + "taints": "a=b:NoSchedule,c:NoExecute,d=e,f=g=h:NoSchedule, i=j:NoSchedule,a=z:NoSchedule,k=l:Never"
    }
    observed = see(lambda bed: bed.group("g", 0, annotations=annotations))
    made = observed.groups[0].template
    assert made is not None
    assert made.taints == (facts.Taint("a", "z", "NoSchedule"), facts.Taint("c", "", "NoExecute"))
    assert [complaint.found for complaint in observed.set_aside] == [
        "d=e",
        "f=g=h:NoSchedule",
        " i=j:NoSchedule",
        "k=l:Never",
    ]


@pytest.mark.parametrize(
    ("text", "drivers"),
    [
        ("ebs.csi.aws.com=25,efs.csi.aws.com=0", (("ebs.csi.aws.com", 25), ("efs.csi.aws.com", None))),
        ("nonsense,=3,x=-1", None),
    ],
)
def test_the_template_has_the_csi_drivers_that_the_annotation_names(text: str, drivers: Any) -> None:
    group = see_group(lambda bed: bed.group("g", 0, annotations=enough() | {CAPACITY + "csi-driver": text}))
    assert group.template is not None
    csi_node = group.template.csi_node
    assert (None if csi_node is None else csi_node.drivers) == drivers


def test_a_node_from_nowhere_is_taken_to_run_a_proxy() -> None:
    group = see_group(lambda bed: bed.group("g", 0, annotations=enough()))
    assert [pod.spec.requests for pod in group.template_pods] == [(("cpu", 100),)]


# ── Versions ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet", "MachinePool"])
def test_both_versions_of_the_api_are_read_alike(version: str, kind: str) -> None:
    def arrange(bed: Bed) -> None:
        bed.apply("FakeMachineTemplate", "g", status={"capacity": {"cpu": "2", "memory": "4Gi"}})
        bed.group("g", 0, (1, 4), kind=kind)

    (group,) = see(arrange, version=version).groups
    assert (group.id, group.min_size, group.max_size, group.target_size) == (f"{kind}/default/g", 1, 4, 0)
    assert group.template is not None
    assert dict(group.template.capacity)["cpu"] == 2000


@pytest.mark.parametrize(
    ("annotations", "price"),
    [
        ({"windlass.internal/price-per-hour": "0.5", "cluster.x-k8s.io/machine-current-price": "9"}, 0.5),
        ({"capacity.cluster-autoscaler.kubernetes.io/price": "0.25"}, 0.25),
        ({"cluster.x-k8s.io/machine-current-price": "0.125"}, 0.125),
        ({"windlass.internal/price-per-hour": "cheap", "cluster.x-k8s.io/machine-current-price": "2"}, 2.0),
        ({"cluster.x-k8s.io/machine-current-price": "-1"}, None),
    ],
)
def test_prices_are_read_from_the_annotations_of_others_too(annotations: dict[str, str], price: float | None) -> None:
    assert see(lambda bed: bed.group("g", 1, annotations=annotations)).groups[0].price_per_hour == price
