"""Cluster API's label cluster.x-k8s.io/drain, in loops: heeded by windlass, not by Cluster Autoscaler."""

from collections.abc import Mapping
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
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.facts import DrainBehavior
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, nodes
from windlass.explain.nodes import PodDisposition

SKIP: dict[str, Any] = {"drain_behavior": DrainBehavior.SKIP}
WAIT: dict[str, Any] = {"drain_behavior": DrainBehavior.WAIT_COMPLETED}
NOT_SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
DO_NOT_DISRUPT = {"karpenter.sh/do-not-disrupt": "true"}


def observe_pods(*pods: facts.Pod, marked: bool = False, free: int = 4000, **more: Any) -> Observation:
    """Pods on g-0; h-0 has so much room."""
    first, second = node("g-0"), node("h-0", cpu=free)
    if marked:
        first = replace(first, taints=(taints.make_to_be_deleted(NOW_S),), unschedulable=True)
    groups = [group("g", [first]), group("h", [second], min_size=1)]
    return observe(groups, [first, second], pods, **more)


def evict_all(settings: Settings, *pods: facts.Pod) -> drain_loop.DrainLoopResult:
    """g-0 is chosen with these pods on it, marked and checked: what is asked for then."""
    remembered = decide_once(observe_pods(*pods), settings).memory
    assert "g-0" in remembered.durable.drains
    for at_s in (1.0, 2.0):
        observation = observe_pods(*pods, marked=at_s > 1.0)
        remembered = drain_loop.advance(observation, remembered, settings, NOW_S + at_s).memory
    return drain_loop.advance(observe_pods(*pods, marked=True), remembered, settings, NOW_S + 8.0)


def list_evicted(advanced: drain_loop.DrainLoopResult) -> list[str]:
    return sorted(instruction.name for instruction in advanced.plan if isinstance(instruction, plan.Evict))


@pytest.mark.parametrize(
    "pod",
    [{}, {"owner": None}, {"spec": {"volumes": (facts.Volume("scratch", "emptyDir"),)}}],
    ids=["plain", "without a controller", "with local storage"],
)
def test_a_pod_to_skip_keeps_no_node(pod: Mapping[str, Any]) -> None:
    guarded = (budget(0),)
    skipped, other = running("p", "g-0", **pod, **SKIP), running("p", "g-0", **pod)
    assert drained(decide_once(observe_pods(skipped, budgets=guarded), at_once(WINDLASS))) == ["g-0"]
    assert drained(decide_once(observe_pods(skipped, budgets=guarded), at_once(PEER))) == []
    assert drained(decide_once(observe_pods(other, budgets=guarded), at_once(WINDLASS))) == []


@pytest.mark.parametrize("annotations", [NOT_SAFE, DO_NOT_DISRUPT], ids=["not safe to evict", "do not disrupt"])
@pytest.mark.parametrize("label", [SKIP, WAIT], ids=["skip", "wait-completed"])
def test_a_pod_that_must_stay_keeps_its_node_whatever_its_label_says(
    annotations: Mapping[str, str], label: Mapping[str, Any]
) -> None:
    decision = decide_once(observe_pods(running("p", "g-0", annotations=annotations, **label)), at_once(WINDLASS))
    assert (drained(decision), reasons(decision)["g-0"]) == ([], UnremovableReason.BLOCKED_BY_POD)


def test_a_pod_to_skip_needs_room_elsewhere() -> None:
    """Its controller starts it again: without room a node would be added for it, and go, for ever."""
    decision = decide_once(observe_pods(running("p", "g-0", 600, **SKIP), free=500), at_once(WINDLASS))
    assert (drained(decision), reasons(decision)["g-0"]) == ([], UnremovableReason.NO_PLACE_TO_MOVE_PODS)


@pytest.mark.parametrize(
    ("settings", "evicted"), [(WINDLASS, ["other"]), (PEER, ["other", "skipped"])], ids=["windlass", "peer"]
)
def test_a_pod_to_skip_is_not_evicted_and_not_waited_for(settings: Settings, evicted: list[str]) -> None:
    pods = [running("other", "g-0"), running("skipped", "g-0", **SKIP)]
    advanced = evict_all(at_once(settings), *pods)
    assert list_evicted(advanced) == evicted
    if settings is WINDLASS:
        left = observe_pods(pods[1], marked=True)
        gone = drain_loop.advance(left, advanced.memory, at_once(settings), NOW_S + 20.0)
        assert plan.DeleteNode in map(type, gone.plan)


def test_a_node_waits_for_a_pod_to_finish_and_goes_then() -> None:
    pod = running("p", "g-0", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, **WAIT)
    observation = observe_pods(pod)
    first = decide_once(observation, at_once(WINDLASS))
    assert (drained(first), reasons(first)["g-0"]) == ([], UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD)
    observation.snapshot.add_pod(replace(pod, phase="Succeeded"))
    assert drained(decide_once(observation, at_once(WINDLASS), first.memory, NOW_S + 1.0)) == ["g-0"]
    assert drained(decide_once(observe_pods(pod), at_once(PEER))) == ["g-0"]


@pytest.mark.parametrize("value", [True, False])
def test_the_flag_alone_decides(value: bool) -> None:
    settings = choose(at_once(PEER), "deviations", respect_machine_drain_rules=value)
    assert drained(decide_once(observe_pods(running("p", "g-0", owner=None, **SKIP)), settings)) == ["g-0"] * value


def test_a_pod_that_is_labelled_during_the_drain_is_waited_for_and_then_the_node_is_given_back() -> None:
    settings = choose(at_once(WINDLASS), "drain", max_pod_eviction_time_s=120.0)
    pod = running("p", "g-0")
    remembered = decide_once(observe_pods(pod), settings).memory
    for at_s in (1.0, 2.0):
        observation = observe_pods(pod, marked=at_s > 1.0)
        remembered = drain_loop.advance(observation, remembered, settings, NOW_S + at_s).memory
    # The first eviction is refused, the label comes before the next attempt.
    asked = drain_loop.advance(observe_pods(pod, marked=True), remembered, settings, NOW_S + 8.0)
    (order,) = [instruction for instruction in asked.plan if isinstance(instruction, plan.Evict)]
    labelled, remembered, failures = replace(pod, drain_behavior=DrainBehavior.WAIT_COMPLETED), asked.memory, []
    for after_s in range(10, 200, 10):
        failed = {order: "no"} if after_s == 10 else {}
        observation = observe_pods(labelled, marked=True, failed=failed)
        advanced = drain_loop.advance(observation, remembered, settings, NOW_S + 8.0 + after_s)
        remembered = advanced.memory
        assert not list_evicted(advanced)
        failures += [drain.failure for drain in advanced.story if drain.failure]
    assert failures[0].why is DrainFailureReason.EVICTION_REFUSED
    assert "is labelled cluster.x-k8s.io/drain=wait-completed" in failures[0].details[0]


@pytest.mark.parametrize(
    ("label", "fate", "said"),
    [
        (SKIP, PodDisposition.MOVES, "drain=skip: it is not evicted"),
        (WAIT, PodDisposition.FINISHES, "drain=wait-completed and is left"),
    ],
    ids=["skip", "wait-completed"],
)
def test_explain_names_the_label(label: Mapping[str, Any], fate: PodDisposition, said: str) -> None:
    at = explain_context.evaluate(
        observe_pods(running("p", "g-0", **label)), loop_memory.LoopMemory(), at_once(WINDLASS), NOW_S
    )
    (pod_on_removal,) = nodes.explain_node(at, "g-0").pods
    assert pod_on_removal.fate is fate
    assert said in pod_on_removal.why
