"""What the chronicle keeps, and that leaving out idle loops changes nothing of it."""

import asyncio
import random
from collections.abc import Callable

from tests.cli.test_simulate import STORY
from windlass.autoscaler import app
from windlass.autoscaler.options import flags
from windlass.engine.loop import Decision
from windlass.explain.decision_view import DecisionView
from windlass.observability import decision_log
from windlass.providers.clusterapi import auto_discovery
from windlass.simulator import autoscaler_run, simulation
from windlass.simulator.scenario import loader

Played = tuple[simulation.SimulationResult, list[decision_log.LogEntry], int]


async def _play_every_loop(story: simulation.Simulation, hear: autoscaler_run.DecisionCallback) -> None:
    """The same, but for loops that are left out."""

    async def think(work: Callable[[], Decision]) -> Decision:
        decision = work()
        hear(decision)
        return decision

    given = {name: [str(value).lower()] for name, value in story.scenario.flags.items()}
    alone = {"leader-elect": ["false"], "kube-client-qps": ["0"], "write-status-configmap": ["false"]}
    servers = app.ApiServers(story.transport, story.transport)
    settings, wiring = flags.parse_settings(given), flags.parse_process_options({**given, **alone})
    playing = app.AutoscalerProcess(
        servers, settings, wiring, auto_discovery.read_config((), {}), story.clock, think, random.Random(4)
    )
    playing.autoscaler._skips_idle_loops = False
    async with asyncio.TaskGroup() as together:
        together.create_task(playing.cluster_state.run())
        together.create_task(playing.provider.run())
        together.create_task(playing.lead())


def _play(play: Callable[[simulation.Simulation, autoscaler_run.DecisionCallback], object]) -> Played:
    story = simulation.Simulation(loader.parse_scenario(STORY, "small"))
    told, loops = decision_log.DecisionLog(story.clock.monotonic_s), 0

    def hear(decision: Decision) -> None:
        nonlocal loops
        loops += 1
        told.add_decision(DecisionView(decision))

    result = story.run(lambda found: play(found, hear))  # type: ignore[arg-type, return-value]
    return result, list(told.entries), loops


def test_leaving_out_idle_loops_changes_nothing_that_happens() -> None:
    result, log_entries, loops = _play(autoscaler_run.run_autoscaler)
    other, otherwise, more = _play(_play_every_loop)
    assert (result.totals, log_entries) == (other.totals, otherwise)
    assert loops < more / 2


def test_decisions_are_told_with_their_reasons() -> None:
    _, log_entries, _ = _play(autoscaler_run.run_autoscaler)
    ups = [log_entry for log_entry in log_entries if log_entry.kind == "up"]
    downs = [one for one in log_entries if one.kind == "down"]
    assert ups[0].at_s >= 300
    assert "pods like default/web-" in ups[0].why
    assert "unschedulable" in ups[0].why
    assert downs[0].at_s >= 1200
    assert "unneeded for 2m" in downs[0].why
    assert not any("MachineDeployment" in one.said for one in log_entries)
