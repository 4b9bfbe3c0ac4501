"""Whose turn a pod goes in: the rule with the highest priority that is not above its own."""

import pytest

from tests.engine.actuation.drain_cluster import WINDLASS, with_drain
from tests.engine.scale_down.builders import pod
from windlass.engine.actuation.eviction import read_priority_tiers
from windlass.engine.model import facts
from windlass.engine.model.settings import PriorityGrace

RULES = (PriorityGrace(1000, 30), PriorityGrace(-5, 10), PriorityGrace(0, 20))


@pytest.mark.parametrize(
    ("priority", "turn"),
    [(-100, 0), (-5, 0), (-1, 0), (None, 1), (0, 1), (999, 1), (1000, 2), (2_000_000_000, 2)],
)
def test_a_pod_goes_in_the_turn_of_the_last_rule_that_is_not_above_it(priority: int | None, turn: int) -> None:
    turns = read_priority_tiers(with_drain(WINDLASS, drain_priority_config=RULES).drain)
    assert turns.tier_of(pod("p", spec=facts.PodSpec(priority=priority))) == turn
    assert turns.limit_s(turn) == (10.0, 20.0, 30.0)[turn]


def test_without_rules_there_is_one_turn() -> None:
    turns = read_priority_tiers(WINDLASS.drain)
    assert {turns.tier_of(pod("p", spec=facts.PodSpec(priority=priority))) for priority in (None, -9, 0, 10**9)} == {0}
    assert turns.limit_s(0) == 600.0
