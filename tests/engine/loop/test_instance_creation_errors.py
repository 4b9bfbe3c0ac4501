"""Instances that cannot be created: what the group that backs off says of it."""

import pytest

from tests.engine.loop.builders import NOW_S, PEER, decide_once, group, node, observe, pending, running, sizes
from windlass.engine.model import node_groups


@pytest.mark.parametrize(
    ("count", "message"),
    [(2, "zone 0, zone 1"), (3, "zone 0, zone 1, zone 2"), (4, "zone 0, zone 1, zone 2, zone 3, ...")],
)
def test_messages_of_one_cause_are_joined(count: int, message: str) -> None:
    there = node("g-0")
    pods = [running("busy", "g-0", 4000), *(pending(f"p{number}", 4000) for number in range(count))]
    first = decide_once(observe([group("g", [there])], [there], pods), PEER)
    assert sizes(first) == {"g": 1 + count}
    failed = [
        node_groups.Instance(
            f"id://{number}", "Creating", node_groups.InstanceError("Other", "QUOTA", f"zone {number}")
        )
        for number in range(count)
    ]
    observation = observe([group("g", [there], instances=failed)], [there], pods)
    decision = decide_once(observation, PEER, first.memory, NOW_S + 20.0)
    assert [failure.error.message for failure in decision.story.health.failures] == [message]
