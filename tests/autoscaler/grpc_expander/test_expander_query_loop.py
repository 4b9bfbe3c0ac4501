"""The loop with the user's own expander: asked between two decisions, recorded, told of, and never waited for long."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autoscaler.grpc_expander import go_server
from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.engine.loop import builders
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.grpc_expander.client import GrpcExpanderClient
from windlass.autoscaler.options import flags
from windlass.autoscaler.record_replay import recorder, replay
from windlass.engine import loop
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import node_groups
from windlass.engine.model.scale_up_status import BestOptionsResponse, OptionKey
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.explain import explain_context, pods, render_pods
from windlass.kube.events import WARNING, InvolvedObject
from windlass.observability import counter_values, metric_definitions, object_events

Ask = Callable[[BestOptionsRequest], Awaitable[BestOptionsResponse]]


def asking(*expanders: str) -> Settings:
    settings = recorded_clusters.quick()
    return replace(settings, scale_up=replace(settings.scale_up, expander=expanders))


class Scripted:
    """Answers one after another; the last for ever."""

    def __init__(self, *answers: Sequence[str] | str) -> None:
        self.answers, self.asked = list(answers), list[BestOptionsRequest]()

    async def __call__(self, question: BestOptionsRequest) -> BestOptionsResponse:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            return BestOptionsResponse(question.about, failure=answer)
        return BestOptionsResponse(question.about, tuple(answer))


def grown(cluster: Cluster) -> dict[str, int]:
    return {name: group.size for name, group in cluster.provider.groups.items() if group.size}


async def wait_for_nodes(cluster: Cluster, count: int) -> None:
    await cluster.until(lambda: len(cluster.provider.nodes) >= count)


@pytest.mark.parametrize("wanted", ["a", "b", "c"])
def test_the_group_that_it_names_grows(wanted: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        for name in "abc":
            cluster.add_group(name)
        ask = Scripted([wanted])
        async with cluster.autoscaling(ask=ask):
            for number in range(6):
                cluster.add_pod(f"p{number}", "2")
            await cluster.until(lambda: grown(cluster))
        assert grown(cluster) == {wanted: 3}
        (question,) = ask.asked
        assert [(option.group, option.node_count) for option in question.options] == [("a", 3), ("b", 3), ("c", 3)]
        assert {tuple(sorted(pod.name for pod in pods)) for pods in question.pods} == {
            ("p0", "p1", "p2", "p3", "p4", "p5")
        }

    play(scenario, asking("grpc"))


@pytest.mark.parametrize("answer", ["Unavailable: gone", ["nowhere"]])
def test_without_a_usable_answer_the_next_expander_decides(answer: Sequence[str] | str) -> None:
    async def scenario(cluster: Cluster) -> None:
        wasteful, _ = cluster.add_group("a"), cluster.add_group("b")
        wasteful.template = replace(wasteful.template, capacity=(("cpu", 64_000), ("memory", 2**40), ("pods", 110)))
        async with cluster.autoscaling(ask=Scripted(answer)):
            cluster.add_pod("p", "2")
            await cluster.until(lambda: grown(cluster))
        assert grown(cluster) == {"b": 1}

    play(scenario, asking("grpc", "least-waste"))


ABOUT = (OptionKey("a", 1), OptionKey("b", 2))


@pytest.mark.parametrize(
    ("opinion", "said", "worth"),
    [
        (
            BestOptionsResponse(ABOUT, failure="Unavailable: gone"),
            "gave no answer (Unavailable: gone); the next",
            "failed",
        ),
        (BestOptionsResponse(ABOUT, ("x", "x", "")), 'named x, "" and none of the options; the next', "no_option"),
        (BestOptionsResponse(ABOUT), None, "none_wanted"),
        (BestOptionsResponse(ABOUT, ("b",)), None, "followed"),
    ],
)
def test_what_was_asked_in_vain_is_an_event_and_every_answer_counts(
    opinion: BestOptionsResponse, said: str | None, worth: str
) -> None:
    observation = Observation(Snapshot(), opinions=(opinion,))
    events = list(
        object_events.expander_events(observation, InvolvedObject("v1", "ConfigMap", "status", "kube-system"))
    )
    assert [event.message for event in events] == (
        [] if said is None else [f"the grpc expander {said} expander decides"]
    )
    assert all((occurrence.type, occurrence.reason) == (WARNING, "GRPCExpanderFailed") for occurrence in events)
    assert list(counter_values.count_opinions(observation)) == [
        metric_definitions.CounterIncrement("windlass_expander_answers_total", (worth,))
    ]


def test_who_wants_no_option_is_asked_again_in_every_loop() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a")
        ask = Scripted([], [], ["a"])
        async with cluster.autoscaling(ask=ask):
            cluster.add_pod("p", "2")
            await cluster.until(lambda: grown(cluster))
        assert len(ask.asked) == 3

    play(scenario, asking("grpc"))


def test_a_group_that_refuses_is_decided_on_again_without_asking_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        refusing, _ = cluster.add_group("a"), cluster.add_group("b")
        refusing.refuses = node_groups.InstanceError("Other", "cloudProviderError", "no")
        ask = Scripted(["a"], ["b"])
        async with cluster.autoscaling(ask=ask):
            cluster.add_pod("p", "2")
            await cluster.until(lambda: grown(cluster))
        assert [tuple(option.group for option in asked.options) for asked in ask.asked] == [("a", "b"), ("b",)]
        assert grown(cluster) == {"b": 1}

    play(scenario, asking("grpc"))


# ── Recorded ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers that are followed, a failure, nonsense, and none wanted."""
    path = tmp_path_factory.mktemp("recorded") / "asked.rec"

    async def scenario(cluster: Cluster) -> None:
        ask = Scripted([], "DeadlineExceeded: no answer within 5 s", ["nowhere"], ["b", "nowhere"])
        cluster.add_group("a", 0, boot_s=5.0)
        cluster.add_group("b", 0, boot_s=5.0)
        async with recorded_clusters.recording(cluster, path, ask=ask):
            for number in range(3):
                cluster.add_pod(f"p{number}", "4")
                await wait_for_nodes(cluster, number + 1)
            await cluster.clock.sleep(20.0)

    play(scenario, asking("grpc", "least-nodes"))
    return path


