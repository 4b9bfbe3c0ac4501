"""`windlass explain`, `status` and `plan`: against a server, and what cannot be asked."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from aiohttp import web

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.cli.run import Outcome, windlass
from tests.explain import samples
from windlass import errors
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, pods
from windlass.explain.decision_view import PodState
from windlass.observability import status_routes
from windlass.runtime import http_server

T = TypeVar("T")


class Night:
    """Answers about the cluster of the sample page."""

    past_choices: ClassVar[Mapping[str, explain_context.PastChoice]] = {}
    set_aside: ClassVar[tuple[errors.InvalidObject, ...]] = ()

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        at = samples.take()
        return question(at.observation, at.memory, at.settings, at.now_s)


class Standby:
    past_choices: ClassVar[Mapping[str, explain_context.PastChoice]] = {}
    set_aside: ClassVar[tuple[errors.InvalidObject, ...]] = ()

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        raise errors.WindlassError("it has decided nothing yet")


def serve(asked: status_routes.ExplainSource) -> Iterator[str]:
    """An address at which it answers, from a thread of its own."""
    loop, ports, end = asyncio.new_event_loop(), [], asyncio.Event()
    ready = threading.Event()

    async def run() -> None:
        app = web.Application()
        status_routes.add_explain_routes(app, asked)
        async with http_server.serve("127.0.0.1:0", app) as port:
            ports.append(port)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(60.0)
    yield f"127.0.0.1:{ports[0]}"
    loop.call_soon_threadsafe(end.set)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from serve(Night())


@pytest.fixture
def standby() -> Iterator[str]:
    yield from serve(Standby())


def test_every_sample_of_the_page_is_what_a_live_autoscaler_answers(address: str) -> None:
    for command, lines in samples.samples():
        outcome = windlass(*command.split()[1:], "--address", address)
        assert outcome == Outcome(0, "\n".join(lines) + "\n", ""), command


def test_json_is_for_programs(address: str) -> None:
    told = json.loads(windlass("explain", "pod", "shop/report", "-o", "json", "--address", address).out)
    assert (told["state"], told["group"], told["requests"]["cpu"]) == ("Helped", "zone-c", 4000)
    assert json.loads(windlass("status", "-o", "json", "--address", address).out)["nodes"] == 7


def test_what_does_not_exist_is_1_and_names_like_it_are_told(address: str) -> None:
    outcome = windlass("explain", "pod", "report", "--address", address)
    assert outcome.code == 1
    assert outcome.err == f"windlass: {address}: there is no pod default/report; there is shop/report\n"


def test_one_that_does_not_lead_says_so(standby: str) -> None:
    outcome = windlass("status", "--address", standby)
    assert (outcome.code, outcome.err) == (2, f"windlass: {standby}: it has decided nothing yet\n")


def test_the_environment_names_the_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_ADDRESS", address)
    assert windlass("explain", "group", "spot").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "--address", "127.0.0.1:1"), "no autoscaler answers there"),
        (("status", "--address", ":1", "--expander=price"), "the autoscaler has its own settings"),
        (("status", "--at", "5m"), "found no --recording"),
        (("status", "--kubeconfig=/no/such/file"), "no such file"),
        (("plan", "--kubeconfig=/no/such/file"), "no such file"),
        (("plan", "--nonsense"), "unknown flag"),
        (("explain", "pod", "p", "--kubeconfig=/no/such/file"), "no such file"),
        (("status", "--recording", "/no/such/file"), "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: tuple[str, ...], said: str) -> None:
    outcome = windlass(*words)
    assert outcome.code == 2
    assert said in outcome.err


def test_a_recording_is_asked_as_it_was_then(tmp_path: Path) -> None:
    path = tmp_path / "recording"

    async def scenario(cluster: Cluster) -> None:
        async with recorded_clusters.recording(cluster, path) as running:
            await recorded_clusters.live(cluster, running)

    play(scenario, recorded_clusters.quick())
    first = windlass("status", "--recording", path, "--at", "10s")
    last = windlass("status", "--recording", path)
    assert (first.code, last.code) == (0, 0)
    assert first.out != last.out
    assert first.err.startswith(f"windlass: {path}: the decision of 2")
    assert last.err.endswith(" after its beginning, the last\n")
    assert windlass("status", "--recording", path, "--at", "soon").code == 2


def test_a_pod_that_waits_for_a_node_is_told_why_that_node_was_asked_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling() as running:
            cluster.add_pod("p", "4")
            cluster.add_pod("q", "4")
            while cluster.provider.groups["a"].size == 1:
                await cluster.clock.sleep(0.1)
            await cluster.clock.sleep(1.0)
            at = replace(await running.query(explain_context.evaluate), past=running.past_choices)
        row = next(row for row in at.snapshot.pending() if pods.explain_pod(at, row).state is PodState.UPCOMING)
        pod_explanation = pods.explain_pod(at, row)
        assert pod_explanation.choice is not None
        assert (pod_explanation.choice.winner, pod_explanation.group) == ("a", "a")
        assert pod_explanation.chosen_s is not None

    play(scenario)


def test_an_autoscaler_can_be_asked_between_two_loops_once_it_has_decided() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling() as running:
            with pytest.raises(errors.WindlassError, match="no decision yet"):
                await running.query(lambda seen, *_: seen)
            await cluster.clock.sleep(3.0)
            cluster.add_pod("p", "100")
            await cluster.clock.sleep(3.0)
            before = running.memory
            names = await running.query(
                lambda observation, memory, settings, now_s: [node.name for node in observation.nodes]
            )
            assert len(names) == 1
            assert running.memory is before

    play(scenario)
