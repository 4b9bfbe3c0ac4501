"""The status: what it says, field by field, and since when."""

from dataclasses import replace

import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from tests.observability import cluster_autoscaler_recordings
from tests.observability.recorded_situations import PEER, carried_out
from windlass.engine import loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import node_groups
from windlass.engine.model.cluster_health import Backoff, Readiness
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.kube import time_formats
from windlass.observability import status_configmap
from windlass.observability.status_configmap import AutoscalerStatus, NodeGroupStatus, StatusCondition

BEFORE = status_configmap.initial_status(NOW_S - 10)


def probe(
    observation: Observation, settings: Settings = PEER, before: AutoscalerStatus = BEFORE,
    memory: LoopMemory | None = None,
    now_s: float = NOW_S, outcome: PlanResult | None = None,
) -> tuple[AutoscalerStatus, loop.Decision]:  # fmt: skip
    decision = loop.decide(observation, memory or LoopMemory(DurableMemory(loop=5)), settings, now_s)
    outcome = outcome or carried_out(decision.plan)
    autoscaler_status = status_configmap.build_cluster_status(DecisionView(decision), outcome, before, now_s)
    return autoscaler_status, decision


def test_the_recorded_situation_gives_the_recorded_text() -> None:
    now_s = time_formats.parse_time("2026-11-15T08:23:16Z") + 0.2965
    healthy_s, grown_s, needed_s = (
        time_formats.parse_time(f"2026-11-15T08:{at}Z") for at in ("20:50", "21:00", "22:33")
    )
    members = [replace(node, created_s=healthy_s) for node in builders.nodes("md-a", 2)]
    others = [builders.node("control-plane")]
    busy = [builders.running(f"busy-{number}", f"md-a-{number}", 3000) for number in range(2)]
    group = builders.group("MachineDeployment/default/md-a", members, min_size=1)
    since = {
        (name, part): (told, at_s)
        for name in ("", group.id)
        for part, told, at_s in (
            ("health", "Healthy", healthy_s),
            ("scaleUp", "NoActivity", grown_s),
            ("scaleDown", "NoCandidates", needed_s),
        )
    }
    observation = builders.observe([group], [*members, *others], busy)
    autoscaler_status, _ = probe(observation, before=status_configmap.initial_status(now_s - 10, since), now_s=now_s)
    ours, theirs = (
        status_configmap.format_status(autoscaler_status).split("\n"),
        cluster_autoscaler_recordings.STATUS.split("\n"),
    )
    assert ours[:-2] == theirs[:-2]
    assert ours[-2] == "time: 2026-11-15 08:23:16.2965 +0000 UTC"
    assert ours[-1] == theirs[-1] == ""


@pytest.mark.skipif(not cluster_autoscaler_recordings.OUTSIDE.exists(), reason="the recording is not at hand")
def test_the_transcription_is_the_recording() -> None:
    config_map = yaml.safe_load((cluster_autoscaler_recordings.OUTSIDE / "status.yaml").read_text())
    assert config_map["data"][status_configmap.STATUS_KEY] == cluster_autoscaler_recordings.STATUS
    assert list(config_map["metadata"]["annotations"]) == [status_configmap.LAST_UPDATED_ANNOTATION]
    assert (config_map["metadata"]["namespace"], config_map["metadata"]["name"]) == (
        "kube-system",
        "cluster-autoscaler-status",
    )


def test_every_field_that_the_peer_can_show_is_shown() -> None:
    at_s = time_formats.parse_time("2023-11-24T04:28:19Z")
    since_s = time_formats.parse_time("2023-11-23T14:52:02Z")
    nodes = Readiness(
        ready=tuple("abcd"), unready=tuple("ef"), not_started=tuple("ghi"), suspended=("j",), deleted=("k",),
        unregistered=tuple("lm"), long_unregistered=("n",), resource_unready=("e",),
    )  # fmt: skip
    error = node_groups.InstanceError("OutOfResources", "QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.")
    group = NodeGroupStatus(
        "sample", StatusCondition("Healthy", at_s, since_s), nodes, 8, 2, 12, StatusCondition("Backoff", at_s, since_s),
        Backoff(at_s + 60, 300.0, at_s, error), StatusCondition("CandidatesPresent", at_s, since_s), 2,
    )  # fmt: skip
    cluster = status_configmap.ClusterWideStatus(
        group.health, nodes, StatusCondition("NoActivity", at_s, since_s), group.scale_down, group.candidates
    )
    told = yaml.safe_load(
        status_configmap.format_status(AutoscalerStatus(at_s + 0.5467503, cluster, (group,), "TEST_MSG"))
    )
    seen = {"lastProbeTime": "2023-11-24T04:28:19Z", "lastTransitionTime": "2023-11-23T14:52:02Z"}
    counts = {
        "registered": {
            "total": 11, "ready": 4, "notStarted": 3, "suspended": 1, "beingDeleted": 1,
            "unready": {"total": 2, "resourceUnready": 1},
        },
        "longUnregistered": 1,
        "unregistered": 2,
    }  # fmt: skip
    assert told == {
        "time": "2023-11-24 04:28:19.54675 +0000 UTC",
        "message": "TEST_MSG",
        "autoscalerStatus": "Running",
        "clusterWide": {
            "health": {"status": "Healthy", "nodeCounts": counts, **seen},
            "scaleUp": {"status": "NoActivity", **seen},
            "scaleDown": {"status": "CandidatesPresent", "candidates": 2, **seen},
        },
        "nodeGroups": [
            {
                "name": "sample",
                "health": {
                    "status": "Healthy", "nodeCounts": counts, "cloudProviderTarget": 8, "minSize": 2, "maxSize": 12,
                    **seen,
                },
                "scaleUp": {
                    "status": "Backoff",
                    "backoffInfo": {"errorCode": "QUOTA_EXCEEDED", "errorMessage": "Quota 'CPUS' exceeded."},
                    **seen,
                },
                "scaleDown": {"status": "CandidatesPresent", "candidates": 2, **seen},
            }
        ],
    }  # fmt: skip


