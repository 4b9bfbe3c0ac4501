from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.builders import NOT_READY, NOW_S, READY, group, node
from windlass.engine import resource_quotas, taints
from windlass.engine.model import drainability, facts, node_groups, scale_up_status, well_known
from windlass.engine.model.scale_down_state import NodeRemoval, UnremovableReason
from windlass.engine.model.settings import GroupDefaults
from windlass.engine.scale_down import unneeded
from windlass.engine.scale_down.unneeded import UnneededNode

NO_MINIMUM = resource_quotas.QuotaTracker(())
LONG_AGO_S = 0.0


def asked(
    one: facts.Node,
    of: node_groups.NodeGroup | None,
    pods: int = 0,
    since_s: float = LONG_AGO_S,
    wait_s: float | None = 600.0,
) -> UnneededNode:
    return UnneededNode(
        one, NodeRemoval(one.name, moves=drainability.PodsToMove(tuple(range(pods)))), since_s, of, wait_s
    )


def ask(*nodes: UnneededNode, being_deleted: dict[str, int] | None = None) -> unneeded.RemovableNodes:
    return unneeded.find_removable_nodes(nodes, being_deleted or {}, NO_MINIMUM, NOW_S)


def names(unneeded_nodes: Sequence[UnneededNode]) -> list[str]:
    return [unneeded_node.node.name for unneeded_node in unneeded_nodes]


# ── Since when ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_time_runs_while_a_node_is_unneeded_every_time_and_starts_anew_after_a_gap() -> None:
    since = unneeded.update_unneeded_since({}, ["a", "b"], 10.0)
    since = unneeded.update_unneeded_since(since, ["a", "c"], 20.0)
    assert since == {"a": 10.0, "c": 20.0}
    assert unneeded.update_unneeded_since(since, ["a", "b"], 30.0) == {"a": 10.0, "b": 30.0}


def test_marks_restore_lost_times_unless_they_are_too_old() -> None:
    def marked(name: str, value: str) -> facts.Node:
        return node(name, taints=(facts.Taint(taints.DELETION_CANDIDATE_KEY, value, "PreferNoSchedule"),))

    nodes = [marked("at", "999940"), marked("old", "999939"), marked("odd", "?"), node("plain")]
    assert unneeded.restore_unneeded_since(nodes, 60.0, NOW_S) == {"at": 999_940.0}
    assert unneeded.restore_unneeded_since(nodes, 0.0, NOW_S) == {}


def test_a_node_that_is_not_ready_has_its_own_time() -> None:
    times = GroupDefaults(scale_down_unneeded_time_s=60.0, scale_down_unready_time_s=120.0)
    assert unneeded.find_unneeded_time_s(node("n", conditions=READY), times) == 60.0
    assert unneeded.find_unneeded_time_s(node("n", conditions=NOT_READY), times) == 120.0


# ── Reasons ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [(READY, UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH), (NOT_READY, UnremovableReason.NOT_UNREADY_LONG_ENOUGH)],
)
def test_exactly_as_long_as_necessary_is_not_longer(
    conditions: tuple[facts.Condition, ...], reason: UnremovableReason
) -> None:
    one, of = node("n", conditions=conditions), group("g", 3)
    removable_nodes = ask(asked(one, of, since_s=NOW_S - 600))
    assert [(kept.reason, kept.found, kept.limit) for kept in removable_nodes.kept] == [(reason, 600.0, 600.0)]
    assert removable_nodes.changes_at_s == NOW_S
    assert names(ask(asked(one, of, since_s=NOW_S - 600.001)).empty) == ["n"]


def test_without_a_time_to_wait_a_node_goes_at_once() -> None:
    assert names(ask(asked(node("n"), group("g", 1), since_s=NOW_S, wait_s=0.0)).empty) == ["n"]


@pytest.mark.parametrize(
    ("unneeded_node", "reason"),
    [
        (asked(node("n"), group("g", 3), wait_s=None), UnremovableReason.UNEXPECTED_ERROR),
        (
            asked(node("n", annotations={well_known.SCALE_DOWN_DISABLED: "true"}), None, since_s=NOW_S),
            UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION,
        ),
        (asked(node("n"), None, since_s=NOW_S), UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH),
        (asked(node("n"), None), UnremovableReason.NOT_AUTOSCALED),
        (asked(node("n"), group("g", 3, minimum=3)), UnremovableReason.NODE_GROUP_MIN_SIZE_REACHED),
    ],
)
def test_the_first_reason_that_holds_is_given(unneeded_node: UnneededNode, reason: UnremovableReason) -> None:
    removable_nodes = ask(unneeded_node)
    assert [kept.reason for kept in removable_nodes.kept] == [reason]
    assert not removable_nodes.empty


