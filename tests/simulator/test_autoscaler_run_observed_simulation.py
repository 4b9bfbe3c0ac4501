"""A story that is watched comes out as it would alone; it can be asked while it is played and when it is over."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from tests.cli.test_simulate import STORY
from windlass import errors
from windlass.autoscaler.record_replay import replay
from windlass.observability.status_model import PublishedStatus
from windlass.simulator import autoscaler_run, simulation
from windlass.simulator.autoscaler_run import ObservedSimulation
from windlass.simulator.scenario import loader, model


def read_story(**flags: str) -> model.Scenario:
    story = loader.parse_scenario(STORY, "small")
    return msgspec.structs.replace(story, flags={**story.flags, **flags})


def ignore(_: object) -> None: ...


def test_a_story_is_the_same_whoever_watches() -> None:
    alone = simulation.Simulation(read_story()).run(autoscaler_run.run_autoscaler)
    watched = ObservedSimulation(read_story())
    simulation_result = simulation.Simulation(read_story()).run(lambda story: watched.run(story, ignore))
    assert (simulation_result.totals, simulation_result.series) == (alone.totals, alone.series)


def test_a_story_can_be_watched_and_asked_from_another_thread(tmp_path: Path) -> None:
    file = tmp_path / "small.rec"
    story = read_story(record=str(file))
    watched = ObservedSimulation(story, speed=600.0)
    playing = threading.Thread(target=simulation.Simulation(story).run, args=(lambda one: watched.run(one, ignore),))

    async def watch() -> tuple[list[str], PublishedStatus]:
        events: list[str] = []
        with watched.published.watch() as watcher:
            playing.start()
            while watched.published.status is None or not watched.published.status.cluster.is_over:
                await watcher.wait()
                events += [message.event for message in watched.published.take_messages(watcher)]
                if watched.published.status is not None and "asked" not in events:
                    now_s = await watched.query(lambda observation, memory, settings, now_s: now_s)
                    assert now_s > 0.0
                    events.append("asked")
        groups = await watched.query(lambda seen, memory, settings, now_s: len(seen.groups))
        assert groups == len(watched.published.status.groups), "the story is over, and can still be asked"
        return events, watched.published.status

    events, status = asyncio.run(watch())
    playing.join()
    assert events[0] == "status"
    assert events.count("status") == 1
    assert "change" in events
    assert (status.cluster.name, status.cluster.mode) == ("small", "simulated")
    assert {published_decision.kind for published_decision in status.decisions} >= {"up", "down"}

    replayed = replay.read_published_status(file)
    assert replayed.cluster.mode == "recorded"
    assert [(one.kind, one.said) for one in replayed.decisions] == [(one.kind, one.said) for one in status.decisions]
    early = replay.read_published_status(file, status.decisions[0].at_s)
    assert len(early.decisions) == 1


def test_a_story_that_has_not_begun_says_so() -> None:
    async def ask() -> None:
        await ObservedSimulation(read_story()).query(lambda *moment: None)

    with pytest.raises(errors.WindlassError, match="has not started"):
        asyncio.run(ask())


def test_the_page_is_told_the_cluster_the_currency_and_where_the_runbook_is() -> None:
    flags = {"cluster-name": "prod", "currency": "EUR", "runbook": "https://runbook/#"}
    setting = ObservedSimulation(read_story(**flags)).published.setting
    assert (setting.cluster_name, setting.currency, setting.runbook) == ("prod", "EUR", "https://runbook/#")
