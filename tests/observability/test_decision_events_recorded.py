"""The recorded events, each from a situation with the same names."""

import json
from dataclasses import replace

import pytest

from tests.engine.loop import builders
from tests.observability import cluster_autoscaler_recordings
from tests.observability.cluster_autoscaler_recordings import FROZEN, MD_A, STILL_THERE, A
from tests.observability.recorded_situations import NOW_S, PEER, Play, Told, find, flat, mark
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.durable_memory import DurableMemory
from windlass.observability import decision_events

SPEC_LATER = {"node_selector": (("zone", "elsewhere"),)}


def scale_up() -> list[Told]:
    (first,) = builders.nodes("md-a-ssh9m", 1)
    group = builders.group(MD_A, [first], min_size=1)
    busy = builders.running("work-0", first.name, 3900)
    names = ["work-76bb9d6677-6688p", *(f"work-{number}" for number in range(1, 5))]
    play = Play()
    play.decide(builders.observe([group], [first], [busy, *(builders.pending(name, 3900) for name in names)]))
    return flat(play.said)


def pods_that_fit_nowhere() -> list[Told]:
    (first,) = builders.nodes("md-a-ssh9m", 1)
    waiting = [builders.pending("picky", spec=SPEC_LATER), builders.pending("toobig", 64_000)]
    play = Play()
    play.decide(builders.observe([builders.group(MD_A, [first], min_size=1)], [first], waiting))
    return flat(play.said)


def remove(name: str, *pods: facts.Pod) -> list[Told]:
    """A node of md-a is chosen, marked, emptied and deleted."""
    keeps, goes = builders.node("md-a-ssh9m-keeps"), builders.node(name)
    group = builders.group(MD_A, [keeps, goes], min_size=1)
    busy = builders.running("busy", keeps.name, 2500)
    play = Play(builders.at_once(PEER), LoopMemory(DurableMemory(loop=5)))
    observation = builders.observe([group], [keeps, goes], [busy, *pods])
    for now_s in (NOW_S, NOW_S + 1):
        play.decide(observation, now_s)
    play.advance(observation, NOW_S + 1)
    marked = [keeps, mark(goes, NOW_S + 1)]
    play.advance(builders.observe([group], marked, [busy, *pods]), NOW_S + 2)
    play.advance(builders.observe([group], marked, [busy, *pods]), NOW_S + 8)
    play.advance(builders.observe([group], marked, [busy]), NOW_S + 10)
    return flat(play.said)


def scale_down() -> list[Told]:
    return [
        *remove("md-a-ssh9m-mrjw9"),
        *remove("md-a-ssh9m-djwbg", builders.running("work-76bb9d6677-r5p74", "md-a-ssh9m-djwbg", 1000)),
        *remove("md-a-ssh9m-7gdzd", builders.running("work-76bb9d6677-jttpb", "md-a-ssh9m-7gdzd", 1000)),
    ]


def machines_that_never_register() -> list[Told]:
    settings = builders.choose(PEER, "groups", max_node_provision_time_s=60.0)
    said: list[Told] = []
    for name, failure in (("flfgv-62hrq", ""), ("78c5k-zqpgb", "min size reached, nodes will not be deleted")):
        stuck = node_groups.Instance(f"pending-machine-default_a-{name}", "Creating")
        members = builders.nodes("a", 1)
        group = builders.group(A, members, instances=[stuck])
        play = Play(settings, LoopMemory(DurableMemory(loop=5)))
        removal = plan.DeleteInstances(A, (stuck.provider_id,), "never registered")
        play.decide(builders.observe([group], members), NOW_S)
        play.decide(builders.observe([group], members), NOW_S + 61, {removal: failure} if failure else {})
        said += flat(play.said)
    return said


def nodes_that_do_not_come() -> list[Told]:
    settings = builders.choose(PEER, "groups", max_node_provision_time_s=60.0)
    members = builders.nodes("a", 1)
    busy = builders.running("busy", "a-0", 4000)
    waiting = [builders.pending(f"w-{number}", 4000) for number in range(3)]
    play = Play(settings, LoopMemory(DurableMemory(loop=5)))
    play.decide(builders.observe([builders.group(A, members)], members, [busy, *waiting]))
    late = builders.group(A, members, target=4, instances=[node_groups.Instance("pending-machine-x", "Creating")])
    observation = builders.observe([late], members, [busy, *waiting])
    play.decide(observation, NOW_S + 30)
    revert = plan.ReduceTarget(A, 3, "nodes did not come in time", 4)
    play.decide(observation, NOW_S + 60.480033879, {revert: STILL_THERE})
    return flat(play.said)


