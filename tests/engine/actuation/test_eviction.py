"""Evictions: who is asked, when, with how much time, and for how long."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, budget_of, with_drain
from tests.engine.scale_down.builders import AGENT, PEER, node, pod
from windlass.engine import drain_loop
from windlass.engine.actuation import eviction
from windlass.engine.model import facts, plan, well_known
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.settings import PriorityGrace, Settings
from windlass.engine.observation import EvictionAnswer, EvictionState

BOTH = pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["peer", "windlass"])
FOREVER = float("inf")


def refuse_evictions(instruction: plan.Instruction) -> str | None:
    return "429" if isinstance(instruction, plan.Evict) else None


def graces(run: Run) -> dict[str, float | None]:
    return {instruction.name: instruction.grace_s for _, instruction in run.done if isinstance(instruction, plan.Evict)}


def with_priority(one: facts.Pod, priority: int) -> facts.Pod:
    return replace(one, spec=replace(one.spec, priority=priority))


# ── Time to end ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_gets_its_own_time_to_end_up_to_the_limit() -> None:
    pods = [pod("short", "a", grace_s=7.0), pod("default", "a"), pod("long", "a", grace_s=3600.0)]
    run = Run(World([node("a"), node("b")], pods)).begin("a").resume()
    assert graces(run) == {"short": 7.0, "default": 30.0, "long": 600.0}


def test_no_limit_means_that_pods_get_their_own_time() -> None:
    settings = with_drain(WINDLASS, max_graceful_termination_s=0)
    run = Run(World([node("a"), node("b")], [pod("long", "a", grace_s=3600.0)]), settings).begin("a").resume()
    assert graces(run) == {"long": 3600.0}


def test_pods_go_in_ascending_order_of_priority() -> None:
    rules = (PriorityGrace(1000, 60), PriorityGrace(0, 20))
    settings = with_drain(WINDLASS, drain_priority_config=rules)
    pods = [with_priority(pod(f"p{n}", "a", grace_s=100.0), n) for n in (2000, 5, 1000, -3)]
    run = Run(World([node("a"), node("b")], pods), settings).begin("a").resume()
    assert run.evictions() == [(5.0, "p5"), (5.0, "p-3"), (6.0, "p2000"), (6.0, "p1000")]
    assert graces(run) == {"p5": 20.0, "p-3": 20.0, "p2000": 60.0, "p1000": 60.0}
    assert run.deletions() == [(7.0, "a")]


def test_a_turn_begins_when_the_pods_of_the_one_before_are_gone() -> None:
    settings = with_drain(PEER, drain_priority_config=(PriorityGrace(0, 20), PriorityGrace(1000, 60)))
    world = World([node("a"), node("b")], [with_priority(pod(f"p{n}", "a"), n) for n in (0, 1000)])
    world.ends_after_s["uid-p0"] = 15.0
    run = Run(world, settings).begin("a").resume()
    assert run.evictions() == [(5.0, "p0"), (20.0, "p1000")]


def test_each_turn_has_its_own_time() -> None:
    settings = with_drain(PEER, drain_priority_config=(PriorityGrace(0, 20), PriorityGrace(1000, 60)))
    world = World([node("a"), node("b")], [with_priority(pod(f"p{n}", "a"), n) for n in (0, 1000)])
    world.ends_after_s["uid-p1000"] = FOREVER
    run = Run(world, settings).begin("a").resume()
    assert run.why("a") == "PodsStayed"
    assert world.now_s - START_S == 5 + 1 + 60 + 30


# ── Asking again, and giving up ──────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_refused_eviction_is_asked_for_again_every_ten_seconds_until_its_time_is_up(settings: Settings) -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.refuse = refuse_evictions
    run = Run(world, settings).begin("a").resume()
    assert [at_s for at_s, _ in run.evictions()] == [5.0 + 10 * n for n in range(12)]
    assert run.why("a") == "EvictionRefused"
    assert world.now_s - START_S == 5 + 120
    assert not run.is_marked("a")
    assert run.deletions() == []


def test_what_was_said_is_told() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.refuse = refuse_evictions
    run = Run(world).begin("a").resume()
    assert run.told[-1].failure is not None
    assert run.told[-1].failure.details == ("default/p: 429",)


def test_with_no_time_at_all_everyone_is_still_asked_once() -> None:
    world = World([node("a"), node("b")], [pod("p", "a"), pod("q", "a")])
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "q" else None
    )
    run = Run(world, with_drain(WINDLASS, max_pod_eviction_time_s=0.0)).begin("a").resume()
    assert run.evictions() == [(5.0, "p"), (5.0, "q")]
    assert run.why("a") == "EvictionRefused"


def test_an_eviction_without_effect_is_asked_for_again() -> None:
    """Its answer was lost, or the process died before it could ask."""
    world = World([node("a"), node("b")], [pod("p", "a")])
    run = Run(world).begin("a").resume(until_s=4.0)
    world.move_to(START_S + 5)
    carry_out = world.execute
    world.execute = lambda wanted: {}  # type: ignore[method-assign]
    run.ask()
    assert run.ask().plan == ()
    world.execute = carry_out  # type: ignore[method-assign]
    run.resume()
    assert run.evictions() == [(5.0, "p"), (15.0, "p")]


def test_one_refusal_holds_up_no_other_eviction() -> None:
    world = World([node("a"), node("b")], [pod("p", "a"), pod("q", "a")])
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "p" else None
    )
    run = Run(world).begin("a").resume(until_s=8.0)
    assert set(world.pods) == {"uid-p"}
    world.refuse = lambda _: None
    run.resume()
    assert run.evictions() == [(5.0, "p"), (5.0, "q"), (15.0, "p")]
    assert run.deletions() == [(16.0, "a")]


# ── Pods that do not end ─────────────────────────────────────────────────────────────────────────────────────────


def test_to_the_peer_a_pod_that_stays_gives_the_node_back() -> None:
    world = World([node("a"), node("b")], [pod("p", "a"), pod("q", "a")])
    world.ends_after_s["uid-p"] = FOREVER
    run = Run(world, PEER).begin("a").resume()
    assert run.why("a") == "PodsStayed"
    assert world.now_s - START_S == 5 + 600 + 30
    assert not run.is_marked("a")


def test_a_pod_that_should_be_gone_by_now_does_not_keep_its_node() -> None:
    """It was given 30 s, is deleted as of then, and counts as gone 30 s and its grace period later."""
    world = World([node("a"), node("b")], [pod("p", "a"), pod("q", "a")])
    world.ends_after_s["uid-p"] = FOREVER
    run = Run(world, WINDLASS).begin("a").resume()
    (deleted,) = run.deletions()
    assert deleted[0] == pytest.approx(5 + 30 + 30 + 30)
    assert run.phases("a")[-1] == "gone"


def test_a_pod_that_stays_does_not_keep_its_node_for_longer_than_the_limit() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", grace_s=3000.0)])
    world.ends_after_s["uid-p"] = FOREVER
    run = Run(world, WINDLASS).begin("a").resume()
    assert run.deletions() == [(5 + 600 + 30, "a")]


def test_a_pod_that_was_stuck_before_holds_up_nothing() -> None:
    stuck = pod("stuck", "a", deleted_s=START_S - 1000)
    run = Run(World([node("a"), node("b")], [stuck, pod("p", "a")]), WINDLASS).begin("a").resume()
    assert run.evictions() == [(5.0, "p")]
    assert run.deletions() == [(6.0, "a")]


@BOTH
def test_a_pod_that_was_stuck_before_does_not_keep_an_empty_node(settings: Settings) -> None:
    stuck = pod("stuck", "a", deleted_s=START_S - 1000)
    run = Run(World([node("a"), node("b")], [stuck]), settings).begin("a", is_empty=True).resume()
    assert run.deletions() == [(5.0, "a")]


def test_to_the_peer_a_pod_that_was_stuck_before_keeps_an_occupied_node() -> None:
    stuck = pod("stuck", "a", deleted_s=START_S - 1000)
    run = Run(World([node("a"), node("b")], [stuck, pod("p", "a")]), PEER).begin("a").resume()
    assert run.why("a") == "PodsStayed"


def test_a_pod_that_stays_holds_up_only_its_own_turn() -> None:
    settings = with_drain(WINDLASS, drain_priority_config=(PriorityGrace(0, 20), PriorityGrace(1000, 60)))
    world = World([node("a"), node("b")], [with_priority(pod(f"p{n}", "a", grace_s=100.0), n) for n in (0, 1000)])
    world.ends_after_s["uid-p0"] = FOREVER
    run = Run(world, settings).begin("a").resume()
    assert run.evictions() == [(5.0, "p0"), (5.0 + 20 + 30, "p1000")]
    assert run.deletions() == [(56.0, "a")]


# ── Disruption budgets ───────────────────────────────────────────────────────────────────────────────────────────


def test_no_more_pods_are_asked_to_leave_than_their_budget_allows() -> None:
    world = World([node("a"), node("b")], [pod(f"p{n}", "a", labels={"app": "x"}) for n in range(3)])
    world.budgets["x"] = budget_of("x", 1)
    run = Run(world).begin("a").resume()
    assert run.evictions() == [(5.0, "p0"), (9.0, "p1"), (13.0, "p2")]
    assert run.deletions() == [(14.0, "a")]


def test_a_disruption_is_not_spent_twice_while_its_eviction_cannot_be_seen() -> None:
    world = World([node("a"), node("b")], [pod(f"p{n}", "a", labels={"app": "x"}) for n in range(2)])
    world.budgets["x"] = budget_of("x", 1)
    run = Run(world).begin("a").resume(until_s=4.0)
    world.move_to(START_S + 5)
    observation = world.observe()
    answer = run.ask()
    assert [instruction for instruction in answer.plan if isinstance(instruction, plan.Evict)]
    assert drain_loop.advance(observation, run.memory, run.settings, world.now_s).plan == ()


def test_a_refused_eviction_gives_its_disruption_to_another() -> None:
    world = World([node("a"), node("b")], [pod(f"p{n}", "a", labels={"app": "x"}) for n in range(2)])
    world.budgets["x"] = budget_of("x", 1)
    world.refuse = lambda instruction: (
        "500" if isinstance(instruction, plan.Evict) and instruction.name == "p0" else None
    )
    run = Run(world).begin("a").resume(until_s=5.0)
    assert run.evictions() == [(5.0, "p0"), (5.0, "p1")]


def test_a_budget_that_does_not_recover_in_time_gives_the_node_back() -> None:
    world = World([node("a"), node("b")], [pod(f"p{n}", "a", labels={"app": "x"}) for n in range(2)])
    world.budgets["x"], world.budget_recovers_s = budget_of("x", 1), FOREVER
    run = Run(world).begin("a").resume()
    assert run.evictions() == [(5.0, "p0")]
    assert run.why("a") == "EvictionRefused"


def test_whoever_is_asked_last_is_given_time_to_answer() -> None:
    world = World([node("a"), node("b")], [pod(f"p{n}", "a", labels={"app": "x"}) for n in range(2)])
    world.budgets["x"], world.budget_recovers_s = budget_of("x", 1), 114.0
    run = Run(world).begin("a").resume(until_s=119.0)
    world.execute = lambda wanted: {}  # type: ignore[method-assign]
    run.resume(until_s=129.0)
    assert run.evictions() == [(5.0, "p0"), (120.0, "p1")]
    assert run.why("a") == ""
    world.move_to(START_S + 130)
    run.ask()
    assert run.why("a") == "EvictionRefused"


# ── Pods of DaemonSets ───────────────────────────────────────────────────────────────────────────────────────────


def agent(name: str, evict: str | None = None, **changes: Any) -> facts.Pod:
    wish = {} if evict is None else {eviction.ENABLE_DS_EVICTION: evict}
    return pod(name, "a", owner=AGENT, annotations=wish, **changes)


def test_pods_of_daemonsets_are_evicted_with_the_others_and_not_waited_for() -> None:
    world = World([node("a"), node("b")], [agent("agent"), pod("p", "a")])
    world.ends_after_s["uid-agent"] = FOREVER
    run = Run(world).begin("a").resume()
    assert run.evictions() == [(5.0, "p"), (5.0, "agent")]
    assert run.deletions() == [(6.0, "a")]


def test_a_daemonset_that_refuses_holds_up_nothing() -> None:
    world = World([node("a"), node("b")], [agent("agent"), pod("p", "a")])
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "agent" else None
    )
    run = Run(world).begin("a").resume()
    assert run.deletions() == [(6.0, "a")]


@pytest.mark.parametrize(
    ("empty", "evict", "options", "is_evicted"),
    [
        (False, None, {}, True),
        (False, None, {"daemonset_eviction_for_occupied_nodes": False}, False),
        (False, "false", {}, False),
        (True, None, {}, False),
        (True, None, {"daemonset_eviction_for_empty_nodes": True}, True),
        (True, "true", {}, True),
    ],
)
def test_the_user_and_the_pod_say_whether_pods_of_daemonsets_are_evicted(
    empty: bool, evict: str | None, options: dict[str, bool], is_evicted: bool
) -> None:
    pods = [agent("agent", evict)] + ([] if empty else [pod("p", "a")])
    run = Run(World([node("a"), node("b")], pods), with_drain(WINDLASS, **options)).begin("a", is_empty=empty).resume()
    assert ("agent" in dict((name, at_s) for at_s, name in run.evictions())) == is_evicted
    assert run.phases("a")[-1] == "gone"


def test_an_empty_node_is_deleted_once_its_daemonsets_have_been_asked() -> None:
    world = World([node("a"), node("b")], [agent("agent", "true")])
    run = Run(world).begin("a", is_empty=True).resume(until_s=4.0)
    world.move_to(START_S + 5)
    first, second = run.ask(), run.ask()
    assert [type(instruction) for instruction in first.plan] == [plan.Evict]
    assert first.next_s == world.now_s
    assert [type(one) for one in second.plan] == [plan.DeleteNode]


def test_a_daemonset_that_refuses_is_not_asked_again_once_the_others_are_gone() -> None:
    held = node("a", annotations={"delay-deletion.cluster-autoscaler.kubernetes.io/x": ""})
    world = World([held, node("b")], [agent("agent"), pod("p", "a")])
    world.ends_after_s["uid-p"] = 12.0
    world.refuse = lambda instruction: (
        "429" if isinstance(instruction, plan.Evict) and instruction.name == "agent" else None
    )
    run = Run(world).begin("a").resume()
    assert [at_s for at_s, name in run.evictions() if name == "agent"] == [5.0, 15.0]
    assert run.deletions() == [(17.0 + 120, "a")]


def test_a_daemonset_is_not_asked_against_its_budget() -> None:
    world = World([node("a"), node("b")], [agent("agent", "true", labels={"app": "x"})])
    world.budgets["x"] = budget_of("x", 0)
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.evictions() == []
    assert run.deletions() == [(5.0, "a")]


def test_with_priorities_pods_of_daemonsets_have_their_turns() -> None:
    settings = with_drain(PEER, drain_priority_config=(PriorityGrace(0, 20), PriorityGrace(1000, 60)))
    pods = [with_priority(agent("agent"), 2000), with_priority(pod("p", "a"), 10)]
    world = World([node("a"), node("b")], pods)
    world.ends_after_s["uid-agent"] = 12.0
    run = Run(world, settings).begin("a").resume()
    assert run.evictions() == [(5.0, "p"), (6.0, "agent")]
    assert run.deletions() == [(18.0, "a")]


def test_with_priorities_a_daemonset_pod_that_stays_does_not_keep_the_node() -> None:
    settings = with_drain(WINDLASS, drain_priority_config=(PriorityGrace(0, 20),))
    world = World([node("a"), node("b")], [agent("agent", grace_s=100.0), pod("p", "a")])
    world.ends_after_s["uid-agent"] = FOREVER
    run = Run(world, settings).begin("a").resume()
    assert run.deletions() == [(5.0 + 20 + 30, "a")]


def test_a_daemonset_pod_that_comes_back_is_left_alone() -> None:
    settings = with_drain(WINDLASS, drain_priority_config=(PriorityGrace(0, 20),))
    world = World([node("a"), node("b")], [agent("agent"), pod("p", "a")])
    world.later(6.0, lambda: world.put(agent("agent-2", created_s=world.now_s)))
    run = Run(world, settings).begin("a").resume()
    assert run.evictions() == [(5.0, "agent"), (5.0, "p")]
    assert run.deletions() == [(6.0, "a")]


# ── Latecomers ───────────────────────────────────────────────────────────────────────────────────────────────────


def late(**changes: Any) -> Run:
    """A drain of a node with one pod that takes its time, to which another pod comes."""
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.ends_after_s["uid-p"] = 20.0
    world.later(10.0, lambda: world.put(pod("late", "a", **changes)))
    return Run(world).begin("a").resume()


def test_a_pod_that_comes_while_the_node_drains_must_leave_too() -> None:
    run = late()
    assert run.evictions() == [(5.0, "p"), (10.0, "late")]
    assert run.deletions() == [(25.0, "a")]


def test_a_pod_that_comes_and_must_not_leave_gives_the_node_back() -> None:
    run = late(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"})
    assert run.evictions() == [(5.0, "p")]
    assert run.why("a") == "BlockedByPod"


def test_a_pod_that_comes_waits_for_its_budget() -> None:
    world = World([node("a"), node("b")], [pod("p", "a")])
    world.ends_after_s["uid-p"] = 40.0
    world.budgets["x"] = budget_of("x", 0)
    world.later(10.0, lambda: world.put(pod("late", "a", labels={"app": "x"})))
    world.later(20.0, lambda: world.budgets.update(x=budget_of("x", 1)))
    run = Run(world).begin("a").resume()
    assert run.evictions() == [(5.0, "p"), (20.0, "late")]
    assert run.deletions() == [(45.0, "a")]


def test_a_pod_that_tolerates_the_mark_is_left_to_end_with_the_node() -> None:
    run = late(spec=facts.PodSpec(tolerations=(facts.Toleration("", "Exists", "", ""),)))
    assert run.evictions() == [(5.0, "p")]
    assert run.deletions() == [(25.0, "a")]


def test_a_pod_that_comes_to_a_node_that_was_to_be_empty_gives_it_back() -> None:
    world = World([node("a", annotations={"delay-deletion.cluster-autoscaler.kubernetes.io/x": ""}), node("b")])
    world.later(10.0, lambda: world.put(pod("late", "a")))
    run = Run(world).begin("a", is_empty=True).resume()
    assert run.why("a") == "NotEmpty"
    assert run.deletions() == []


# ── Answers that take long ───────────────────────────────────────────────────────────────────────────────────────


def asked(world: World, *pods: facts.Pod) -> Run:
    """A drain whose pods were just asked to leave, and of which nothing was heard yet."""
    run = Run(world).begin("a").resume(until_s=4.9)
    world.move_to(START_S + 5.0)
    budgets = dict(world.budgets)
    run.ask()
    world.pods, world.budgets = {one.uid: one for one in pods}, budgets
    return run


def asked_alone() -> Run:
    only = pod("p", "a")
    return asked(World([node("a"), node("b")], [only]), only)


def probe(
    run: Run, after_s: float, evictions: EvictionState, refused: Sequence[str] = ()
) -> drain_loop.DrainLoopResult:
    """One look at it, so long after the start."""
    run.world.now_s = START_S + after_s
    failed: dict[plan.Instruction, str] = {
        plan.Evict("default", name, f"uid-{name}", 30.0, "a"): "429" for name in refused
    }
    observation = replace(run.world.observe(failed), evictions=evictions)
    answer = drain_loop.advance(observation, run.memory, run.settings, run.world.now_s)
    run.memory = answer.memory
    return answer


def answered(first_s: float, last_s: float) -> EvictionState:
    return EvictionState(answered={"uid-p": EvictionAnswer(START_S + first_s, START_S + last_s)})


def test_while_an_eviction_is_not_answered_it_is_not_repeated_and_no_deadline_runs() -> None:
    drain_loop_result = probe(asked_alone(), 1000.0, EvictionState(frozenset({"uid-p"})))
    assert (drain_loop_result.plan, [str(drain.phase) for drain in drain_loop_result.story]) == ((), ["evicting"])


def test_an_eviction_counts_from_its_answer() -> None:
    run = asked_alone()
    drain_loop_result = probe(run, 509.0, answered(500.0, 500.0))
    assert (drain_loop_result.plan, drain_loop_result.next_s) == ((), START_S + 510.0)
    drain_loop_result = probe(run, 510.0, answered(500.0, 500.0))
    assert [type(instruction) for instruction in drain_loop_result.plan] == [plan.Evict]


def test_each_pod_has_its_whole_time_from_its_first_answer() -> None:
    run = asked_alone()
    whys = [
        [drain.failure.why for drain in probe(run, at_s, answered(500.0, at_s - 1.0), ["p"]).story if drain.failure]
        for at_s in (501.0, 619.0, 620.0)
    ]
    assert whys == [[], [], [DrainFailureReason.EVICTION_REFUSED]]


def test_what_is_not_answered_yet_has_been_paid_for() -> None:
    pods = [pod("p", "a", labels={"app": "x"}), pod("q", "a", labels={"app": "x"})]
    world = World([node("a"), node("b")], pods)
    world.budgets["x"] = budget_of("x", 1)
    run = asked(world, *pods)
    ((_, first),) = run.evictions()
    assert probe(run, 1000.0, EvictionState(frozenset({f"uid-{first}"}))).plan == ()


@pytest.mark.parametrize("by_default", [True, False])
@pytest.mark.parametrize(("own", "expected"), [(None, None), ("true", True), ("false", False), ("yes", False)])
def test_a_pod_may_decide_for_itself(own: str | None, expected: bool | None, by_default: bool) -> None:
    annotations = {} if own is None else {eviction.ENABLE_DS_EVICTION: own}
    evicted = eviction.is_daemonset_pod_evicted(pod("p", "n", owner=AGENT, annotations=annotations), by_default)
    assert evicted is (by_default if expected is None else expected)
