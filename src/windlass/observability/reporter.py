"""Reporter: turns what the loop reports into events, the status ConfigMap, metrics and log lines.

    reporter.begin_loop()
    decision = decide(seen, memory, settings, now_s)
    decision_report = reporter.before_acting(seen, decision, now_s)      # before anything is awaited
    result = await act(decision.plan)
    reporter.after_acting(decision_report, result)
    reporter.end_loop()                                                  # or reporter.loop_failed(error)

Nothing here waits: `run` writes to the API server in the background. A failure to report is logged and stops nothing.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ParamSpec

from windlass import errors, klog
from windlass.engine import drain_loop, loop
from windlass.engine.model.decision_record import DecisionRecord, ScaleDownResult
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.quarantine import Faults
from windlass.explain.decision_view import DecisionView
from windlass.klog import ErrorPlace
from windlass.kube import client
from windlass.kube.events import EventOccurrence, EventRecorder, InvolvedObject
from windlass.observability import (
    counter_values,
    debugging_snapshot,
    decision_events,
    decision_log,
    gauge_values,
    metric_definitions,
    object_events,
    options,
    status_configmap,
    status_publisher,
)
from windlass.observability.decision_events import DecisionReport
from windlass.observability.gauge_values import SkippedNodes
from windlass.observability.metric_definitions import LoopFunction, MetricRegistry
from windlass.observability.status_configmap import StatusWriter

P = ParamSpec("P")

COMPONENT = "cluster-autoscaler"
"""Event source component; users filter by it."""

EVENT_DEDUPLICATION_S = 300.0
"""Time within which an equal event is written once, unless --record-duplicated-events is set."""

CLOSE_TIMEOUT_S = 1.0
"""Time limit at shutdown for writing queued events, and again for deleting the status."""

_MAX_RESTART_BACKOFF_S = 60.0
"""Maximum backoff before a failed writer restarts."""

_ATTEMPTED_RESULTS = frozenset({ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR, ScaleUpResult.NO_OPTIONS})

_log = logging.getLogger(__name__)


def _report_unexpected(error: Exception, what: str) -> None:
    klog.report_error(ErrorPlace.REPORTER, what, klog.describe_error(error), error)


def _guarded(what: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Log and count errors of reporting, so that they cannot affect actions."""

    def guard(method: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(method)
        def guarded(*given: P.args, **more: P.kwargs) -> None:
            try:
                method(*given, **more)
            except Exception as error:
                _report_unexpected(error, what)

        return guarded

    return guard


class Reporter:
    """Reports decisions. `api` should be a separate client, so that actions never wait for reports.

    Without actions (--dry-run, --shadow) it writes no events and no status: they would report actions that were not
    taken.
    """

    def __init__(
        self,
        api: client.Client,
        settings: Settings,
        objects: options.ObjectOptions | None = None,
        reporting: options.ReportingOptions | None = None,
        mode: options.ModeOptions | None = None,
        snapshots: debugging_snapshot.SnapshotRequester | None = None,
        published: status_publisher.StatusPublisher | None = None,
        management: client.Client | None = None,
    ) -> None:
        """`management`: client of the management cluster, if it is a different one."""
        self._objects, mode = objects or options.ObjectOptions(), mode or options.ModeOptions()
        reporting = reporting or options.ReportingOptions()
        self._emits_events = not (mode.dry_run or mode.shadow)
        self._keeps_status = self._emits_events and self._objects.write_status_configmap
        self.metrics = MetricRegistry(per_group=reporting.emit_per_nodegroup_metrics)
        self.metrics.set_gauges(gauge_values.settings_gauges(settings))
        self.keeps_gauges = True
        """Whether gauges are updated: a waste of time where no endpoint serves them."""
        self._settings, self._clock = settings, api.clock
        window_s = 0.0 if reporting.record_duplicated_events else EVENT_DEDUPLICATION_S
        self._recorder = EventRecorder(api, COMPONENT, window_s=window_s)
        self._group_recorder = EventRecorder(management or api, COMPONENT, window_s=window_s)
        self._externally_managed: frozenset[str] = frozenset()
        """Groups whose size another controller manages, as of the last loop."""
        self._writer = StatusWriter(api, self._objects.namespace, self._objects.status_config_map_name)
        self._status = status_configmap.initial_status(api.clock.now_s())
        self._drains: decision_events.DrainsByNode = {}
        self._faults: dict[ErrorPlace, Faults] = {}
        """Evaluation faults of the last decision, and of the last drain step."""
        self._last_report: DecisionReport | None = None
        """Report of the last loop."""
        self._unneeded: counter_values.TrackedNodes = {}
        self._tracks_latency = reporting.node_removal_latency_tracking_enabled
        self._skipped: SkippedNodes | None = None
        if reporting.max_node_skip_eval_time_tracker_enabled:
            self._skipped = SkippedNodes(api.clock.now_s())
        self._queued: asyncio.Queue[tuple[float, EventOccurrence]] = asyncio.Queue()
        """Queued events with their times."""
        self._rate_limiter = decision_events.EventRateLimiter(api.clock)
        self._snapshots, self._published = snapshots, published
        self._loop_began_s, self._loop_began_monotonic_s = api.clock.now_s(), api.clock.monotonic_s()
        self._durations: list[tuple[LoopFunction, float]] = []
        """Durations in seconds of functions called since the last loop ended."""

    # Start and shutdown

    async def start(self) -> None:
        """Read the status of an earlier process, and report the start."""
        if self._keeps_status:
            since = await self._writer.read_since()
            self._status = status_configmap.initial_status(self._clock.now_s(), since)
            self._writer.put(self._status)
            await self._writer.flush()

    async def run(self) -> None:
        """Write events and the status until cancelled. A failure of one writer does not end the others."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._restart_on_failure("events", self._recorder.run))
            group.create_task(self._restart_on_failure("events of node groups", self._group_recorder.run))
            group.create_task(self._restart_on_failure("event queue", self._record_queued_events))
            if self._keeps_status:
                group.create_task(self._restart_on_failure("status", self._writer.run))

    async def _restart_on_failure(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await write()
            except Exception as error:
                failures += 1
                klog.report_error(klog.ErrorPlace.REPORTER, what, "", error)
                await self._clock.sleep(min(2.0**failures, _MAX_RESTART_BACKOFF_S))

    async def close(self) -> None:
        """Flush queued events while `run` still runs, and delete the status."""
        self._rate_limiter.disable()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._queued.join()
                await self._recorder.wait_written()
                await self._group_recorder.wait_written()
        if self._keeps_status:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.delete()

    # Main loop

    @_guarded("failed to report the start of a loop")
    def begin_loop(self) -> None:
        """Record the start of a loop."""
        self._loop_began_s, self._loop_began_monotonic_s = self._clock.now_s(), self._clock.monotonic_s()
        self.metrics.set_last_activity(LoopFunction.MAIN, self._loop_began_s)

    @_guarded("failed to report the end of a loop")
    def end_loop(self) -> None:
        """Record the successful end of a loop."""
        self.metrics.set_last_activity(LoopFunction.MAIN_SUCCESSFUL, self._clock.now_s())
        self._observe_loop_durations()

    @_guarded("failed to report a failed loop")
    def loop_failed(self, error: BaseException) -> None:
        """Record a failed loop."""
        self.metrics.increment(
            (
                metric_definitions.CounterIncrement(
                    f"{metric_definitions.CA_PREFIX}errors_total", (counter_values.error_type(error),)
                ),
            )
        )
        self._observe_loop_durations()
        if self._snapshots is not None and self._snapshots.is_wanted:
            document = debugging_snapshot.build_failure_snapshot(str(error), self._loop_began_s, self._clock.now_s())
            self._snapshots.offer(debugging_snapshot.encode_snapshot(document))

    def before_acting(
        self,
        observation: Observation,
        decision: loop.Decision | drain_loop.DrainLoopResult,
        now_s: float,
        instead_of: DecisionReport | None = None,
    ) -> DecisionReport:
        """Report the decision before acting. A repeated decision after a rejection passes the first report.

        Must be called before anything is awaited: the snapshot must be unchanged since the decision.
        """
        try:
            if isinstance(decision, drain_loop.DrainLoopResult):
                self._report_faults(decision.faults, ErrorPlace.DRAIN)
                self._publish_drains(observation, decision, now_s)
                report = self._make_drain_report(observation, decision, now_s)
            else:
                view = DecisionView(decision)
                self._report_faults(decision.faults)
                self._report_owned(view.observation)
                self._publish(view, now_s)
                report = self._make_loop_report(view, now_s)
            events = frozenset(instead_of.emitted_events.before) if instead_of is not None else frozenset()
            self._emit(event for event in report.emitted_events.before if event not in events)
            return report
        except Exception as error:  # a bug in reports must not stop scale-up
            _report_unexpected(error, "failed to report a decision")
            return DecisionReport(decision, now_s)

    @_guarded("failed to report the result of a plan")
    def after_acting(self, report: DecisionReport, result: PlanResult) -> None:
        """Report the result of a plan."""
        self._report(report, result)

    def after_evicting(self, report: DecisionReport, result: PlanResult) -> None:
        """Report the results of evictions."""
        try:
            self._report_result(report, result)
        except Exception:
            _log.exception("failed to report results of evictions")

    # Other reports

    @contextlib.contextmanager
    def measure(self, function: LoopFunction) -> Iterator[None]:
        """Measure the duration of a part of the loop."""
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self.observe_duration(function, self._clock.monotonic_s() - began_s)

    def observe_duration(self, function: LoopFunction, seconds: float) -> None:
        """Record the duration of a function call. Observed when the loop ends, because the call may be extended."""
        self._durations.append((function, seconds))

    def extend_duration(self, function: LoopFunction, seconds: float) -> None:
        """Extend the duration of a function's last call in this loop, or replace it."""
        for number in reversed(range(len(self._durations))):
            if self._durations[number][0] is function:
                self._durations[number] = function, self._durations[number][1] + seconds
                return
        self.observe_duration(function, seconds)

    @_guarded("failed to report the duration of a decision")
    def observe_decision(self, kind: str, seconds: float) -> None:
        """Observe the duration of a decision: `kind` is decide or advance."""
        self.metrics.observe(metric_definitions.DECISION_SECONDS, (kind,), seconds)

    @_guarded("failed to report invalid objects")
    def set_aside(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """Report objects that cannot be read completely."""
        self.metrics.set_aside(Counter(complaint.kind for complaint in complaints))

    @_guarded("failed to report the size of memory")
    def memory_saved(self, size_bytes: int) -> None:
        """Record the size of the written memory in bytes."""
        self.metrics.set_gauges({metric_definitions.MEMORY_BYTES.name: {(): float(size_bytes)}})

    @_guarded("failed to report the reconciliation of CapacityBuffers")
    def buffers_reconciled(self, oldest_s: Mapping[bool, float]) -> None:
        """Record the oldest reconciliation of a CapacityBuffer, by whether it is its first."""
        values: metric_definitions.SeriesValues = {
            ("true" if is_new else "false",): float(int(at_s)) for is_new, at_s in oldest_s.items()
        }
        self.metrics.set_gauges({metric_definitions.BUFFERS_RECONCILED.name: values})

    def leader_changed(self, namespace: str, lease: str, who: str, leads: bool = True) -> None:
        """Emit an event of acquiring or losing leadership."""
        self._emit((decision_events.leader_event(namespace, lease, who, leads),))

    @_guarded("failed to report invalid priorities")
    def invalid_priorities(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """Emit an event if the priority expander's ConfigMap is invalid."""
        self._emit(tuple(object_events.invalid_priority_events(self._objects.namespace, complaints)))

    # Internals

    @_guarded("failed to publish the status")
    def _publish(self, view: DecisionView, now_s: float) -> None:
        if self._published is not None:
            self._published.on_decision(view, now_s)

    @_guarded("failed to publish the status")
    def _publish_drains(self, observation: Observation, advanced: drain_loop.DrainLoopResult, now_s: float) -> None:
        if self._published is not None:
            self._published.on_advance(observation, advanced, now_s)

    @_guarded("failed to report evaluation faults")
    def _report_faults(self, faults: Faults, place: ErrorPlace = ErrorPlace.DECISION) -> None:
        """Count and log new evaluation faults."""
        reported = self._faults.get(place, ())
        for fault in faults:
            if fault not in reported:
                klog.report_error(place, str(fault.suspect), fault.error, fault.cause)
        self._faults[place] = faults

    @_guarded("failed to report groups managed by another controller")
    def _report_owned(self, observation: Observation) -> None:
        """Log, and emit an event for, each group whose size another controller newly manages."""
        for event in object_events.replicas_owned_events(observation.groups, self._externally_managed):
            about = event.about
            name = f"{about.kind}/{about.namespace}/{about.name}"
            _log.warning("node group size is managed by another controller: group=%s error=%s", name, event.message)
            if self._emits_events:
                self._group_recorder.record(about, event.type, event.reason, event.message)
        owned = frozenset(group.id for group in observation.groups if group.replicas_owner is not None)
        for name in sorted(self._externally_managed - owned):
            _log.info("node group size is no longer managed by another controller: group=%s", name)
        self._externally_managed = owned

    def _make_loop_report(self, view: DecisionView, now_s: float) -> DecisionReport:
        decision = view.decision
        if self._snapshots is not None and self._snapshots.is_wanted:
            document = debugging_snapshot.build_snapshot(view, self._settings, self._loop_began_s, now_s)
            self._snapshots.offer(debugging_snapshot.encode_snapshot(document))
        for line in decision_log.summarize_decision(view):
            _log.log(klog.verbosity_level(0 if decision.plan else 1), "%s", line)
        if self._skipped is not None and view.evaluation is not None:
            self._skipped = self._skipped.update(view.evaluation.trials.skipped, now_s)
        if self._last_report is not None and decision.story is self._last_report.decision.story:
            # the same decision about an equal observation
            return replace(self._last_report, decision=decision, now_s=now_s, view=view.freeze())
        latencies = list[counter_values.RemovalLatency]()
        if self._tracks_latency:
            self._unneeded, latencies = counter_values.track_removals(self._unneeded, view, self._settings, now_s)
        report = decision_events.report_decision(view, self._settings, self._writer.reference, latencies, now_s)
        if not self.keeps_gauges:
            return report
        gauges = gauge_values.decision_gauges(view, self._settings, now_s)
        if self._skipped is not None:
            gauges = {**gauges, **gauge_values.skipped_node_gauges(self._skipped)}
        return replace(report, gauges=gauges)

    def _make_drain_report(
        self, observation: Observation, advanced: drain_loop.DrainLoopResult, now_s: float
    ) -> DecisionReport:
        for line in decision_log.summarize_drains(advanced):
            _log.info("%s", line)
        return decision_events.report_drains(observation, advanced, self._drains, now_s)

    def _report(self, report: DecisionReport, result: PlanResult) -> None:
        self._report_result(report, result)
        self.metrics.set_gauges(report.gauges)
        if report.view is not None:
            self._report_loop_result(report, report.view, result)
        else:
            self.metrics.increment(report.counts)
        self._drains = report.decision.memory.durable.drains

    def _report_result(self, report: DecisionReport, result: PlanResult) -> None:
        self._emit(decision_events.plan_result_events(report.plan_context, result, self._writer.reference))
        removals = report.plan_context.unregistered
        self.metrics.increment(
            counter_values.count_outcome(result, report.objects, report.plan_context.drains, removals)
        )

    def _report_loop_result(self, report: DecisionReport, view: DecisionView, result: PlanResult) -> None:
        self._emit((*report.emitted_events.after, *decision_events.raised_group_events(report.emitted_events, result)))
        if self._last_report is None or view.record is not self._last_report.decision.story:
            self._count_decision(report, view.decision)  # a cached decision was counted when it was made
        self._last_report = report
        self._record_activity(view.record, report.now_s)
        status = status_configmap.build_cluster_status(view, result, self._status, report.now_s)
        self._status = replace(status, held=report.held)
        if self._keeps_status:
            self._writer.put(self._status)

    def _count_decision(self, report: DecisionReport, decision: loop.Decision) -> None:
        self.metrics.increment(report.counts)
        for labels, kinds in counter_values.observe_estimates(decision):
            self.metrics.observe(metric_definitions.HETEROGENEITY, labels, kinds)
        for removal_latency in report.latencies:
            self.metrics.observe(metric_definitions.REMOVAL_LATENCY, removal_latency.labels, removal_latency.seconds)

    def _observe_loop_durations(self) -> None:
        self.observe_duration(LoopFunction.MAIN, self._clock.monotonic_s() - self._loop_began_monotonic_s)
        durations, self._durations = self._durations, []
        for function, seconds in durations:
            self.metrics.observe_duration(function, seconds)

    def _record_activity(self, story: DecisionRecord, now_s: float) -> None:
        if story.repairs.stop is None:
            self.metrics.set_last_activity(LoopFunction.AUTOSCALING, now_s)
        if any(proposal.result in _ATTEMPTED_RESULTS for proposal in story.scale_ups):
            self.metrics.set_last_activity(LoopFunction.SCALE_UP, now_s)
        if story.scale_down.result not in (ScaleDownResult.NOT_TRIED, ScaleDownResult.IN_COOLDOWN):
            self.metrics.set_last_activity(LoopFunction.SCALE_DOWN, now_s)

    def _emit(self, events: "Iterator[EventOccurrence] | decision_events.Occurrences") -> None:
        at_s = self._clock.now_s()
        is_logged = _log.isEnabledFor(klog.verbosity_level(4))  # as Kubernetes' event recorders do
        for event in events:
            if is_logged:
                about = f"{event.about.kind} {event.about.namespace}/{event.about.name}"
                _log.log(
                    klog.verbosity_level(4), "event: object=%r reason=%s message=%s", about, event.reason, event.message
                )
            if self._emits_events and (self._keeps_status or not self._is_status(event)):
                self._queued.put_nowait((at_s, event))

    def _is_status(self, event: EventOccurrence) -> bool:
        about: InvolvedObject = event.about
        wanted = (self._objects.namespace, self._objects.status_config_map_name)
        return about.kind == "ConfigMap" and (about.namespace, about.name) == wanted

    async def _record_queued_events(self) -> None:
        """Pass events to the recorder at the limited rate: one loop can emit thousands of events."""
        while True:
            at_s, event = await self._queued.get()
            by_message = self._is_status(event)
            self._recorder.record(
                event.about, event.type, event.reason, event.message, by_message=by_message, at_s=at_s
            )
            self._queued.task_done()
            await self._rate_limiter.wait(self._queued.qsize())
