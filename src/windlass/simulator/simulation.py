"""One simulation run: scenario, simulated cluster, autoscaler, metrics and invariant checks.

`ScenarioDriver` applies workloads, arrivals and timeline steps to the simulated cluster. `FaultInjector` is a transport
that fails some requests and delays others during a `trouble` step.
"""

import asyncio
import contextlib
import datetime
import functools
import gc
import math
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass import clock, formatting
from windlass.kube import errors, transport
from windlass.observability.decision_log import LogEntry
from windlass.observability.options import ReportingOptions
from windlass.observability.status_model import DecisionOutcome
from windlass.simulator import metrics, workload_trace
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.invariants import InvariantChecker, Violation
from windlass.simulator.metrics import MetricsCollector, MetricSeries
from windlass.simulator.scenario import manifests, model


class FaultInjector:
    """Transport that fails or delays requests of another transport."""

    def __init__(self, inner: transport.Transport, clock_: clock.Clock, rng: random.Random) -> None:
        self._inner, self._clock, self._rng = inner, clock_, rng
        self.error_rate = 0.0
        self.delay_s = 0.0

    async def send(self, request: transport.Request) -> transport.Response:
        if self.delay_s:
            await self._clock.sleep(min(self.delay_s, request.timeout_s))
            if self.delay_s >= request.timeout_s:
                raise errors.CallTimedOut(request.call, f"no answer within {request.timeout_s:g} s")
        if self.error_rate and self._rng.random() < self.error_rate:
            raise errors.ConnectFailed(request.call, "the API server does not answer")
        return await self._inner.send(request)


Json = dict[str, Any]

_DAY_S = 86400.0

