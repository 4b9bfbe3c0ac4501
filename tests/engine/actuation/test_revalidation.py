"""Checking again when everyone has seen the taint."""

from dataclasses import replace

import pytest

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, budget_of
from tests.engine.scale_down.builders import AGENT, PEER, node, pod
from windlass.engine.model import plan, well_known
from windlass.engine.model.settings import Settings

BOTH = pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["peer", "windlass"])
KEEP = {well_known.SAFE_TO_EVICT_ANNOTATION: "false"}
FINISH = {well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}


def settle_then(world: World, settings: Settings, is_empty: bool = False) -> Run:
    """A drain of node a that has been marked, and is about to be checked."""
    run = Run(world, settings).begin("a", is_empty=is_empty).resume(until_s=4.0)
    world.move_to(START_S + 4)
    return run


@BOTH
def test_a_pod_that_must_not_leave_gives_the_node_back(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100)])
    run = settle_then(world, settings)
    world.put(pod("stays", "a", 100, annotations=KEEP))
    run.resume()
    assert run.why("a") == "BlockedByPod"
    assert run.evictions() == []
    assert not run.is_marked("a")


@BOTH
def test_a_budget_that_allows_nothing_gives_the_node_back(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100, labels={"app": "x"})])
    world.budgets["x"] = budget_of("x", 1)
    run = settle_then(world, settings)
    world.budgets["x"] = budget_of("x", 0)
    run.resume()
    assert run.why("a") == "BlockedByPod"
    assert run.evictions() == []


@BOTH
def test_a_node_chosen_for_being_empty_must_still_be(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("agent", "a", owner=AGENT)])
    run = settle_then(world, settings, is_empty=True)
    world.put(pod("p", "a", 100))
    run.resume()
    assert run.why("a") == "NotEmpty"
    assert run.deletions() == []


@BOTH
def test_a_pod_that_asks_to_be_let_finish_keeps_an_empty_node(settings: Settings) -> None:
    world = World([node("a"), node("b")])
    run = settle_then(world, settings, is_empty=True)
    world.put(pod("job", "a", 100, annotations=FINISH))
    run.resume()
    assert run.why("a") == "NotEmpty"


def test_a_pod_that_asks_to_be_let_finish_keeps_an_occupied_node() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100)])
    run = settle_then(world, WINDLASS)
    world.put(pod("job", "a", 100, annotations=FINISH))
    run.resume()
    assert run.why("a") == "BlockedByPod"


def test_the_peer_evicts_a_pod_that_asks_to_be_let_finish() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100)])
    run = settle_then(world, PEER)
    world.put(pod("job", "a", 100, annotations=FINISH))
    run.resume()
    assert run.evictions() == [(5.0, "p"), (5.0, "job")]


def test_room_that_was_filled_since_gives_the_node_back() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 600)])
    run = settle_then(world, WINDLASS)
    world.put(pod("filler", "b", 500))
    run.resume()
    assert run.why("a") == "NoPlaceToMovePods"
    assert run.told[-1].failure is not None
    assert run.told[-1].failure.details == ("default/p",)
    assert not run.is_marked("a")


def test_the_peer_does_not_ask_for_room_again() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 600)])
    run = settle_then(world, PEER)
    world.put(pod("filler", "b", 500))
    run.resume()
    assert run.deletions() == [(6.0, "a")]


def test_pending_pods_are_given_their_places_first() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 600)])
    run = settle_then(world, WINDLASS)
    world.put(pod("pending", "", 500, phase="Pending", unschedulable_since_s=START_S))
    run.resume()
    assert run.why("a") == "NoPlaceToMovePods"


