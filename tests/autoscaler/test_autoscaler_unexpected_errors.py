"""The live loop with an object that raises what nothing foresees: it is named in log, metric and explain."""

import functools
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import test_utils

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.engine.loop import builders
from windlass import klog
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine import drain_loop
from windlass.engine.actuation import eviction
from windlass.engine.drainability import rules
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot import node_table
from windlass.explain import explain_context, queries, verdicts
from windlass.explain.queries import ExplainQuery, SubjectKind
from windlass.klog import ErrorPlace
from windlass.observability import object_events, reporter, status_routes

ERRORS = (ValueError, RecursionError, OverflowError, MemoryError)


def quick() -> Settings:
    settings = Settings()
    groups = replace(settings.groups, scale_down_unneeded_time_s=20.0)
    return replace(settings, groups=groups, scale_down=replace(settings.scale_down, scale_down_delay_after_add_s=10.0))


def raise_for(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_odd: Callable[..., bool], error: type[Exception]
) -> None:
    real = getattr(owner, name)

    @functools.wraps(real)
    def raising(*given: Any, **more: Any) -> Any:
        if is_odd(*given):
            raise error("odd")
        return real(*given, **more)

    monkeypatch.setattr(owner, name, raising)


def asks_for_three(_: Any, shape: facts.PodShape, *__: Any) -> bool:
    return (facts.CPU, 3000) in shape.spec.requests


def is_odd_pod(pod: facts.Pod, *_: Any) -> bool:
    return pod.name == "odd"


def count(place: ErrorPlace) -> int:
    return klog.UNEXPECTED_ERRORS.counts()[place]


def find_lines(caplog: pytest.LogCaptureFixture, place: ErrorPlace) -> list[logging.LogRecord]:
    return [item for item in caplog.records if item.getMessage().startswith(f"unexpected error: place={place} ")]


