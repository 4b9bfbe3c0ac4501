"""Helping pending pods: who still needs help, when to wait, and one loop for pods that need different groups."""

from dataclasses import replace

import pytest

from tests.engine.loop.builders import (
    AGENT,
    BOTH,
    FULL_CPU,
    NOW_S,
    PEER,
    WINDLASS,
    choose,
    decide_once,
    group,
    node,
    nodes,
    observe,
    pending,
    result,
    running,
    sizes,
)
from windlass.engine import loop_memory
from windlass.engine.cluster_state import scale_requests
from windlass.engine.model import cluster_health, durable_memory, facts, node_groups
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings

both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


def zone(name: str) -> dict[str, object]:
    return {"node_selector": ((facts.ZONE, name),)}


def in_zone(id: str, name: str) -> node_groups.NodeGroup:
    return group(id, template=node("t", labels={facts.ZONE: name}))


# ── Who needs help ───────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_pods_that_have_room_already_need_no_node(settings: Settings) -> None:
    present = nodes("g", 1)
    decision = decide_once(observe([group("g", present)], present, [pending("p", FULL_CPU)]), settings)
    assert (result(decision), sizes(decision)) == (ScaleUpResult.NOT_NEEDED, {})


@both
def test_room_that_is_on_its_way_counts(settings: Settings) -> None:
    asked = scale_requests.register_scale_up(cluster_health.ScaleRequests(), "g", 1, NOW_S - 60, 900)
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(1, cluster_health.HealthMemory(asked)))
    observation = observe([group("g", target=1)], pods=[pending("p", FULL_CPU)])
    assert result(decide_once(observation, settings, before)) is ScaleUpResult.NOT_NEEDED
    two = observe([group("g", target=1)], pods=[pending("p", FULL_CPU), pending("q", FULL_CPU)])
    assert sizes(decide_once(two, settings, before)) == {"g": 2}


def test_nodes_that_someone_else_asked_for_are_awaited_by_windlass_only() -> None:
    present = nodes("g", 1)
    full = running("full", "g-0", FULL_CPU)
    raised = observe([group("g", present, target=2)], present, [full, pending("p", FULL_CPU)])
    for settings, expected in ((PEER, {"g": 3}), (WINDLASS, {})):
        before = decide_once(observe([group("g", present)], present, [full]), settings, now_s=NOW_S - 10).memory
        assert sizes(decide_once(raised, settings, before)) == expected


@both
def test_a_cordoned_node_has_no_room(settings: Settings) -> None:
    present = nodes("g", 1, unschedulable=True)
    observation = observe([group("g", present)], present, [pending("p", 100)])
    assert sizes(decide_once(observation, settings)) == {"g": 2}


@both
def test_pods_of_daemonsets_trigger_nothing(settings: Settings) -> None:
    observation = observe([group("g")], pods=[pending("agent", 100, owner=AGENT)])
    assert result(decide_once(observation, settings)) is ScaleUpResult.NOT_NEEDED


@both
def test_pods_below_the_cutoff_neither_trigger_a_scale_up_nor_keep_room(settings: Settings) -> None:
    present = nodes("g", 1)
    filler = running("filler", "g-0", FULL_CPU, spec={"priority": -11})
    worthless = pending("worthless", FULL_CPU, spec={"priority": -11})
    groups = [group("g", present)]
    assert result(decide_once(observe(groups, present, [filler, worthless]), settings)) is ScaleUpResult.NOT_NEEDED
    assert (
        result(decide_once(observe(groups, present, [filler, pending("p", FULL_CPU)]), settings))
        is ScaleUpResult.NOT_NEEDED
    )
    kept = running("filler", "g-0", FULL_CPU, spec={"priority": -10})
    assert sizes(decide_once(observe(groups, present, [kept, pending("p", FULL_CPU)]), settings)) == {"g": 2}


@both
def test_a_pod_that_others_are_preempted_for_counts_where_it_is_promised(settings: Settings) -> None:
    present = nodes("g", 1)
    promised = pending("promised", FULL_CPU, nominated_node="g-0")
    alone = observe([group("g", present)], present, [promised])
    assert result(decide_once(alone, settings)) is ScaleUpResult.NOT_NEEDED
    beside = observe([group("g", present)], present, [promised, pending("p", FULL_CPU)])
    assert sizes(decide_once(beside, settings)) == {"g": 2}


