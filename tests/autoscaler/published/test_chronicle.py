"""What the chronicle keeps, and that leaving out idle loops changes nothing of it."""

import asyncio
import random
from collections.abc import Callable

from tests.cli.test_simulate import STORY
from windlass.autoscaler import flags, process
from windlass.autoscaler.published import chronicle
from windlass.engine.decide import Decision
from windlass.providers.clusterapi import config
from windlass.simulator import autoscaling, simulation
from windlass.simulator.scenario import reading

Played = tuple[simulation.Result, list[chronicle.Entry], int]


async def _play_every_loop(story: simulation.Simulation, hear: autoscaling.Hear) -> None:
    """The same, but for loops that are left out."""

    async def think(work: Callable[[], Decision]) -> Decision:
        decision = work()
        hear(decision)
        return decision

    given = {name: [str(value).lower()] for name, value in story.scenario.flags.items()}
    alone = {"leader-elect": ["false"], "kube-client-qps": ["0"], "write-status-configmap": ["false"]}
    servers = process.Servers(story.transport, story.transport)
    chosen, wiring = flags.read_flags(given), flags.read_wiring({**given, **alone})
    playing = process.Process(servers, chosen, wiring, config.read((), {}), story.clock, think, random.Random(4))
    playing.autoscaler._patient = False
    async with asyncio.TaskGroup() as together:
        together.create_task(playing.world.run())
        together.create_task(playing.provider.run())
        together.create_task(playing.lead())


def _play(play: Callable[[simulation.Simulation, autoscaling.Hear], object]) -> Played:
    story = simulation.Simulation(reading.read(STORY, "small"))
    told, loops = chronicle.Chronicle(story.clock.monotonic_s), 0

    def hear(decision: Decision) -> None:
        nonlocal loops
        loops += 1
        told.hear(decision)

    result = story.play(lambda found: play(found, hear))  # type: ignore[arg-type, return-value]
    return result, list(told.entries), loops


def test_leaving_out_idle_loops_changes_nothing_that_happens() -> None:
    result, told, loops = _play(autoscaling.play)
    other, otherwise, more = _play(_play_every_loop)
    assert (result.totals, told) == (other.totals, otherwise)
    assert loops < more / 2


def test_decisions_are_told_with_their_reasons() -> None:
    _, told, _ = _play(autoscaling.play)
    ups = [one for one in told if one.kind == "up"]
    downs = [one for one in told if one.kind == "down"]
    assert ups[0].at_s >= 300
    assert "pods like default/web-" in ups[0].why
    assert "had no room" in ups[0].why
    assert downs[0].at_s >= 1200
    assert "unneeded for 2m" in downs[0].why
    assert not any("MachineDeployment" in one.said for one in told)
