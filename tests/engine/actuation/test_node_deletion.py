"""Deletion: held back by annotations, gathered by group, refused by the provider."""

import math
from dataclasses import replace

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, with_drain
from tests.engine.scale_down.builders import node, pod
from windlass.engine import taints
from windlass.engine.actuation import node_deletion
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.scale_down_state import ScaleActivity

HOLD = {"delay-deletion.cluster-autoscaler.kubernetes.io/volumes": "true"}


def refuse_deletions(instruction: plan.Instruction) -> str | None:
    return "no" if isinstance(instruction, plan.DeleteNode) else None


def whole(*names: str, pods: list[facts.Pod] | None = None) -> World:
    """Nodes of a group that is all or nothing, beside one of another."""
    world = World([node(name) for name in (*names, "other")], pods or [])
    options = node_groups.GroupOptions(zero_or_max=True)
    world.groups = {
        "g": node_groups.NodeGroup("g", 0, len(names), len(names), options=options),
        "h": node_groups.NodeGroup("h", 0, 9, 1),
    }
    world.group_of["other"] = "h"
    return world


# ── Held back ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_annotation_delays_the_deletion_until_it_is_gone() -> None:
    world = World([node("a", annotations=HOLD), node("b")], [pod("p", "a")])
    world.later(40.0, lambda: world.change("a", annotations={}))
    run = Run(world).begin("a").resume()
    assert run.deletions() == [(40.0, "a")]
    assert "held" in run.phases("a")
    assert next(drain for drain in run.told if drain.phase == "held").waits_for == tuple(HOLD)


def test_an_annotation_delays_the_deletion_for_two_minutes_at_most_from_when_the_node_was_empty() -> None:
    world = World([node("a", annotations=HOLD), node("b")], [pod("p", "a")])
    run = Run(world).begin("a").resume()
    assert run.deletions() == [(6.0 + 120, "a")]


def test_without_a_timeout_annotations_delay_nothing() -> None:
    settings = with_drain(WINDLASS, node_deletion_delay_timeout_s=0.0)
    run = Run(World([node("a", annotations=HOLD), node("b")]), settings).begin("a", is_empty=True).resume()
    assert run.deletions() == [(5.0, "a")]


def test_other_annotations_delay_nothing() -> None:
    world = World([node("a", annotations={"delay-deletion.example.com/x": "true"}), node("b")])
    assert Run(world).begin("a", is_empty=True).resume().deletions() == [(5.0, "a")]


# ── Gathered ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nodes_of_a_group_are_gathered_from_the_first_on() -> None:
    settings = with_drain(WINDLASS, node_deletion_batcher_interval_s=10.0)
    world = World([node(name) for name in "abcd"], [pod("p", "b"), pod("q", "c")])
    world.ends_after_s |= {"uid-p": 4.0, "uid-q": 30.0}
    run = Run(world, settings).begin("a", is_empty=True).begin("b", "c").resume()
    assert run.deletions() == [(15.0, "a"), (15.0, "b"), (45.0, "c")]


def test_each_group_is_gathered_by_itself() -> None:
    settings = with_drain(WINDLASS, node_deletion_batcher_interval_s=10.0)
    world = World([node("a"), node("b"), node("c")], [pod("p", "b")])
    world.groups["h"], world.group_of["b"] = node_groups.NodeGroup("h", 0, 9, 1), "h"
    world.ends_after_s["uid-p"] = 4.0
    run = Run(world, settings).begin("a", is_empty=True).begin("b").resume()
    assert run.deletions() == [(15.0, "a"), (19.0, "b")]


def test_a_whole_group_is_deleted_when_all_of_its_nodes_are_ready() -> None:
    world = whole("a", "b", pods=[pod("p", "b")])
    world.ends_after_s["uid-p"] = 20.0
    run = Run(world).begin("a", is_empty=True).begin("b").resume()
    assert run.deletions() == [(25.0, "a"), (25.0, "b")]
    assert next(drain for drain in run.told if drain.phase == "gathering").waits_for == ("b",)


def test_if_one_node_of_a_whole_group_fails_all_are_given_back() -> None:
    world = whole("a", "b", "c", pods=[pod("p", "b"), pod("q", "c")])
    world.ends_after_s["uid-q"] = 400.0
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "p" else None
    )
    run = Run(world).begin("a", is_empty=True).begin("b", "c").resume()
    assert [run.why(name) for name in "abc"] == ["GroupFailed", "EvictionRefused", "GroupFailed"]
    assert run.deletions() == []
    assert not any(run.is_marked(name) for name in "abc")


def test_a_node_of_a_whole_group_that_vanishes_holds_up_nobody() -> None:
    world = whole("a", "b", pods=[pod("p", "b")])
    world.ends_after_s["uid-p"] = 100.0
    world.later(50.0, lambda: world.nodes.pop("b"))
    run = Run(world).begin("a", is_empty=True).begin("b").resume()
    assert run.deletions() == [(50.0, "a")]


def test_failures_stay_with_their_node_in_other_groups() -> None:
    world = World([node(name) for name in "abc"], [pod("p", "a"), pod("q", "b")])
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "p" else None
    )
    run = Run(world).begin("a", "b").resume()
    assert (run.why("a"), run.why("b")) == ("EvictionRefused", "")


# ── Refused, or never done ───────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_deletion_gives_the_node_back() -> None:
    world = World([node("a"), node("b")])
    world.refuse = refuse_deletions
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "DeletionRefused"
    assert run.deletions() == [(5.0, "a")]
    assert not run.is_marked("a")