@both
def test_daemonset_pods_take_their_part_of_a_new_node(settings: Settings) -> None:
    agent = node_groups.DaemonSet("default", "agent", "uid-agent", running("agent", "", FULL_CPU // 2, owner=AGENT))
    pods = [pending(f"p{number}", FULL_CPU // 2) for number in range(4)]
    assert sizes(decide_once(observe([group("g")], pods=pods), settings)) == {"g": 2}
    assert sizes(decide_once(observe([group("g")], pods=pods, daemon_sets=(agent,)), settings)) == {"g": 4}


# ── When to wait ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_peer_waits_until_the_oldest_pod_is_two_seconds_old() -> None:
    for age_s, expected in ((1.9, ScaleUpResult.IN_COOLDOWN), (2.0, ScaleUpResult.SUCCESSFUL)):
        assert result(decide_once(observe([group("g")], pods=[pending("p", age_s=age_s)]), PEER)) is expected


def test_windlass_waits_until_no_pod_has_come_for_a_fifth_of_a_second() -> None:
    for age_s, expected in ((0.125, ScaleUpResult.IN_COOLDOWN), (0.25, ScaleUpResult.SUCCESSFUL)):
        assert result(decide_once(observe([group("g")], pods=[pending("p", age_s=age_s)]), WINDLASS)) is expected


def test_windlass_waits_for_a_wave_no_longer_than_ten_seconds() -> None:
    coming = [pending("first", age_s=9.9), pending("last", age_s=0.05)]
    assert result(decide_once(observe([group("g")], pods=coming), WINDLASS)) is ScaleUpResult.IN_COOLDOWN
    assert (
        result(decide_once(observe([group("g")], pods=coming), WINDLASS, now_s=NOW_S + 0.1)) is ScaleUpResult.SUCCESSFUL
    )


@both
def test_nobody_waits_for_pods_of_schedulers_that_are_bypassed(settings: Settings) -> None:
    chosen = choose(settings, "pods", bypassed_scheduler_names=("mine",))
    young = pending("p", age_s=0.1, scheduler="mine", unschedulable_since_s=None)
    assert result(decide_once(observe([group("g")], pods=[young]), chosen)) is ScaleUpResult.SUCCESSFUL
    assert result(decide_once(observe([group("g")], pods=[young]), settings)) is ScaleUpResult.NOT_NEEDED


# ── Several groups ───────────────────────────────────────────────────────────────────────────────────────────────


def two_zones() -> tuple[list[node_groups.NodeGroup], list[facts.Pod]]:
    pods = [pending(f"p-{name}-{number}", FULL_CPU, spec=zone(name)) for name in ("z0", "z1") for number in range(2)]
    return [in_zone("a", "z0"), in_zone("b", "z1")], pods


def test_windlass_serves_pods_that_need_different_groups_in_one_loop() -> None:
    groups, pods = two_zones()
    decision = decide_once(observe(groups, pods=pods), WINDLASS)
    assert sizes(decision) == {"a": 2, "b": 2}
    assert sum(len(proposal.helped) for proposal in decision.story.scale_ups) == 4


def test_the_peer_serves_one_group_in_a_loop_unless_it_repeats() -> None:
    groups, pods = two_zones()
    observation = observe(groups, pods=pods)
    decision = decide_once(observation, PEER)
    assert len(sizes(decision)) == 1
    assert len(decision.story.scale_ups[0].awaiting) == 2
    assert sizes(decide_once(observation, choose(PEER, "scale_up", salvo_scale_up=True))) == {"a": 2, "b": 2}


def test_what_one_round_asks_for_is_there_for_the_next() -> None:
    """The first node has room for the second kind of pod, which needs none of its own."""
    groups = [in_zone("a", "z0")]
    pods = [pending("large", FULL_CPU - 500), pending("small", 400, spec=zone("z0"))]
    assert sizes(decide_once(observe(groups, pods=pods), WINDLASS)) == {"a": 1}


def test_rounds_together_stay_within_the_clusters_limits() -> None:
    groups, pods = two_zones()
    settings = choose(WINDLASS, "limits", max_nodes_total=3)
    assert sum(sizes(decide_once(observe(groups, pods=pods), settings)).values()) == 3


def test_pods_that_no_round_can_help_do_not_keep_the_others_from_being_helped() -> None:
    groups, pods = two_zones()
    decision = decide_once(observe(groups, pods=[*pods, pending("huge", 10 * FULL_CPU)]), WINDLASS)
    assert sizes(decision) == {"a": 2, "b": 2}
    assert [equivalence_group.pod.name for equivalence_group in decision.story.scale_ups[-1].remaining] == ["huge"]


@pytest.mark.parametrize("refusing", ["a", "b"])
def test_a_group_that_refuses_keeps_no_other_from_being_raised(refusing: str) -> None:
    groups, pods = two_zones()
    decision = decide_once(
        observe(groups, pods=pods, refused={refusing: node_groups.InstanceError("Other", "x")}), WINDLASS
    )
    assert sizes(decision) == {"b" if refusing == "a" else "a": 2}
    assert set(decision.memory.durable.health.backoffs) == {refusing}


@both
def test_a_scale_up_is_not_asked_for_again_while_its_nodes_come(settings: Settings) -> None:
    observation = observe([group("g")], pods=[pending("p", FULL_CPU)])
    before = decide_once(observation, settings).memory
    after = replace(observation, groups=(group("g", target=1),))
    assert sizes(decide_once(after, settings, before, NOW_S + 10)) == {}


@both
def test_a_group_whose_nodes_did_not_come_backs_off(settings: Settings) -> None:
    observation = observe([group("g")], pods=[pending("p", FULL_CPU)])
    before = decide_once(observation, settings).memory
    after = replace(observation, groups=(group("g", target=1),))
    late = decide_once(after, settings, before, NOW_S + 901)
    assert "g" in late.memory.durable.health.backoffs
    assert sizes(late) == {}