def test_a_recording_with_answers_is_decided_again_as_it_was(file: Path) -> None:
    assert recorded_clusters.differences(file) == []
    said = {
        best_options_response.effect.value
        for step in replay.Recording(file)
        for best_options_response in step.seen.opinions
    }
    assert said == {"none wanted", "failed", "no option", "followed"}


def test_what_was_not_done_because_it_was_decided_again_is_no_difference(file: Path) -> None:
    recording = replay.Recording(file)
    compared = list(replay.compare_decisions(recording, recording.settings))
    provisional = recorded_clusters.count(
        file, lambda turn: isinstance(turn.done, loop.Decision) and turn.done.question is not None
    )
    decisions = recorded_clusters.count(file, lambda turn: turn.step.of == recorder.DECIDE)
    assert provisional
    assert len(compared) == decisions - provisional


# ── Asked about ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_it_said_is_part_of_the_explanation() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a")
        cluster.add_group("b", boot_s=60.0)
        async with cluster.autoscaling(ask=Scripted(["b"])) as running:
            cluster.add_pod("p", "2")
            await cluster.until(lambda: grown(cluster))
            told = await running.query(
                lambda *moment: list(
                    render_pods.render_pod(
                        pods.explain_pod(replace(explain_context.evaluate(*moment), past=running.past_choices), 0)
                    )
                )
            )
        assert "The grpc expander chose b." in "\n".join(told)

    play(scenario, asking("grpc"))


