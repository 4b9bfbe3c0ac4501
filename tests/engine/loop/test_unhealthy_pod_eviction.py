"""Pods that the API evicts in spite of a disruption budget do not keep their nodes, and are not charged to it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    reasons,
    running,
)
from windlass.engine import drain_loop, loop_memory, taints
from windlass.engine.model import facts, plan
from windlass.engine.model.facts import PodHealth
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, nodes
from windlass.explain.nodes import PodDisposition

GUARDED = budget(0)
LENIENT = replace(GUARDED, allows_unhealthy=True)


def observe_pods(*pods: facts.Pod, budgets: tuple[facts.PodDisruptionBudget, ...], marked: bool = False) -> Observation:
    """Pods on g-0 that have room on h-0."""
    first, second = node("g-0"), node("h-0")
    if marked:
        first = replace(first, taints=(taints.make_to_be_deleted(NOW_S),), unschedulable=True)
    groups = [group("g", [first]), group("h", [second], min_size=1)]
    return observe(groups, [first, second], pods, budgets=budgets)


def pod(health: PodHealth, name: str = "p", **fields: Any) -> facts.Pod:
    return running(name, "g-0", health=health, **fields)


@pytest.mark.parametrize(
    ("found", "budgets", "goes"),
    [
        (pod(PodHealth.READY), (LENIENT,), False),
        (pod(PodHealth.UNREADY), (LENIENT,), True),
        (pod(PodHealth.UNREADY), (GUARDED,), False),
        (pod(PodHealth.NOT_STARTED), (GUARDED,), True),
        (pod(PodHealth.READY, deleted_s=NOW_S - 1.0, grace_s=600.0), (GUARDED,), True),
        (pod(PodHealth.UNREADY), (LENIENT, replace(LENIENT, name="other")), False),
        (pod(PodHealth.NOT_STARTED), (GUARDED, replace(GUARDED, name="other")), True),
    ],
    ids=[
        "ready", "unready", "unready and too few healthy", "not started", "terminating", "unready under two budgets",
        "not started under two budgets",
    ],
)  # fmt: skip
def test_a_node_goes_if_the_api_would_evict_its_pod(
    found: facts.Pod, budgets: tuple[facts.PodDisruptionBudget, ...], goes: bool
) -> None:
    decision = decide_once(observe_pods(found, budgets=budgets), at_once(WINDLASS))
    assert drained(decision) == (["g-0"] if goes else [])
    if not goes:
        assert reasons(decision)["g-0"] is UnremovableReason.BLOCKED_BY_POD


@pytest.mark.parametrize("health", PodHealth)
def test_cluster_autoscaler_keeps_every_pod_under_an_exhausted_budget(health: PodHealth) -> None:
    decision = decide_once(observe_pods(pod(health), budgets=(LENIENT,)), at_once(PEER))
    assert drained(decision) == []


@pytest.mark.parametrize("settings", [WINDLASS, PEER], ids=["windlass", "cluster-autoscaler"])
def test_the_flag_alone_decides(settings: Settings) -> None:
    wanted = not settings.deviations.respect_unhealthy_pod_eviction_policy
    changed = choose(at_once(settings), "deviations", respect_unhealthy_pod_eviction_policy=wanted)
    assert drained(decide_once(observe_pods(pod(PodHealth.UNREADY), budgets=(LENIENT,)), changed)) == ["g-0"] * wanted


@pytest.mark.parametrize(("health", "gone"), [(PodHealth.UNREADY, ["g-0", "g-1"]), (PodHealth.READY, ["g-0"])])
def test_unhealthy_pods_take_nothing_from_a_budget_that_others_need(health: PodHealth, gone: list[str]) -> None:
    """Two nodes, one disruption: an unready pod of the first leaves it to the ready pod of the second."""
    found = [node("g-0"), node("g-1"), node("h-0")]
    groups = [group("g", found[:2]), group("h", found[2:], min_size=1)]
    pods = [running("first", "g-0", health=health), running("second", "g-1")]
    one_left = replace(budget(1), allows_unhealthy=True)
    settings = choose(at_once(WINDLASS), "scale_down", max_drain_parallelism=10)
    decision = decide_once(observe(groups, found, pods, budgets=(one_left,)), settings)
    assert sorted(drained(decision)) == gone


def test_a_pod_that_recovers_while_its_node_is_marked_gives_the_node_back() -> None:
    settings = at_once(WINDLASS)
    remembered = decide_once(observe_pods(pod(PodHealth.UNREADY), budgets=(LENIENT,)), settings).memory
    recovered = observe_pods(pod(PodHealth.READY), budgets=(LENIENT,), marked=True)
    ordered: list[plan.Instruction] = []
    for at_s in (1.0, 2.0, 8.0, 20.0):
        advanced = drain_loop.advance(recovered, remembered, settings, NOW_S + at_s)
        remembered = advanced.memory
        ordered += advanced.plan
    assert not any(isinstance(instruction, plan.Evict) for instruction in ordered)
    assert plan.RemoveTaint in map(type, ordered)


@pytest.mark.parametrize("settings", [WINDLASS, PEER], ids=["windlass", "cluster-autoscaler"])
def test_a_drain_evicts_what_the_api_lets_go_and_nothing_else(settings: Settings) -> None:
    """The budget is spent by others while the node is marked and its pods are being asked to leave."""
    both = [pod(PodHealth.UNREADY, "broken"), pod(PodHealth.READY, "whole")]
    plenty, spent = replace(budget(2), allows_unhealthy=True), LENIENT
    decision = decide_once(observe_pods(*both, budgets=(plenty,)), at_once(settings))
    assert drained(decision) == ["g-0"]
    remembered = decision.memory
    for at_s in (1.0, 2.0):
        observation = observe_pods(*both, budgets=(plenty,), marked=at_s > 1.0)
        remembered = drain_loop.advance(observation, remembered, at_once(settings), NOW_S + at_s).memory
    # Checked, and one turn later the budget is spent: eviction begins with what is left of it.
    checked = drain_loop.advance(
        observe_pods(*both, budgets=(replace(plenty, disruptions_allowed=1),), marked=True),
        remembered, at_once(settings), NOW_S + 8.0,
    )  # fmt: skip
    assert sorted(instruction.name for instruction in checked.plan if isinstance(instruction, plan.Evict)) == [
        "broken",
        "whole",
    ]
    later = drain_loop.advance(
        observe_pods(*both, budgets=(spent,), marked=True), checked.memory, at_once(settings), NOW_S + 30.0
    )
    assert [one.name for one in later.plan if isinstance(one, plan.Evict)] == ["broken"]


def test_a_change_of_health_ends_a_decision_that_stands() -> None:
    observation = observe_pods(pod(PodHealth.READY), budgets=(LENIENT,))
    first = decide_once(observation, at_once(WINDLASS))
    assert drained(first) == []
    observation.snapshot.set_health("uid-p", PodHealth.UNREADY)
    assert drained(decide_once(observation, at_once(WINDLASS), first.memory, NOW_S + 1.0)) == ["g-0"]


@pytest.mark.parametrize(
    ("found", "covering", "fate", "said"),
    [
        (
            pod(PodHealth.UNREADY),
            (LENIENT,),
            PodDisposition.MOVES,
            "is not Ready: the API evicts it although disruption budget",
        ),
        (pod(PodHealth.NOT_STARTED), (GUARDED, replace(GUARDED, name="two")), PodDisposition.MOVES, "more than one"),
        (pod(PodHealth.NOT_STARTED), (GUARDED,), PodDisposition.MOVES, "has not started: the API evicts it"),
        (
            pod(PodHealth.UNREADY),
            (GUARDED,),
            PodDisposition.STAYS,
            "with unhealthyPodEvictionPolicy: AlwaysAllow it would let this",
        ),
        (pod(PodHealth.READY), (LENIENT,), PodDisposition.STAYS, "which allows no disruption now"),
    ],
    ids=["unready", "not started under two budgets", "not started", "too few healthy", "ready"],
)
def test_explain_says_why_a_pod_may_go_or_what_would_let_it(
    found: facts.Pod, covering: tuple[facts.PodDisruptionBudget, ...], fate: PodDisposition, said: str
) -> None:
    at = explain_context.evaluate(
        observe_pods(found, budgets=covering), loop_memory.LoopMemory(), at_once(WINDLASS), NOW_S
    )
    (pod_on_removal,) = nodes.explain_node(at, "g-0").pods
    assert pod_on_removal.fate is fate
    assert said in pod_on_removal.why
