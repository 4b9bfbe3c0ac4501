"""Proposing a scale-up: which groups are passed over and why, what limits the rest, and who is told what."""

import numpy as np
import pytest

from tests.engine.loop.builders import (
    BOTH,
    FULL_CPU,
    NOT_READY,
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    reasons,
    resources,
    result,
    sizes,
)
from windlass.engine import loop, loop_memory, resource_quotas, time_limits
from windlass.engine.expanders import chain, price
from windlass.engine.model import cluster_health, durable_memory, facts, node_groups, settings
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.scale_up_status import GroupTemplate, ScaleUpResult, SkipReason
from windlass.engine.model.settings import Bounds, GpuBounds, Settings
from windlass.engine.scale_up import equivalence_groups, similarity
from windlass.engine.scale_up.options import (
    EXECUTION_FAILED,
    FILTERED_OUT,
    OptionPlanner,
    PlannerConfig,
    ScaleUpGroups,
    ScaleUpLimits,
)
from windlass.engine.scale_up.template_fit import TemplateFit
from windlass.engine.snapshot import cluster_snapshot as snapshots

both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
STOCKOUT = node_groups.InstanceError("OutOfResources", "STOCKOUT")
GPU = "nvidia.com/gpu"


def large(count: int, first: int = 0) -> list[facts.Pod]:
    """Pods each of which takes a node of its own."""
    return [pending(f"large-{number}", FULL_CPU) for number in range(first, first + count)]


def skipped(decision: loop.Decision) -> dict[str, tuple[str, ...]]:
    return dict(decision.story.scale_ups[0].skipped)


def rejected(decision: loop.Decision) -> dict[str, tuple[str, ...]]:
    """What the groups say of the first pods that were not helped."""
    return decision.story.scale_ups[0].remaining[0].rejected


# ── Groups that are passed over ──────────────────────────────────────────────────────────────────────────────────


@both
def test_a_group_that_failed_lately_is_passed_over(settings: Settings) -> None:
    failures = {"failed": cluster_health.Backoff(NOW_S + 100, 300, NOW_S - 200, STOCKOUT)}
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(1, cluster_health.HealthMemory(backoffs=failures)))
    observation = observe([group("failed"), group("good")], pods=large(1))
    decision = decide_once(observation, settings, before)
    assert sizes(decision) == {"good": 1}
    assert skipped(decision) == {"failed": (SkipReason.BACKOFF,)}


@both
def test_a_group_may_grow_again_when_its_time_is_over(settings: Settings) -> None:
    failures = {"g": cluster_health.Backoff(NOW_S - 1, 300, NOW_S - 301, STOCKOUT)}
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(1, cluster_health.HealthMemory(backoffs=failures)))
    assert sizes(decide_once(observe([group("g")], pods=large(1)), settings, before)) == {"g": 1}


@both
def test_a_group_at_its_maximum_is_passed_over(settings: Settings) -> None:
    full = nodes("full", 2, cpu=100)
    observation = observe([group("full", full, max_size=2), group("good")], full, large(1))
    decision = decide_once(observation, settings)
    assert sizes(decision) == {"good": 1}
    assert skipped(decision) == {"full": (SkipReason.MAX_SIZE,)}


@both
def test_a_group_that_lacks_too_many_nodes_is_passed_over(settings: Settings) -> None:
    ill = nodes("ill", 5, cpu=100, conditions=NOT_READY)
    others = nodes("other", 10, cpu=100)
    groups = [group("ill", ill), group("other", others, max_size=10), group("good")]
    decision = decide_once(observe(groups, [*ill, *others], large(1)), settings)
    assert sizes(decision) == {"good": 1}
    assert skipped(decision)["ill"] == (SkipReason.NOT_READY,)
    assert decision.story.unhealthy == ("ill",)


