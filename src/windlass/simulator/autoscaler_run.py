"""Autoscaler run: the real autoscaler process in a simulation, on its API server and its virtual clock.

An observed run answers status and explain queries from another thread, during the simulation and after it. The
simulation has its own event loop with virtual time. An observer, such as a web server, runs in real time in another
thread: the publisher passes statuses to it, and queries run in the simulation's loop between two steps. After the end
the state is final, and queries run in the caller's thread.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from windlass import clock, errors
from windlass.autoscaler import app
from windlass.autoscaler.app import AutoscalerProcess
from windlass.autoscaler.autoscaler import Autoscaler, DecisionRunner, run_inline
from windlass.autoscaler.options import flags, process_options
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context
from windlass.explain.decision_view import DecisionView
from windlass.kube import transport
from windlass.observability.decision_log import DecisionLog
from windlass.observability.status_publisher import StatusPublisher
from windlass.providers.clusterapi import auto_discovery
from windlass.simulator.scenario import model
from windlass.simulator.simulation import ScenarioRun, Simulation
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
    simulation: Simulation,
    on_decision: DecisionCallback = lambda decision: None,
    observer: ProcessObserver | None = None,
) -> None:
    """Run until cancelled. InvalidInput for unusable flags."""
    scenario = simulation.scenario
    await run_process(
        scenario, simulation.transport, simulation.clock, random.Random(scenario.seed), on_decision, observer
    )


async def run_process(
    scenario: model.Scenario,
    server: transport.Transport,
    time: clock.Clock,
    rng: random.Random,
    on_decision: DecisionCallback = lambda decision: None,
    observer: ProcessObserver | None = None,
    run_decision: DecisionRunner[Decision] = run_inline,
) -> None:
    """Run one autoscaler process until cancelled. `run_decision` runs a decision."""
    servers = app.ApiServers(server, server)
    settings, options = flags.parse_settings(_format_flags(scenario)), read_process_options(scenario)
    process = app.AutoscalerProcess(
        servers,
        settings,
        options,
        auto_discovery.read_config((), {}),
        time,
        _report_decisions(on_decision, run_decision),
        rng,
        observer.published if observer is not None else None,
    )
    process.reporter.keeps_gauges = False
    if observer is not None:
        observer.attach(process)
    async with asyncio.TaskGroup() as together:
        together.create_task(process.cluster_state.run())
        together.create_task(process.provider.run())
        together.create_task(process.lead())


def _format_flags(scenario: model.Scenario) -> dict[str, list[str]]:
    return {name: [model.format_flag(value)] for name, value in scenario.flags.items()}


def read_process_options(scenario: model.Scenario) -> process_options.ProcessOptions:
    """The process options of a scenario. InvalidInput for unusable flags."""
    return flags.parse_process_options({**_DEFAULT_FLAGS, **_format_flags(scenario), **_FORCED_FLAGS})


def _report_decisions(
    on_decision: DecisionCallback, run_decision: DecisionRunner[Decision]
) -> DecisionRunner[Decision]:
    """A decision runner that reports decisions."""

    async def run_and_report(work: Callable[[], Decision]) -> Decision:
        decision = await run_decision(work)
        # Queries between two loops are answered here, too; a loop with an expander's answer decides again.
        if isinstance(decision, Decision) and decision.question is None:
            on_decision(decision)
        return decision

    return run_and_report


SimulationHook = Callable[[Simulation], None]
"""Called with a simulation before it runs."""

AutoscalerRunner = Callable[[Simulation, DecisionCallback], Coroutine[Any, Any, None]]


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
    decision_log = DecisionLog(simulation.clock.monotonic_s)
    result = simulation.run(lambda running: with_(running, lambda made: decision_log.add_decision(DecisionView(made))))
    fixed = 0 if trace is None else trace.machine_count
    options = read_process_options(scenario)
    return ScenarioRun(
        label,
        scenario,
        result,
        tuple(decision_log.entries),
        decision_log.outcomes,
        fixed,
        options.reporting,
        options.recording.record,
    )


T = TypeVar("T")
DecisionInputs = tuple[Observation, LoopMemory, Settings, float]

_SLICE_S = 0.02
"""Longest sleep in real seconds while the simulation is ahead; queries wait for as long."""
_PAUSE_S = 0.2
"""Real seconds between two statuses."""
_SAMPLES = 600
"""Points of the trend lines over the whole scenario."""


class ObservedSimulation:
    """One run. `speed`: scenario seconds per real second; 0: as fast as possible."""

    def __init__(self, scenario: model.Scenario, speed: float = 0.0) -> None:
        setting = app.describe_publisher(read_process_options(scenario), "simulated", scenario.name, speed)
        sample_s = max(float(scenario.duration) / _SAMPLES, 1.0)
        self.published = StatusPublisher(self._now_s, setting, sample_s=sample_s, history_s=sample_s, pause_s=_PAUSE_S)
        self._speed = speed
        self._clock: clock.VirtualClock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._autoscaler: Autoscaler | None = None
        self._last: DecisionInputs | None = None

    # Simulation's thread

    async def run(self, simulation: Simulation, on_decision: DecisionCallback) -> None:
        """As `autoscaler_run.run_autoscaler`, at the given speed."""
        self._clock, self._loop = simulation.clock, asyncio.get_running_loop()
        pacing = asyncio.create_task(self._keep_pace(simulation.clock))
        try:
            await run_autoscaler(simulation, on_decision, self)
        finally:
            pacing.cancel()
            await self._end()

    async def _keep_pace(self, virtual: clock.VirtualClock) -> None:
        """Sleep whenever the simulation is ahead of the speed. Virtual time is not affected."""
        began_s, from_s = time.monotonic(), virtual.monotonic_s()
        while self._speed > 0.0:
            await virtual.sleep(self._speed * _SLICE_S)
            ahead_s = (virtual.monotonic_s() - from_s) / self._speed - (time.monotonic() - began_s)
            while ahead_s > 0.0:
                time.sleep(min(ahead_s, _SLICE_S))
                ahead_s -= _SLICE_S
                await asyncio.sleep(0)  # queries run meanwhile

    async def _end(self) -> None:
        """Keep the last observation for queries, and publish the end."""
        if self._autoscaler is not None and self._autoscaler.decision is not None:
            last: DecisionInputs = await self._autoscaler.query(lambda *moment: moment)
            self.published.refresh(DecisionView(decide(*last)), last[3])
            self.published.end()
            self._last = last
        self._loop = None

    def attach(self, process: AutoscalerProcess) -> None:
        """Receive the autoscaler's process."""
        self._autoscaler = process.autoscaler

    def _now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock.now_s()

    # Observer's thread

    @property
    def past_choices(self) -> Mapping[str, explain_context.PastChoice]:
        """Reasons of the last scale-ups by group."""
        return {} if self._autoscaler is None else self._autoscaler.past_choices

    @property
    def set_aside(self) -> Sequence[errors.InvalidObject]:
        """Objects that cannot be read, or only in part."""
        return () if self._autoscaler is None else self._autoscaler.set_aside

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        """Run an explain query from another thread's event loop. WindlassError before the first decision."""
        asked, loop = self._autoscaler, self._loop
        if asked is None:
            raise errors.WindlassError("the simulation has not started")
        if loop is not None:
            answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked.query(question), loop))
            await asyncio.wait([answer])
            if not answer.cancelled():
                return answer.result()
        last = self._last
        if last is None:
            raise errors.WindlassError("the simulation ended before the first decision")
        return await asyncio.to_thread(lambda: question(*last))  # the state is final
