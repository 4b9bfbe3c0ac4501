"""Whatever the process forgets, every marked node is either deleted or given back."""

from dataclasses import replace

import pytest

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World
from tests.engine.scale_down.builders import PEER, node, pod
from windlass.engine import loop, taints
from windlass.engine.actuation import rollback
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.settings import Settings


def marked(age_s: float, value: str | None = None) -> facts.Node:
    text = str(int(START_S - age_s)) if value is None else value
    taint = facts.Taint(taints.TO_BE_DELETED_KEY, text, "NoSchedule")
    return node("a", taints=(taint,), unschedulable=True)


@pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["peer", "windlass"])
def test_without_memory_the_first_loop_gives_marked_nodes_back(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    Run(world, settings).begin("a").resume(until_s=3.0)
    run = Run(world, settings, LoopMemory())
    assert run.ask().plan == ()
    first = loop.decide(world.observe(), LoopMemory(), settings, world.now_s)
    assert first.plan[:2] == (plan.RemoveTaint("a", taints.TO_BE_DELETED_KEY), plan.Cordon("a", cordoned=False))
    world.execute(first.plan)
    run.memory = first.memory
    assert run.ask().plan == ()
    assert not run.is_marked("a")


def test_with_memory_the_first_loop_leaves_drains_to_go_on() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    run = Run(world).begin("a").resume(until_s=3.0)
    decision = loop.decide(world.observe(), run.memory, WINDLASS, world.now_s)
    assert not any(isinstance(instruction, plan.RemoveTaint) for instruction in decision.plan)
    run.memory = decision.memory
    assert run.resume().deletions() == [(6.0, "a")]


def test_a_mark_that_nobody_remembers_is_removed_after_five_minutes() -> None:
    run = Run(World([marked(290), node("b")]))
    answer = run.ask()
    assert (answer.plan, answer.next_s) == ((), START_S + 10)
    run.world.move_to(answer.next_s)
    run.resume()
    assert run.phases("a") == ["rolling back", "rolled back"]
    assert not run.is_marked("a")
    assert run.memory.durable.activity.failed_s is None


def test_a_mark_that_does_not_tell_its_time_is_old() -> None:
    run = Run(World([marked(0, "soon"), node("b")]))
    run.settle()
    assert not run.is_marked("a")


def test_the_peer_leaves_a_mark_that_nobody_remembers() -> None:
    run = Run(World([marked(9999), node("b")]), PEER)
    assert run.ask().plan == ()


def test_marks_on_nodes_without_a_group_are_not_ours() -> None:
    world = World([node("b"), marked(9999)])
    world.group_of["a"] = "nobody's"
    assert Run(world).ask().plan == ()


def test_a_machine_that_is_being_deleted_is_left_alone() -> None:
    world = World([marked(9999), node("b")])
    world.states["a"] = "Deleting"
    assert Run(world).ask().plan == ()


def test_old_marks_are_left_to_the_first_loop() -> None:
    world = World([marked(9999), node("b")])
    for number in (0, 1):
        assert Run(world, memory=LoopMemory(DurableMemory(loop=number))).ask().plan == ()


@pytest.mark.parametrize("seconds", [0.0, 3.0, 5.0, 5.5, 6.0, 10.0])
def test_a_process_that_forgets_a_drain_entirely_gives_the_node_back_or_finds_it_gone(seconds: float) -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    run = Run(world).begin("a")
    before = LoopMemory(DurableMemory(loop=5))
    run.resume(until_s=seconds)
    run.memory = before
    run.resume(until_s=400.0)
    run.resume()
    assert "a" not in world.nodes or not run.is_marked("a")


def test_what_was_asked_for_last_and_never_heard_is_asked_for_again_at_once() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    real, deaf = world.execute, [plan.SetTaint, plan.Evict, plan.DeleteNode]
    world.execute = lambda wanted: real(  # type: ignore[method-assign]
        tuple(instruction for instruction in wanted if not any(isinstance(instruction, kind) for kind in deaf))
    )
    run = Run(world).begin("a").resume(until_s=1.0)
    for heard, takes_s in ((plan.SetTaint, 6.0), (plan.Evict, 1.0), (plan.DeleteNode, 1.0)):
        drains = rollback.resume_after_restart(run.memory.durable.drains)
        run = Run(world, memory=LoopMemory(replace(run.memory.durable, drains=drains)))
        deaf.remove(heard)
        run.resume(until_s=world.now_s - START_S + takes_s)
    assert world.states["a"] == "Deleting"
