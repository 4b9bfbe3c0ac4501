"""What users were promised of a cluster autoscaler, one test for each promise, by whole decisions."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop.builders import (
    AGENT,
    BOTH,
    FULL_CPU,
    NOT_READY,
    NOW_S,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_at,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    reasons,
    result,
    running,
    sizes,
)
from windlass.engine.cluster_state import backoff
from windlass.engine.drainability.local_storage import SAFE_TO_EVICT_LOCAL_VOLUMES
from windlass.engine.model import decision_record, facts, node_groups, plan, well_known
from windlass.engine.model.decision_record import ScaleDownResult
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings

both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


# ── When the cluster grows ───────────────────────────────────────────────────────────────────────────────────────


@both
def test_the_cluster_grows_only_for_pods_that_the_scheduler_found_unschedulable(settings: Settings) -> None:
    unlooked = pending("p", FULL_CPU, unschedulable_since_s=None)
    assert sizes(decide_once(observe([group("g")], pods=[unlooked]), settings)) == {}
    assert sizes(decide_once(observe([group("g")], pods=[pending("p", FULL_CPU)]), settings)) == {"g": 1}


@both
def test_the_cluster_does_not_grow_where_no_new_node_would_help(settings: Settings) -> None:
    decision = decide_once(observe([group("g")], pods=[pending("p", FULL_CPU + 1)]), settings)
    assert (result(decision), sizes(decision)) == (ScaleUpResult.NO_OPTIONS, {})


@both
def test_a_new_node_is_like_those_that_the_group_has(settings: Settings) -> None:
    present = nodes("g", 1, cpu=1000)
    groups = [group("g", present, template=node("t", cpu=64_000))]
    assert sizes(decide_once(observe(groups, present, [pending("p", 2000)]), settings)) == {}


@both
def test_a_group_grows_from_zero(settings: Settings) -> None:
    assert sizes(decide_once(observe([group("g")], pods=[pending("p")]), settings)) == {"g": 1}


@both
def test_nodes_that_do_not_register_in_fifteen_minutes_are_given_up_and_another_group_is_tried(
    settings: Settings,
) -> None:
    pods = [pending("p", FULL_CPU)]
    ((first, _),) = sizes(decide_once(observe([group("a"), group("b")], pods=pods), settings)).items()
    before = decide_once(observe([group("a"), group("b")], pods=pods), settings).memory
    stuck = [node_groups.Instance(f"id://{first}-0", "Creating")]
    groups = [group(item, target=1, instances=stuck) if item == first else group(item) for item in "ab"]
    observation = observe(groups, pods=pods)
    waiting = decide_once(observation, settings, before, NOW_S + 10)
    assert (sizes(waiting), waiting.story.upcoming) == ({}, {first: 1})
    late = decide_once(observation, settings, waiting.memory, NOW_S + 10 + 901)
    deletions = [instruction for instruction in late.plan if isinstance(instruction, plan.DeleteInstances)]
    assert [delete_instances.provider_ids for delete_instances in deletions] == [(f"id://{first}-0",)]
    assert first not in late.story.upcoming
    if settings is WINDLASS:
        assert sizes(late) == {"b" if first == "a" else "a": 1}


@both
def test_a_group_whose_scale_up_failed_backs_off_for_five_minutes(settings: Settings) -> None:
    error = node_groups.InstanceError("OutOfResources", "STOCKOUT")
    pods = [pending("p", FULL_CPU)]
    failed = decide_once(observe([group("g")], pods=pods, refused={"g": error}), settings)
    observation = observe([group("g")], pods=pods)
    assert sizes(decide_once(observation, settings, failed.memory, NOW_S + 300)) == {}
    assert sizes(decide_once(observation, settings, failed.memory, NOW_S + 300.5)) == {"g": 1}
    assert backoff.find_backoff(failed.memory.durable.health.backoffs, "g", NOW_S) is not None


@both
def test_pods_younger_than_the_delay_are_ignored_and_an_annotation_can_raise_it(settings: Settings) -> None:
    chosen = choose(settings, "pods", new_pod_scale_up_delay_s=30.0)
    for age_s, own_s, expected in (
        (29.0, None, {}),
        (31.0, None, {"g": 1}),
        (31.0, 600.0, {}),
        (601.0, 600.0, {"g": 1}),
    ):
        young = pending("p", FULL_CPU, age_s=age_s, scale_up_delay_s=own_s)
        assert sizes(decide_once(observe([group("g")], pods=[young]), chosen)) == expected


# ── Priorities ───────────────────────────────────────────────────────────────────────────────────────────────────


@both
@pytest.mark.parametrize(("priority", "grows"), [(-11, False), (-10, True), (None, True)])
def test_pods_below_the_priority_cutoff_trigger_no_scale_up(
    settings: Settings, priority: int | None, grows: bool
) -> None:
    waiting = pending("p", FULL_CPU, spec={"priority": priority})
    assert bool(sizes(decide_once(observe([group("g")], pods=[waiting]), settings))) is grows


@both
@pytest.mark.parametrize(("priority", "goes"), [(-11, True), (-10, False)])
def test_pods_below_the_priority_cutoff_keep_no_node(settings: Settings, priority: int, goes: bool) -> None:
    present = nodes("g", 1)
    observation = observe([group("g", present)], present, [running("p", "g-0", spec={"priority": priority})])
    assert bool(drained(decide_once(observation, at_once(settings)))) is goes


@both
def test_a_pod_that_waits_for_a_preemption_triggers_no_scale_up(settings: Settings) -> None:
    present = nodes("g", 1)
    full = running("full", "g-0", FULL_CPU)
    promised = pending("p", FULL_CPU, nominated_node="g-0", spec={"priority": 1000})
    assert sizes(decide_once(observe([group("g", present)], present, [full, promised]), settings)) == {}


# ── When it shrinks ──────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_a_node_must_be_found_unneeded_every_time_for_ten_minutes(settings: Settings) -> None:
    present = nodes("g", 1)
    empty = observe([group("g", present)], present)
    busy = observe([group("g", present)], present, [running("p", "g-0", FULL_CPU)])
    before = decide_once(empty, settings).memory
    interrupted = decide_once(busy, settings, before, NOW_S + 300).memory
    assert drained(decide_once(empty, settings, interrupted, NOW_S + 700)) == []
    assert drained(decide_once(empty, settings, before, NOW_S + 700)) == ["g-0"]


@both
def test_a_threshold_of_zero_keeps_nodes_that_are_not_empty(settings: Settings) -> None:
    present = nodes("g", 3)
    chosen = choose(at_once(settings), "groups", scale_down_utilization_threshold=0.0)
    decision = decide_once(observe([group("g", present)], present, [running("p", "g-0")]), chosen)
    assert sorted(drained(decision)) == ["g-1", "g-2"]


@both
def test_daemonset_and_mirror_pods_count_as_usage_unless_the_user_says_otherwise(settings: Settings) -> None:
    present = nodes("g", 1)
    agent = running("agent", "g-0", FULL_CPU * 3 // 4, owner=AGENT)
    observation = observe([group("g", present)], present, [agent])
    assert reasons(decide_once(observation, at_once(settings))) == {"g-0": UnremovableReason.NOT_UNDERUTILIZED}
    ignoring = choose(at_once(settings), "groups", ignore_daemonsets_utilization=True)
    assert drained(decide_once(observation, ignoring)) == ["g-0"]


@both
def test_nodes_that_are_not_empty_go_one_at_a_time_and_empty_ones_ten_at_a_time(settings: Settings) -> None:
    present = nodes("g", 13)
    observation = observe([group("g", present, max_size=20)], present)
    assert len(drained(decide_once(observation, at_once(settings)))) == 10
    pods = [running(f"p{number}", f"g-{number}") for number in range(13)]
    occupied = observe([group("g", present, max_size=20)], present, pods)
    assert len(drained(decide_once(occupied, at_once(settings)))) == 1


@both
def test_no_node_goes_for_ten_minutes_after_a_scale_up(settings: Settings) -> None:
    present = nodes("idle", 1, cpu=100)
    idle = group("idle", present, max_size=1)
    grown = decide_once(observe([idle, group("g")], present, [pending("p", FULL_CPU)]), settings)
    assert sizes(grown) == {"g": 1}
    for later_s, expected in ((599.0, ScaleDownResult.IN_COOLDOWN), (601.0, ScaleDownResult.STARTED)):
        came = nodes("g", 1)
        observation = observe([idle, group("g", came)], [*present, *came], [running("p", "g-0", FULL_CPU)])
        assert decide_once(observation, settings, grown.memory, NOW_S + later_s).story.scale_down.result is expected


@both
@pytest.mark.parametrize(
    ("fields", "goes"),
    [
        ({}, True),
        ({"owner": None}, False),
        ({"owner": None, "annotations": {well_known.SAFE_TO_EVICT_ANNOTATION: "true"}}, True),
        ({"annotations": {well_known.SAFE_TO_EVICT_ANNOTATION: "false"}}, False),
        ({"namespace": "kube-system", "created_s": NOW_S - 60}, False),
        ({"spec": {"volumes": (facts.Volume("data", "emptyDir"),)}}, False),
        ({"spec": {"volumes": (facts.Volume("data", "emptyDir", medium="Memory"),)}}, True),
        ({"spec": {"volumes": (facts.Volume("data", "hostPath"),)}}, False),
        (
            {
                "spec": {"volumes": (facts.Volume("data", "emptyDir"),)},
                "annotations": {SAFE_TO_EVICT_LOCAL_VOLUMES: "data"},
            },
            True,
        ),
        ({"spec": {"node_selector": ((facts.HOSTNAME, "g-0"),)}}, False),
    ],
    ids=["ordinary", "no controller", "no controller but safe", "not safe", "kube-system", "emptyDir", "in memory",
         "hostPath", "safe volume", "fits nowhere else"],
)  # fmt: skip
def test_some_pods_keep_their_node(settings: Settings, fields: dict[str, Any], goes: bool) -> None:
    present = nodes("g", 2)
    stays = running("big", "g-1", FULL_CPU * 3 // 4)
    observation = observe([group("g", present)], present, [running("p", "g-0", **fields), stays])
    assert drained(decide_once(observation, at_once(settings))) == (["g-0"] if goes else [])


@both
def test_a_budget_must_allow_at_least_one_disruption(settings: Settings) -> None:
    present = nodes("g", 2)
    pods = [running("p", "g-0"), running("q", "g-0"), running("big", "g-1", FULL_CPU * 3 // 4, labels={"app": "big"})]
    for allowed, expected in ((0, []), (1, ["g-0"]), (2, ["g-0"])):
        observation = observe([group("g", present)], present, pods, budgets=(budget(allowed),))
        assert drained(decide_once(observation, at_once(settings))) == expected


@both
def test_the_annotation_of_a_node_prevents_its_removal(settings: Settings) -> None:
    kept = node("g-0", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"})
    assert drained(decide_once(observe([group("g", [kept])], [kept]), at_once(settings))) == []
    other = replace(kept, annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "false"})
    assert drained(decide_once(observe([group("g", [other])], [other]), at_once(settings))) == ["g-0"]


@both
def test_groups_below_their_minimum_are_left_alone_and_those_at_it_do_not_shrink(settings: Settings) -> None:
    present = nodes("g", 2)
    for min_size in (2, 3):
        decision = decide_once(observe([group("g", present, min_size)], present), at_once(settings))
        assert (sizes(decision), drained(decision)) == ({}, [])


# ── Trouble ──────────────────────────────────────────────────────────────────────────────────────────────────────


@both
@pytest.mark.parametrize(("ready", "unready", "goes_on"), [(0, 3, True), (0, 4, False), (11, 9, True), (10, 9, False)])
def test_everything_stops_beyond_45_percent_or_three_unready_nodes(
    settings: Settings, ready: int, unready: int, goes_on: bool
) -> None:
    good, ill = nodes("good", ready, cpu=100), nodes("ill", unready, cpu=100, conditions=NOT_READY)
    groups = [group("good", good, max_size=20), group("ill", ill, max_size=20), group("new")]
    decision = decide_once(observe(groups, [*good, *ill], [pending("p", FULL_CPU)]), settings)
    assert sizes(decision) == ({"new": 1} if goes_on else {})
    assert decision.story.repairs.stop is (None if goes_on else decision_record.LoopStop.UNHEALTHY)


@both
def test_unneeded_times_start_anew_after_the_cluster_was_unhealthy(settings: Settings) -> None:
    good, ill = nodes("good", 1, cpu=100), nodes("ill", 9, cpu=100, conditions=NOT_READY)
    well = observe([group("good", good)], good)
    sick = observe([group("good", good), group("ill", ill)], [*good, *ill])
    before = decide_once(well, settings).memory
    after = decide_once(sick, settings, before, NOW_S + 300).memory
    assert drained(decide_once(well, settings, after, NOW_S + 700)) == []
    assert drained(decide_at(well, settings, NOW_S, NOW_S + 700)) == ["good-0"]
