"""With --scale-up-from-zero=false a cluster without ready nodes is left alone."""

from typing import Any

import pytest

from tests.engine.loop.builders import (
    BOTH,
    NOT_READY,
    NOW_S,
    choose,
    decide_once,
    group,
    node,
    observe,
    pending,
    result,
    sizes,
)
from windlass.engine import loop_memory
from windlass.engine.loop import Decision
from windlass.engine.model.decision_record import LoopStop, ScaleDownResult
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.kube.events import InvolvedObject
from windlass.observability import object_events, status_configmap

behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])
STATUS = InvolvedObject("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")


def off(settings: Settings) -> Settings:
    return choose(settings, "scale_up", scale_up_from_zero=False)


def events_of(decision: Decision, now_s: float) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in object_events.health_events(decision.story, STATUS, now_s)]


def with_node(**changes: Any) -> Observation:
    only = node("g-0", **changes)
    return observe([group("g", [only])], [only], [pending("p", cpu=4000)])


@behaviors
def test_an_empty_cluster_is_left_empty(settings: Settings) -> None:
    observation = observe([group("g")], [], [pending("p")])
    assert sizes(decide_once(observation, settings)) == {"g": 1}
    decision = decide_once(observation, off(settings))
    assert decision.plan == ()
    assert result(decision) is ScaleUpResult.NOT_TRIED
    assert decision.story.scale_down.result is ScaleDownResult.NOT_TRIED
    assert events_of(decision, NOW_S) == [("ClusterUnhealthy", "Cluster has no nodes.")]


@behaviors
@pytest.mark.parametrize("changes", [{"conditions": NOT_READY}, {"unschedulable": True}], ids=["unready", "cordoned"])
def test_a_cluster_without_a_ready_node_is_left_alone(settings: Settings, changes: dict[str, object]) -> None:
    decision = decide_once(with_node(**changes), off(settings))
    assert decision.plan == ()
    assert decision.story.repairs.stop is LoopStop.NO_READY_NODES_YET
    assert events_of(decision, NOW_S) == []


@behaviors
def test_an_event_tells_of_it_ten_minutes_after_the_start(settings: Settings) -> None:
    observation, before = with_node(conditions=NOT_READY), loop_memory.LoopMemory()
    told = {}
    for t in (0.0, 300.0, 600.0, 601.0):
        decision = decide_once(observation, off(settings), before, NOW_S + t)
        before, told[t] = decision.memory, events_of(decision, NOW_S + t)
    assert told == {0.0: [], 300.0: [], 600.0: [], 601.0: [("ClusterUnhealthy", "Cluster has no ready nodes.")]}


@behaviors
def test_one_ready_node_is_enough(settings: Settings) -> None:
    assert sizes(decide_once(with_node(), off(settings))) == sizes(decide_once(with_node(), settings))


@behaviors
def test_timers_of_unneeded_nodes_are_dropped_and_those_of_groups_kept(settings: Settings) -> None:
    idle = node("g-0")
    before = decide_once(observe([group("g", [idle])], [idle]), off(settings)).memory
    assert before.durable.scale_down.since
    asleep = node("g-0", conditions=NOT_READY)
    after = decide_once(observe([group("g", [asleep])], [asleep]), off(settings), before, NOW_S + 10.0).memory
    assert not after.durable.scale_down.since
    assert after.durable.health == before.durable.health


def test_the_status_says_that_it_waits() -> None:
    observation = observe([group("g")], [], [pending("p")])
    decision = decide_once(observation, off(Settings()))
    autoscaler_status = status_configmap.build_cluster_status(
        DecisionView(decision), PlanResult(), status_configmap.initial_status(NOW_S), NOW_S
    )
    assert (autoscaler_status.cluster, autoscaler_status.message) == (None, "Cluster has no nodes.")