def test_nodes_being_deleted_count_against_the_minimum() -> None:
    nodes = [asked(node(f"n{i}"), group("g", 5, minimum=1)) for i in range(3)]
    removable_nodes = ask(*nodes, being_deleted={"g": 2})
    assert names(removable_nodes.empty) == ["n0", "n1"]
    assert [(kept.node_name, kept.found, kept.limit) for kept in removable_nodes.kept] == [("n2", 1, 1)]


def test_empty_nodes_come_before_those_with_pods_each_in_their_order() -> None:
    of = group("g", 4, minimum=1)
    removable_nodes = ask(
        asked(node("d0"), of, pods=2), asked(node("e0"), of), asked(node("d1"), of, pods=1), asked(node("e1"), of)
    )
    assert (names(removable_nodes.empty), names(removable_nodes.drain)) == (["e0", "e1"], ["d0"])
    assert [kept.node_name for kept in removable_nodes.kept] == ["d1"]


def test_what_the_cluster_must_keep_is_not_given_away() -> None:
    nodes = [node(f"n{i}", cpu=2000) for i in range(3)]
    of = group("g", 3)
    keep = scale_up_status.Quota("at least", {facts.CPU: 3})
    minimum = resource_quotas.make_tracker(resource_quotas.QuotaBound.MINIMUM, [keep], [(one, "g") for one in nodes])
    removable_nodes = unneeded.find_removable_nodes([asked(one, of) for one in nodes], {}, minimum, NOW_S)
    assert names(removable_nodes.empty) == ["n0"]
    assert {kept.reason for kept in removable_nodes.kept} == {UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED}
    assert removable_nodes.kept[0].exceeded == (scale_up_status.ExceededQuota("at least", ("cpu",)),)
    assert minimum.headrooms[0].left == {facts.CPU: 3}  # as it was found


def test_a_node_that_is_kept_counts_against_nobody() -> None:
    of = group("g", 2, minimum=1)
    removable_nodes = ask(asked(node("young"), of, since_s=NOW_S), asked(node("old"), of))
    assert names(removable_nodes.empty) == ["old"]


# ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

some_groups = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3)
some_nodes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.0, 600.0, 2e6])), max_size=12)


@given(some_groups, some_nodes)
def test_no_group_falls_below_its_minimum(
    groups: list[tuple[int, int, int]], found: list[tuple[int, int, float]]
) -> None:
    made = [group(f"g{i}", size, minimum) for i, (size, minimum, _) in enumerate(groups)]
    leaving = {f"g{i}": going for i, (_, _, going) in enumerate(groups)}
    nodes = [
        asked(node(f"n{i}"), made[number % len(made)], pods, wait_s=wait_s)
        for i, (number, pods, wait_s) in enumerate(found)
    ]
    answer = ask(*nodes, being_deleted=leaving)
    may_go = [*answer.empty, *answer.drain]
    going = Counter(unneeded_node.group.id for unneeded_node in may_go if unneeded_node.group)
    for node_group in made:
        assert (
            node_group.target_size - leaving[node_group.id] - going[node_group.id] >= node_group.min_size
            or not going[node_group.id]
        )
    assert sorted([*names(may_go), *(kept.node_name for kept in answer.kept)]) == sorted(names(nodes))
    assert all(
        kept.reason is UnremovableReason.NODE_GROUP_MIN_SIZE_REACHED or kept.limit == 2e6 for kept in answer.kept
    )


@given(some_nodes)
def test_a_node_that_cannot_be_judged_changes_nothing_about_the_others(found: list[tuple[int, int, float]]) -> None:
    of = group("g", 6, minimum=2)
    nodes = [asked(node(f"n{i}"), of, pods, wait_s=wait_s) for i, (_, pods, wait_s) in enumerate(found)]
    alone, beside = ask(*nodes), ask(asked(node("odd"), of, wait_s=None), *nodes, asked(node("lost"), None))
    assert (beside.empty, beside.drain) == (alone.empty, alone.drain)
    assert [kept for kept in beside.kept if kept.node_name not in ("odd", "lost")] == list(alone.kept)
