"""Pods that two disruption budgets cover: the API never evicts them, so their nodes are not chosen."""

from dataclasses import replace

import pytest

from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    budget,
    decide_once,
    drained,
    group,
    node,
    observe,
    reasons,
    running,
)
from windlass.engine import drain_loop, taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation


def observe_covered(
    marked: bool = False, *budgets: facts.PodDisruptionBudget, refused: plan.Instruction | None = None
) -> Observation:
    """g-0 runs one pod that has room on h-0."""
    first, second = node("g-0"), node("h-0")
    if marked:
        first = replace(first, taints=(taints.make_to_be_deleted(NOW_S),), unschedulable=True)
    groups = [group("g", [first]), group("h", [second], min_size=1)]
    failed = {refused: "This pod has more than one PodDisruptionBudget"} if refused else {}
    return observe(groups, [first, second], [running("p", "g-0", 500)], budgets=budgets, failed=failed)


def play(settings: Settings, *budgets: facts.PodDisruptionBudget) -> list[str]:
    """What happens within a quarter of an hour, as the API server answers."""
    remembered, marked, refused, events = LoopMemory(), False, None, list[str]()
    for at_s in range(900):
        if at_s % 10 == 0:
            decision = decide_once(observe_covered(marked, *budgets), settings, remembered, NOW_S + at_s)
            remembered = decision.memory
            events += ["chosen"] * len(drained(decision))
        observation = observe_covered(marked, *budgets, refused=refused)
        advanced = drain_loop.advance(observation, remembered, settings, NOW_S + at_s)
        remembered, refused = advanced.memory, None
        for instruction in advanced.plan:
            match instruction:
                case plan.SetTaint(key=taints.TO_BE_DELETED_KEY):
                    marked = True
                case plan.RemoveTaint(key=taints.TO_BE_DELETED_KEY):
                    marked = False
                case plan.Evict():
                    refused = instruction
        events += [
            str(drain.failure.why) for drain in advanced.story if drain.failure and drain.failure.at_s == NOW_S + at_s
        ]
    return events


def test_a_node_is_never_chosen_for_a_pod_that_two_budgets_cover() -> None:
    settings = at_once(WINDLASS)
    assert play(settings, budget(1, "one"), budget(1, "two")) == []


def test_the_reason_names_both() -> None:
    decision = decide_once(observe_covered(False, budget(1, "one"), budget(1, "two")), at_once(WINDLASS))
    assert reasons(decision)["g-0"] is UnremovableReason.BLOCKED_BY_POD
    (kept,) = [item for item in decision.story.scale_down.look.kept if item.node_name == "g-0"]  # type: ignore[union-attr]
    blocking = kept.removal.moves.blocking if kept.removal else None
    assert blocking is not None
    assert "one, two" in blocking.outcome.text(decision.evaluated.snapshot.pod(blocking.pod))


def test_the_peer_chooses_it_again_and_again() -> None:
    assert play(at_once(PEER), budget(1, "one"), budget(1, "two"))[:3] == [
        "chosen",
        str(DrainFailureReason.EVICTION_REFUSED),
        "chosen",
    ]


@pytest.mark.parametrize("settings", [PEER, WINDLASS], ids=["peer", "windlass"])
def test_a_pod_under_one_budget_that_allows_it_goes(settings: Settings) -> None:
    decision = decide_once(observe_covered(False, budget(1, "one")), at_once(settings))
    assert drained(decision) == ["g-0"]


def test_a_budget_that_came_while_its_node_was_marked_gives_the_node_back() -> None:
    settings = at_once(WINDLASS)
    decision = decide_once(observe_covered(False, budget(1, "one")), settings)
    budgets = (budget(1, "one"), budget(1, "two"))
    remembered = drain_loop.advance(observe_covered(False, *budgets), decision.memory, settings, NOW_S + 1).memory
    remembered = drain_loop.advance(observe_covered(True, *budgets), remembered, settings, NOW_S + 2).memory
    advanced = drain_loop.advance(observe_covered(True, *budgets), remembered, settings, NOW_S + 8)
    assert [drain.failure.why for drain in advanced.story if drain.failure] == [DrainFailureReason.BLOCKED_BY_POD]
    assert not any(isinstance(instruction, plan.Evict) for instruction in advanced.plan)