def test_pods_of_nodes_that_are_being_emptied_are_given_their_places_first() -> None:
    world = World([node("a"), node("b"), node("c")], [pod("p", "a", 600), pod("q", "b", 600, labels={"app": "x"})])
    world.budgets["x"] = budget_of("x", 1)
    run = Run(world, WINDLASS).begin("b").resume(until_s=4.0)
    world.refuse = lambda instruction: "429" if isinstance(instruction, plan.Evict) else None
    run.resume(until_s=20.0)  # b is checked, its pod cannot leave yet and will need the room on c
    run.begin("a").resume(until_s=40.0)
    assert run.why("a") == "NoPlaceToMovePods"
    assert run.why("b") == ""


def test_pods_that_are_ending_need_no_place_any_more() -> None:
    """Whoever starts them again has done so, or waits."""
    world = World([node("a"), node("b"), node("c", 2000)], [pod("p", "a", 900), pod("q", "b", 600)])
    world.ends_after_s["uid-q"] = 50.0
    run = Run(world, WINDLASS).begin("b").resume(until_s=10.0)
    world.put(pod("q-again", "c", 600))
    run.begin("a").resume()
    assert (run.why("a"), run.why("b")) == ("", "")


def test_pods_of_a_node_that_is_given_back_stay_there() -> None:
    world = World([node("a"), node("b"), node("c")], [pod("p", "a", 600), pod("q", "b", 600)])
    world.refuse = lambda instruction: (
        "no" if isinstance(instruction, plan.RemoveTaint) or "q" in str(instruction) else None
    )
    run = Run(world, WINDLASS).begin("b").resume(until_s=150.0)
    assert run.phases("b")[-1] == "rolling back"
    run.begin("a").resume(until_s=190.0)
    assert (run.why("a"), run.deletions()) == ("", [(156.0, "a")])


def test_pods_go_to_the_places_that_were_found_when_their_node_was_chosen() -> None:
    """Searched anew, large ones first and round-robin, the last of them would find no room."""
    sizes = {"p1": 500, "p2": 500, "p3": 400, "p4": 300, "p5": 300}
    places = {"uid-p1": "b", "uid-p2": "b", "uid-p3": "c", "uid-p4": "c", "uid-p5": "c"}
    came_out = []
    for remembered in ({}, places):
        world = World([node("a", 2000), node("b"), node("c")], [pod(name, "a", cpu) for name, cpu in sizes.items()])
        run = settle_then(world, WINDLASS)
        begun = replace(run.memory.durable.drains["a"], places=remembered)
        run.memory = replace(run.memory, durable=replace(run.memory.durable, drains={"a": begun}))
        came_out.append(run.resume().why("a"))
    assert came_out == ["NoPlaceToMovePods", ""]


def test_nodes_that_go_together_do_not_take_in_each_others_pods() -> None:
    world = World([node("a"), node("b"), node("c", 500)], [pod("p", "a", 400), pod("q", "b", 400)])
    run = Run(world, WINDLASS).begin("a", "b").resume()
    assert [run.why("a"), run.why("b")] == ["", "NoPlaceToMovePods"]


def test_nodes_that_share_a_budget_are_judged_alone() -> None:
    """The budget allows them one after another: they wait for each other, nobody gives up."""
    world = World([node(name) for name in "abc"], [pod(f"p{n}", n, 100, labels={"app": "x"}) for n in "ab"])
    world.budgets["x"] = budget_of("x", 1)
    run = Run(world, WINDLASS).begin("a", "b").resume()
    assert run.evictions() == [(5.0, "pa"), (9.0, "pb")]
    assert run.phases("a")[-1] == run.phases("b")[-1] == "gone"


def test_expendable_pods_and_static_pods_end_with_the_node() -> None:
    cheap = pod("cheap", "a", 900)
    cheap = replace(cheap, spec=replace(cheap.spec, priority=-20))
    static = pod("static", "a", 900, owner=None, annotations={well_known.MIRROR_ANNOTATION: ""})
    world = World([node("a"), node("b", 100)], [cheap, static, pod("p", "a", 100)])
    run = Run(world, WINDLASS).begin("a").resume()
    assert run.evictions() == [(5.0, "p")]
    assert run.phases("a")[-1] == "gone"
