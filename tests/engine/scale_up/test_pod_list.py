"""Pending pods: which of them ask for help now."""

from typing import Any

import pytest

from tests.engine.loop.builders import NOW_S, pending, running
from windlass.engine.model import facts
from windlass.engine.model.deviations import NO_DEVIATIONS
from windlass.engine.model.settings import PodSettings, Settings
from windlass.engine.scale_up.pending_pods import (
    are_all_new,
    are_still_coming,
    find_old_enough,
    is_expendable,
    sort_pending,
)
from windlass.engine.snapshot import cluster_snapshot as snapshots

UNLOOKED: dict[str, Any] = {"unschedulable_since_s": None}


def sort_out(pod: facts.Pod, bypassed: tuple[str, ...] = (), allowed: tuple[str, ...] = ()) -> str:
    """Where a pod that is alone in the cluster ends up."""
    settings = Settings(pods=PodSettings(bypassed_scheduler_names=bypassed, allowed_scheduler_names=allowed))
    waiting = sort_pending(snapshots.build_snapshot([], [pod]), settings)
    found = {"unschedulable": waiting.unschedulable, "unprocessed": waiting.unprocessed, "nominated": waiting.nominated}
    return next((name for name, rows in found.items() if rows), "")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "unschedulable"),
        (UNLOOKED, ""),
        ({**UNLOOKED, "scheduler": "mine"}, "unprocessed"),
        ({**UNLOOKED, "scheduler": "mine", "is_gated": True}, ""),
        ({"scheduler": "mine"}, "unschedulable"),
        ({"nominated_node": "n1"}, "nominated"),
        ({"deleted_s": NOW_S - 1}, ""),
        ({"deleted_s": NOW_S - 1, "nominated_node": "n1"}, ""),
    ],
)
def test_pods_ask_for_help_by_what_the_scheduler_made_of_them(changes: dict[str, Any], expected: str) -> None:
    assert sort_out(pending("p", **changes), bypassed=("mine",)) == expected


def test_only_pods_of_allowed_schedulers_count_where_any_are_named() -> None:
    assert sort_out(pending("p", scheduler="mine"), allowed=("mine",)) == "unschedulable"
    assert sort_out(pending("p"), allowed=("mine",)) == ""


def test_a_pod_that_is_like_one_without_a_place_is_not_waited_for() -> None:
    pods = [pending("tried"), pending("same", **UNLOOKED), pending("larger", cpu=7000, **UNLOOKED)]
    pods += [pending("gated", is_gated=True, **UNLOOKED), running("runs", "n1")]
    snapshot = snapshots.build_snapshot([], pods)
    pending_pods = sort_pending(snapshot, Settings())
    assert [snapshot.pods.names[row] for row in pending_pods.unschedulable] == ["tried"]
    assert [snapshot.pods.names[row] for row in pending_pods.unprocessed] == ["same"]
    assert sort_pending(snapshot, Settings(deviations=NO_DEVIATIONS)).unprocessed == ()


def test_pods_that_run_do_not_wait() -> None:
    assert sort_out(running("p", "n1")) == ""


@pytest.mark.parametrize(("priority", "expected"), [(-11, True), (-10, False), (0, False), (None, False)])
def test_a_pod_below_the_cutoff_is_worth_no_node_and_one_without_priority_is(
    priority: int | None, expected: bool
) -> None:
    assert is_expendable(facts.PodSpec(priority=priority), -10) is expected


@pytest.mark.parametrize(
    ("age_s", "own_s", "expected"), [(30.0, None, False), (30.5, None, True), (45.0, 60.0, False), (45.0, 5.0, True)]
)
def test_a_pod_is_old_enough_beyond_the_delay_which_it_can_only_raise(
    age_s: float, own_s: float | None, expected: bool
) -> None:
    snapshot = snapshots.build_snapshot([], [pending("p", age_s=age_s, scale_up_delay_s=own_s)])
    assert bool(find_old_enough(snapshot, snapshot.pending(), 30.0, NOW_S)) is expected


GPU = facts.PodSpec(requests=((facts.CPU, 100), ("nvidia.com/gpu", 1)))


@pytest.mark.parametrize(
    ("ages_s", "expected"), [([1.9, 0.1], True), ([2.0], False), ([0.0, 100.0], False), ([-5.0], True)]
)
def test_pods_are_new_while_the_oldest_is_younger_than_two_seconds(ages_s: list[float], expected: bool) -> None:
    snapshot = snapshots.build_snapshot([], [pending(f"p{number}", age_s=age_s) for number, age_s in enumerate(ages_s)])
    assert are_all_new(snapshot, snapshot.pending(), NOW_S) is expected


@pytest.mark.parametrize(("age_s", "expected"), [(29.0, True), (30.0, False)])
def test_pods_that_want_a_gpu_are_new_for_half_a_minute(age_s: float, expected: bool) -> None:
    wants = facts.Pod("default", "gpu", "uid-gpu", spec=GPU, created_s=NOW_S - age_s, unschedulable_since_s=NOW_S)
    snapshot = snapshots.build_snapshot([], [wants, pending("old", age_s=500)])
    assert are_all_new(snapshot, snapshot.pending(), NOW_S) is expected


@pytest.mark.parametrize(
    ("ages_s", "expected"),
    [([0.5], True), ([1.0], False), ([9.0, 0.5], True), ([10.0, 0.5], False), ([5.0, 2.0], False)],
)
def test_pods_are_still_coming_while_one_came_lately_and_none_waited_too_long(
    ages_s: list[float], expected: bool
) -> None:
    snapshot = snapshots.build_snapshot([], [pending(f"p{number}", age_s=age_s) for number, age_s in enumerate(ages_s)])
    assert are_still_coming(snapshot, snapshot.pending(), 1.0, 10.0, NOW_S) is expected
