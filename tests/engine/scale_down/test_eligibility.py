from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down import utilization_oracle
from tests.engine.scale_down.builders import (
    AGENT,
    APP,
    GPU,
    NOT_READY,
    NOW_S,
    PEER,
    group,
    node,
    pod,
    with_group,
    with_scale_down,
)
from windlass.engine import taints
from windlass.engine.model import facts, node_groups, scale_down_state, well_known
from windlass.engine.model.scale_down_state import EligibilityResult, UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.model.well_known import SCALE_DOWN_DISABLED
from windlass.engine.scale_down import eligibility, utilization
from windlass.engine.snapshot import cluster_snapshot as snapshots

DISABLED = {SCALE_DOWN_DISABLED: "true"}
LABEL = well_known.CLUSTER_API_GPU_LABEL


def being_deleted(age_s: int = 10) -> tuple[facts.Taint, ...]:
    return (facts.Taint(taints.TO_BE_DELETED_KEY, str(int(NOW_S) - age_s), "NoSchedule"),)


def check(
    nodes: Sequence[facts.Node],
    pods: Sequence[facts.Pod] = (),
    settings: Settings = PEER,
    rechecks: Mapping[str, float] | None = None,
    group_of: Mapping[str, node_groups.NodeGroup] | None = None,
) -> EligibilityResult:
    names = [one.name for one in nodes]
    groups = dict.fromkeys(names, group("g", len(nodes))) if group_of is None else group_of
    return eligibility.check_eligibility(
        snapshots.build_snapshot(nodes, pods), names, groups, rechecks or {}, settings, NOW_S, LABEL
    )


def reason_of(checked: EligibilityResult) -> UnremovableReason | None:
    return checked.reasons[0]


def test_an_empty_node_of_a_group_is_eligible() -> None:
    assert check([node("n")]).eligible == ["n"]


def test_no_candidates_are_no_trouble() -> None:
    result = check([])
    assert (result.eligible, result.kept, result.changes_at_s) == ([], [], float("inf"))


# ── Reasons ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_being_deleted_is_kept_until_its_mark_is_five_minutes_old() -> None:
    result = check([node("n", taints=being_deleted(10))])
    assert reason_of(result) is UnremovableReason.CURRENTLY_BEING_DELETED
    assert (result.kept[0].found, result.kept[0].limit) == (10.0, 300.0)
    assert result.changes_at_s == NOW_S + 290
    assert check([node("n", taints=being_deleted(300))]).eligible == ["n"]


def test_an_annotated_node_is_kept() -> None:
    assert reason_of(check([node("n", annotations=DISABLED)])) is UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION
    assert check([node("n", annotations={SCALE_DOWN_DISABLED: "false"})]).eligible == ["n"]


def test_a_node_without_a_group_is_kept() -> None:
    assert reason_of(check([node("n")], group_of={})) is UnremovableReason.NOT_AUTOSCALED


def test_a_node_that_is_not_in_the_cluster_is_kept() -> None:
    result = eligibility.check_eligibility(
        snapshots.build_snapshot([], []), ["n"], {"n": group("g", 1)}, {}, PEER, NOW_S, LABEL
    )
    assert reason_of(result) is UnremovableReason.UNEXPECTED_ERROR


@pytest.mark.parametrize("bare", [node("n", cpu=0), node("n", memory=0)])
def test_a_node_that_does_not_tell_what_it_has_is_kept_and_not_measured(bare: facts.Node) -> None:
    result = check([bare], settings=with_scale_down(scale_down_unready_enabled=False))
    assert reason_of(result) is UnremovableReason.UNEXPECTED_ERROR
    assert result.utilization_of("n") is None


def test_an_unready_node_is_kept_only_if_such_nodes_are_not_to_be_removed() -> None:
    unready = node("n", conditions=NOT_READY)
    assert check([unready]).eligible == ["n"]
    result = check([unready], settings=with_scale_down(scale_down_unready_enabled=False))
    assert reason_of(result) is UnremovableReason.SCALE_DOWN_UNREADY_DISABLED
    assert result.utilization_of("n") is None


def test_utilization_at_the_threshold_is_eligible_and_above_is_not() -> None:
    nodes, pods = [node("at"), node("above")], [pod("p", "at", cpu=500), pod("q", "above", memory=501)]
    result = check(nodes, pods)
    assert result.eligible == ["at"]
    (kept,) = result.kept
    assert (kept.node_name, kept.reason, kept.found, kept.limit) == ("above", "NotUnderutilized", 0.501, 0.5)
    assert result.utilization_of("above") == scale_down_state.NodeUtilization(0.0, 0.501, 0.0, "memory", 0.501)
    assert str(kept) == "above is used to 0.501 of what it has, and may be removed up to 0.5"


