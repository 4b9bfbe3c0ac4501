"""Nodes that are on their way out are none of their group's: its size does not count them, so neither may its nodes."""

from dataclasses import replace

import pytest

from tests.engine.loop.builders import APP, NOW_S, PEER, WINDLASS, node, pending, running
from windlass.engine import loop, taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot, build_snapshot

MARK = facts.Taint(taints.TO_BE_DELETED_KEY, str(int(NOW_S)), "NoSchedule")
BEFORE = LoopMemory(replace(LoopMemory().durable, loop=5))


def group(size: int, *leaving: str, coming: int = 0) -> node_groups.NodeGroup:
    """A group with the node `stays`, others on their way out, and machines without a node."""
    instances = (
        node_groups.Instance("id://stays"),
        *(node_groups.Instance(f"id://{name}", "Deleting") for name in leaving),
        *(node_groups.Instance(f"pending://{number}", "Creating") for number in range(coming)),
    )
    return node_groups.NodeGroup("g", 0, 9, size, instances, node("template"))


def cluster(*leaving: str) -> Snapshot:
    """One node that is full, others that are leaving, and a pod that needs a node."""
    nodes = [node("stays"), *(node(name, taints=(MARK,)) for name in leaving)]
    return build_snapshot(nodes, [running("full", "stays", cpu=3900, owner=APP), pending("waits", cpu=3000)])


def follow(snapshot: Snapshot, leaving: tuple[str, ...], settings: Settings) -> list[int]:
    """The sizes that the group is given in ten loops, in which nothing comes and nothing goes."""
    memory, size, sizes = BEFORE, 1, []
    for number in range(10):
        observation = Observation(snapshot, (group(size, *leaving, coming=size - 1),))
        decision = loop.decide(observation, memory, settings, NOW_S + 10 * number)
        memory = decision.memory
        for order in decision.plan:
            if isinstance(order, plan.Resize):
                size = order.to_size
                sizes.append(size)
    return sizes


@pytest.mark.parametrize("leaving", [(), ("a",), ("a", "b", "c")])
def test_a_node_that_is_asked_for_is_awaited_however_many_are_leaving(leaving: tuple[str, ...]) -> None:
    assert follow(cluster(*leaving), leaving, WINDLASS) == [2]


def test_the_peer_asks_for_one_more_for_every_node_that_is_leaving() -> None:
    assert follow(cluster("a", "b", "c"), ("a", "b", "c"), PEER) == [2, 3, 4, 5]


def test_a_node_that_is_replaced_is_awaited_though_the_old_one_is_still_there() -> None:
    snapshot = build_snapshot([node("stays"), node("old")], [running("full", "stays", cpu=3900, owner=APP)])
    whole = node_groups.NodeGroup(
        "g", 0, 9, 2, (node_groups.Instance("id://stays"), node_groups.Instance("id://old")), node("template")
    )
    memory = loop.decide(Observation(snapshot, (whole,)), BEFORE, WINDLASS, NOW_S).memory
    snapshot.add_node(node("old", unschedulable=True))
    snapshot.add_pod(pending("evicted", cpu=3000))
    observation = Observation(snapshot, (group(2, "old", coming=1),))
    decision = loop.decide(observation, memory, WINDLASS, NOW_S + 10)
    assert not [order for order in decision.plan if isinstance(order, plan.Resize)]
    assert decision.story.upcoming == {"g": 1}
