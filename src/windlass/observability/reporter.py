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
from windlass.klog import ErrorPlace
from windlass.kube import client
from windlass.kube.events import EventOccurrence, EventRecorder, InvolvedObject
from windlass.observability import (
    cluster_status,
    counter_values,
    debugging_snapshot,
    decision_events,
    decision_log,
    gauge_values,
    metric_definitions,
    object_events,
    options,
    status_publisher,
)
from windlass.observability.decision_events import DecisionReport
from windlass.observability.gauge_values import SkippedNodes
from windlass.observability.metric_definitions import LoopFunction
from windlass.observability.metric_registry import MetricRegistry
from windlass.observability.status_configmap import StatusWriter

P = ParamSpec("P")

COMPONENT = "cluster-autoscaler"
"""By this name events say who wrote them; users filter for it."""

EVENT_DEDUPLICATION_S = 300.0
"""Time within which the same event is written once, unless the user wants duplicates."""

CLOSE_TIMEOUT_S = 1.0
"""How long the end waits for events to be written, and as long again for the status to be deleted."""

_MAX_RESTART_BACKOFF_S = 60.0
"""The longest pause before what failed to write is begun again."""

_ATTEMPTED_RESULTS = frozenset({ScaleUpResult.SUCCESSFUL, ScaleUpResult.ERROR, ScaleUpResult.NO_OPTIONS})

_log = logging.getLogger(__name__)


def _report_unexpected(error: Exception, what: str) -> None:
    klog.report_error(ErrorPlace.REPORTER, what, klog.describe_error(error), error)


