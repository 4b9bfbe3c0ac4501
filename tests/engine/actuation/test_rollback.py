"""Giving nodes back, and what a failure means for the loops to come."""

from dataclasses import replace

import pytest

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, with_drain
from tests.engine.scale_down.builders import PEER, node, pod
from windlass.engine import taints
from windlass.engine.cluster_state import scale_requests
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import cluster_health, facts, plan
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.scale_down_state import ScaleActivity
from windlass.engine.model.settings import Settings

BOTH = pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["peer", "windlass"])


def fail(world: World, settings: Settings) -> Run:
    """A drain of node a whose evictions are refused."""
    world.refuse = lambda instruction: "429" if isinstance(instruction, plan.Evict) else None
    return Run(world, settings).begin("a").resume()


# ── Marks ────────────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_taint_and_cordon_are_removed(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    run = fail(world, settings)
    assert run.done[-2:] == [
        (125.0, plan.RemoveTaint("a", taints.TO_BE_DELETED_KEY)),
        (125.0, plan.Cordon("a", cordoned=False)),
    ]
    assert not run.is_marked("a")
    assert not run.memory.durable.drains


def test_other_taints_stay() -> None:
    other = facts.Taint("dedicated", "x", "PreferNoSchedule")
    world = World([node("a", taints=(other,)), node("b")], [pod("p", "a")])
    fail(world, WINDLASS)
    assert world.nodes["a"].taints == (other,)


def test_marks_are_removed_again_until_they_are_gone() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.refuse = lambda instruction: "no" if isinstance(instruction, plan.Evict | plan.RemoveTaint) else None
    run = Run(world).begin("a").resume(until_s=150.0)
    assert [at_s for at_s, _ in run.planned(plan.RemoveTaint)] == [125.0, 135.0, 145.0]
    assert run.phases("a")[-1] == "rolling back"
    world.refuse = lambda _: None
    run.resume()
    assert run.phases("a")[-1] == "rolled back"
    assert not run.is_marked("a")


def test_without_cordoning_nobody_is_uncordoned() -> None:
    settings = with_drain(WINDLASS, cordon_node_before_terminating=False)
    world = World([node("a", unschedulable=True), node("b")], [pod("p", "a")])
    run = fail(world, settings)
    assert run.planned(plan.Cordon) == []
    assert run.phases("a")[-1] == "rolled back"


@pytest.mark.parametrize(("settings", "stays"), [(PEER, False), (WINDLASS, True)], ids=["peer", "windlass"])
def test_a_cordon_of_someone_else_stays_unless_the_peers_way_is_wanted(settings: Settings, stays: bool) -> None:
    world = World([node("a", unschedulable=True), node("b")], [pod("p", "a")])
    run = fail(world, settings)
    assert world.nodes["a"].unschedulable is stays
    assert run.phases("a")[-1] == "rolled back"


def test_a_cordon_of_our_own_is_not_taken_for_someone_elses_after_a_crash() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    run = Run(world).begin("a")
    before = run.memory
    world.refuse = lambda instruction: "conflict" if isinstance(instruction, plan.SetTaint) else None
    run.ask()
    assert world.nodes["a"].unschedulable
    run.memory = before  # the process died before it could remember
    run.resume()
    assert not run.is_marked("a")


def test_a_node_that_vanishes_while_it_is_given_back_is_forgotten() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.refuse = lambda instruction: "no" if isinstance(instruction, plan.Evict | plan.RemoveTaint) else None
    run = Run(world).begin("a").resume(until_s=130.0)
    del world.nodes["a"]
    run.resume()
    assert run.phases("a")[-2:] == ["rolling back", "gone"]


# ── What is remembered ───────────────────────────────────────────────────────────────────────────────────────────


def outcome(world: World, settings: Settings) -> tuple[ScaleActivity, dict[str, ScaleActivity]]:
    run = Run(world, settings).begin("a").resume()
    durable = run.memory.durable
    return durable.activity, dict(durable.activities)


def test_any_failure_makes_scale_down_pause() -> None:
    for kind, at_s in ((plan.SetTaint, 0.0), (plan.Evict, 125.0), (plan.DeleteNode, 6.0)):
        world = World([node("a"), node("b")], [pod("p", "a")])
        world.refuse = lambda one, kind=kind: "no" if isinstance(one, kind) else None  # type: ignore[misc]
        cluster, groups = outcome(world, WINDLASS)
        assert cluster.failed_s == groups["g"].failed_s == START_S + at_s


def test_to_the_peer_only_a_refused_mark_is_a_failure_of_the_cluster_and_a_refused_deletion_one_of_the_group() -> None:
    found = []
    for kind in (plan.SetTaint, plan.Evict, plan.DeleteNode):
        world = World([node("a"), node("b")], [pod("p", "a")])
        world.refuse = lambda one, kind=kind: "no" if isinstance(one, kind) else None  # type: ignore[misc]
        cluster, groups = outcome(world, PEER)
        found.append((cluster.failed_s, groups.get("g", ScaleActivity()).failed_s))
    assert found == [(START_S, None), (None, None), (None, START_S + 6)]


def test_a_node_that_was_given_back_is_not_counted_as_being_deleted() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    asked = scale_requests.register_scale_down(cluster_health.ScaleRequests(), "g", "a", START_S)
    asked = scale_requests.register_scale_down(asked, "g", "other", START_S)
    durable = DurableMemory(loop=5)
    durable = replace(durable, health=replace(durable.health, requests=asked))
    world.refuse = lambda instruction: "429" if isinstance(instruction, plan.Evict) else None
    run = Run(world, memory=LoopMemory(durable)).begin("a").resume()
    assert [scale_down_request.node for scale_down_request in run.memory.durable.health.requests.scale_downs] == [
        "other"
    ]


def test_a_success_is_no_failure() -> None:
    cluster, groups = outcome(World([node("a"), node("b")], [pod("p", "a")]), WINDLASS)
    assert cluster == ScaleActivity()
    assert groups == {"g": ScaleActivity(deleted_s=START_S + 6)}