@both
def test_a_group_of_which_nobody_knows_what_its_nodes_are_like_is_passed_over(settings: Settings) -> None:
    unknown = node_groups.NodeGroup("unknown", 0, 10, 0)
    decision = decide_once(observe([unknown, group("good")], pods=large(1)), settings)
    assert sizes(decision) == {"good": 1}
    assert skipped(decision) == {"unknown": (SkipReason.NOT_READY,)}


@both
def test_a_group_that_is_all_or_nothing_is_passed_over_if_all_of_it_is_too_much(settings: Settings) -> None:
    whole = group("whole", max_size=5, zero_or_max=True)
    chosen = choose(settings, "limits", max_nodes_total=4)
    decision = decide_once(observe([whole], pods=large(1)), chosen)
    assert skipped(decision) == {"whole": (SkipReason.ATOMIC_TOO_LARGE,)}
    assert result(decision) is ScaleUpResult.NO_OPTIONS
    assert sizes(decide_once(observe([whole], pods=large(1)), settings)) == {"whole": 5}


@both
def test_a_group_whose_nodes_exceed_a_quota_is_passed_over(settings: Settings) -> None:
    chosen = choose(settings, "limits", cores_total=Bounds(0, 5))
    present = nodes("g", 1, cpu=FULL_CPU)
    busy = pending("busy", FULL_CPU, node_name="g-0", phase="Running", unschedulable_since_s=None)
    decision = decide_once(observe([group("g", present)], present, [busy, *large(1)]), chosen)
    assert skipped(decision) == {"g": ('exceeded quota: "cluster-wide", resources: cpu',)}
    assert sizes(decision) == {}


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_the_cluster_grows_up_to_its_largest_number_of_nodes(settings: Settings) -> None:
    chosen = choose(settings, "limits", max_nodes_total=3)
    present = nodes("other", 1, cpu=100)
    observation = observe([group("other", present, max_size=1), group("g")], present, large(9))
    assert sizes(decide_once(observation, chosen)) == {"g": 2}
    assert (
        result(decide_once(observation, choose(settings, "limits", max_nodes_total=1)))
        is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
    )


@both
def test_a_scale_up_is_cut_to_the_cores_that_are_left(settings: Settings) -> None:
    chosen = choose(settings, "limits", cores_total=Bounds(0, 11))
    assert sizes(decide_once(observe([group("g")], pods=large(5)), chosen)) == {"g": 2}


@both
def test_a_scale_up_is_cut_to_the_memory_that_is_left(settings: Settings) -> None:
    chosen = choose(settings, "limits", memory_total_bytes=Bounds(0, 3999))
    assert sizes(decide_once(observe([group("g")], pods=large(5)), chosen)) == {"g": 3}


def with_gpus(name: str, gpus: int) -> facts.Node:
    has = resources(FULL_CPU, 1000, pods=100, **{GPU: gpus})
    return node(name, labels={"cluster-api/accelerator": "tesla"}, allocatable=has, capacity=has)


@both
def test_a_scale_up_is_cut_to_the_gpus_that_are_left_of_their_type(settings: Settings) -> None:
    chosen = choose(settings, "limits", gpu_total=(GpuBounds("tesla", 0, 5),))
    observation = observe([group("g", template=with_gpus("t", 2))], pods=large(5))
    assert sizes(decide_once(observation, chosen)) == {"g": 2}


@both
def test_a_node_whose_gpus_do_not_show_yet_counts_as_its_group_says(settings: Settings) -> None:
    chosen = choose(settings, "limits", gpu_total=(GpuBounds("tesla", 0, 4),))
    starting = node("g-0", cpu=100, labels={"cluster-api/accelerator": "tesla"}, conditions=NOT_READY)
    observation = observe([group("g", [starting], template=with_gpus("t", 2))], [starting], large(5))
    assert sizes(decide_once(observation, chosen)) == {"g": 2}


@both
def test_the_gpus_that_the_cluster_must_keep_are_kept(settings: Settings) -> None:
    chosen = choose(at_once(settings), "limits", gpu_total=(GpuBounds("tesla", 2, 9),))
    present = [with_gpus(f"g-{number}", 1) for number in range(3)]
    decision = decide_once(observe([group("g", present)], present), chosen)
    assert len(drained(decision)) == 1
    assert list(reasons(decision).values()) == [UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED] * 2


