"""Sizes that somebody mistyped: no list is as long as the number of nodes that nobody will ever see."""

from tests.engine.loop.builders import NOW_S, WINDLASS, decide_at, group, node, observe, pending, sizes


def test_billions_of_nodes_are_not_imagined_one_by_one() -> None:
    there = node("n1")
    observation = observe([group("g", [there], max_size=5, target=2**31 - 1)], [there], [pending("p", cpu=100)])
    decision = decide_at(observation, WINDLASS, NOW_S, NOW_S + 10)
    assert sizes(decision) == {}
    assert decision.story.upcoming == {"g": 2**31 - 2}