def test_nothing_is_known_before_the_first_loop() -> None:
    told = yaml.safe_load(status_configmap.format_status(status_configmap.initial_status(NOW_S)))
    nothing = {"lastProbeTime": None, "lastTransitionTime": None}
    assert told["autoscalerStatus"] == "Initializing"
    assert told["clusterWide"]["scaleUp"] == told["clusterWide"]["scaleDown"] == nothing
    assert told["clusterWide"]["health"]["nodeCounts"]["registered"]["total"] == 0
    assert "nodeGroups" not in told
    assert "status" not in told["clusterWide"]["health"]


def test_a_group_that_was_raised_is_in_progress_at_its_new_size() -> None:
    autoscaler_status, _ = probe(builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)]))
    (group,) = autoscaler_status.groups
    assert (group.target_size, group.scale_up.status) == (1, "InProgress")
    assert autoscaler_status.cluster is not None
    assert autoscaler_status.cluster.scale_up.status == "InProgress"
    assert group.scale_up.probed_s is None  # a group without nodes is not looked at; the peer says so, too


def test_a_raise_that_failed_leaves_the_size_and_backs_off() -> None:
    error = node_groups.InstanceError("Other", "cloudProviderError", "x" * 600)
    observation = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)])
    autoscaler_status, _ = probe(replace(observation, refused={"g": error}))
    (group,) = autoscaler_status.groups
    assert (group.target_size, group.scale_up.status) == (0, "Backoff")
    told = status_configmap.status_document(autoscaler_status)["nodeGroups"][0]["scaleUp"]["backoffInfo"]
    assert told["errorCode"] == "cloudProviderError"
    assert len(told["errorMessage"]) == 500
    assert told["errorMessage"].endswith("x<truncated>")


def test_unneeded_nodes_are_candidates_of_their_group() -> None:
    first, second = builders.nodes("a", 2), builders.nodes("b", 1)
    busy = builders.running("busy", "b-0", 3000)
    observation = builders.observe([builders.group("a", first), builders.group("b", second)], [*first, *second], [busy])
    autoscaler_status, _ = probe(observation)
    assert [(group.name, group.scale_down.status, group.candidates) for group in autoscaler_status.groups] == [
        ("a", "CandidatesPresent", 2),
        ("b", "NoCandidates", 0),
    ]
    assert autoscaler_status.cluster is not None
    assert autoscaler_status.cluster.candidates == 2


def test_since_when_stays_until_it_changes() -> None:
    members = builders.nodes("g", 1)
    busy = [builders.running("busy", "g-0", 3000)]
    group = builders.group("g", members)
    first, decision = probe(builders.observe([group], members, busy))
    second, decision = probe(
        builders.observe([group], members, busy), before=first, memory=decision.memory, now_s=NOW_S + 10
    )
    assert second.groups[0].scale_down == StatusCondition("NoCandidates", NOW_S + 10, NOW_S)
    third, _ = probe(builders.observe([group], members), before=second, memory=decision.memory, now_s=NOW_S + 20)
    assert third.groups[0].scale_down == StatusCondition("CandidatesPresent", NOW_S + 20, NOW_S + 20)
    assert third.groups[0].health == StatusCondition("Healthy", NOW_S + 20, NOW_S)


