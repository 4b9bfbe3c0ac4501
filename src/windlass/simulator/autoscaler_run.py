"""Autoscaler run: the real autoscaler process in a simulation, on its API server and its virtual clock.

`run_autoscaler` runs until it is cancelled; `run_scenario` plays a scenario to its end and returns the result with all
decisions made meanwhile.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import DecisionRunner, run_inline
from windlass.autoscaler.options import flags
from windlass.engine.loop import Decision
from windlass.kube import transport
from windlass.observability.decision_log import DecisionLog, LogEntry
from windlass.observability.status_publisher import StatusPublisher
from windlass.providers.clusterapi import group_discovery
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Simulation, SimulationResult
from windlass.simulator.workload_trace import Trace

_FORCED_FLAGS = {"leader-elect": ["false"], "kube-client-qps": ["0"]}
"""There is nobody to compete with, and a limit on calls would only make the story longer."""

_DEFAULT_FLAGS = {"write-status-configmap": ["false"]}
"""Unless the story says otherwise: nobody in it reads the status, and writing it takes an eighth of the time."""

DecisionCallback = Callable[[Decision], None]
"""Told of every decision when it is made."""


class ProcessObserver(Protocol):
    """Somebody who watches the autoscaler play."""

    published: StatusPublisher
    """Where its status goes."""

    def attach(self, process: app.AutoscalerProcess) -> None:
        """Be told who plays, before it begins."""


async def run_autoscaler(
    simulation: Simulation, hear: DecisionCallback = lambda decision: None, audience: ProcessObserver | None = None
) -> None:
    """Until cancelled. InvalidInput for flags that cannot be used."""
    scenario = simulation.scenario
    await run_process(scenario, simulation.transport, simulation.clock, random.Random(scenario.seed), hear, audience)


async def run_process(
    scenario: model.Scenario,
    server: transport.Transport,
    time: clock.Clock,
    chance: random.Random,
    hear: DecisionCallback = lambda decision: None,
    audience: ProcessObserver | None = None,
    think: DecisionRunner[Decision] = run_inline,
) -> None:
    """One process of it, until cancelled. `think`: how it decides."""
    given = {name: [model.format_flag(value)] for name, value in scenario.flags.items()}
    servers = app.ApiServers(server, server)
    chosen, wiring = (
        flags.parse_settings(given),
        flags.parse_process_options({**_DEFAULT_FLAGS, **given, **_FORCED_FLAGS}),
    )
    playing = app.AutoscalerProcess(
        servers,
        chosen,
        wiring,
        group_discovery.read_config((), {}),
        time,
        _report_decisions(hear, think),
        chance,
        audience.published if audience is not None else None,
    )
    playing.reporter.keeps_gauges = False
    if audience is not None:
        audience.attach(playing)
    async with asyncio.TaskGroup() as together:
        together.create_task(playing.cluster_state.run())
        together.create_task(playing.provider.run())
        together.create_task(playing.lead())


def _report_decisions(hear: DecisionCallback, think: DecisionRunner[Decision]) -> DecisionRunner[Decision]:
    """Decide, and say what was decided."""

    async def think_aloud(work: Callable[[], Decision]) -> Decision:
        decision = await think(work)
        # Whoever asks between two loops thinks here, too; and who has a question decides again with the answer.
        if isinstance(decision, Decision) and decision.question is None:
            hear(decision)
        return decision

    return think_aloud


SimulationHook = Callable[[Simulation], None]
"""Told of a simulation before it is played."""

AutoscalerRunner = Callable[[Simulation, DecisionCallback], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """What there is to tell."""

    label: str
    """Which settings: as given on the command line, or `as written`."""
    scenario: model.Scenario
    result: SimulationResult
    decisions: tuple[LogEntry, ...]
    fixed_nodes: int = 0
    """Of a recorded workload: how many machines its cluster had, all the time. 0: of no such."""

    @property
    def lasts_s(self) -> float:
        return float(self.scenario.duration)


def run_scenario(
    label: str,
    scenario: model.Scenario,
    trace: Trace | None,
    watch: SimulationHook,
    with_: AutoscalerRunner = run_autoscaler,
) -> ScenarioRun:
    """To its end. `with_`: who plays, if not the autoscaler alone."""
    simulation = Simulation(scenario, trace)
    watch(simulation)
    chronicle = DecisionLog(simulation.clock.monotonic_s)
    result = simulation.run(lambda story: with_(story, chronicle.add_decision))
    fixed = 0 if trace is None else trace.machine_count
    return ScenarioRun(label, scenario, result, tuple(chronicle.entries), fixed)
