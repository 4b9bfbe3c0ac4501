from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.cluster_state.builders import LONG_AGO_S, NOW_S, WINDLASS, condition, failed, node, stuck, unready
from windlass.engine.cluster_state import readiness
from windlass.engine.cluster_state.readiness import NodeState
from windlass.engine.model import facts, node_groups, settings

STARTUP_S = 900.0
READY = condition("Ready", "True")


def group(
    ident: str, members: list[facts.Node], *more: node_groups.Instance, **options: float
) -> node_groups.NodeGroup:
    instances = (*(node_groups.Instance(member.provider_id) for member in members), *more)
    return node_groups.NodeGroup(ident, 0, 10, 0, instances, options=node_groups.GroupOptions(**options))  # type: ignore[arg-type]


def classify(one: facts.Node, has_instance: bool = True) -> NodeState:
    return readiness.classify(one, has_instance, STARTUP_S, NOW_S)


@pytest.mark.parametrize(
    ("conditions", "is_ready"),
    [
        ([READY], True),
        ([condition("Ready", "False")], False),
        ([condition("Ready", "Unknown")], False),
        ([READY, condition("MemoryPressure", "True"), condition("PIDPressure", "True")], True),
        ([READY, condition("DiskPressure", "True")], False),
        ([READY, condition("NetworkUnavailable", "True")], False),
        ([READY, condition("DiskPressure", "Unknown")], True),
        ([condition("DiskPressure", "False")], False),
    ],
)
def test_conditions_decide_whether_a_node_is_ready(conditions: list[facts.Condition], is_ready: bool) -> None:
    assert readiness.assess_node(node("n", *conditions)).is_ready is is_ready


@pytest.mark.parametrize(
    ("key", "is_ready"),
    [
        ("node.kubernetes.io/not-ready", False),
        ("node.kubernetes.io/disk-pressure", False),
        ("node.kubernetes.io/network-unavailable", False),
        ("node.kubernetes.io/unreachable", True),
        ("node.kubernetes.io/memory-pressure", True),
    ],
)
def test_some_taints_make_a_node_unready(key: str, is_ready: bool) -> None:
    tainted = replace(node("n"), taints=(facts.Taint(key, "", "NoSchedule"),))
    assert readiness.assess_node(tainted).is_ready is is_ready


def test_readiness_is_settled_since_the_last_condition_that_matters() -> None:
    changed = node(
        "n",
        condition("Ready", "True", 10.0),
        condition("DiskPressure", "False", 30.0),
        condition("Other", "True", 90.0),
    )
    assert readiness.assess_node(changed).since_s == 30.0


def test_a_node_that_says_nothing_is_not_ready() -> None:
    silent = facts.Node("n", created_s=LONG_AGO_S)
    assert readiness.assess_node(silent) == readiness.NodeReadiness(False, 0.0, "")
    assert classify(silent) is NodeState.UNREADY


def test_a_marked_node_is_not_ready_since_it_was_created_and_keeps_its_other_conditions() -> None:
    marked = readiness.mark_unready(node("n", READY, condition("DiskPressure", "False")), readiness.STARTUP_TAINT)
    assert readiness.assess_node(marked) == readiness.NodeReadiness(False, LONG_AGO_S, readiness.STARTUP_TAINT)
    assert [each.type for each in marked.conditions] == ["Ready", "DiskPressure"]


def test_a_node_that_is_not_ready_has_not_started_until_its_time_is_up() -> None:
    assert classify(unready("n", NOW_S - STARTUP_S + 0.001)) is NodeState.NOT_STARTED
    assert classify(unready("n", NOW_S - STARTUP_S)) is NodeState.UNREADY


def test_a_ready_node_is_ready_however_young() -> None:
    assert classify(node("n", created_s=NOW_S)) is NodeState.READY


@pytest.mark.parametrize(("status", "expected"), [("True", NodeState.SUSPENDED), ("False", NodeState.READY)])
def test_a_suspended_node_is_neither_ready_nor_unready(status: str, expected: NodeState) -> None:
    assert classify(node("n", READY, condition("Suspended", status))) is expected


def test_only_a_tainted_node_without_instance_is_deleted() -> None:
    tainted = replace(
        node("n", READY, condition("Suspended", "True")),
        taints=(facts.Taint("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule"),),
    )
    assert classify(tainted, has_instance=False) is NodeState.DELETED
    assert classify(tainted, has_instance=True) is NodeState.SUSPENDED
    assert classify(node("n"), has_instance=False) is NodeState.READY


def test_instances_are_unregistered_since_they_were_first_seen_without_a_node() -> None:
    first = readiness.track_unregistered([], [group("a", [], *stuck("a", 2))], {}, 10.0)
    assert first == {"id://a-stuck-0": 10.0, "id://a-stuck-1": 10.0}
    registered = facts.Node("n", provider_id="id://a-stuck-0")
    later = readiness.track_unregistered([registered], [group("a", [], *stuck("a", 3))], first, 20.0)
    assert later == {"id://a-stuck-1": 10.0, "id://a-stuck-2": 20.0}


