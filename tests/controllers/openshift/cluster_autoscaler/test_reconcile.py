"""What the operator says of itself, whatever its clock does."""

import pytest

from windlass.controllers.openshift.cluster_autoscaler import model, reconcile
from windlass.kube import unstructured

NOW_S = 1_800_000_000.0
DAY_S = 86_400.0


def degraded(times_s: list[float]) -> list[bool]:
    """Whether it is degraded, at each of some times, while what it depends on is not there."""
    memory, found = reconcile.DegradedHistory(), []
    for now_s in times_s:
        cluster_operator_report = reconcile.report_cluster_operator(
            model.ObservedClusterOperators(), memory, "4.21.0", now_s
        )
        memory = cluster_operator_report.memory
        found.append(unstructured.is_condition_true(cluster_operator_report.conditions, "Degraded"))
    return found


def test_what_is_wrong_three_times_in_a_row_is_said() -> None:
    assert degraded([NOW_S + step * reconcile.STATUS_INTERVAL_S for step in range(4)]) == [False, False, True, True]


def test_what_is_seen_again_sooner_does_not_count_once_more() -> None:
    assert degraded([NOW_S + step for step in range(10)]) == [False] * 10


@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
def test_a_clock_that_jumps_neither_hastens_nor_holds_it_up(jump_s: float) -> None:
    after = [NOW_S + jump_s + step * reconcile.STATUS_INTERVAL_S for step in range(2)]
    assert degraded([NOW_S, *after]) == [False, False, True]
