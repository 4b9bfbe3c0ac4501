"""Every reason for which a node cannot go, as a whole decision comes to it.

Four of the peer's reasons are given by no decision: NotAutoscaled (nodes without a group are no candidates, so nobody
asks about them), NodeGroupMaxDeletionCountReached (nodes beyond the limits of a loop wait for the next one, unnamed),
NotUnneededOtherReason (every node that was looked at has a reason of its own) and NoNodeInfo (candidates are taken from
the snapshot in which they are looked for).
"""

import pytest

from tests.engine.loop.builders import (
    BOTH,
    FULL_CPU,
    NOT_READY,
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_at,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    reasons,
    running,
)
from windlass.engine import loop_memory, taints
from windlass.engine.model import durable_memory, well_known
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Bounds, Settings
from windlass.engine.model.well_known import SCALE_DOWN_DISABLED

both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


@both
def test_a_node_that_is_annotated_stays(settings: Settings) -> None:
    found = [node("a", annotations={SCALE_DOWN_DISABLED: "true"}), node("b")]
    decision = decide_once(observe([group("g", found)], found), at_once(settings))
    assert reasons(decision) == {"a": UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION}
    assert drained(decision) == ["b"]


@both
def test_an_unready_node_stays_where_such_nodes_are_not_to_be_removed(settings: Settings) -> None:
    found = [node("a", conditions=NOT_READY), node("b")]
    chosen = choose(at_once(settings), "scale_down", scale_down_unready_enabled=False)
    decision = decide_once(observe([group("g", found)], found), chosen)
    assert reasons(decision) == {"a": UnremovableReason.SCALE_DOWN_UNREADY_DISABLED}


@both
def test_a_node_stays_until_it_was_unneeded_for_longer_than_it_must_be(settings: Settings) -> None:
    found = nodes("g", 1)
    observation = observe([group("g", found)], found)
    exactly = decide_at(observation, settings, NOW_S, NOW_S + 600)
    assert reasons(exactly) == {"g-0": UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH}
    assert drained(decide_at(observation, settings, NOW_S, NOW_S + 600.5)) == ["g-0"]


@both
def test_an_unready_node_waits_twice_as_long(settings: Settings) -> None:
    found = [node("a", conditions=NOT_READY)]
    observation = observe([group("g", found)], found)
    assert reasons(decide_at(observation, settings, NOW_S, NOW_S + 1200)) == {
        "a": UnremovableReason.NOT_UNREADY_LONG_ENOUGH
    }
    assert drained(decide_at(observation, settings, NOW_S, NOW_S + 1200.5)) == ["a"]


@both
def test_nodes_of_a_group_go_down_to_its_minimum(settings: Settings) -> None:
    found = nodes("g", 3)
    decision = decide_once(observe([group("g", found, min_size=2)], found), at_once(settings))
    assert len(drained(decision)) == 1
    assert list(reasons(decision).values()) == [UnremovableReason.NODE_GROUP_MIN_SIZE_REACHED] * 2


@both
def test_nothing_is_said_of_nodes_of_a_group_at_its_minimum(settings: Settings) -> None:
    found = nodes("g", 2)
    decision = decide_once(observe([group("g", found, min_size=2)], found), at_once(settings))
    assert (drained(decision), reasons(decision)) == ([], {})


@both
def test_a_group_that_is_all_or_nothing_stays_whole(settings: Settings) -> None:
    found = nodes("g", 2)
    busy = running("busy", "g-0", cpu=FULL_CPU)
    observation = observe([group("g", found, zero_or_max=True, max_size=2)], found, [busy])
    decision = decide_once(observation, at_once(settings))
    assert reasons(decision) == {
        "g-0": UnremovableReason.NOT_UNDERUTILIZED,
        "g-1": UnremovableReason.ATOMIC_SCALE_DOWN_FAILED,
    }


@both
def test_the_cluster_keeps_the_cores_that_it_must(settings: Settings) -> None:
    found = nodes("g", 3)
    chosen = choose(at_once(settings), "limits", cores_total=Bounds(8, 1000))
    decision = decide_once(observe([group("g", found)], found), chosen)
    assert len(drained(decision)) == 1
    assert set(reasons(decision).values()) == {UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED}


@both
def test_a_node_that_someone_is_deleting_is_left_to_them_for_five_minutes(settings: Settings) -> None:
    found = [node("a", taints=(taints.make_to_be_deleted(NOW_S - 299),)), node("b")]
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(loop=5))
    observation = observe([group("g", found)], found)
    decision = decide_once(observation, at_once(settings), before)
    assert reasons(decision) == {"a": UnremovableReason.CURRENTLY_BEING_DELETED}
    later = decide_once(observation, at_once(settings), before, NOW_S + 2)
    assert reasons(later) == {}


