"""Where pods, nodes and groups stand, one situation each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from tests.explain import samples
from windlass.engine import loop_memory
from windlass.engine.model import durable_memory, facts, node_groups
from windlass.engine.model.cluster_health import HealthMemory, ScaleRequests, ScaleUpRequest
from windlass.engine.model.settings import Settings
from windlass.explain import explain_context, groups, nodes, pods, queries, render_cluster, render_pods
from windlass.explain.decision_view import PodState, RemovalState
from windlass.explain.groups import TemplateSource
from windlass.explain.queries import ExplainQuery, SubjectKind

SMALL = builders.nodes("a", 1, cpu=1000)
FULL = builders.running("full", "a-0", 1000)


def take(
    found: Sequence[facts.Pod],
    settings: Settings | None = None,
    remembered: loop_memory.LoopMemory | None = None,
    group: node_groups.NodeGroup | None = None,
) -> explain_context.ExplainContext:
    made = group or builders.group("a", SMALL, template=builders.node("t", 1000, provider_id=""))
    observation = builders.observe([made], SMALL, found)
    return explain_context.evaluate(observation, remembered or loop_memory.LoopMemory(), settings or Settings(), NOW_S)


def describe(pod: facts.Pod, *others: facts.Pod, **more: Any) -> pods.PodExplanation:
    at = take([*others, pod], **more)
    return pods.explain_pod(at, at.snapshot.pods.rows[pod.uid])


def text(account: pods.PodExplanation) -> str:
    return "\n".join(render_pods.render_pod(account))


@pytest.mark.parametrize(
    ("pod", "state", "said"),
    [
        (builders.running("p", "a-0"), PodState.SCHEDULED, "it is on a-0, a node of a"),
        (builders.pending("p", deleted_s=NOW_S), PodState.TERMINATING, "being deleted"),
        (builders.pending("p", unschedulable_since_s=None, is_gated=True), PodState.GATED, "scheduling gates"),
        (builders.pending("p", unschedulable_since_s=None), PodState.NOT_JUDGED, "default-scheduler, has not marked"),
        (
            builders.pending("p", unschedulable_since_s=None, scheduling_reason="SchedulerError"),
            PodState.NOT_JUDGED,
            "default-scheduler (PodScheduled: SchedulerError), has not marked",
        ),
        (builders.pending("p", nominated_node="a-0"), PodState.PREEMPTING, "leave a-0"),
        (builders.pending("p", spec={"priority": -50}), PodState.EXPENDABLE, "-50, is below -10"),
        (builders.pending("p", 100), PodState.HAS_ROOM, "room for it on a-0"),
    ],
)
def test_a_pod_that_no_node_is_added_for_is_told_why(pod: facts.Pod, state: PodState, said: str) -> None:
    account = describe(pod)
    assert account.state is state
    assert said in text(account)


@pytest.mark.parametrize(
    ("pod", "settings", "state", "said"),
    [
        (builders.pending("p", owner=builders.AGENT), {}, PodState.DAEMONSET, "belongs to a DaemonSet"),
        (builders.pending("p", scale_up_delay_s=90.0), {}, PodState.TOO_YOUNG, "in 30s"),
        (builders.pending("p"), {"limits": {"max_nodes_total": 1}}, PodState.MAX_NODES, "1 (--max-nodes-total)"),
        (builders.pending("p", age_s=0.1), {}, PodState.MORE_TO_COME, "more may"),
        (
            builders.pending("p"),
            {"pods": {"allowed_scheduler_names": ("x",)}},
            PodState.OTHER_SCHEDULER,
            "is not one of",
        ),
        (builders.pending("p"), {}, PodState.HELPED, "a 1 → 2 nodes"),
        (builders.pending("p", 5000), {}, PodState.NOWHERE, "cpu: 5 asked, 1 free on an empty node"),
    ],
)
def test_a_pod_that_no_node_has_room_for_is_told_what_is_done(
    pod: facts.Pod, settings: dict[str, dict[str, Any]], state: PodState, said: str
) -> None:
    chosen = Settings()
    for part, changes in settings.items():
        chosen = builders.choose(chosen, part, **changes)
    account = describe(pod, FULL, settings=chosen)
    assert account.state is state
    assert said in text(account)


def test_a_pod_waits_for_a_node_that_is_on_its_way() -> None:
    under_way = ScaleRequests({"a": ScaleUpRequest(1, NOW_S - 60, NOW_S - 60, NOW_S + 840)})
    durable = durable_memory.DurableMemory(loop=1, health=HealthMemory(under_way))
    group = builders.group("a", SMALL, target=2, template=builders.node("t", 1000, provider_id=""))
    account = describe(builders.pending("p", 900), FULL, remembered=loop_memory.LoopMemory(durable), group=group)
    assert (account.state, account.group, account.until_s) == (PodState.UPCOMING, "a", NOW_S + 840)
    assert "A node of a that is on its way has room for it" in text(account)


def test_a_group_that_is_full_is_told_to_have_one_more_node() -> None:
    group = builders.group("a", SMALL, max_size=1, template=builders.node("t", 1000, provider_id=""))
    account = describe(builders.pending("p", 900), FULL, group=group)
    assert account.state is PodState.HELD
    assert "let the group have 2 nodes" in text(account)


def test_waiting_for_a_backoff_to_end_is_enough() -> None:
    at = samples.take()
    row = at.find_pod("shop", "report")
    assert row is not None
    spot = next(group_verdict for group_verdict in pods.explain_pod(at, row).groups if group_verdict.group == "spot")
    (wait,) = spot.remedies
    for now_s, helps in ((wait.at_s, False), (wait.at_s + 0.001, True)):
        later = explain_context.evaluate(at.observation, at.memory, at.settings, now_s)
        assert next(one for one in pods.explain_pod(later, row).groups if one.group == "spot").helps is helps


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_whose_pod_finds_no_place_names_the_pod_and_why() -> None:
    members = builders.nodes("a", 2, cpu=1000)
    on = [builders.running("p", "a-0", 400), builders.running("q", "a-1", 900)]
    at = explain_context.evaluate(
        builders.observe([builders.group("a", members)], members, on), loop_memory.LoopMemory(), Settings(), NOW_S
    )
    account = nodes.explain_node(at, "a-0")
    assert (account.state, account.reason) == (RemovalState.NEEDED, "NoPlaceToMovePods")
    assert account.homeless is not None
    assert account.homeless.reasons == (("Insufficient cpu", 1),)
    assert "default/p finds no place on the 1 other node:" in list(render_cluster.render_node(account))


def test_a_node_of_no_group_and_a_node_of_a_group_at_its_minimum_are_told_so() -> None:
    members = builders.nodes("a", 1)
    alone = builders.node("alone")
    observation = builders.observe([builders.group("a", members, min_size=1)], [*members, alone])
    at = explain_context.evaluate(observation, loop_memory.LoopMemory(), Settings(), NOW_S)
    assert nodes.explain_node(at, "alone").state is RemovalState.NOT_AUTOSCALED
    kept = nodes.explain_node(at, "a-0")
    assert kept.state is RemovalState.NO_CANDIDATE
    assert "belongs to a group of 1, which keeps at least 1" in kept.why


def test_an_unneeded_node_tells_since_when_and_until_when() -> None:
    members = builders.nodes("a", 3)
    observation = builders.observe([builders.group("a", members)], members)
    first = explain_context.evaluate(observation, loop_memory.LoopMemory(), Settings(), NOW_S)
    at = explain_context.evaluate(observation, first.decision.memory, Settings(), NOW_S + 60)
    account = nodes.explain_node(at, "a-1")
    assert (account.state, account.since_s, account.until_s) == (RemovalState.UNNEEDED, NOW_S, NOW_S + 600)
    assert account.reason == "NotUnneededLongEnough"


# ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_group_tells_where_its_template_is_from() -> None:
    at = samples.take()
    assert groups.explain_group(at, "zone-b").template.source is TemplateSource.NODE
    assert groups.explain_group(at, "zone-b").template.example == "zone-b-0"
    assert groups.explain_group(at, "spot").template.source is TemplateSource.PROVIDER
    nothing = replace(builders.group("a"), template=None)
    empty = explain_context.evaluate(builders.observe([nothing]), loop_memory.LoopMemory(), Settings(), NOW_S)
    assert groups.explain_group(empty, "a").template.source is TemplateSource.NOWHERE


def test_what_does_not_exist_is_answered_with_names_like_it() -> None:
    at = samples.take()
    assert str(queries.answer_query(ExplainQuery(SubjectKind.POD, "report", "default"), at)) == (
        "there is no pod default/report; there is shop/report"
    )
    assert str(queries.answer_query(ExplainQuery(SubjectKind.NODE, "zone-a-9"), at)).startswith(
        "there is no node zone-a-9; there is"
    )
    assert (
        str(queries.answer_query(ExplainQuery(SubjectKind.GROUP, "spott"), at))
        == "there is no group spott; there is spot"
    )
    assert str(queries.answer_query(ExplainQuery(SubjectKind.POD, "train", "shop"), at)) == (
        "there is no pod shop/train; there is shop/train-0, shop/train-1, shop/train-2"
    )