def _guarded(what: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A failure to report is logged and counted, and keeps nobody from acting."""

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
    """Tells the world. `api` should be a client of its own, so that acting never waits for reporting.

    Whoever acts on nothing (--dry-run, --shadow) writes no events and no status: they would claim what was not done.
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
        """`management`: a client of the cluster where the objects of node groups are, if that is another one."""
        self._objects, mode = objects or options.ObjectOptions(), mode or options.ModeOptions()
        reporting = reporting or options.ReportingOptions()
        self._emits_events = not (mode.dry_run or mode.shadow)
        self._keeps_status = self._emits_events and self._objects.write_status_configmap
        self.metrics = MetricRegistry(per_group=reporting.emit_per_nodegroup_metrics)
        self.metrics.set_gauges(gauge_values.settings_gauges(settings))
        self.keeps_gauges = True
        """Whether gauges show what loops find: not worth their time where nobody can look at them."""
        self._settings, self._clock = settings, api.clock
        window_s = 0.0 if reporting.record_duplicated_events else EVENT_DEDUPLICATION_S
        self._recorder = EventRecorder(api, COMPONENT, window_s=window_s)
        self._group_recorder = EventRecorder(management or api, COMPONENT, window_s=window_s)
        self._owned: frozenset[str] = frozenset()
        """Groups whose size another controller applies, as of the last loop."""
        self._writer = StatusWriter(api, self._objects.namespace, self._objects.status_config_map_name)
        self._status = cluster_status.initial_status(api.clock.now_s())
        self._drains: decision_events.DrainsByNode = {}
        self._faults: dict[ErrorPlace, Faults] = {}
        """What was left out of the last decision, and of the last step of drains."""
        self._told: DecisionReport | None = None
        """Of the last loop, whole."""
        self._unneeded: counter_values.TrackedNodes = {}
        self._tracks_latency = reporting.node_removal_latency_tracking_enabled
        self._skipped: SkippedNodes | None = None
        if reporting.max_node_skip_eval_time_tracker_enabled:
            self._skipped = SkippedNodes(api.clock.now_s())
        self._queued: asyncio.Queue[tuple[float, EventOccurrence]] = asyncio.Queue()
        """When it happened, and what."""
        self._pace = decision_events.EventRateLimiter(api.clock)
        self._snapshots, self._published = snapshots, published
        self._loop_began_s, self._loop_began_monotonic_s = api.clock.now_s(), api.clock.monotonic_s()
        self._durations: list[tuple[LoopFunction, float]] = []
        """Of the functions that were called since the last loop ended, in seconds."""

    # From the start to the end

    async def start(self) -> None:
        """Remember what a process before this one told, and say that this one has begun."""
        if self._keeps_status:
            since = await self._writer.read_since()
            self._status = cluster_status.initial_status(self._clock.now_s(), since)
            self._writer.put(self._status)
            await self._writer.flush()

    async def run(self) -> None:
        """Write events and the status until cancelled. Whatever ends one of these ends none of the others."""
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
        """Let what was said be written, while `run` still runs, and take the status away, as nobody keeps it now."""
        self._pace.disable()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._queued.join()
                await self._recorder.wait_written()
                await self._group_recorder.wait_written()
        if self._keeps_status:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.delete()

    # The loop

    @_guarded("the beginning of a loop cannot be reported")
    def begin_loop(self) -> None:
        """A loop begins."""
        self._loop_began_s, self._loop_began_monotonic_s = self._clock.now_s(), self._clock.monotonic_s()
        self.metrics.set_last_activity(LoopFunction.MAIN, self._loop_began_s)

    @_guarded("the end of a loop cannot be reported")
    def end_loop(self) -> None:
        """A loop has ended well."""
        self.metrics.set_last_activity(LoopFunction.MAIN_SUCCESSFUL, self._clock.now_s())
        self._note_duration()

    @_guarded("a failed loop cannot be reported")
    def loop_failed(self, error: BaseException) -> None:
        """A loop has failed."""
        self.metrics.increment(
            (
                metric_definitions.CounterIncrement(
                    f"{metric_definitions.CA_PREFIX}errors_total", (counter_values.error_type(error),)
                ),
            )
        )
        self._note_duration()
        if self._snapshots is not None and self._snapshots.is_wanted:
            found = debugging_snapshot.build_failure_snapshot(str(error), self._loop_began_s, self._clock.now_s())
            self._snapshots.offer(debugging_snapshot.encode_snapshot(found))

    def before_acting(
        self,
        seen: Observation,
        decision: loop.Decision | drain_loop.DrainLoopResult,
        now_s: float,
        instead_of: DecisionReport | None = None,
    ) -> DecisionReport:
        """Say what is going to be done. Whoever decides again because something was refused names the first account.

        To be called before anything is awaited: the snapshot must still be as it was decided on.
        """
        if isinstance(decision, loop.Decision):
            seen = decision.evaluated
            self._report_faults(decision.faults)
            self._report_owned(seen)
        else:
            self._report_faults(decision.faults, ErrorPlace.DRAIN)
        self._publish(seen, decision, now_s)
        try:
            if isinstance(decision, drain_loop.DrainLoopResult):
                account = self._account_for_drains(seen, decision, now_s)
            else:
                account = self._account_for_loop(seen, decision, now_s)
            said = frozenset(instead_of.emitted_events.before) if instead_of is not None else frozenset()
            self._emit(event for event in account.emitted_events.before if event not in said)
            return account
        except Exception as error:  # a bug here must not keep nodes from coming
            _report_unexpected(error, "a decision cannot be reported")
            return DecisionReport(decision, now_s)

    @_guarded("what became of a decision cannot be reported")
    def after_acting(self, account: DecisionReport, outcome: PlanResult) -> None:
        """Say what became of it."""
        self._report(account, outcome)

    def after_evicting(self, account: DecisionReport, outcome: PlanResult) -> None:
        """Say what became of evictions that were ordered with it."""
        try:
            self._report_result(account, outcome)
        except Exception:
            _log.exception("what became of evictions cannot be reported")

    # What others know

    @contextlib.contextmanager
    def measure(self, function: LoopFunction) -> Iterator[None]:
        """Note how long a part of the loop takes."""
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self.observe_duration(function, self._clock.monotonic_s() - began_s)

    def observe_duration(self, function: LoopFunction, seconds: float) -> None:
        """A call of a function took so long. Observed when the loop ends, as it may go on elsewhere."""
        self._durations.append((function, seconds))

    def extend_duration(self, function: LoopFunction, seconds: float) -> None:
        """The last call of a function in this loop went on for so long, or was no more than this."""
        for number in reversed(range(len(self._durations))):
            if self._durations[number][0] is function:
                self._durations[number] = function, self._durations[number][1] + seconds
                return
        self.observe_duration(function, seconds)

    @_guarded("the time of a decision cannot be reported")
    def observe_decision(self, kind: str, seconds: float) -> None:
        """How long a decision took: `kind` is decide or advance."""
        self.metrics.observe(metric_definitions.DECISION_SECONDS, (kind,), seconds)

    @_guarded("objects set aside cannot be reported")
    def set_aside(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """These objects cannot be read, or not all of each."""
        self.metrics.set_aside(Counter(complaint.kind for complaint in complaints))

    @_guarded("the size of memory cannot be reported")
    def memory_saved(self, size_bytes: int) -> None:
        """Memory was saved in so many bytes."""
        self.metrics.set_gauges({metric_definitions.MEMORY_BYTES.name: {(): float(size_bytes)}})

    @_guarded("when CapacityBuffers were reconciled cannot be reported")
    def buffers_reconciled(self, oldest_s: Mapping[bool, float]) -> None:
        """The oldest reconciliation of a CapacityBuffer, by whether it is its first."""
        values: metric_definitions.SeriesValues = {
            ("true" if is_new else "false",): float(int(at_s)) for is_new, at_s in oldest_s.items()
        }
        self.metrics.set_gauges({metric_definitions.BUFFERS_RECONCILED.name: values})

    def leader_changed(self, namespace: str, lease: str, who: str, leads: bool = True) -> None:
        """Say that this process became the leader, or is no longer."""
        self._emit((decision_events.leader_event(namespace, lease, who, leads),))

    @_guarded("invalid priorities cannot be reported")
    def invalid_priorities(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """Emit an event if the priority expander's ConfigMap is among the objects that cannot be read."""
        self._emit(tuple(object_events.invalid_priority_events(self._objects.namespace, complaints)))

    # Inside

    @_guarded("the status cannot be published")
    def _publish(self, seen: Observation, decision: loop.Decision | drain_loop.DrainLoopResult, now_s: float) -> None:
        if self._published is None:
            return
        if isinstance(decision, drain_loop.DrainLoopResult):
            self._published.on_advance(seen, decision, now_s)
        else:
            self._published.on_decision(seen, decision, now_s)

    @_guarded("faults cannot be reported")
    def _report_faults(self, faults: Faults, place: ErrorPlace = ErrorPlace.DECISION) -> None:
        """Count and log what was left out for the first time."""
        known = self._faults.get(place, ())
        for fault in faults:
            if fault not in known:
                klog.report_error(place, str(fault.suspect), fault.error, fault.cause)
        self._faults[place] = faults

    @_guarded("groups whose size has an owner cannot be reported")
    def _report_owned(self, seen: Observation) -> None:
        """Log, and emit an event about, each group whose size another controller applies for the first time."""
        for event in object_events.replicas_owned_events(seen.groups, self._owned):
            about = event.about
            name = f"{about.kind}/{about.namespace}/{about.name}"
            _log.warning("node group size has another owner: group=%s: %s", name, event.message)
            if self._emits_events:
                self._group_recorder.record(about, event.type, event.reason, event.message)
        owned = frozenset(group.id for group in seen.groups if group.replicas_owner is not None)
        for name in sorted(self._owned - owned):
            _log.info("node group size has no other owner any more: group=%s", name)
        self._owned = owned

    def _account_for_loop(self, seen: Observation, decision: loop.Decision, now_s: float) -> DecisionReport:
        if self._snapshots is not None and self._snapshots.is_wanted:
            found = debugging_snapshot.build_snapshot(seen, decision, self._settings, self._loop_began_s, now_s)
            self._snapshots.offer(debugging_snapshot.encode_snapshot(found))
        for line in decision_log.summarize_decision(decision):
            _log.log(klog.verbosity_level(0 if decision.plan else 1), "%s", line)
        look = decision.story.scale_down.look
        if self._skipped is not None and look is not None:
            self._skipped = self._skipped.update(look.trials.skipped, now_s)
        if self._told is not None and decision.story is self._told.decision.story:
            return replace(self._told, decision=decision, now_s=now_s)  # the same of the same, at once
        latencies = list[counter_values.RemovalLatency]()
        if self._tracks_latency:
            self._unneeded, latencies = counter_values.track_removals(
                self._unneeded, seen, decision, self._settings, now_s
            )
        account = decision_events.report_decision(
            seen, decision, self._settings, self._writer.reference, latencies, now_s
        )
        if not self.keeps_gauges:
            return account
        gauges = gauge_values.decision_gauges(seen, decision, self._settings, now_s)
        if self._skipped is not None:
            gauges = {**gauges, **gauge_values.skipped_node_gauges(self._skipped)}
        return replace(account, gauges=gauges)

    def _account_for_drains(
        self, seen: Observation, advanced: drain_loop.DrainLoopResult, now_s: float
    ) -> DecisionReport:
        for line in decision_log.summarize_drains(advanced):
            _log.info("%s", line)
        return decision_events.report_drains(seen, advanced, self._drains, now_s)

    def _report(self, account: DecisionReport, outcome: PlanResult) -> None:
        self._report_result(account, outcome)
        self.metrics.set_gauges(account.gauges)
        if isinstance(account.decision, loop.Decision):
            self._conclude(account, account.decision, outcome)
        else:
            self.metrics.increment(account.counts)
        self._drains = account.decision.memory.durable.drains

    def _report_result(self, account: DecisionReport, outcome: PlanResult) -> None:
        self._emit(decision_events.plan_result_events(account.plan_context, outcome, self._writer.reference))
        removals = account.plan_context.unregistered
        self.metrics.increment(
            counter_values.count_outcome(outcome, account.objects, account.plan_context.drains, removals)
        )

    def _conclude(self, account: DecisionReport, decision: loop.Decision, outcome: PlanResult) -> None:
        self._emit(
            (*account.emitted_events.after, *decision_events.raised_group_events(account.emitted_events, outcome))
        )
        if self._told is None or decision.story is not self._told.decision.story:
            self._count_once(account, decision)  # one that merely stands was counted when it was made
        self._told = account
        self._note_activity(decision.story, account.now_s)
        before = self._status
        described = cluster_status.build_cluster_status(
            account.groups, account.group_of, decision, outcome, before, account.now_s
        )
        self._status = replace(described, held=account.held)
        if self._keeps_status:
            self._writer.put(self._status)

    def _count_once(self, account: DecisionReport, decision: loop.Decision) -> None:
        self.metrics.increment(account.counts)
        for labels, kinds in counter_values.observe_estimates(decision):
            self.metrics.observe(metric_definitions.HETEROGENEITY, labels, kinds)
        for one in account.latencies:
            self.metrics.observe(metric_definitions.REMOVAL_LATENCY, one.labels, one.seconds)

    def _note_duration(self) -> None:
        self.observe_duration(LoopFunction.MAIN, self._clock.monotonic_s() - self._loop_began_monotonic_s)
        durations, self._durations = self._durations, []
        for function, seconds in durations:
            self.metrics.observe_duration(function, seconds)

    def _note_activity(self, story: DecisionRecord, now_s: float) -> None:
        if story.repairs.stop is None:
            self.metrics.set_last_activity(LoopFunction.AUTOSCALING, now_s)
        if any(proposal.result in _ATTEMPTED_RESULTS for proposal in story.scale_ups):
            self.metrics.set_last_activity(LoopFunction.SCALE_UP, now_s)
        if story.scale_down.result not in (ScaleDownResult.NOT_TRIED, ScaleDownResult.IN_COOLDOWN):
            self.metrics.set_last_activity(LoopFunction.SCALE_DOWN, now_s)

    def _emit(self, said: "Iterator[EventOccurrence] | decision_events.Occurrences") -> None:
        at_s = self._clock.now_s()
        is_logged = _log.isEnabledFor(klog.verbosity_level(4))  # as Kubernetes' own recorders do at this verbosity
        for event in said:
            if is_logged:
                about = f"{event.about.kind} {event.about.namespace}/{event.about.name}"
                _log.log(klog.verbosity_level(4), "event: object=%r reason=%s: %s", about, event.reason, event.message)
            if self._emits_events and (self._keeps_status or not self._is_status(event)):
                self._queued.put_nowait((at_s, event))

    def _is_status(self, event: EventOccurrence) -> bool:
        about: InvolvedObject = event.about
        wanted = (self._objects.namespace, self._objects.status_config_map_name)
        return about.kind == "ConfigMap" and (about.namespace, about.name) == wanted

    async def _record_queued_events(self) -> None:
        """Hand events to the recorder at their pace: thousands of pods may be told something in one loop."""
        while True:
            at_s, event = await self._queued.get()
            by_message = self._is_status(event)
            self._recorder.record(
                event.about, event.type, event.reason, event.message, by_message=by_message, at_s=at_s
            )
            self._queued.task_done()
            await self._pace.wait(self._queued.qsize())