def test_instances_that_are_deleted_or_failed_are_not_expected_to_register() -> None:
    deleting = node_groups.Instance("id://gone", "Deleting")
    assert readiness.track_unregistered([], [group("a", [], deleting, *failed("a", 1))], {}, 10.0) == {}


def survey(
    members: list[facts.Node], groups: list[node_groups.NodeGroup], since: dict[str, float]
) -> readiness.ReadinessSurvey:
    by_id = {instance.provider_id: node_group for node_group in groups for instance in node_group.instances}
    group_of = {member.name: by_id[member.provider_id] for member in members if member.provider_id in by_id}
    return readiness.classify_nodes(members, groups, group_of, since, WINDLASS, NOW_S)


def test_an_instance_is_long_unregistered_once_it_took_longer_than_it_may() -> None:
    groups = [group("a", [], *stuck("a", 2))]
    readiness_survey = survey([], groups, {"id://a-stuck-0": NOW_S - 900.0, "id://a-stuck-1": NOW_S - 900.001})
    assert readiness_survey.by_group["a"].unregistered == ("id://a-stuck-0",)
    assert readiness_survey.by_group["a"].long_unregistered == ("id://a-stuck-1",)
    assert readiness_survey.total == readiness_survey.by_group["a"]


def test_a_group_may_give_its_nodes_more_time_or_less() -> None:
    slow, fast = [unready("slow", NOW_S - 1000.0)], [unready("fast", NOW_S - 10.0)]
    groups = [group("a", slow, max_node_startup_s=2000.0), group("b", fast, max_node_startup_s=5.0)]
    readiness_survey = survey(slow + fast, groups, {})
    assert readiness_survey.by_group["a"].not_started == ("slow",)
    assert readiness_survey.by_group["b"].unready == ("fast",)
    patient = group("c", [], *stuck("c", 1), max_node_provision_s=2000.0)
    assert survey([], [patient], {"id://c-stuck-0": NOW_S - 1000.0}).by_group["c"].unregistered == ("id://c-stuck-0",)


def test_nodes_without_a_group_count_in_the_total_only() -> None:
    members, lonely = [node("a-0")], unready("control-plane")
    readiness_survey = survey([*members, lonely], [group("a", members), group("b", [])], {})
    assert readiness_survey.by_group.keys() == {"a"}
    assert readiness_survey.by_group["a"].ready == ("a-0",)
    assert (readiness_survey.total.ready, readiness_survey.total.unready) == (("a-0",), ("control-plane",))


def test_nodes_that_lack_a_device_are_told_apart() -> None:
    lacking = readiness.mark_unready(node("a-0"), readiness.RESOURCE_UNREADY)
    readiness_survey = survey([lacking, unready("a-1")], [group("a", [lacking, unready("a-1")])], {})
    assert readiness_survey.by_group["a"].unready == ("a-0", "a-1")
    assert readiness_survey.by_group["a"].resource_unready == ("a-0",)


any_node = st.builds(
    lambda name, status, created_s, suspended: node(
        name, condition("Ready", status), *suspended, created_s=NOW_S - created_s
    ),
    st.sampled_from([f"n{i}" for i in range(12)]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from([0.0, 899.0, 900.0, 5000.0]),
    st.sampled_from([(), (condition("Suspended", "True"),)]),
)
any_nodes = st.lists(any_node, max_size=12, unique_by=lambda one: one.name)


@given(any_nodes, st.permutations(range(3)))
def test_every_node_is_in_one_state_whatever_the_order(members: list[facts.Node], order: list[int]) -> None:
    groups = [group(ident, members[start::3]) for start, ident in enumerate("abc")]
    readiness_survey, again = survey(members, groups, {}), survey(members[::-1], [groups[i] for i in order], {})
    assert readiness_survey.total.registered == len(members)
    for field in ("ready", "unready", "not_started", "suspended", "deleted"):
        assert sorted(getattr(readiness_survey.total, field)) == sorted(getattr(again.total, field))
        in_groups = [name for each in readiness_survey.by_group.values() for name in getattr(each, field)]
        assert sorted(in_groups) == sorted(getattr(readiness_survey.total, field))
    assert readiness_survey.by_group.keys() == again.by_group.keys()


def test_the_default_startup_time_holds_for_nodes_without_a_group() -> None:
    chosen = settings.Settings(groups=settings.GroupDefaults(max_node_startup_time_s=5.0))
    readiness_survey = readiness.classify_nodes([unready("n", NOW_S - 6.0)], [], {}, {}, chosen, NOW_S)
    assert readiness_survey.total.unready == ("n",)
