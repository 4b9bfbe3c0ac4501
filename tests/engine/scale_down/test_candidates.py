import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.builders import AGENT, NOW_S, group, node, pod
from windlass.engine.drainability.context import NodeDeleteOptions
from windlass.engine.model import facts, well_known
from windlass.engine.model.scale_down_state import LoopInterval
from windlass.engine.scale_down import candidates, utilization
from windlass.engine.scale_down.utilization import EMPTY, OCCUPIED, WAITING
from windlass.engine.snapshot import cluster_snapshot as snapshots

ON_COMPLETION = {well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}
HOUR_S = 3600.0


def occupancy(*pods: facts.Pod) -> int:
    found = utilization.find_occupancy(snapshots.build_snapshot([node("n")], pods), NodeDeleteOptions(), NOW_S)
    return int(found[0])


def test_only_groups_above_their_minimum_have_candidates() -> None:
    group_of = {"above": group("a", 3, minimum=2), "at": group("b", 2, minimum=2), "below": group("c", 1, minimum=2)}
    assert candidates.filter_above_min_size(["at", "above", "alone", "below"], group_of) == ["above"]


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [pod("p", "n", owner=AGENT)],
        [pod("p", "n", annotations={well_known.MIRROR_ANNOTATION: "m"})],
        [pod("p", "n", deleted_s=NOW_S - 61)],
        [pod("p", "", cpu=1)],
    ],
    ids=["none", "daemonset", "mirror", "long gone", "not there"],
)
def test_pods_that_need_not_be_moved_leave_a_node_empty(pods: list[facts.Pod]) -> None:
    assert occupancy(*pods) == EMPTY


@pytest.mark.parametrize(
    "one",
    [pod("p", "n"), pod("p", "n", owner=None), pod("p", "n", deleted_s=NOW_S - 60)],
    ids=["movable", "not replicated", "ending"],
)
def test_pods_to_be_moved_and_pods_that_must_not_be_occupy_a_node(one: facts.Pod) -> None:
    assert occupancy(pod("agent", "n", owner=AGENT), one, pod("done", "n", annotations=ON_COMPLETION)) == OCCUPIED


def test_a_node_that_only_waits_for_pods_to_finish_is_neither() -> None:
    assert occupancy(pod("p", "n", annotations=ON_COMPLETION)) == WAITING


def test_empty_nodes_come_first_then_those_unneeded_before() -> None:
    names = ["busy", "busy-before", "waiting", "empty", "empty-before", "other-empty"]
    pods = [pod("p", "busy"), pod("q", "busy-before"), pod("r", "waiting", annotations=ON_COMPLETION)]
    snapshot = snapshots.build_snapshot(map(node, names), pods)
    levels = utilization.find_occupancy(snapshot, NodeDeleteOptions(), NOW_S)
    ordered = candidates.sort_candidates([*names, "gone"], snapshot, levels, {"busy-before", "empty-before"})
    assert ordered == ["empty-before", "empty", "other-empty", "waiting", "busy-before", "busy", "gone"]


def test_nothing_to_sort_is_no_trouble() -> None:
    snapshot = snapshots.build_snapshot([], [])
    assert (
        candidates.sort_candidates([], snapshot, utilization.find_occupancy(snapshot, NodeDeleteOptions(), NOW_S), ())
        == []
    )


# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_pace_is_the_shortest_time_between_two_looks() -> None:
    pace = LoopInterval()
    for at_s, shortest_s in ((0.0, None), (30.0, 30.0), (40.0, 10.0), (100.0, 10.0)):
        pace = pace.record_loop(at_s)
        assert pace == LoopInterval(at_s, shortest_s)


def test_twice_the_parallelism_beyond_those_already_unneeded_is_enough() -> None:
    assert candidates.limit_simulations(3, 10, 600.0, LoopInterval(0.0, 10.0)) == 23


def test_no_more_than_can_be_on_their_way_at_the_same_time_are_looked_for() -> None:
    assert (
        candidates.limit_simulations(100, 10, 60.0, LoopInterval(0.0, 25.0)) == 30
    )  # two whole loops, and one to spare
    assert candidates.limit_simulations(100, 10, 0.1, LoopInterval(0.0, 600.0)) == 20
    assert candidates.limit_simulations(100, 10, 60.0, LoopInterval(0.0)) == 20


def test_loops_are_counted_without_rounding_errors() -> None:
    assert candidates.limit_simulations(10**9, 1, 600.0, LoopInterval(0.0, 0.1)) == 6001


@given(st.integers(0, 500), st.integers(0, 50), st.floats(0, HOUR_S), st.none() | st.floats(0, HOUR_S))
def test_the_limit_lies_between_two_bounds(
    before: int, parallelism: int, wait_s: float, shortest_s: float | None
) -> None:
    enough = candidates.limit_simulations(before, parallelism, wait_s, LoopInterval(0.0, shortest_s))
    assert 2 * parallelism <= enough <= before + 2 * parallelism or parallelism == enough == 0