_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class ScenarioDriver:
    """Applies a scenario's workloads and timeline to the simulated cluster."""

    def __init__(self, scenario: model.Scenario, cluster: SimulatedCluster, troubled: FaultInjector) -> None:
        self._scenario, self._cluster, self._troubled = scenario, cluster, troubled
        self._api, self._event_loop = cluster.api, cluster.event_loop
        self._rng = cluster.random_streams.for_component("workloads")
        self._workloads = {workload.name: workload for workload in scenario.workloads}
        self._jobs = 0
        self.excused: set[tuple[str, int]] = set()
        """Sizes of MachineDeployments that the scenario has set, by key."""

    def start(self) -> None:
        """Create the initial workloads, and schedule timers for arrivals and timeline steps."""
        namespaces = {workload.namespace for workload in self._scenario.workloads}
        for name in sorted(namespaces - {"default", "kube-system"}):
            self._api.post(api_client.NAMESPACES, {"metadata": {"name": name}})
        classes = {
            manifests.priority_class_name(workload): workload
            for workload in self._scenario.workloads
            if workload.priority is not None
        }
        for workload in classes.values():
            self._api.post(api_client.PRIORITY_CLASSES, manifests.make_priority_class(workload))
        for workload in self._scenario.workloads:
            self._create_workload(workload)
        for buffer in self._scenario.buffers:
            self._api.post(api_client.CAPACITY_BUFFERS, manifests.make_buffer(self._workloads[buffer.workload], buffer))
        for step in self._scenario.timeline:
            self._event_loop.call_later(step.at, functools.partial(self._apply_step, step))

    def _create_workload(self, workload: model.Workload) -> None:
        budget = manifests.make_budget(workload)
        if budget is not None:
            self._api.post(api_client.BUDGETS, budget)
        if workload.kind == "Job":
            if workload.arrivals is not None:
                self._await_arrival(workload, workload.arrivals)
            return
        replicas = workload.replicas if workload.daily is None else self._size_now(workload.daily)
        self._api.post(manifests.WORKLOAD_KINDS[workload.kind], manifests.make_workload(workload, replicas))
        if workload.daily is not None:
            self._event_loop.call_later(workload.daily.every, lambda: self._scale_daily(workload))

    # ── Arrivals ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _size_now(self, daily: model.Daily) -> int:
        """Replicas on a cosine between low and high, with the high at the peak's time of day."""
        phase = 2 * math.pi * (self._event_loop.wall_s() - daily.peak) / _DAY_S
        size = daily.low + (daily.high - daily.low) * (1 + math.cos(phase)) / 2
        if daily.noise:
            size *= max(1 + self._rng.gauss(0.0, daily.noise), 0.0)
        return round(size)

    def _scale_daily(self, workload: model.Workload) -> None:
        assert workload.daily is not None
        self._scale(workload, self._size_now(workload.daily))
        self._event_loop.call_later(workload.daily.every, lambda: self._scale_daily(workload))

    def _await_arrival(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        if arrivals.per_hour <= 0:
            return
        wait_s = round(self._rng.expovariate(arrivals.per_hour / 3600), 3)
        if arrivals.until is None or self._event_loop.now_s() + wait_s <= arrivals.until:
            self._event_loop.call_later(wait_s, lambda: self._arrive(workload, arrivals))

    def _arrive(self, workload: model.Workload, arrivals: model.Arrivals) -> None:
        self._create_jobs(workload, 1)
        self._await_arrival(workload, arrivals)

    def _create_jobs(self, workload: model.Workload, count: int, **changes: Any) -> None:
        """Create Jobs of a workload; `changes`: fields that differ from the workload's."""
        if changes:
            workload = msgspec.structs.replace(workload, **changes)
        for _ in range(count):
            self._jobs += 1
            job = manifests.make_job(workload, f"{workload.name}-{self._jobs}")
            if workload.provisioning is None:
                self._api.post(api_client.JOBS, job)
            else:
                self._cluster.queue.submit(job, f"{workload.provisioning}.autoscaling.x-k8s.io")

    def _scale(self, workload: model.Workload, to: int) -> None:
        owner = self._find(workload)
        if owner is not None and owner["spec"].get("replicas") != to:
            self._api.update_spec(manifests.WORKLOAD_KINDS[workload.kind], owner, replicas=to)

    def _find(self, workload: model.Workload) -> Json | None:
        return self._api.find(manifests.WORKLOAD_KINDS[workload.kind], f"{workload.namespace}/{workload.name}")

    # ── The timeline ─────────────────────────────────────────────────────────────────────────────────────────────

    def _apply_step(self, step: model.AnyStep) -> None:
        cloud, later = self._cluster.cloud, self._event_loop.call_later
        match step:
            case model.Scale():
                self._scale(self._workloads[step.workload], step.to)
            case model.Jobs():
                self._burst(step, step.times)
            case model.Rollout():
                self._roll_out(self._workloads[step.workload])
            case model.Remove():
                self._remove(self._workloads[step.workload])
            case model.Upgrade():
                self._for_each_zone(step.group, self._upgrade)
            case model.Resize():
                self._for_each_zone(step.group, lambda name: self._resize(name, step.to))
            case model.Outage():
                cloud.fail_zone(step.zone)
                later(step.lasts, lambda: cloud.recover_zone(step.zone))
            case model.StockOut():
                self._for_each_zone(step.group, cloud.exhaust_capacity)
                later(step.lasts, lambda: self._for_each_zone(step.group, cloud.restore_capacity))
            case model.Vanish():
                for instance in cloud.pick(step.group, step.count):
                    cloud.vanish(instance)
            case model.Unready():
                for instance in cloud.pick(step.group, step.count):
                    cloud.take_down(instance)
                    later(step.lasts, functools.partial(cloud.bring_back, instance))
            case model.Trouble():
                self._inject_faults(step.errors, step.delay)
                later(step.lasts, lambda: self._inject_faults(0.0, 0.0))

    def _burst(self, step: model.Jobs, remaining: int) -> None:
        changes = {"replicas": step.pods, "run": step.run}
        given = {name: value for name, value in changes.items() if value is not None}
        self._create_jobs(self._workloads[step.workload], step.count, **given)
        if remaining > 1 and step.every is not None:
            self._event_loop.call_later(step.every, lambda: self._burst(step, remaining - 1))

    def _roll_out(self, workload: model.Workload) -> None:
        owner = self._find(workload)
        if owner is not None:
            template = api_client.with_annotation(owner["spec"]["template"], _RESTARTED_AT, self._api.now())
            self._api.update_spec(api_client.DEPLOYMENTS, owner, template=template)

    def _remove(self, workload: model.Workload) -> None:
        path = self._api.path_of(manifests.WORKLOAD_KINDS[workload.kind], workload.namespace)
        if self._find(workload) is not None:
            self._api.request("DELETE", f"{path}/{workload.name}", propagationPolicy="Background")

    def _for_each_zone(self, group: str, act: Any) -> None:
        """Apply an action to a group, in all its zones."""
        for node_group in self._cluster.cloud.groups.values():
            if group in (node_group.name, node_group.machine_type):
                act(node_group.name)

    def _upgrade(self, name: str) -> None:
        machine_deployment = self._api.list_objects(api_client.MACHINE_DEPLOYMENTS)[f"{node_groups.NAMESPACE}/{name}"]
        template = machine_deployment["spec"]["template"]
        spec = {**template["spec"], "version": template["spec"]["version"] + "-next"}
        self._api.update_spec(api_client.MACHINE_DEPLOYMENTS, machine_deployment, template={**template, "spec": spec})

    def _resize(self, name: str, to: int) -> None:
        key = f"{node_groups.NAMESPACE}/{name}"
        self.excused.add((key, to))
        self._api.update_spec(
            api_client.MACHINE_DEPLOYMENTS,
            self._api.list_objects(api_client.MACHINE_DEPLOYMENTS)[key],
            replicas=to,
        )

    def _inject_faults(self, error_rate: float, delay_s: float) -> None:
        self._troubled.error_rate, self._troubled.delay_s = error_rate, delay_s


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
        self.driver = ScenarioDriver(scenario, self.cluster, self.fault_injector)
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
