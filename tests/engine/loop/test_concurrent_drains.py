"""Nodes that go in the same loop: each with its own pods."""

import pytest

from tests.engine.loop.builders import BOTH, at_once, choose, decide_once, group, node, observe, running
from windlass.engine.model import plan
from windlass.engine.model.settings import Settings


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
def test_a_pod_that_moved_on_in_thought_is_evicted_from_its_own_node_only(settings: Settings) -> None:
    nodes = [node(name) for name in "abc"]
    pods = [running("pa", "a", 500), running("pb", "b", 600), running("pc", "c", 2500)]
    chosen = choose(at_once(settings), "scale_down", max_drain_parallelism=3)
    decision = decide_once(observe([group("g", nodes)], nodes, pods), chosen)
    drains = {
        instruction.node: instruction.evict for instruction in decision.plan if isinstance(instruction, plan.Drain)
    }
    assert drains == {"a": ("default/pa",), "b": ("default/pb",)}
    assert {name: set(begun.places) for name, begun in decision.memory.durable.drains.items()} == {
        "a": {"uid-pa"},
        "b": {"uid-pb"},
    }
