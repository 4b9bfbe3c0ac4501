"""Drains from begin to end, and what is told of them."""

from tests.engine.actuation.drain_cluster import START_S, Run, World
from tests.engine.scale_down.builders import node, pod
from windlass.engine import drain_loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import plan


def test_an_occupied_node_is_marked_emptied_and_deleted() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100), pod("q", "a", 100)])
    run = Run(world).begin("a").resume()
    assert run.phases("a") == ["marking", "settling", "evicting", "terminating", "deleting", "gone"]
    assert run.done == [
        (0.0, plan.SetTaint("a", "ToBeDeletedByClusterAutoscaler", "1000000", "NoSchedule")),
        (0.0, plan.Cordon("a")),
        (5.0, plan.Evict("default", "p", "uid-p", 30.0, "a")),
        (5.0, plan.Evict("default", "q", "uid-q", 30.0, "a")),
        (6.0, plan.DeleteNode("a", "g")),
    ]
    assert set(world.nodes) == {"b"}
    assert not run.memory.durable.drains


def test_an_empty_node_is_deleted_as_soon_as_everyone_has_seen_the_taint() -> None:
    run = Run(World([node("a"), node("b")])).begin("a", is_empty=True).resume()
    assert run.phases("a") == ["marking", "settling", "deleting", "gone"]
    assert run.deletions() == [(5.0, "a")]


def test_nothing_is_done_where_nothing_is_on_its_way_out() -> None:
    memory = LoopMemory()
    answer = drain_loop.advance(World([node("a")]).observe(), memory, Run(World([])).settings, START_S)
    assert answer == drain_loop.DrainLoopResult((), memory, (), float("inf"))
    assert answer.memory is memory


def test_a_node_that_vanishes_is_forgotten_wherever_it_stood() -> None:
    for seconds in (0.0, 3.0, 5.0, 6.0):
        world = World([node("a"), node("b")], [pod("p", "a", 100)])
        run = Run(world).begin("a").resume(until_s=seconds)
        del world.nodes["a"]
        run.ask()
        assert run.phases("a")[-1] == "gone"
        assert not run.memory.durable.drains


def test_a_new_node_of_the_same_name_is_left_alone() -> None:
    world = World([node("a", uid="old"), node("b")])
    run = Run(world).begin("a", is_empty=True).resume(until_s=10.0)
    world.put(node("a", uid="new"))
    assert run.ask().plan == ()
    assert run.phases("a")[-1] == "gone"
    assert run.why("a") == ""


def test_a_new_node_of_the_same_name_is_known_by_its_missing_mark_where_nodes_have_no_uid() -> None:
    world = World([node("a"), node("b")])
    run = Run(world).begin("a", is_empty=True).resume(until_s=10.0)
    world.put(node("a"))
    assert run.ask().plan == ()
    assert run.phases("a")[-1] == "gone"


def test_a_drain_tells_whom_it_waits_for_and_until_when() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100), pod("q", "a", 100)])
    world.ends_after_s["uid-p"] = 20.0
    run = Run(world).begin("a").resume(until_s=10.0)
    (drain,) = run.ask().story
    assert (drain.node, drain.group, drain.phase, drain.waits_for) == ("a", "g", "terminating", ("default/p",))
    assert START_S + 10 < drain.until_s <= START_S + 5 + 600 + 30


def test_asking_again_before_the_named_time_changes_nothing() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100)])
    world.ends_after_s["uid-p"] = float("inf")
    run = Run(world).begin("a")
    for _ in range(3):
        answer = run.settle()
        world.now_s = (world.now_s + answer.next_s) / 2
        between = drain_loop.advance(world.observe(), run.memory, run.settings, world.now_s)
        assert (between.plan, between.memory) == ((), run.memory)
        world.move_to(answer.next_s)


def test_the_snapshot_is_left_as_it_was_found() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100), pod("waiting", "", 100, unschedulable_since_s=1.0)])
    run = Run(world).begin("a").resume(until_s=4.0)
    world.move_to(START_S + 5)
    observation = world.observe()
    before = observation.snapshot.nodes.free.copy(), observation.snapshot.pods_on(0)
    drain_loop.advance(observation, run.memory, run.settings, world.now_s)
    assert (observation.snapshot.nodes.free == before[0]).all()
    assert (observation.snapshot.pods_on(0), observation.snapshot.forks) == (before[1], 0)
