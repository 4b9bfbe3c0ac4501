"""Autoscaler run: the real autoscaler process in a simulation, on its API server and its virtual clock.

`run_autoscaler` runs until it is cancelled; `run_scenario` runs a scenario to its end and returns the result with all
decisions.
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
from windlass.explain.decision_view import DecisionView
from windlass.kube import transport
from windlass.observability.decision_log import DecisionLog, LogEntry
from windlass.observability.status_publisher import StatusPublisher
from windlass.providers.clusterapi import group_discovery
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Simulation, SimulationResult
from windlass.simulator.workload_trace import Trace

_FORCED_FLAGS = {"leader-elect": ["false"], "kube-client-qps": ["0"]}
"""No other process competes for the lease, and a rate limit would only slow the simulation down."""

_DEFAULT_FLAGS = {"write-status-configmap": ["false"]}
"""Unless the scenario sets it: the status ConfigMap is not read, and writing it takes an eighth of the time."""

DecisionCallback = Callable[[Decision], None]
"""Called with every decision."""


class ProcessObserver(Protocol):
    """Observer of the autoscaler's process."""

    published: StatusPublisher
    """Receiver of its status."""

    def attach(self, process: app.AutoscalerProcess) -> None:
        """Receive the process before it starts."""


async def run_autoscaler(
    simulation: Simulation, hear: DecisionCallback = lambda decision: None, audience: ProcessObserver | None = None
) -> None:
    """Run until cancelled. InvalidInput for unusable flags."""
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
    """Run one autoscaler process until cancelled. `think` runs a decision."""
    given = {name: [model.format_flag(value)] for name, value in scenario.flags.items()}
    servers = app.ApiServers(server, server)
    settings, wiring = (
        flags.parse_settings(given),
        flags.parse_process_options({**_DEFAULT_FLAGS, **given, **_FORCED_FLAGS}),
    )
    playing = app.AutoscalerProcess(
        servers,
        settings,
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
    """A decision runner that reports decisions."""

    async def run_and_report(work: Callable[[], Decision]) -> Decision:
        decision = await think(work)
        # Queries between two loops are answered here, too; a loop with an expander's answer decides again.
        if isinstance(decision, Decision) and decision.question is None:
            hear(decision)
        return decision

    return run_and_report


SimulationHook = Callable[[Simulation], None]
"""Called with a simulation before it runs."""

AutoscalerRunner = Callable[[Simulation, DecisionCallback], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """Result of one scenario run."""

    label: str
    """The settings, as on the command line, or `as written`."""
    scenario: model.Scenario
    result: SimulationResult
    decisions: tuple[LogEntry, ...]
    fixed_nodes: int = 0
    """Number of machines of the recorded cluster; 0 without a trace."""

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
    """Run a scenario to its end. `with_` runs the autoscaler."""
    simulation = Simulation(scenario, trace)
    watch(simulation)
    chronicle = DecisionLog(simulation.clock.monotonic_s)
    result = simulation.run(lambda story: with_(story, lambda decision: chronicle.add_decision(DecisionView(decision))))
    fixed = 0 if trace is None else trace.machine_count
    return ScenarioRun(label, scenario, result, tuple(chronicle.entries), fixed)