@both
@pytest.mark.parametrize(("cpu", "stays"), [(FULL_CPU // 2, False), (FULL_CPU // 2 + 1, True)])
def test_a_node_used_above_the_threshold_stays_and_one_exactly_at_it_does_not(
    settings: Settings, cpu: int, stays: bool
) -> None:
    found = nodes("g", 2)
    full = running("full", "g-1", cpu=FULL_CPU // 2, memory=600)
    decision = decide_once(observe([group("g", found)], found, [running("p", "g-0", cpu=cpu), full]), at_once(settings))
    assert reasons(decision).get("g-0") == (UnremovableReason.NOT_UNDERUTILIZED if stays else None)
    assert reasons(decision)["g-1"] == UnremovableReason.NOT_UNDERUTILIZED


def test_the_peer_does_not_look_again_at_a_node_that_could_not_be_removed_lately() -> None:
    found = nodes("g", 1)
    observation = observe([group("g", found)], found, [running("p", "g-0")])
    assert reasons(decide_at(observation, PEER, NOW_S)) == {"g-0": UnremovableReason.NO_PLACE_TO_MOVE_PODS}
    assert reasons(decide_at(observation, PEER, NOW_S, NOW_S + 299)) == {"g-0": UnremovableReason.RECENTLY_UNREMOVABLE}
    assert reasons(decide_at(observation, PEER, NOW_S, NOW_S + 300)) == {"g-0": UnremovableReason.NO_PLACE_TO_MOVE_PODS}


def test_windlass_looks_again_at_a_node_that_could_not_be_removed() -> None:
    found = nodes("g", 1)
    occupied, empty = (observe([group("g", found)], found, pods) for pods in ([running("p", "g-0")], []))
    before = decide_once(occupied, at_once(WINDLASS)).memory
    assert drained(decide_once(empty, at_once(WINDLASS), before, NOW_S + 10)) == ["g-0"]
    before = decide_once(occupied, at_once(PEER)).memory
    assert drained(decide_once(empty, at_once(PEER), before, NOW_S + 10)) == []


@both
def test_a_node_stays_whose_pods_have_no_other_place(settings: Settings) -> None:
    found = nodes("g", 2)
    pods = [running("small", "g-0", cpu=100), running("large", "g-1", cpu=FULL_CPU)]
    decision = decide_once(observe([group("g", found)], found, pods), at_once(settings))
    assert reasons(decision) == {
        "g-0": UnremovableReason.NO_PLACE_TO_MOVE_PODS,
        "g-1": UnremovableReason.NOT_UNDERUTILIZED,
    }


@both
def test_a_node_stays_with_a_pod_that_must_not_leave(settings: Settings) -> None:
    found = nodes("g", 2)
    lone = running("lone", "g-0", owner=None)
    decision = decide_once(observe([group("g", found)], found, [lone]), at_once(settings))
    assert reasons(decision) == {"g-0": UnremovableReason.BLOCKED_BY_POD}
    assert drained(decision) == ["g-1"]


@both
def test_a_node_stays_with_a_pod_whose_budget_is_spent(settings: Settings) -> None:
    found = nodes("g", 2)
    observation = observe([group("g", found)], found, [running("p", "g-0")], budgets=(budget(0),))
    assert reasons(decide_once(observation, at_once(settings)))["g-0"] is UnremovableReason.BLOCKED_BY_POD


@both
def test_a_node_that_does_not_tell_what_it_has_stays(settings: Settings) -> None:
    found = [node("a", allocatable=(), capacity=()), node("b")]
    decision = decide_once(observe([group("g", found)], found), at_once(settings))
    assert reasons(decision) == {"a": UnremovableReason.UNEXPECTED_ERROR}


@both
def test_a_node_waits_for_a_pod_that_asks_to_be_let_finish(settings: Settings) -> None:
    found = nodes("g", 2)
    finishing = running("job", "g-0", annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"})
    decision = decide_once(observe([group("g", found)], found, [finishing]), at_once(settings))
    assert reasons(decision) == {"g-0": UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD}
    assert drained(decision) == ["g-1"]


@both
def test_nodes_without_a_group_are_nobodys_business(settings: Settings) -> None:
    found = nodes("g", 2)
    decision = decide_once(observe([group("g", found[:1])], found), at_once(settings))
    assert drained(decision) == ["g-0"]
    assert "g-1" not in reasons(decision)