def test_a_loop_that_did_not_come_to_scale_down_says_what_the_last_one_found() -> None:
    members = builders.nodes("g", 2)
    first, decision = probe(builders.observe([builders.group("g", members)], members))
    broken = [replace(node, conditions=builders.NOT_READY) for node in builders.nodes("g", 8)]
    observation = builders.observe([builders.group("g", broken)], broken)
    second, _ = probe(observation, before=first, memory=decision.memory, now_s=NOW_S + 10)
    assert second.cluster is not None
    assert second.cluster.health.status == "Unhealthy"
    assert second.cluster.scale_down.probed_s == NOW_S
    assert second.groups[0].candidates == 2


def test_a_restart_goes_on_with_the_times_of_the_text() -> None:
    members = builders.nodes("g", 1)
    observation = builders.observe([builders.group("g", members)], members, [builders.running("busy", "g-0", 3000)])
    first, decision = probe(observation)
    restored = status_configmap.initial_status(
        NOW_S + 50, status_configmap.parse_transition_times(status_configmap.format_status(first))
    )
    second, _ = probe(observation, before=restored, memory=decision.memory, now_s=NOW_S + 60)
    assert second.groups[0].health == StatusCondition("Healthy", NOW_S + 60, NOW_S)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "nodeGroups: 3", "clusterWide: {health: {status: 1, lastTransitionTime: x}}", "a: 2001-99-99"],
)
def test_a_text_that_tells_nothing_is_no_trouble(text: str) -> None:
    assert status_configmap.parse_transition_times(text) == {}


@pytest.mark.parametrize(("fraction", "told"), [(0.0, "12"), (0.5, "12.5"), (0.000001, "12.000001"), (0.25, "12.25")])
def test_moments_are_spelled_as_go_does(fraction: float, told: str) -> None:
    assert status_configmap.format_go_time(1_000_212.0 + fraction) == f"1970-01-12 13:50:{told} +0000 UTC"


def test_times_in_messages_are_spelled_as_go_does() -> None:
    settings = builders.choose(PEER, "groups", max_node_provision_time_s=900.0)
    members = builders.nodes("g", 1)
    pods = [builders.running("busy", "g-0", 4000), builders.pending("p", 4000)]
    asked, decision = probe(builders.observe([builders.group("g", members)], members, pods), settings)
    late = builders.observe([builders.group("g", members, target=2)], members, pods)
    autoscaler_status, _ = probe(late, settings, before=asked, memory=decision.memory, now_s=NOW_S + 900.5)
    told = status_configmap.status_document(autoscaler_status)["nodeGroups"][0]["scaleUp"]
    assert told["status"] == "Backoff"
    assert told["backoffInfo"] == {
        "errorCode": "timeout",
        "errorMessage": "Scale-up timed out for node group g after 15m0.5s",
    }


CONDITIONS = st.builds(
    StatusCondition,
    st.sampled_from(["Healthy", "Unhealthy", "NoActivity"]),
    st.just(NOW_S),
    st.integers(0, 2**31).map(float),
)


MESSAGES = st.text(max_size=600).filter(lambda text: not text.endswith("s"))


@hypothesis.settings(deadline=None, max_examples=40)
@given(names=st.lists(st.text(min_size=1), unique=True, max_size=4), message=MESSAGES, data=st.data())
def test_whatever_names_and_messages_hold_the_text_can_be_read_back(
    names: list[str], message: str, data: st.DataObject
) -> None:
    waiting = Backoff(NOW_S, 1.0, NOW_S, node_groups.InstanceError("Other", "code", message))
    groups = tuple(
        NodeGroupStatus(
            name, data.draw(CONDITIONS), Readiness(), 1, 0, 9, data.draw(CONDITIONS), waiting, data.draw(CONDITIONS), 0
        )
        for name in names
    )  # fmt: skip
    text = status_configmap.format_status(AutoscalerStatus(NOW_S, None, groups))
    told = yaml.safe_load(text).get("nodeGroups", [])
    assert [group["name"] for group in told] == names
    messages = [group["scaleUp"]["backoffInfo"].get("errorMessage", "") for group in told]
    assert messages == [status_configmap.truncate_message(message)] * len(names)
    since = status_configmap.parse_transition_times(text)
    for group in groups:
        parts = {"health": group.health, "scaleUp": group.scale_up, "scaleDown": group.scale_down}
        assert all(
            since[group.name, part] == (status_condition.status, status_condition.since_s)
            for part, status_condition in parts.items()
        )


def test_groups_that_are_left_alone_are_named_with_the_reason() -> None:
    found = status_configmap.status_document(
        AutoscalerStatus(NOW_S, held=(node_groups.HeldGroup("MachineDeployment/default/g", "it is paused"),))
    )
    assert found["heldNodeGroups"] == [{"name": "MachineDeployment/default/g", "reason": "it is paused"}]
    assert "heldNodeGroups" not in status_configmap.status_document(AutoscalerStatus(NOW_S))