@both
def test_one_group_grows_by_so_many_nodes_at_once(settings: Settings) -> None:
    chosen = choose(settings, "scale_up", max_nodes_per_scaleup=3)
    decision = decide_once(observe([group("g")], pods=large(5)), chosen)
    assert decision.story.scale_ups[0].increases[0].added == 3


@both
def test_a_group_grows_to_its_maximum_and_no_further(settings: Settings) -> None:
    assert sizes(decide_once(observe([group("g", max_size=2)], pods=large(5)), settings)) == {"g": 2}


# ── Similar groups ───────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_similar_groups_share_new_nodes_where_the_user_wants_it(settings: Settings) -> None:
    observation = observe([group("a"), group("b")], pods=large(4))
    assert sizes(decide_once(observation, choose(settings, "scale_up", balance_similar_node_groups=True))) == {
        "a": 2,
        "b": 2,
    }
    assert list(sizes(decide_once(observation, settings)).values()) == [4]


@both
def test_groups_of_other_nodes_do_not_share(settings: Settings) -> None:
    chosen = choose(settings, "scale_up", balance_similar_node_groups=True)
    observation = observe([group("a"), group("b", template=node("t", cpu=2 * FULL_CPU))], pods=large(4))
    assert len(sizes(decide_once(observation, chosen))) == 1


@both
def test_a_similar_group_that_backs_off_takes_no_share(settings: Settings) -> None:
    failures = {"b": cluster_health.Backoff(NOW_S + 100, 300, NOW_S - 200, STOCKOUT)}
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(1, cluster_health.HealthMemory(backoffs=failures)))
    chosen = choose(settings, "scale_up", balance_similar_node_groups=True)
    assert sizes(decide_once(observe([group("a"), group("b")], pods=large(4)), chosen, before)) == {"a": 4}


# ── Pods that are not helped ─────────────────────────────────────────────────────────────────────────────────────


@both
def test_pods_that_fit_no_group_learn_what_each_said(settings: Settings) -> None:
    repelling = node("t", taints=(facts.Taint("dedicated", "db", "NoSchedule"),))
    observation = observe([group("small"), group("repels", template=repelling)], pods=[pending("huge", 2 * FULL_CPU)])
    decision = decide_once(observation, settings)
    assert result(decision) is ScaleUpResult.NO_OPTIONS
    assert rejected(decision) == {
        "small": ("Insufficient cpu",),
        "repels": ("node(s) had untolerated taint(s)",),
    }


def test_pods_learn_when_no_expander_wants_any_option() -> None:
    pods = large(1)
    snapshot = snapshots.build_snapshot([], pods)
    made = {"g": GroupTemplate(node("t"))}
    proposer = OptionPlanner(
        TemplateFit(snapshot, made, settings.DEFAULT_FILTER_CONFIG),
        ScaleUpGroups([group("g")], made, {}),
        resource_quotas.make_tracker(resource_quotas.QuotaBound.MAXIMUM, [], []),
        PlannerConfig(
            ScaleUpLimits(),
            ("price",),
            similarity.choose_comparator((), (), similarity.SimilarityRatios(0.015, 0.05, 0.05)),
        ),
        chain.ExpanderContext(np.random.default_rng(0), pricing=price.PriceTable()),  # it knows no price of such a node
        time_limits.DecisionTimer(time_limits.UnlimitedTimer()),
    )
    proposal = proposer.propose(equivalence_groups.make_equivalence_groups(snapshot, snapshot.pending(), WINDLASS))
    assert (proposal.result, proposal.increases) == (ScaleUpResult.NO_OPTIONS, ())
    assert [equivalence_group.rejected for equivalence_group in proposal.remaining] == [{"g": (FILTERED_OUT,)}]


