"""One simulation run: scenario, simulated cluster, autoscaler, metrics and invariant checks."""

import asyncio
import contextlib
import datetime
import gc
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import clock, formatting
from windlass.kube import transport
from windlass.observability.decision_details import DecisionOutcome
from windlass.observability.decision_log import LogEntry
from windlass.observability.options import ReportingOptions
from windlass.simulator import metrics, workload_trace
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.invariants import InvariantChecker, Violation
from windlass.simulator.metrics import MetricsCollector, MetricSeries
from windlass.simulator.scenario import driver, manifests, model
from windlass.simulator.scenario.driver import FaultInjector

AutoscalerTask = Callable[["Simulation"], Coroutine[Any, Any, None]]
"""An autoscaler that uses `Simulation.transport` and `Simulation.clock` until it is cancelled."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Result of a run. The same for the same scenario and seed, to the byte."""

    scenario: str
    totals: metrics.Totals
    series: MetricSeries
    violations: tuple[Violation, ...]
    outcomes: tuple[metrics.ExpectationResult, ...] = field(default=())

    @property
    def is_as_expected(self) -> bool:
        return not self.violations and all(outcome.is_met for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """Result of one scenario run."""

    label: str
    """The settings, as on the command line, or `as written`."""
    scenario: model.Scenario
    result: SimulationResult
    decisions: tuple[LogEntry, ...]
    outcomes: Mapping[int, tuple[DecisionOutcome, ...]] = field(default_factory=dict)
    """What followed each decision, by its place."""
    fixed_nodes: int = 0
    """Number of machines of the recorded cluster; 0 without a trace."""
    reporting: ReportingOptions = field(default_factory=ReportingOptions)
    """Currency, cluster name and runbook, from the scenario's flags."""
    recording: str = ""
    """Path of the recording; empty without one."""

    @property
    def lasts_s(self) -> float:
        return float(self.scenario.duration)

    @property
    def currency(self) -> str:
        """Currency of costs; empty: they have no unit."""
        return formatting.find_currency(self.reporting.currency)


@contextlib.contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Raise the garbage collector's thresholds: nearly all objects are freed by reference counting, and frequent
    collections would take an eighth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()  # the autoscaler froze the heap at its start; thaw it after the run


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: model.Scenario, trace: workload_trace.Trace | None = None) -> None:
        self.scenario = scenario
        self.clock = clock.VirtualClock(datetime.datetime.fromisoformat(scenario.begins).timestamp())
        self.cluster = SimulatedCluster(self.clock, manifests.make_node_groups(scenario), scenario.seed)
        self.fault_injector = FaultInjector(
            self.cluster.transport, self.clock, self.cluster.random_streams.for_component("trouble")
        )
        self.driver = driver.ScenarioDriver(scenario, self.cluster, self.fault_injector)
        self._trace = workload_trace.TracePlayer(trace, self.cluster) if trace is not None else None
        self.meter = MetricsCollector(self.cluster, float(scenario.sample))
        self.checker = InvariantChecker(self.cluster.event_loop, self.driver.excused)
        self.cluster.event_loop.add_components((self.meter, self.checker))
        self.cluster.event_loop.before_each_step(self.meter.integrate)

    @property
    def transport(self) -> transport.Transport:
        """The transport to the API server, with the scenario's faults."""
        return self.fault_injector

    def run(self, autoscaler: AutoscalerTask | None = None) -> SimulationResult:
        """Run the whole scenario in virtual time."""
        with _rare_garbage_collection():
            return self.clock.run(self.run_async(autoscaler))

    async def run_async(self, autoscaler: AutoscalerTask | None = None) -> SimulationResult:
        """As `run`, within an event loop of `clock`."""
        self.cluster.create()
        self.driver.start()
        if self._trace is not None:
            self._trace.start()
        self.cluster.start()
        self.meter.start()
        running = asyncio.ensure_future(autoscaler(self)) if autoscaler is not None else None
        try:
            await self._run_until_end(running)
        finally:
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        self.meter.integrate()
        return self.result()

    async def _run_until_end(self, running: "asyncio.Future[None] | None") -> None:
        """Run until the end of the scenario, or until the autoscaler fails."""
        living = asyncio.ensure_future(self.cluster.event_loop.run(self.scenario.duration))
        waiting = {living} if running is None else {living, running}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()
            return
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        assert running is not None
        running.result()
        raise RuntimeError("the autoscaler ended before the scenario")

    def result(self) -> SimulationResult:
        """The result so far."""
        summed = metrics.compute_totals(
            self.meter,
            evictions_by_machines=self.cluster.machines.evictions,
            violations=len(self.checker.violations),
        )
        judged = tuple(
            metrics.check_expectation(expectation, summed, self.meter.series) for expectation in self.scenario.expect
        )
        return SimulationResult(self.scenario.name, summed, self.meter.series, tuple(self.checker.violations), judged)
