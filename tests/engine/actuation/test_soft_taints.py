from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.builders import NOW_S, PEER, group, node, with_scale_down
from windlass.engine import taints
from windlass.engine.actuation import soft_taints
from windlass.engine.model import facts, plan

SOFT = facts.Taint(taints.DELETION_CANDIDATE_KEY, "1", "PreferNoSchedule")
HARD = facts.Taint(taints.TO_BE_DELETED_KEY, "1", "NoSchedule")
GROUP = group("g", 9)


def change(nodes: list[facts.Node], unneeded: set[str], count: int = 10) -> soft_taints.SoftTaintUpdate:
    settings = with_scale_down(PEER, max_bulk_soft_taint_count=count).scale_down
    return soft_taints.update_soft_taints(nodes, {one.name: GROUP for one in nodes}, unneeded, settings, NOW_S)


def test_unneeded_nodes_are_marked_with_the_time_and_needed_ones_unmarked_first() -> None:
    nodes = [node("new"), node("needed", taints=(SOFT,)), node("old", taints=(SOFT,)), node("plain")]
    assert change(nodes, {"new", "old"}).changes == (
        plan.RemoveTaint("needed", "DeletionCandidateOfClusterAutoscaler"),
        plan.SetTaint("new", "DeletionCandidateOfClusterAutoscaler", "1000000", "PreferNoSchedule"),
    )


def test_nodes_being_removed_are_left_as_they_are() -> None:
    assert change([node("a", taints=(HARD,)), node("b", taints=(HARD, SOFT))], {"a"}) == soft_taints.SoftTaintUpdate()


def test_nodes_of_no_group_are_left_as_they_are() -> None:
    nodes = [node("a", taints=(SOFT,)), node("b")]
    assert soft_taints.update_soft_taints(nodes, {}, {"b"}, PEER.scale_down, NOW_S) == soft_taints.SoftTaintUpdate()


def test_only_so_many_marks_change_in_one_loop() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    soft_taint_update = change(nodes, {one.name for one in nodes}, count=2)
    assert [item.node for item in soft_taint_update.changes] == ["n0", "n1"]
    assert soft_taint_update.left_over == 3


def test_without_a_count_no_mark_changes_and_old_ones_go_at_the_start() -> None:
    nodes = [node("a", taints=(SOFT,)), node("b")]
    assert change(nodes, {"b"}, count=0) == soft_taints.SoftTaintUpdate()
    off = with_scale_down(PEER, max_bulk_soft_taint_count=0).scale_down
    assert [remove_taint.node for remove_taint in soft_taints.clean_up_soft_taints(nodes, off, NOW_S)] == ["a"]
    assert soft_taints.clean_up_soft_taints(nodes, PEER.scale_down, NOW_S) == ()


def test_marks_from_which_times_are_to_be_restored_stay_at_the_start() -> None:
    off = with_scale_down(PEER, max_bulk_soft_taint_count=0, node_deletion_candidate_ttl_s=60.0).scale_down
    ages = {"young": "999941", "old": "999940", "unreadable": "x"}
    nodes = [node(name, taints=(facts.Taint(SOFT.key, value, SOFT.effect),)) for name, value in ages.items()]
    assert [remove_taint.node for remove_taint in soft_taints.clean_up_soft_taints(nodes, off, NOW_S)] == [
        "old",
        "unreadable",
    ]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(1, 4))
def test_repeating_it_marks_exactly_the_unneeded_nodes(found: list[tuple[bool, bool]], count: int) -> None:
    nodes = {f"n{i}": node(f"n{i}", taints=(SOFT,) if marked else ()) for i, (marked, _) in enumerate(found)}
    unneeded = {f"n{i}" for i, (_, is_unneeded) in enumerate(found) if is_unneeded}
    for _ in range(len(found) + 1):
        changed = change(list(nodes.values()), unneeded, count)
        assert len(changed.changes) <= count
        for item in changed.changes:
            nodes[item.node] = node(item.node, taints=() if isinstance(item, plan.RemoveTaint) else (SOFT,))
    assert changed == soft_taints.SoftTaintUpdate()
    assert {name for name, one in nodes.items() if one.taints} == unneeded