@both
def test_pods_learn_when_the_scale_up_for_them_was_refused(settings: Settings) -> None:
    decision = decide_once(observe([group("g")], pods=large(2), refused={"g": STOCKOUT}), settings)
    assert (result(decision), sizes(decision)) == (ScaleUpResult.ERROR, {})
    assert rejected(decision) == {"g": (EXECUTION_FAILED,)}
    assert decision.memory.durable.health.backoffs["g"].error == STOCKOUT
    assert decision.memory.durable.health.requests.scale_ups == {}
    assert decision.memory.durable.activity.added_s is None


@both
def test_after_a_refusal_the_next_loop_tries_another_group(settings: Settings) -> None:
    observation = observe([group("a"), group("b")], pods=large(1))
    ((first, _),) = sizes(decide_once(observation, settings)).items()
    refused = observe([group("a"), group("b")], pods=large(1), refused={first: STOCKOUT})
    after = decide_once(observation, settings, decide_once(refused, settings).memory, NOW_S + 10)
    assert sizes(after) == {({"a", "b"} - {first}).pop(): 1}
    assert skipped(after) == {first: (SkipReason.BACKOFF,)}


def test_one_group_after_another_is_raised_up_to_the_first_refusal_or_all_in_parallel() -> None:
    chosen = choose(PEER, "scale_up", balance_similar_node_groups=True)
    groups = [group("a"), group("b"), group("c")]
    order = [
        increase.group.id
        for increase in decide_once(observe(groups, pods=large(3)), chosen).story.scale_ups[0].increases
    ]
    observation = observe(groups, pods=large(3), refused={order[1]: STOCKOUT})
    assert sizes(decide_once(observation, chosen)) == {order[0]: 1}
    in_parallel = choose(chosen, "scale_up", parallel_scale_up=True)
    assert sizes(decide_once(observation, in_parallel)) == {order[0]: 1, order[2]: 1}


# ── Groups below their minimum ───────────────────────────────────────────────────────────────────────────────────


@both
def test_groups_are_raised_to_their_minimum_only_where_the_user_wants_it(settings: Settings) -> None:
    observation = observe([group("g", min_size=3)])
    assert sizes(decide_once(observation, settings)) == {}
    enforced = choose(settings, "scale_up", enforce_node_group_min_size=True)
    assert sizes(decide_once(observation, enforced)) == {"g": 3}


@both
def test_a_group_that_backs_off_is_not_raised_to_its_minimum(settings: Settings) -> None:
    failures = {"g": cluster_health.Backoff(NOW_S + 100, 300, NOW_S - 200, STOCKOUT)}
    before = loop_memory.LoopMemory(durable_memory.DurableMemory(1, cluster_health.HealthMemory(backoffs=failures)))
    enforced = choose(settings, "scale_up", enforce_node_group_min_size=True)
    assert sizes(decide_once(observe([group("g", min_size=3)]), enforced, before)) == {}


def test_raising_to_the_minimum_stops_at_the_largest_number_of_nodes_for_windlass_only() -> None:
    observation = observe([group("a", min_size=2), group("b", min_size=2)])
    for behavior, expected in ((PEER, {"a": 2, "b": 2}), (WINDLASS, {"a": 2, "b": 1})):
        enforced = choose(behavior, "scale_up", enforce_node_group_min_size=True)
        assert sizes(decide_once(observation, choose(enforced, "limits", max_nodes_total=3))) == expected


@both
def test_raising_to_the_minimum_stays_within_quotas(settings: Settings) -> None:
    enforced = choose(settings, "scale_up", enforce_node_group_min_size=True)
    limited = choose(enforced, "limits", cores_total=Bounds(0, 9))
    assert sizes(decide_once(observe([group("g", min_size=5)]), limited)) == {"g": 2}


@both
def test_a_group_whose_minimum_is_above_its_maximum_is_raised_to_its_maximum(settings: Settings) -> None:
    enforced = choose(settings, "scale_up", enforce_node_group_min_size=True)
    assert sizes(decide_once(observe([group("g", min_size=5, max_size=2)]), enforced)) == {"g": 2}
