"""Marking: taint and cordon, all of a batch or none."""

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, with_drain
from tests.engine.scale_down.builders import PEER, node, pod
from windlass.engine import taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import durable_memory, facts, plan


def test_nodes_are_cordoned_only_if_the_user_wants_it() -> None:
    settings = with_drain(WINDLASS, cordon_node_before_terminating=False)
    run = Run(World([node("a"), node("b")]), settings).begin("a", is_empty=True).resume()
    assert run.planned(plan.Cordon) == []
    assert run.phases("a")[-1] == "gone"


def test_the_delay_runs_from_when_all_of_the_batch_are_seen_marked() -> None:
    world = World([node("a"), node("b"), node("c")])
    run = Run(world).begin("a", "b", is_empty=True)
    run.ask()
    marked = world.nodes["b"]
    world.put(node("b"))  # its taint is not seen yet
    world.move_to(START_S + 2)
    assert {str(drain.phase) for drain in run.ask().story} == {"marking"}
    world.put(marked)
    run.resume()
    assert run.deletions() == [(7.0, "a"), (7.0, "b")]


DYNAMIC = with_drain(WINDLASS, dynamic_node_delete_delay_after_taint_enabled=True)


def drain_with_latency(run: Run, name: str, latency_s: float) -> float:
    """Drain an empty node whose mark is seen so late; returns the time from the sight of the mark to the deletion."""
    begun_s = run.world.now_s
    run.begin(name, is_empty=True).ask()
    run.world.move_to(begun_s + latency_s)
    run.resume()
    deleted_s, deleted = run.deletions()[-1]
    assert deleted == name
    return deleted_s - (begun_s + latency_s - START_S)


def test_with_the_dynamic_delay_it_is_twice_as_long_as_the_mark_took_to_be_seen() -> None:
    settings = with_drain(WINDLASS, dynamic_node_delete_delay_after_taint_enabled=True)
    assert drain_with_latency(Run(World([node("a"), node("b")]), settings), "a", 2.0) == 4.0


def test_the_dynamic_delay_is_twice_the_slowest_mark_of_the_last_hour() -> None:
    world = World([node(name) for name in "abcde"])
    run = Run(world, DYNAMIC)
    assert drain_with_latency(run, "a", 2.0) == 4.0
    assert drain_with_latency(run, "b", 0.5) == 4.0
    assert drain_with_latency(run, "c", 3.0) == 6.0
    world.move_to(world.now_s + 3600.0)
    assert drain_with_latency(run, "d", 0.5) == 1.0
    assert [taint_latency.duration_s for taint_latency in run.memory.durable.taint_latencies] == [0.5]


def test_batches_that_are_seen_marked_together_share_the_dynamic_delay() -> None:
    world = World([node(name) for name in "abc"])
    run = Run(world, DYNAMIC).begin("a", is_empty=True)
    run.ask()
    marked = world.nodes["a"]
    world.put(node("a"))  # its taint is seen later
    world.move_to(START_S + 3)
    run.begin("b", is_empty=True).ask()
    world.move_to(START_S + 4)
    world.put(marked)
    run.resume()
    assert run.deletions() == [(12.0, "a"), (12.0, "b")]


def test_the_dynamic_delay_survives_a_restart() -> None:
    run = Run(World([node(name) for name in "abc"]), DYNAMIC)
    drain_with_latency(run, "a", 2.0)
    saved = durable_memory.from_plain(durable_memory.to_plain(run.memory.durable))
    again = Run(run.world, DYNAMIC, LoopMemory(saved))
    assert drain_with_latency(again, "b", 0.5) == 4.0


def test_the_dynamic_delay_is_the_fixed_one_where_no_latency_was_measured() -> None:
    run = Run(World([node("a"), node("b")]), WINDLASS).begin("a", is_empty=True)
    run.ask()
    run.ask()  # its mark is seen, by a process without the flag
    run.settings = DYNAMIC
    run.resume()
    assert run.deletions() == [(5.0, "a")]


