"""Similar groups: what may differ, by how much, and what may not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.model import facts
from windlass.engine.scale_up import similarity
from windlass.engine.scale_up.similarity import ComparedTemplate, LabelComparator, ResourceComparator, SimilarityRatios

GIB = 2**30
SIMILAR = ResourceComparator()


def template(
    millicpu: int = 4000,
    memory: int = 16 * GIB,
    allocatable_memory: int | None = None,
    requested: facts.Resources = (),
    labels: dict[str, str] | None = None,
    **extra: int,
) -> ComparedTemplate:
    more = tuple((name.replace("_", "/"), amount) for name, amount in extra.items())
    capacity = ((facts.CPU, millicpu), (facts.MEMORY, memory), (facts.PODS, 110), *more)
    allocatable = (
        (facts.CPU, millicpu),
        (facts.MEMORY, memory if allocatable_memory is None else allocatable_memory),
        (facts.PODS, 110),
        *more,
    )
    return ComparedTemplate(facts.Node("n", labels=labels or {}, capacity=capacity, allocatable=allocatable), requested)


def test_equal_templates_are_similar() -> None:
    assert SIMILAR(template(), template())


def test_cpu_capacity_must_be_equal() -> None:
    assert not SIMILAR(template(millicpu=4000), template(millicpu=4001))


@pytest.mark.parametrize(("memory", "similar"), [(1000, True), (985, True), (984, False)])
def test_memory_capacity_may_differ_by_its_ratio_of_the_larger(memory: int, similar: bool) -> None:
    assert SIMILAR(template(memory=1000), template(memory=memory)) is similar


@pytest.mark.parametrize(("allocatable", "similar"), [(950, True), (949, False)])
def test_allocatable_may_differ_by_five_percent(allocatable: int, similar: bool) -> None:
    compared_template = template(memory=1000, allocatable_memory=1000)
    assert SIMILAR(compared_template, template(memory=1000, allocatable_memory=allocatable)) is similar


@pytest.mark.parametrize(("requested", "similar"), [(149, True), (150, False), (62, True), (57, False)])
def test_what_the_own_pods_leave_free_may_differ_by_five_percent(requested: int, similar: bool) -> None:
    compared_template = template(memory=1000, requested=((facts.MEMORY, 105),))
    assert SIMILAR(compared_template, template(memory=1000, requested=((facts.MEMORY, requested),))) is similar


def test_ratios_can_be_set() -> None:
    strict = ResourceComparator(SimilarityRatios(capacity_memory=0, allocatable=0, free=0))
    assert not strict(template(memory=1000), template(memory=999))
    lax = ResourceComparator(SimilarityRatios(capacity_memory=0.5, allocatable=0.5, free=0.5))
    assert lax(template(memory=1000), template(memory=500))


def test_a_resource_that_only_one_has_makes_them_different() -> None:
    assert not SIMILAR(template(), template(example_fpga=1))
    assert SIMILAR(template(example_fpga=1), template(example_fpga=1))
    assert not SIMILAR(template(example_fpga=1), template(example_fpga=2))


def test_a_resource_that_only_one_side_s_pods_ask_for_makes_them_different() -> None:
    compared_template = template(example_fpga=8, requested=(("example/fpga", 1),))
    assert not SIMILAR(compared_template, template(example_fpga=8))


def test_labels_that_tell_where_a_node_is_do_not_count() -> None:
    compared_template = template(labels={facts.HOSTNAME: "a", facts.ZONE: "z1", facts.REGION_BETA: "r1", "pool": "x"})
    other = template(labels={facts.HOSTNAME: "b", facts.ZONE: "z2", "kops.k8s.io/instancegroup": "g", "pool": "x"})
    assert SIMILAR(compared_template, other)


def test_other_labels_count_unless_the_user_names_them() -> None:
    compared_template, other = template(labels={"pool": "x", "only": "here"}), template(labels={"pool": "y"})
    assert not SIMILAR(compared_template, other)
    assert similarity.choose_comparator((), ["pool", "only"], SimilarityRatios())(compared_template, other)


def test_platform_labels_count_by_default_and_can_be_ignored() -> None:
    compared_template, other = (template(labels={"topology.ebs.csi.aws.com/zone": zone}) for zone in "ab")
    assert not SIMILAR(compared_template, other)
    assert similarity.choose_comparator((), (), SimilarityRatios(), ignore_csi_zones=True)(compared_template, other)


def test_balancing_labels_alone_decide_where_they_are_named() -> None:
    by_pool = similarity.choose_comparator(["pool"], ["pool"], SimilarityRatios())
    assert by_pool == LabelComparator(("pool",))
    assert by_pool(template(millicpu=1, labels={"pool": "x"}), template(millicpu=2, labels={"pool": "x", "a": "b"}))
    assert not by_pool(template(labels={"pool": "x"}), template(labels={"pool": "y"}))


def test_a_balancing_label_must_be_there_on_both_sides() -> None:
    assert not LabelComparator(("pool",))(template(), template())
    assert LabelComparator(("pool",))(template(labels={"pool": ""}), template(labels={"pool": ""}))


def test_a_template_counts_what_its_pods_ask_for() -> None:
    pods = [
        facts.Pod("d", name, spec=facts.PodSpec(requests=requests))
        for name, requests in {"a": ((facts.CPU, 100),), "b": ((facts.CPU, 50), (facts.MEMORY, 7))}.items()
    ]
    made = similarity.make_compared_template(facts.Node("n"), pods)
    assert made.requested == ((facts.CPU, 150), (facts.MEMORY, 7))


def test_similar_groups_come_in_the_order_of_the_groups_without_the_group_itself() -> None:
    templates = {"c": template(), "a": template(), "odd": template(millicpu=1), "b": template()}
    assert similarity.find_similar("a", templates, SIMILAR) == ["c", "b"]
    assert similarity.find_similar("unknown", templates, SIMILAR) == []


amounts = st.integers(0, 1200)
templates_strategy = st.builds(
    lambda memory, allocatable, requested, zone: replace(
        template(memory=memory, allocatable_memory=allocatable, labels={facts.ZONE: zone}),
        requested=((facts.MEMORY, requested),),
    ),
    amounts, amounts, amounts, st.sampled_from("ab"),
)  # fmt: skip


@given(templates_strategy, templates_strategy)
def test_similarity_is_mutual(compared_template: ComparedTemplate, other: ComparedTemplate) -> None:
    assert SIMILAR(compared_template, other) == SIMILAR(other, compared_template)


@given(templates_strategy)
def test_a_template_that_is_not_overbooked_is_similar_to_itself(compared_template: ComparedTemplate) -> None:
    overbooked = (
        dict(compared_template.requested)[facts.MEMORY] > dict(compared_template.node.allocatable)[facts.MEMORY]
    )
    assert SIMILAR(compared_template, compared_template) is not overbooked