def a_deletion_that_is_refused() -> list[Told]:
    node = builders.node("a-zrgn2-j6skh")
    keeps = builders.node("a-zrgn2-keeps")
    busy = builders.running("busy", keeps.name, 3000)
    group = builders.group(A, [keeps, node])
    play = Play(builders.at_once(PEER), LoopMemory(DurableMemory(loop=5)))
    for now_s in (NOW_S, NOW_S + 1):
        play.decide(builders.observe([group], [keeps, node], [busy]), now_s)
    play.advance(builders.observe([group], [keeps, node], [busy]), NOW_S + 1)
    marked = builders.observe([group], [keeps, mark(node, NOW_S + 1)], [busy])
    play.advance(marked, NOW_S + 2)
    refused: dict[plan.Instruction, str] = {plan.DeleteNode(node.name, A): FROZEN}
    play.advance(marked, NOW_S + 8, refused)
    play.advance(replace(marked, failed=refused), NOW_S + 9)
    return flat(play.said)


def a_raise_that_is_refused() -> list[Told]:
    observation = builders.observe([builders.group(A, target=0)], [], [builders.pending("w-6f95b79587-5s8jt", 100)])
    play = Play(PEER, LoopMemory(DurableMemory(loop=5)))
    error = node_groups.InstanceError("Other", "cloudProviderError", FROZEN)
    play.decide(observation, failed={plan.Resize(A, 0, 1, 10): FROZEN})
    play.memory = LoopMemory(DurableMemory(loop=5))
    play.decide(replace(observation, refused={A: error}))
    play.decide(observation, NOW_S + 10)
    return flat(play.said)


def groups_that_may_not_grow() -> list[Told]:
    full = [builders.nodes("x", 1), builders.nodes("y", 1)]
    groups = [builders.group("x", full[0], max_size=1), builders.group("y", full[1], max_size=1)]
    play = Play()
    waiting = builders.pending("big-5bdbd5f988-kc67x", 4001, namespace="team")
    play.decide(builders.observe(groups, [*full[0], *full[1]], [waiting]))
    broken = [builders.nodes(name, 4, conditions=builders.NOT_READY) for name in ("x", "y")]
    well = builders.nodes("other", 12)
    groups = [builders.group("x", broken[0]), builders.group("y", broken[1])]
    busy = [builders.running(f"busy-{number}", f"other-{number}", 4000) for number in range(12)]
    unready = Play()
    nodes = [*broken[0], *broken[1], *well]
    unready.decide(builders.observe(groups, nodes, [*busy, builders.pending("w-6f95b79587-plg92", 4001)]))
    return flat([*play.said, *find(unready.said, "NotTriggerScaleUp")])


def marks_left_behind() -> list[Told]:
    node = mark(builders.node("a-g6ql4-n8rkk"), NOW_S - 30)
    play = Play()
    play.decide(builders.observe([builders.group(A, [node])], [node]))
    return flat(play.said)


def an_election() -> list[Told]:
    return flat([decision_events.leader_event("kube-system", "cluster-autoscaler", "vm", leads=True)])


SITUATIONS = (
    scale_up, pods_that_fit_nowhere, scale_down, machines_that_never_register, nodes_that_do_not_come,
    a_deletion_that_is_refused, a_raise_that_is_refused, groups_that_may_not_grow, marks_left_behind,
    an_election,
)  # fmt: skip


@pytest.fixture(scope="module")
def told() -> list[Told]:
    return [event for situation in SITUATIONS for event in situation()]


@pytest.mark.parametrize("event", cluster_autoscaler_recordings.EVENTS, ids=str)
def test_each_recorded_event_is_told_word_by_word(event: Told, told: list[Told]) -> None:
    assert event in told, [other for other in told if other[1] == event[1]]


@pytest.mark.skipif(not cluster_autoscaler_recordings.OUTSIDE.exists(), reason="the recording is not at hand")
def test_the_transcription_is_the_recording() -> None:
    recording = json.loads((cluster_autoscaler_recordings.OUTSIDE / "events.json").read_text())
    found = [
        (
            item["type"], item["reason"], item["involvedObject"]["kind"], item["involvedObject"]["namespace"] or "",
            item["involvedObject"]["name"], item["message"],
        )
        for item in recording
    ]  # fmt: skip
    assert found == list(cluster_autoscaler_recordings.EVENTS)
