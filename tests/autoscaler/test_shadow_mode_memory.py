"""What a shadow remembers: the other's deeds, never its own."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.engine.loop.builders import (
    BOTH,
    NOW_S,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    running,
    sizes,
)
from windlass.autoscaler import shadow_comparison, shadow_mode
from windlass.engine import taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation


def crowd(size: int, target: int | None = None) -> Observation:
    """One group of full nodes, and four pods that need a node of their own."""
    found = nodes("a", size)
    busy = [running(f"busy-{one.name}", one.name, 4000) for one in found]
    return observe([group("a", found, target=target)], found, [*busy, *(pending(f"p-{n}", 4000) for n in range(4))])


def idle(count: int, marked: Sequence[str] = (), at_s: float = NOW_S) -> Observation:
    """One group of empty nodes, some of which the other has marked."""
    found = [
        replace(one, taints=(taints.make_to_be_deleted(at_s),)) if one.name in marked else one
        for one in nodes("a", count)
    ]
    return observe([group("a", found)], found)


@pytest.mark.parametrize("settings", BOTH)
def test_a_wish_is_wished_again_as_long_as_nobody_fulfils_it(settings: Settings) -> None:
    observation = crowd(1)
    memory = shadow_mode.initial_memory(observation, settings, NOW_S)
    for step in range(5):
        decision = decide_once(observation, settings, memory, NOW_S + step * 10)
        assert sizes(decision) == {"a": 5}
        memory = shadow_mode.memory_without_plan(memory, decision)
        assert not memory.durable.health.requests.scale_ups
        assert memory.durable.activity.added_s is None


@pytest.mark.parametrize("settings", BOTH)
def test_what_the_other_asked_for_is_awaited(settings: Settings) -> None:
    before, after = crowd(1), crowd(1, target=5)
    memory = shadow_mode.initial_memory(before, settings, NOW_S)
    memory = shadow_mode.memory_without_plan(memory, decide_once(before, settings, memory))
    done = shadow_comparison.find_observed_actions(shadow_comparison.take_baseline(before), after, NOW_S + 10)
    memory = shadow_mode.adopt_actions(memory, done, after, settings, NOW_S + 10)
    decision = decide_once(after, settings, memory, NOW_S + 10)

    assert done == (shadow_comparison.ObservedResize("a", 1, 5, NOW_S + 10),)
    assert sizes(decision) == {}
    assert decision.story.upcoming == {"a": 4}
    assert memory.durable.activity.added_s == NOW_S + 10


@pytest.mark.parametrize("settings", BOTH)
def test_too_small_a_step_of_the_others_leaves_the_rest_to_be_wished(settings: Settings) -> None:
    before, after = crowd(1), crowd(1, target=3)
    memory = shadow_mode.initial_memory(before, settings, NOW_S)
    done = shadow_comparison.find_observed_actions(shadow_comparison.take_baseline(before), after, NOW_S + 10)
    memory = shadow_mode.adopt_actions(memory, done, after, settings, NOW_S + 10)
    assert sizes(decide_once(after, settings, memory, NOW_S + 10)) == {"a": 5}


@pytest.mark.parametrize("settings", BOTH)
def test_a_scale_up_of_the_others_that_never_comes_makes_its_group_back_off(settings: Settings) -> None:
    before, after = crowd(1), crowd(1, target=5)
    memory = shadow_mode.initial_memory(before, settings, NOW_S)
    done = shadow_comparison.find_observed_actions(shadow_comparison.take_baseline(before), after, NOW_S)
    memory = shadow_mode.adopt_actions(memory, done, after, settings, NOW_S)
    for now_s in (NOW_S, NOW_S + 901, NOW_S + 911):
        decision = decide_once(after, settings, memory, now_s)
        memory = shadow_mode.memory_without_plan(memory, decision)
    assert "a" in memory.durable.health.backoffs


@pytest.mark.parametrize("settings", BOTH)
def test_nodes_on_their_way_when_a_shadow_begins_are_awaited(settings: Settings) -> None:
    observation = crowd(1, target=5)
    assert sizes(decide_once(observation, settings, shadow_mode.initial_memory(observation, settings, NOW_S))) == {}


@pytest.mark.parametrize("settings", BOTH)
def test_a_removal_is_wished_again_as_long_as_nobody_begins_it(settings: Settings) -> None:
    settings = at_once(settings)
    observation = idle(3)
    memory = shadow_mode.initial_memory(observation, settings, NOW_S)
    wished = []
    for step in range(4):
        decision = decide_once(observation, settings, memory, NOW_S + step * 10)
        memory = shadow_mode.memory_without_plan(memory, decision)
        wished.append(set(drained(decision)))
        assert not memory.durable.drains
    assert wished[1:] == [{"a-0", "a-1", "a-2"}] * 3


@pytest.mark.parametrize("settings", BOTH)
def test_drains_of_the_others_count_against_the_budgets(settings: Settings) -> None:
    settings = choose(at_once(settings), "scale_down", max_scale_down_parallelism=1)
    before, after = idle(3), idle(3, marked=["a-1"])
    memory = shadow_mode.initial_memory(before, settings, NOW_S)
    for step in range(2):
        memory = shadow_mode.memory_without_plan(memory, decide_once(before, settings, memory, NOW_S + step))
    done = shadow_comparison.find_observed_actions(shadow_comparison.take_baseline(before), after, NOW_S + 10)
    memory = shadow_mode.adopt_actions(memory, done, after, settings, NOW_S + 10)

    assert done == (shadow_comparison.ObservedRemoval("a-1", "a", NOW_S),)
    assert set(memory.durable.drains) == {"a-1"}
    assert memory.durable.drains["a-1"].is_empty
    assert drained(decide_once(after, settings, memory, NOW_S + 10)) == []
    gone = observe([group("a", nodes("a", 1))], nodes("a", 1))
    assert not shadow_mode.adopt_actions(memory, (), gone, settings, NOW_S + 20).durable.drains


@pytest.mark.parametrize("settings", BOTH)
def test_a_drain_that_the_other_gave_up_begins_the_pause_that_a_failure_of_ours_would(settings: Settings) -> None:
    begun = shadow_mode.adopt_actions(LoopMemory(), (), idle(2, marked=["a-0"]), settings, NOW_S)
    given_back = shadow_mode.adopt_actions(begun, (), idle(2), settings, NOW_S + 10).durable
    gone = observe([group("a")])

    assert not given_back.drains
    assert given_back.activity.failed_s == (NOW_S + 10 if settings is WINDLASS else None)
    assert shadow_mode.adopt_actions(begun, (), gone, settings, NOW_S + 10).durable.activity.failed_s is None


def test_the_others_marks_tell_since_when_nodes_are_unneeded() -> None:
    marked = node("a-0", taints=(taints.make_deletion_candidate(NOW_S - 700),))
    observation = observe([group("a", [marked, node("a-1")])], [marked, node("a-1")])
    memory = shadow_mode.initial_memory(observation, WINDLASS, NOW_S)

    assert memory.durable.scale_down.since == {"a-0": NOW_S - 700}
    assert drained(decide_once(observation, WINDLASS, memory)) == ["a-0"]


def test_a_shadow_never_cleans_up_after_the_other() -> None:
    observation = idle(2, marked=["a-0"])
    undo = plan.RemoveTaint("a-0", taints.TO_BE_DELETED_KEY)
    assert undo in decide_once(observation, WINDLASS, LoopMemory()).plan
    assert undo not in decide_once(observation, WINDLASS, shadow_mode.initial_memory(observation, WINDLASS, NOW_S)).plan


def test_a_node_with_pods_is_not_taken_for_empty() -> None:
    found = [node("a-0", taints=(facts.Taint(facts.TO_BE_DELETED, "nonsense", "NoSchedule"),))]
    agent = facts.Owner("apps/v1", "DaemonSet", "agent", "uid-agent")
    for pods, is_empty in (([running("p", "a-0")], False), ([running("d", "a-0", owner=agent)], True)):
        observation = observe([group("a", found)], found, pods)
        drains = shadow_mode.adopt_actions(LoopMemory(), (), observation, WINDLASS, NOW_S).durable.drains
        assert (drains["a-0"].is_empty, drains["a-0"].since_s) == (is_empty, NOW_S)