def test_no_latency_is_remembered_without_the_flag() -> None:
    run = Run(World([node("a"), node("b")]), WINDLASS)
    assert drain_with_latency(run, "a", 2.0) == 5.0
    assert run.memory.durable.taint_latencies == ()


def test_a_refusal_gives_back_all_nodes_that_were_chosen_together() -> None:
    world = World([node("a"), node("b"), node("c")])
    world.refuse = lambda instruction: (
        "conflict" if isinstance(instruction, plan.SetTaint) and instruction.node == "b" else None
    )
    run = Run(world).begin("a", "b", is_empty=True).resume()
    assert (run.why("a"), run.why("b")) == ("BatchFailed", "MarkRefused")
    assert run.phases("a") == run.phases("b") == ["marking", "rolling back", "rolled back"]
    assert not run.is_marked("a")
    assert not run.is_marked("b")
    assert run.deletions() == []


def test_a_mark_that_is_not_seen_yet_is_removed_too() -> None:
    world = World([node("a"), node("b"), node("c")])
    world.refuse = lambda instruction: (
        "conflict" if isinstance(instruction, plan.SetTaint) and instruction.node == "a" else None
    )
    run = Run(world).begin("a", "b", is_empty=True)
    run.ask()
    marked = world.nodes["b"]
    world.put(node("b"))
    answer = run.ask()
    assert plan.RemoveTaint("b", taints.TO_BE_DELETED_KEY) in answer.plan
    world.put(marked)
    run.resume()
    assert not run.is_marked("b")


def test_a_refused_cordon_is_a_refusal() -> None:
    world = World([node("a"), node("b")])
    world.refuse = lambda instruction: "forbidden" if instruction == plan.Cordon("a") else None
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "MarkRefused"
    assert not run.is_marked("a")


def test_empty_and_occupied_nodes_are_marked_apart() -> None:
    world = World([node("a"), node("b"), node("c")], [pod("p", "b", 100)])
    world.refuse = lambda instruction: (
        "conflict" if isinstance(instruction, plan.SetTaint) and instruction.node == "b" else None
    )
    run = Run(world).begin("a", is_empty=True).begin("b").resume()
    assert run.phases("a")[-1] == "gone"
    assert run.why("b") == "MarkRefused"
    assert "p" in {one.name for one in world.pods.values()}


def test_a_mark_that_does_not_appear_is_asked_for_again_and_then_given_up() -> None:
    world = World([node("a"), node("b")])
    real = world.execute
    world.execute = lambda wanted: real(  # type: ignore[method-assign]
        tuple(instruction for instruction in wanted if not isinstance(instruction, plan.SetTaint))
    )
    run = Run(world).begin("a", is_empty=True).resume()
    assert [at_s for at_s, _ in run.planned(plan.SetTaint)] == [0.0, 10.0, 20.0]
    assert run.why("a") == "MarkNotSeen"
    assert run.done[-2:] == [
        (30.0, plan.RemoveTaint("a", taints.TO_BE_DELETED_KEY)),
        (30.0, plan.Cordon("a", cordoned=False)),
    ]


def test_a_mark_that_was_there_before_is_set_anew_with_its_own_time() -> None:
    old = facts.Taint(taints.TO_BE_DELETED_KEY, "17", "NoSchedule")
    world = World([node("a", taints=(old,), unschedulable=True), node("b")])
    run = Run(world).begin("a", is_empty=True)
    run.settle()
    assert taints.marked_at_s(world.nodes["a"], taints.TO_BE_DELETED_KEY) == START_S
    run.resume()
    assert run.deletions() == [(5.0, "a")]


def test_someone_else_taking_the_taint_off_ends_the_drain_as_failed() -> None:
    for settings in (PEER, WINDLASS):
        world = World([node("a"), node("b")], [pod("p", "a", 100)])
        world.ends_after_s["uid-p"] = 100.0
        run = Run(world, settings).begin("a").resume(until_s=50.0)
        world.change("a", taints=())
        run.resume()
        assert run.phases("a")[-2:] == ["rolling back", "rolled back"]
        assert run.why("a") == "MarkRemoved"
        assert not world.nodes["a"].unschedulable
        assert run.deletions() == []
