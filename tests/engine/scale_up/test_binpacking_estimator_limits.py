"""The estimator's limits: how they combine, and how nodes are granted."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.scale_up.binpacking_estimator import EstimationLimiter, Threshold


@dataclass
class Checkpoints:
    """A budget that runs out after so many questions."""

    left: int
    asked: int = 0

    def exhausted(self) -> bool:
        self.asked += 1
        return self.asked > self.left


def limit(nodes: int, reason: str = "static") -> Threshold:
    return Threshold(reason, nodes)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(0, 0, 0), (0, 5, 5), (5, 0, 5), (5, 3, 3), (-7, 3, -1), (0, -1, -1), (-2, -3, -1)],
)
def test_limits_combine_to_the_tightest(one: int, other: int, both: int) -> None:
    assert binpacking_estimator.combine_limits(one, other) == both


@given(*[st.integers(-2, 9)] * 3)
def test_the_order_of_limits_does_not_matter(a: int, b: int, c: int) -> None:
    assert binpacking_estimator.combine_limits(a, b) == binpacking_estimator.combine_limits(b, a)
    assert binpacking_estimator.combine_limits(
        binpacking_estimator.combine_limits(a, b), c
    ) == binpacking_estimator.combine_limits(a, binpacking_estimator.combine_limits(b, c))


def test_similar_groups_add_their_room() -> None:
    assert binpacking_estimator.make_similar_groups_threshold([(1, 4), (5, 3), (2, 2), (0, 1)]).nodes == 4
    assert binpacking_estimator.make_similar_groups_threshold([(4, 4), (5, 3)]).nodes == binpacking_estimator.NO_NODES


def test_the_cluster_s_maximum_leaves_the_difference() -> None:
    assert binpacking_estimator.make_cluster_capacity_threshold(10, 7).nodes == 3
    assert binpacking_estimator.make_cluster_capacity_threshold(10, 10).nodes == binpacking_estimator.NO_NODES
    assert binpacking_estimator.make_cluster_capacity_threshold(-1, 0).nodes == binpacking_estimator.NO_NODES
    assert binpacking_estimator.make_cluster_capacity_threshold(0, 10).nodes == binpacking_estimator.NO_LIMIT


def test_nodes_are_granted_up_to_the_limit() -> None:
    limiter = EstimationLimiter([limit(5)])
    assert [limiter.grant(3), limiter.grant(3), limiter.grant(1)] == [3, 2, 0]
    assert limiter.granted == 5


def test_without_limit_everything_is_granted() -> None:
    assert EstimationLimiter([]).grant(10**6) == 10**6
    assert EstimationLimiter([limit(0), limit(0)]).grant(7) == 7


def test_a_negative_limit_grants_nothing() -> None:
    limiter = EstimationLimiter([limit(5), limit(-1, "full")])
    assert limiter.grant(2) == 0
    assert limiter.stopped_by == "full"


def test_the_tightest_limit_is_named_once_it_bites() -> None:
    limiter = EstimationLimiter([limit(9, "loose"), limit(4, "tight"), limit(6, "middle")])
    assert limiter.grant(4) == 4
    assert limiter.stopped_by is None
    assert limiter.grant(1) == 0
    assert limiter.stopped_by == "tight"


def test_nothing_is_granted_once_time_is_up() -> None:
    limiter = EstimationLimiter([limit(10)], Checkpoints(2))
    assert [limiter.grant(2), limiter.grant(2), limiter.grant(2)] == [2, 2, 0]
    assert (limiter.granted, limiter.stopped_by) == (4, "time")


def test_many_nodes_at_once_are_one_checkpoint_and_none_are_no_checkpoint() -> None:
    budget = Checkpoints(99)
    limiter = EstimationLimiter([limit(50)], budget)
    limiter.grant(50)
    limiter.grant(1)
    limiter.grant(0)
    assert budget.asked == 1


@given(st.lists(st.integers(-1, 20), max_size=3), st.lists(st.integers(0, 9), max_size=6))
def test_granting_in_bulk_is_granting_one_by_one(bounds: list[int], wishes: list[int]) -> None:
    bulk, single = (EstimationLimiter([limit(bound) for bound in bounds]) for _ in range(2))
    for wanted in wishes:
        assert bulk.grant(wanted) == sum(single.grant(1) for _ in range(wanted))
