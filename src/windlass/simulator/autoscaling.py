"""The real autoscaler as a player: the same process as live, on the story's API server, by its clock."""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from windlass import clock
from windlass.autoscaler import flags, process
from windlass.autoscaler.autoscaler import Think, inline
from windlass.autoscaler.published.publisher import Publisher
from windlass.engine.decide import Decision
from windlass.kube import transport
from windlass.providers.clusterapi import config
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Simulation

_SIMULATED = {"leader-elect": ["false"], "kube-client-qps": ["0"]}
"""There is nobody to compete with, and a limit on calls would only make the story longer."""
_PRESET = {"write-status-configmap": ["false"]}
"""Unless the story says otherwise: nobody in it reads the status, and writing it takes an eighth of the time."""

Hear = Callable[[Decision], None]
"""Told of every decision when it is made."""


class Audience(Protocol):
    """Somebody who watches the autoscaler play."""

    published: Publisher
    """Where its status goes."""

    def meet(self, process: process.Process) -> None:
        """Be told who plays, before it begins."""


async def play(simulation: Simulation, hear: Hear = lambda decision: None, audience: Audience | None = None) -> None:
    """Until cancelled. InvalidInput for flags that cannot be used."""
    scenario = simulation.scenario
    await live(scenario, simulation.transport, simulation.clock, random.Random(scenario.seed), hear, audience)


async def live(
    scenario: model.Scenario,
    server: transport.Transport,
    time: clock.Clock,
    chance: random.Random,
    hear: Hear = lambda decision: None,
    audience: Audience | None = None,
    think: Think[Decision] = inline,
) -> None:
    """One process of it, until cancelled. `think`: how it decides."""
    given = {name: [model.spell_flag(value)] for name, value in scenario.flags.items()}
    servers = process.Servers(server, server)
    chosen, wiring = flags.read_flags(given), flags.read_wiring({**_PRESET, **given, **_SIMULATED})
    playing = process.Process(
        servers,
        chosen,
        wiring,
        config.read((), {}),
        time,
        _heard(hear, think),
        chance,
        audience.published if audience is not None else None,
    )
    playing.reporter.keeps_gauges = False
    if audience is not None:
        audience.meet(playing)
    async with asyncio.TaskGroup() as together:
        together.create_task(playing.world.run())
        together.create_task(playing.provider.run())
        together.create_task(playing.lead())


def _heard(hear: Hear, think: Think[Decision]) -> Think[Decision]:
    """Decide, and say what was decided."""

    async def think_aloud(work: Callable[[], Decision]) -> Decision:
        decision = await think(work)
        # Whoever asks between two loops thinks here, too; and who has a question decides again with the answer.
        if isinstance(decision, Decision) and decision.question is None:
            hear(decision)
        return decision

    return think_aloud