def test_the_group_sets_its_own_threshold() -> None:
    groups = {"n": group("g", 1, scale_down_utilization_threshold=0.7)}
    assert check([node("n")], [pod("p", "n", cpu=700)], group_of=groups).eligible == ["n"]


def test_a_gpu_node_has_its_own_threshold_and_only_its_gpus_count() -> None:
    nodes = [node("few", gpu=4), node("many", gpu=4), node("none-shown", labels={LABEL: "a100"})]
    pods = [pod("p", "few", cpu=1000, gpu=1), pod("q", "many", gpu=2), pod("r", "none-shown", cpu=1000)]
    result = check(nodes, pods, with_group(scale_down_gpu_utilization_threshold=0.3))
    assert result.eligible == ["few", "none-shown"]
    assert result.utilization_of("few") == scale_down_state.NodeUtilization(0.0, 0.0, 0.25, GPU, 0.25)


@pytest.mark.parametrize(
    ("one", "rechecks", "has_group", "expected"),
    [
        (node("n", taints=being_deleted(), annotations=DISABLED), {"n": NOW_S + 1}, False, "RecentlyUnremovable"),
        (node("n", taints=being_deleted(), annotations=DISABLED), {}, False, "CurrentlyBeingDeleted"),
        (node("n", cpu=0, annotations=DISABLED), {}, False, "ScaleDownDisabledAnnotation"),
        (node("n", cpu=0), {}, False, "NotAutoscaled"),
        (node("n", cpu=0, conditions=NOT_READY), {}, True, "UnexpectedError"),
        (node("n", conditions=NOT_READY), {}, True, "ScaleDownUnreadyDisabled"),
        (node("n"), {}, True, "NotUnderutilized"),
    ],
)
def test_the_first_reason_that_holds_is_given(
    one: facts.Node, rechecks: Mapping[str, float], has_group: bool, expected: str
) -> None:
    settings = with_scale_down(scale_down_unready_enabled=False)
    groups = {"n": group("g", 1)} if has_group else {}
    assert reason_of(check([one], [pod("p", "n", cpu=900)], settings, rechecks, groups)) == expected


# ── What counts ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_daemonset_pods_are_set_aside_where_the_group_says_so() -> None:
    pods = [pod(f"{kind}-{on}", on, cpu=400, owner=owner)
            for on in ("a", "b") for kind, owner in (("app", APP), ("agent", AGENT))]  # fmt: skip
    groups = {"a": group("g", 1, ignore_daemonsets_utilization=True), "b": group("h", 1)}
    result = check([node("a"), node("b")], pods, group_of=groups)
    node_utilizations = {name: result.utilization_of(name) for name in ("a", "b")}
    assert [
        node_utilization and round(node_utilization.utilization, 6) for node_utilization in node_utilizations.values()
    ] == [round(400 / 600, 6), 0.8]


def test_mirror_pods_are_set_aside_where_the_user_says_so() -> None:
    pods = [pod("static", "n", cpu=800, annotations={well_known.MIRROR_ANNOTATION: "m"})]
    assert check([node("n")], pods).eligible == []
    assert check([node("n")], pods, with_scale_down(ignore_mirror_pods_utilization=True)).eligible == ["n"]


def test_a_pod_that_should_long_be_gone_does_not_count() -> None:
    going = pod("p", "n", cpu=900, deleted_s=NOW_S - 61, grace_s=30.0)
    assert check([node("n")], [going]).eligible == ["n"]
    result = check([node("n")], [replace(going, deleted_s=NOW_S - 60)])
    assert result.eligible == []
    assert result.changes_at_s == NOW_S


def test_pods_that_were_given_a_place_in_thought_count() -> None:
    snapshot = snapshots.build_snapshot([node("n")], [pod("p", cpu=600)])
    snapshot.fork()
    snapshot.bind(0, 0)
    result = eligibility.check_eligibility(snapshot, ["n"], {"n": group("g", 1)}, {}, PEER, NOW_S, LABEL)
    assert reason_of(result) is UnremovableReason.NOT_UNDERUTILIZED


# ── Rechecks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_could_not_be_removed_waits_unmeasured() -> None:
    result = check([node("n")], rechecks={"n": NOW_S + 40})
    assert reason_of(result) is UnremovableReason.RECENTLY_UNREMOVABLE
    assert (result.utilization_of("n"), result.kept[0].limit, result.changes_at_s) == (None, 40.0, NOW_S + 40)


def test_rechecks_end_at_their_time_and_with_their_node() -> None:
    snapshot = snapshots.build_snapshot([node("now"), node("later")], [])
    rechecks = {"now": NOW_S, "later": NOW_S + 1, "gone": NOW_S + 1}
    assert eligibility.prune_rechecks(rechecks, snapshot, NOW_S) == {"later": NOW_S + 1}


# ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

pods_of_a_node = st.lists(
    st.builds(
        pod,
        name=st.just(""),
        cpu=st.integers(0, 600),
        memory=st.integers(0, 600),
        gpu=st.sampled_from([0, 0, 1]),
        owner=st.sampled_from([APP, AGENT, None]),
        annotations=st.sampled_from(
            [{}, {well_known.MIRROR_ANNOTATION: "m"}, {well_known.DAEMONSET_POD_ANNOTATION: "true"}]
        ),
        deleted_s=st.sampled_from([None, None, NOW_S - 10, NOW_S - 100]),
    ),
    max_size=4,
)
some_nodes = st.lists(
    st.builds(
        lambda made, pods: (made, pods),
        st.builds(
            node,
            name=st.just(""),
            cpu=st.sampled_from([0, 1000, 1000]),
            memory=st.sampled_from([0, 1000, 1000]),
            gpu=st.sampled_from([0, 0, 2]),
            labels=st.sampled_from([{}, {}, {LABEL: "a100"}]),
            annotations=st.sampled_from([{}, {}, DISABLED]),
            conditions=st.sampled_from([(), NOT_READY, (facts.Condition("Ready", "True"),)]),
            taints=st.sampled_from([(), (), being_deleted()]),
        ),
        pods_of_a_node,
    ),
    min_size=1,
    max_size=5,
)
settings_of_any_kind = st.builds(
    lambda daemonsets, mirrors, unready: with_scale_down(
        with_group(ignore_daemonsets_utilization=daemonsets),
        ignore_mirror_pods_utilization=mirrors,
        scale_down_unready_enabled=unready,
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
Cluster = list[tuple[facts.Node, list[facts.Pod]]]


def named(cluster: Cluster) -> tuple[list[facts.Node], list[facts.Pod]]:
    nodes = [replace(one, name=f"n{i}") for i, (one, _) in enumerate(cluster)]
    pods = [
        replace(one, name=f"p{i}-{j}", uid=f"p{i}-{j}", node_name=f"n{i}")
        for i, (_, found) in enumerate(cluster)
        for j, one in enumerate(found)
    ]
    return nodes, pods


@given(some_nodes, settings_of_any_kind)
def test_columns_give_the_same_utilization_as_one_node_at_a_time(cluster: Cluster, settings: Settings) -> None:
    nodes, pods = named(cluster)
    options = utilization_oracle.Options(
        settings.groups.ignore_daemonsets_utilization, settings.scale_down.ignore_mirror_pods_utilization
    )
    ignore = np.full(len(nodes), options.skip_daemonset_pods)
    rows = np.arange(len(nodes))
    utilization_table = utilization.measure_utilization(
        snapshots.build_snapshot(nodes, pods), rows, ignore, options.skip_mirror_pods, LABEL, NOW_S
    )
    for i, one in enumerate(nodes):
        own = [pod for pod in pods if pod.node_name == one.name]
        expected = utilization_oracle.calculate(one, own, options, utilization.gpu_resource(one, LABEL), NOW_S)
        if isinstance(expected, utilization_oracle.Unknown):
            assert not utilization_table.utilizations.known[i]
        else:
            measured = utilization_table.of(i)
            assert measured.resource == expected.resource
            for field in ("cpu", "memory", "gpu", "utilization"):
                assert getattr(measured, field) == pytest.approx(getattr(expected, field), rel=0, abs=0, nan_ok=True)


@given(some_nodes, settings_of_any_kind)
def test_the_order_of_candidates_changes_no_verdict(cluster: Cluster, settings: Settings) -> None:
    nodes, pods = named(cluster)
    there = check(nodes, pods, settings)
    back = check(nodes[::-1], pods, settings)
    assert dict(zip(there.names, there.reasons, strict=True)) == dict(zip(back.names, back.reasons, strict=True))


@given(some_nodes, settings_of_any_kind)
def test_a_bad_node_changes_nothing_about_the_others(cluster: Cluster, settings: Settings) -> None:
    nodes, pods = named(cluster)
    alone = check(nodes, pods, settings)
    bad = [node("bad", cpu=0), replace(node("odd"), taints=(facts.Taint(taints.TO_BE_DELETED_KEY, "?", "NoSchedule"),))]
    beside = check([*bad, *nodes], [*pods, pod("b", "bad", cpu=5)], settings)
    assert beside.reasons[2:] == alone.reasons
    assert [repr(beside.utilization_of(one.name)) for one in nodes] == [
        repr(alone.utilization_of(one.name)) for one in nodes
    ]