async def explain(running: Autoscaler, question: ExplainQuery) -> str:
    def answer(*moment: Any) -> str:
        told = queries.answer_query(question, explain_context.evaluate(*moment))
        assert not isinstance(told, queries.ObjectNotFound)
        return "\n".join(queries.render_explanation(told))

    return await running.query(answer)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted and logged from nothing on."""
    errors = klog.UnexpectedErrors()
    monkeypatch.setattr(klog, "UNEXPECTED_ERRORS", errors)
    monkeypatch.setattr(klog, "report_error", errors.report)


@pytest.mark.parametrize("error", ERRORS)
def test_other_pods_get_their_node_within_two_loops_of_a_pod_that_raises(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raise_for(monkeypatch, registry, "static_mask", asks_for_three, error)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(3.0)
            cluster.add_pod("odd", "3")
            cluster.add_pod("full", "4", node="a-1")
            cluster.add_pod("web", "2")
            took_s = await cluster.until(lambda: cluster.provider.groups["a"].size > 1)
            assert took_s <= 20.0
            await cluster.clock.sleep(60.0)
            assert cluster.provider.groups["a"].size == 2
            assert running.loop.failures == 0
            told = await explain(running, ExplainQuery(SubjectKind.POD, "odd", "default"))
            assert "could not evaluate Pod default/odd" in told
            assert f"{error.__name__}: odd" in told
            assert "Decided without it: Pod default/odd" in await explain(running, ExplainQuery(SubjectKind.CLUSTER))

    play(scenario)
    lines = find_lines(caplog, ErrorPlace.DECISION)
    assert len(lines) == 1
    assert "object='Pod default/odd'" in lines[0].getMessage()
    assert lines[0].exc_info is not None
    assert count(ErrorPlace.DECISION) == 1


def test_a_node_with_a_pod_that_raises_stays_and_others_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raise_for(monkeypatch, rules, "check_pod", is_odd_pod, RecursionError)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 3)
        cluster.register_nodes()
        cluster.add_pod("odd", "100m", node="a-1")
        cluster.add_pod("full", "3", node="a-2")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: cluster.provider.groups["a"].size == 2)
            await cluster.clock.sleep(120.0)
            assert [node.name for node in cluster.provider.nodes] == ["a-1", "a-2"]
            assert "could not evaluate Pod default/odd" in await explain(running, ExplainQuery(SubjectKind.NODE, "a-1"))
            assert "The node is kept" in await explain(running, ExplainQuery(SubjectKind.POD, "odd", "default"))

    play(scenario, quick())
    assert len(find_lines(caplog, ErrorPlace.DECISION)) == 1


def test_a_drain_that_raises_waits_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_broken = True
    real = eviction.evict_pods

    def evict(cases: Any, situation: Any) -> None:
        if is_broken and any(case.name == "a-1" and case.is_open for case in cases):
            raise OverflowError("odd")
        real(cases, situation)

    monkeypatch.setattr(
        drain_loop, "DRAIN_STEPS", tuple(evict if step is real else step for step in drain_loop.DRAIN_STEPS)
    )

    async def scenario(cluster: Cluster) -> None:
        nonlocal is_broken
        cluster.add_group("a", 3)
        cluster.register_nodes()
        cluster.add_pod("full", "3", node="a-2")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: cluster.provider.groups["a"].size == 2)
            await cluster.clock.sleep(30.0)
            assert [node.name for node in cluster.provider.nodes] == ["a-1", "a-2"]
            assert "a-1" in running.memory.durable.drains
            is_broken = False
            await cluster.until(lambda: cluster.provider.groups["a"].size == 1)

    play(scenario, quick())
    lines = find_lines(caplog, ErrorPlace.DRAIN)
    assert [("object='Node a-1'" in line.getMessage(), line.exc_info is not None) for line in lines] == [(True, True)]


@pytest.mark.parametrize("name", ["_make_loop_report", "_report", "_emit", "_report_loop_result"])
def test_a_loop_that_cannot_be_reported_succeeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_for(monkeypatch, reporter.Reporter, name, lambda *_: True, KeyError)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling() as running:
            cluster.add_pod("web", "3")
            cluster.add_pod("more", "3")
            await cluster.until(lambda: cluster.provider.groups["a"].size > 1)
            await cluster.clock.sleep(30.0)
            assert running.loop.failures == 0

    play(scenario)
    assert count(ErrorPlace.REPORTER) >= 1


def test_a_question_that_raises_is_answered_and_leaves_the_snapshot_as_it_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raise_for(monkeypatch, verdicts, "find_verdicts", lambda *_: True, ZeroDivisionError)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("full", "4", node="a-1")
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(3.0)
            cluster.add_pod("web", "9")
            await cluster.clock.sleep(3.0)
            handle = status_routes._make_explain_handler(SubjectKind.POD, running)
            request = test_utils.make_mocked_request(
                "GET", "/explain/pod/default/web", match_info={"namespace": "default", "name": "web"}
            )
            response = await handle(request)
            assert response.status == 503
            assert "pod default/web could not be explained: ZeroDivisionError: odd" in str(response.text)
            assert running._cluster_state.snapshot.forks == 0
            assert not running._cluster_state.snapshot.pods.left_out

    play(scenario)
    assert len(find_lines(caplog, ErrorPlace.EXPLAIN)) == 1


@pytest.mark.parametrize("limit_bytes", [recorded_clusters.PLENTY, 20_000])
def test_what_was_decided_without_an_object_is_decided_again_as_it_was(
    limit_bytes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    raise_for(monkeypatch, registry, "static_mask", asks_for_three, ValueError)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_pod("odd", "3")
        async with recorded_clusters.recording(cluster, tmp_path / "file", limit_bytes) as running:
            await recorded_clusters.live(cluster, running)
            assert [str(fault.suspect) for fault in running.decision.faults] == ["Pod default/odd"]  # type: ignore[union-attr]

    play(scenario, recorded_clusters.quick())
    assert recorded_clusters.differences(tmp_path / "file") == []


def is_template_of_b(_: Any, template: facts.Node, *__: Any) -> bool:
    return template.labels.get("group") == "b"


def test_a_group_that_raises_is_left_alone_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raise_for(monkeypatch, node_table.NodeTable, "add_copies", is_template_of_b, OverflowError)

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.add_group("b", 1)
        cluster.register_nodes()
        cluster.add_pod("full", "4", node="a-1")
        cluster.add_pod("as-full", "4", node="b-2")
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(3.0)
            for number in range(3):
                cluster.add_pod(f"web-{number}", "3")
            await cluster.until(lambda: cluster.provider.groups["a"].size == 4)
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["b"].size == 1
            assert "could not evaluate node group b: OverflowError" in await explain(
                running, ExplainQuery(SubjectKind.GROUP, "b")
            )
            assert "could not evaluate node group b" in await explain(running, ExplainQuery(SubjectKind.NODE, "b-2"))
            assert running.loop.failures == 0
            status = running.memory.durable
            assert list(status.held) == ["b"]

    play(scenario, quick())
    assert len(find_lines(caplog, ErrorPlace.DECISION)) == 1
    assert not find_lines(caplog, ErrorPlace.REPORTER)


def test_a_pending_pod_that_raises_is_told_so_by_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    raise_for(monkeypatch, registry, "static_mask", asks_for_three, ValueError)
    observation = builders.observe(
        [builders.group("g")], [], [builders.pending("odd", 3000), builders.pending("web", 100)]
    )
    decision = builders.decide_once(observation)
    events = list(object_events.unevaluated_pod_events(decision.evaluated, decision.faults))
    assert [(event.about.name, event.reason, event.message) for event in events] == [
        ("odd", "NotTriggerScaleUp", "pod didn't trigger scale-up: it could not be evaluated: ValueError: odd")
    ]