def test_no_group_is_led_below_its_minimum() -> None:
    world = World([node(name) for name in "abc"])
    world.groups["g"] = replace(world.groups["g"], min_size=2)
    run = Run(world).begin("a", "b", is_empty=True).resume()
    assert run.deletions() == [(5.0, "a")]
    assert run.why("b") == "MinSizeReached"


def test_a_whole_group_is_not_halved_by_its_minimum() -> None:
    world = whole("a", "b")
    world.groups["g"] = replace(world.groups["g"], min_size=1)
    run = Run(world).begin("a", "b", is_empty=True).resume()
    assert run.deletions() == []
    assert (run.why("a"), run.why("b")) == ("MinSizeReached", "MinSizeReached")


def test_a_node_whose_group_is_gone_is_given_back() -> None:
    world = World([node("a"), node("b")])
    run = Run(world).begin("a", is_empty=True)
    world.later(1.0, world.groups.clear)
    run.resume()
    assert run.why("a") == "GroupMissing"


def test_a_deletion_that_has_no_effect_gives_the_node_back_after_five_minutes() -> None:
    world = World([node("a"), node("b")])
    real = world.execute
    world.execute = lambda wanted: real(  # type: ignore[method-assign]
        tuple(instruction for instruction in wanted if not isinstance(instruction, plan.DeleteNode))
    )
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "DeletionTimedOut"
    assert world.now_s - START_S == 5 + 300


def test_a_machine_that_stays_because_another_went_in_its_place_is_given_back_at_once() -> None:
    world = World([node(name) for name in "abc"], [pod("p", "b")])
    world.machine_takes_s = float("inf")
    run = Run(world).begin("a", is_empty=True)

    def take_another() -> None:
        world.lose("b")
        del world.states["a"]

    world.later(10.0, take_another)
    run.resume()
    assert run.why("a") == "MachineStayed"
    assert not run.is_marked("a")
    assert run.deletions() == [(5.0, "a")]  # and nothing was asked for twice
    assert world.now_s - START_S < 60


def test_a_node_whose_machine_is_gone_is_waited_for_and_not_given_back() -> None:
    world = World([node("a"), node("b")])
    world.machine_takes_s = math.inf
    world.later(30.0, lambda: world.lost.add("a"))
    world.later(90.0, lambda: world.lose("a"))
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.told[-1].phase == "gone"
    assert run.planned(plan.RemoveTaint) == []


def test_a_node_that_outlives_its_machine_keeps_its_mark_when_its_drain_ends() -> None:
    world = World([node("a"), node("b")])
    world.machine_takes_s = math.inf
    world.later(30.0, lambda: world.lost.add("a"))
    run = Run(world).begin("a", is_empty=True).resume()
    assert (run.memory.durable.drains, run.told[-1].phase, run.told[-1].failure) == ({}, "gone", None)
    assert taints.has_taint(world.nodes["a"], taints.TO_BE_DELETED_KEY)
    assert run.planned(plan.RemoveTaint) == []


def test_a_drain_that_fails_does_not_reopen_a_node_whose_machine_is_gone() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.refuse = lambda instruction: (
        "429: a budget stands in the way" if isinstance(instruction, plan.Evict) else None
    )
    world.later(119.0, lambda: world.lost.add("a"))
    run = Run(world).begin("a").resume()
    assert run.planned(plan.RemoveTaint) == []
    assert taints.has_taint(world.nodes["a"], taints.TO_BE_DELETED_KEY)


def test_a_refused_deletion_of_a_machine_that_is_gone_reopens_nothing() -> None:
    world = World([node("a"), node("b")])

    def refuse(instruction: plan.Instruction) -> str | None:
        world.lost |= {"a"} if isinstance(instruction, plan.DeleteNode) else set()
        return refuse_deletions(instruction)

    world.refuse = refuse
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.planned(plan.RemoveTaint) == []


def test_late_news_of_a_machine_that_goes_after_all_do_no_harm() -> None:
    world = World([node("a"), node("b")])
    run = Run(world).begin("a", is_empty=True)
    world.later(8.0, lambda: world.states.pop("a"))
    world.later(20.0, lambda: world.states.update(a="Deleting"))
    run.resume()
    assert (run.phases("a")[-1], run.why("a")) == ("gone", "")


def test_a_machine_whose_group_is_out_of_sight_is_waited_for() -> None:
    world = World([node("a"), node("b")])
    run = Run(world).begin("a", is_empty=True)
    world.later(8.0, world.groups.clear)
    run.resume()
    assert (run.phases("a")[-1], run.why("a")) == ("gone", "")


def test_a_machine_that_is_slow_to_go_is_waited_for() -> None:
    world = World([node("a"), node("b")])
    world.machine_takes_s = 2000.0
    run = Run(world).begin("a", is_empty=True).resume()
    assert (run.phases("a")[-1], run.why("a")) == ("gone", "")
    assert world.now_s - START_S == 5 + 2000


def test_only_the_provider_can_say_that_a_machine_is_being_deleted() -> None:
    group = node_groups.NodeGroup(
        "g", 0, 9, 1, (node_groups.Instance("id-a", "Deleting"), node_groups.Instance("id-b"))
    )
    assert [node_deletion.is_being_deleted(node(name), group) for name in ("a", "b", "c")] == [True, False, False]
    assert not node_deletion.is_being_deleted(node("a"), None)


# ── What is remembered ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_provider_has_five_minutes_from_when_it_was_told() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.ends_after_s["uid-p"] = 20.0
    run = Run(world).begin("a").resume(until_s=30.0)
    (asked,) = run.memory.durable.health.requests.scale_downs
    assert (asked.node, asked.requested_s, asked.expected_by_s) == ("a", START_S + 25, START_S + 325)
    assert run.memory.durable.activities == {"g": ScaleActivity(deleted_s=START_S + 25)}
