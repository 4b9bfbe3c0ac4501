"""Nodes whose deletion the provider was told are not chosen once more, however long it takes."""

from dataclasses import replace

import pytest

from tests.engine.loop import builders
from windlass.engine import taints
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.drains import DrainProgress
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings

NOW_S = builders.NOW_S


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("marked_for_s", [10.0, 400.0])
def test_a_node_that_the_provider_deletes_is_no_candidate(is_told: bool, marked_for_s: float) -> None:
    mark = facts.Taint(taints.TO_BE_DELETED_KEY, str(int(NOW_S - marked_for_s)), "NoSchedule")
    nodes = [replace(node, uid=node.name) for node in builders.nodes("a", 2)]
    nodes[1] = replace(nodes[1], taints=(mark,))
    observation = builders.observe([builders.group("a", nodes)], nodes)
    told_s = NOW_S - marked_for_s + 5.0
    progress = DrainProgress(asked_s=told_s - 5.0, marked_s=told_s - 5.0, deleting_s=told_s)
    drains = {"a-1": StartedDrain("a", told_s - 5.0, True, {}, "a-1", False, progress)} if is_told else {}
    settings = Settings()
    settings = replace(settings, groups=replace(settings.groups, scale_down_unneeded_time_s=0.0))
    decided = decide(observation, LoopMemory(replace(DurableMemory(), loop=5, drains=drains)), settings, NOW_S)
    going = {instruction.node for instruction in decided.plan if isinstance(instruction, plan.Drain)}
    assert ("a-1" in going) == (not is_told and marked_for_s > taints.DELETION_TAKES_S)