def test_a_simulation_without_a_server_leaves_it_to_the_next_expander() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a")
        wiring = flags.parse_process_options({"expander": "grpc,random"})
        ask = app.make_expander_query(
            expander_query.open_expander(["grpc", "random"], wiring.expander, is_needed=False), is_live=False
        )
        async with cluster.autoscaling(ask=ask) as running:
            cluster.add_pod("p", "2")
            await cluster.until(lambda: grown(cluster))
            choice = running.past_choices["a"].choice
        assert choice.opinion.startswith("the grpc expander gave no answer (no --grpc-expander-url says")

    play(scenario, asking("grpc", "random"))


def test_a_slow_server_does_not_hold_the_loop_for_longer_than_rounds_may_take() -> None:
    """Each answer takes 25 s of the clock, and there are 60: the third question is the last that is put."""

    async def scenario(cluster: Cluster) -> None:
        asked: list[BestOptionsRequest] = []

        async def ask(question: BestOptionsRequest) -> BestOptionsResponse:
            asked.append(question)
            await cluster.clock.sleep(25.0)
            return BestOptionsResponse(question.about, ("a",))

        async def decide_anew(observation: Observation) -> loop.Decision:
            """There is always another question, until someone fails."""
            decision = loop.decide(observation, running.memory, cluster.settings, cluster.clock.now_s())
            failed = any(best_options_response.failure for best_options_response in observation.opinions)
            return replace(decision, question=None if failed else BestOptionsRequest((), (), {}))

        async with cluster.autoscaling() as running:
            seen, decision = await expander_query.decide_with_expander(
                Observation(Snapshot()), decide_anew, ask, cluster.clock, 60.0
            )
        assert len(asked) == 3
        assert decision.question is None
        assert seen.opinions[-1].failure == "questions took 60 s; no time for more"

    play(scenario)


# ── With the server in Go ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.xdist_group("expander server")
def test_loops_go_on_while_the_server_hangs_and_follow_it_again_when_it_answers(
    expander_binary: Path, tmp_path: Path
) -> None:
    with go_server.serving(expander_binary) as served:
        server = GrpcExpanderClient(expander_query.parse_address(f"http://127.0.0.1:{served.port}"), within_s=1.0)
        ask = app.make_expander_query(server, is_live=False)

        async def scenario(cluster: Cluster) -> None:
            for name in "ab":
                cluster.add_group(name)
            async with recorded_clusters.recording(cluster, tmp_path / "file", ask=ask) as running:
                served.tell("hang")
                cluster.add_pod("first", "2")
                await cluster.until(lambda: grown(cluster))
                (first,) = grown(cluster)
                assert "DeadlineExceeded" in running.past_choices[first].choice.opinion
                other = "b" if first == "a" else "a"
                served.tell(f"answer {other}")
                for number in range(4):
                    cluster.add_pod(f"later{number}", "3")
                await cluster.until(lambda: other in grown(cluster))
                assert running.past_choices[other].choice.opinion == f"the grpc expander chose {other}"

        play(scenario, asking("grpc", "random"))
    assert recorded_clusters.differences(tmp_path / "file") == []


@pytest.mark.xdist_group("expander server")
def test_a_plan_asks_the_server_that_its_flags_name(expander_binary: Path) -> None:
    observation = builders.observe([builders.group("a"), builders.group("b")], (), [builders.pending("p", 1000)])
    with go_server.serving(expander_binary) as served:
        served.tell("answer b")
        given = {"expander": "grpc", "grpc-expander-url": f"http://127.0.0.1:{served.port}"}
        settings, wiring = flags.parse_settings(given), flags.parse_process_options(given)
        moment = asyncio.run(
            app.query_expander((observation, LoopMemory(), settings, builders.NOW_S), wiring, clock.RealClock())
        )
    at = explain_context.evaluate(*moment)
    assert builders.sizes(at.decision) == {"b": 1}
    (proposal,) = at.decision.story.scale_ups
    choice = explain_context.explain_choice(proposal)
    assert choice is not None
    assert choice.opinion == "the grpc expander chose b"
