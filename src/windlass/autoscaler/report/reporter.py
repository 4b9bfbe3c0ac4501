"""The reporter: what the loop tells it becomes events, the status ConfigMap, metrics and lines in the log.

    reporter.begin_loop()
    decision = decide(seen, memory, settings, now_s)
    account = reporter.before_acting(seen, decision, now_s)      # before anything is awaited
    outcome = await act(decision.plan)
    reporter.after_acting(account, outcome)
    reporter.end_loop()                                          # or reporter.loop_failed(error)

Drains that move on are told in the same way, with what `advance` gave. Nothing here waits: what goes to the API
server is written by `run`, in the background. A failure to report is logged, and keeps nobody from acting.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ParamSpec

from windlass import errors, unexpected, verbosity
from windlass.autoscaler import wiring
from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.published import publisher
from windlass.autoscaler.report import (
    accounts,
    counting,
    events,
    families,
    group_events,
    latency,
    pacing,
    pod_events,
    readings,
    snapshotz,
    status,
    summary,
)
from windlass.autoscaler.report.accounts import Account
from windlass.autoscaler.report.families import Function
from windlass.autoscaler.report.metrics import Metrics
from windlass.autoscaler.report.skipped_nodes import SkippedNodes
from windlass.autoscaler.report.status_writer import StatusWriter
from windlass.engine import advance, decide
from windlass.engine.observation import Observation
from windlass.engine.quarantine import Faults
from windlass.engine.scale_up.proposing import Result
from windlass.engine.settings import Settings
from windlass.engine.story import ScaleDownResult, Story
from windlass.kube import client
from windlass.kube.events import About, Occurrence, Recorder
from windlass.unexpected import Place

P = ParamSpec("P")

COMPONENT = "cluster-autoscaler"
"""By this name events say who wrote them; users filter for it."""
QUIET_S = 300.0
"""Time within which the same event is written once, unless the user wants duplicates."""
CLOSING_S = 1.0
"""How long the end waits for events to be written, and as long again for the status to be deleted."""

_BEGIN_AGAIN_S = 60.0
"""The longest pause before what failed to write is begun again."""

_TRIED = frozenset({Result.SUCCESSFUL, Result.ERROR, Result.NO_OPTIONS})
_log = logging.getLogger(__name__)


def _report(error: Exception, what: str) -> None:
    unexpected.report(Place.REPORTER, what, unexpected.describe(error), error)


def _guarded(what: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A failure to report is logged and counted, and keeps nobody from acting."""

    def guard(method: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(method)
        def guarded(*given: P.args, **more: P.kwargs) -> None:
            try:
                method(*given, **more)
            except Exception as error:
                _report(error, what)

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
        objects: wiring.Objects | None = None,
        reporting: wiring.Reporting | None = None,
        mode: wiring.Mode | None = None,
        snapshots: snapshotz.Audience | None = None,
        published: publisher.Publisher | None = None,
        management: client.Client | None = None,
    ) -> None:
        """`management`: a client of the cluster where the objects of node groups are, if that is another one."""
        self._objects, mode = objects or wiring.Objects(), mode or wiring.Mode()
        reporting = reporting or wiring.Reporting()
        self._speaks = not (mode.dry_run or mode.shadow)
        self._keeps_status = self._speaks and self._objects.write_status_configmap
        self.metrics = Metrics(per_group=reporting.emit_per_nodegroup_metrics)
        self.metrics.read(readings.read_settings(settings))
        self.keeps_gauges = True
        """Whether gauges show what loops find: not worth their time where nobody can look at them."""
        self._settings, self._clock = settings, api.clock
        window_s = 0.0 if reporting.record_duplicated_events else QUIET_S
        self._recorder = Recorder(api, COMPONENT, window_s=window_s)
        self._group_recorder = Recorder(management or api, COMPONENT, window_s=window_s)
        self._owned: frozenset[str] = frozenset()
        """Groups whose size another controller applies, as of the last loop."""
        self._writer = StatusWriter(api, self._objects.namespace, self._objects.status_config_map_name)
        self._status = status.initializing(api.clock.now_s())
        self._drains: events.Drains = {}
        self._faults: dict[Place, Faults] = {}
        """What was left out of the last decision, and of the last step of drains."""
        self._told: Account | None = None
        """Of the last loop, whole."""
        self._unneeded: latency.Tracked = {}
        self._tracks_latency = reporting.node_removal_latency_tracking_enabled
        self._skipped: SkippedNodes | None = None
        if reporting.max_node_skip_eval_time_tracker_enabled:
            self._skipped = SkippedNodes(api.clock.now_s())
        self._queued: asyncio.Queue[tuple[float, Occurrence]] = asyncio.Queue()
        """When it happened, and what."""
        self._pace = pacing.Pace(api.clock)
        self._snapshots, self._published = snapshots, published
        self._loop_began_s, self._loop_began_monotonic_s = api.clock.now_s(), api.clock.monotonic_s()
        self._durations: list[tuple[Function, float]] = []
        """Of the functions that were called since the last loop ended, in seconds."""

    # From the start to the end

    async def start(self) -> None:
        """Remember what a process before this one told, and say that this one has begun."""
        if self._keeps_status:
            since = await self._writer.read_since()
            self._status = status.initializing(self._clock.now_s(), since)
            self._writer.put(self._status)
            await self._writer.flush()

    async def run(self) -> None:
        """Write events and the status until cancelled. Whatever ends one of these ends none of the others."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._go_on("events", self._recorder.run))
            group.create_task(self._go_on("events of node groups", self._group_recorder.run))
            group.create_task(self._go_on("event queue", self._hand_over))
            if self._keeps_status:
                group.create_task(self._go_on("status", self._writer.run))

    async def _go_on(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await write()
            except Exception as error:
                failures += 1
                unexpected.report(unexpected.Place.REPORTER, what, "", error)
                await self._clock.sleep(min(2.0**failures, _BEGIN_AGAIN_S))

    async def close(self) -> None:
        """Let what was said be written, while `run` still runs, and take the status away, as nobody keeps it now."""
        self._pace.hurry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._queued.join()
                await self._recorder.wait_written()
                await self._group_recorder.wait_written()
        if self._keeps_status:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await self._writer.delete()

    # The loop

    @_guarded("the beginning of a loop cannot be reported")
    def begin_loop(self) -> None:
        """A loop begins."""
        self._loop_began_s, self._loop_began_monotonic_s = self._clock.now_s(), self._clock.monotonic_s()
        self.metrics.began(Function.MAIN, self._loop_began_s)

    @_guarded("the end of a loop cannot be reported")
    def end_loop(self) -> None:
        """A loop has ended well."""
        self.metrics.began(Function.MAIN_SUCCESSFUL, self._clock.now_s())
        self._note_duration()

    @_guarded("a failed loop cannot be reported")
    def loop_failed(self, error: BaseException) -> None:
        """A loop has failed."""
        self.metrics.count((counting.Count(f"{families.PEER}errors_total", (counting.type_of(error),)),))
        self._note_duration()
        if self._snapshots is not None and self._snapshots.is_wanted:
            found = snapshotz.describe_failure(str(error), self._loop_began_s, self._clock.now_s())
            self._snapshots.offer(snapshotz.spell(found))

    def before_acting(
        self,
        seen: Observation,
        decision: decide.Decision | advance.Advanced,
        now_s: float,
        instead_of: Account | None = None,
    ) -> Account:
        """Say what is going to be done. Whoever decides again because something was refused names the first account.

        To be called before anything is awaited: the snapshot must still be as it was decided on.
        """
        if isinstance(decision, decide.Decision):
            seen = decision.evaluated
            self._report_faults(decision.faults)
            self._report_owned(seen)
        else:
            self._report_faults(decision.faults, Place.DRAIN)
        self._publish(seen, decision, now_s)
        try:
            if isinstance(decision, advance.Advanced):
                account = self._account_for_drains(seen, decision, now_s)
            else:
                account = self._account_for_loop(seen, decision, now_s)
            said = frozenset(instead_of.told.before) if instead_of is not None else frozenset()
            self._tell(event for event in account.told.before if event not in said)
            return account
        except Exception as error:  # a bug here must not keep nodes from coming
            _report(error, "a decision cannot be reported")
            return Account(decision, now_s)

    @_guarded("what became of a decision cannot be reported")
    def after_acting(self, account: Account, outcome: Outcome) -> None:
        """Say what became of it."""
        self._report(account, outcome)

    def after_evicting(self, account: Account, outcome: Outcome) -> None:
        """Say what became of evictions that were ordered with it."""
        try:
            self._tell_outcome(account, outcome)
        except Exception:
            _log.exception("what became of evictions cannot be reported")

    # What others know

    @contextlib.contextmanager
    def measure(self, function: Function) -> Iterator[None]:
        """Note how long a part of the loop takes."""
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self.took(function, self._clock.monotonic_s() - began_s)

    def took(self, function: Function, seconds: float) -> None:
        """A call of a function took so long. Observed when the loop ends, as it may go on elsewhere."""
        self._durations.append((function, seconds))

    def took_longer(self, function: Function, seconds: float) -> None:
        """The last call of a function in this loop went on for so long, or was no more than this."""
        for number in reversed(range(len(self._durations))):
            if self._durations[number][0] is function:
                self._durations[number] = function, self._durations[number][1] + seconds
                return
        self.took(function, seconds)

    @_guarded("the time of a decision cannot be reported")
    def decided(self, kind: str, seconds: float) -> None:
        """How long a decision took: `kind` is decide or advance."""
        self.metrics.observe(families.DECISION_SECONDS, (kind,), seconds)

    @_guarded("objects set aside cannot be reported")
    def set_aside(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """These objects cannot be read, or not all of each."""
        self.metrics.set_aside(Counter(complaint.kind for complaint in complaints))

    @_guarded("the size of memory cannot be reported")
    def saved(self, size_bytes: int) -> None:
        """Memory was saved in so many bytes."""
        self.metrics.read({families.MEMORY_BYTES.name: {(): float(size_bytes)}})

    @_guarded("when CapacityBuffers were reconciled cannot be reported")
    def buffers_reconciled(self, oldest_s: Mapping[bool, float]) -> None:
        """The oldest reconciliation of a CapacityBuffer, by whether it is its first."""
        values: readings.Values = {
            ("true" if is_new else "false",): float(int(at_s)) for is_new, at_s in oldest_s.items()
        }
        self.metrics.read({families.BUFFERS_RECONCILED.name: values})

    def leading(self, namespace: str, lease: str, who: str, leads: bool = True) -> None:
        """Say that this process became the leader, or is no longer."""
        self._tell((events.tell_leading(namespace, lease, who, leads),))

    @_guarded("invalid priorities cannot be reported")
    def invalid_priorities(self, complaints: Iterable[errors.InvalidObject]) -> None:
        """Emit an event if the priority expander's ConfigMap is among the objects that cannot be read."""
        self._tell(tuple(pod_events.tell_invalid_priorities(self._objects.namespace, complaints)))

    # Inside

    @_guarded("the status cannot be published")
    def _publish(self, seen: Observation, decision: decide.Decision | advance.Advanced, now_s: float) -> None:
        if self._published is None:
            return
        if isinstance(decision, advance.Advanced):
            self._published.moved(seen, decision, now_s)
        else:
            self._published.decided(seen, decision, now_s)

    @_guarded("faults cannot be reported")
    def _report_faults(self, faults: Faults, place: Place = Place.DECISION) -> None:
        """Count and log what was left out for the first time."""
        known = self._faults.get(place, ())
        for fault in faults:
            if fault not in known:
                unexpected.report(place, str(fault.suspect), fault.error, fault.cause)
        self._faults[place] = faults

    @_guarded("groups whose size has an owner cannot be reported")
    def _report_owned(self, seen: Observation) -> None:
        """Log, and emit an event about, each group whose size another controller applies for the first time."""
        for event in group_events.tell_replicas_owned(seen.groups, self._owned):
            about = event.about
            name = f"{about.kind}/{about.namespace}/{about.name}"
            _log.warning("node group size has another owner: group=%s: %s", name, event.message)
            if self._speaks:
                self._group_recorder.record(about, event.type, event.reason, event.message)
        owned = frozenset(group.id for group in seen.groups if group.replicas_owner is not None)
        for name in sorted(self._owned - owned):
            _log.info("node group size has no other owner any more: group=%s", name)
        self._owned = owned

    def _account_for_loop(self, seen: Observation, decision: decide.Decision, now_s: float) -> Account:
        if self._snapshots is not None and self._snapshots.is_wanted:
            found = snapshotz.describe(seen, decision, self._settings, self._loop_began_s, now_s)
            self._snapshots.offer(snapshotz.spell(found))
        for line in summary.summarize(decision):
            _log.log(verbosity.level(0 if decision.plan else 1), "%s", line)
        look = decision.story.scale_down.look
        if self._skipped is not None and look is not None:
            self._skipped = self._skipped.update(look.trials.skipped, now_s)
        if self._told is not None and decision.story is self._told.decision.story:
            return replace(self._told, decision=decision, now_s=now_s)  # the same of the same, at once
        latencies = list[latency.Latency]()
        if self._tracks_latency:
            self._unneeded, latencies = latency.track(self._unneeded, seen, decision, self._settings, now_s)
        account = accounts.of_decision(seen, decision, self._settings, self._writer.about, latencies, now_s)
        if not self.keeps_gauges:
            return account
        gauges = readings.read_decision(seen, decision, self._settings, now_s)
        if self._skipped is not None:
            gauges = {**gauges, **readings.read_skipped_nodes(self._skipped)}
        return replace(account, gauges=gauges)

    def _account_for_drains(self, seen: Observation, advanced: advance.Advanced, now_s: float) -> Account:
        for line in summary.summarize_drains(advanced):
            _log.info("%s", line)
        return accounts.of_advance(seen, advanced, self._drains, now_s)

    def _report(self, account: Account, outcome: Outcome) -> None:
        self._tell_outcome(account, outcome)
        self.metrics.read(account.gauges)
        if isinstance(account.decision, decide.Decision):
            self._conclude(account, account.decision, outcome)
        else:
            self.metrics.count(account.counts)
        self._drains = account.decision.memory.durable.drains

    def _tell_outcome(self, account: Account, outcome: Outcome) -> None:
        self._tell(events.tell_outcome(account.doing, outcome, self._writer.about))
        removals = account.doing.unregistered
        self.metrics.count(counting.count_outcome(outcome, account.known, account.doing.drains, removals))

    def _conclude(self, account: Account, decision: decide.Decision, outcome: Outcome) -> None:
        self._tell((*account.told.after, *events.tell_triggered(account.told, outcome)))
        if self._told is None or decision.story is not self._told.decision.story:
            self._count_once(account, decision)  # one that merely stands was counted when it was made
        self._told = account
        self._note_activity(decision.story, account.now_s)
        before = self._status
        described = status.describe(account.groups, account.group_of, decision, outcome, before, account.now_s)
        self._status = replace(described, held=account.held)
        if self._keeps_status:
            self._writer.put(self._status)

    def _count_once(self, account: Account, decision: decide.Decision) -> None:
        self.metrics.count(account.counts)
        for labels, kinds in counting.observe_estimates(decision):
            self.metrics.observe(families.HETEROGENEITY, labels, kinds)
        for one in account.latencies:
            self.metrics.observe(families.REMOVAL_LATENCY, one.labels, one.seconds)

    def _note_duration(self) -> None:
        self.took(Function.MAIN, self._clock.monotonic_s() - self._loop_began_monotonic_s)
        durations, self._durations = self._durations, []
        for function, seconds in durations:
            self.metrics.took(function, seconds)

    def _note_activity(self, story: Story, now_s: float) -> None:
        if story.repairs.stop is None:
            self.metrics.began(Function.AUTOSCALING, now_s)
        if any(proposal.result in _TRIED for proposal in story.scale_ups):
            self.metrics.began(Function.SCALE_UP, now_s)
        if story.scale_down.result not in (ScaleDownResult.NOT_TRIED, ScaleDownResult.IN_COOLDOWN):
            self.metrics.began(Function.SCALE_DOWN, now_s)

    def _tell(self, said: "Iterator[Occurrence] | events.Occurrences") -> None:
        at_s = self._clock.now_s()
        is_logged = _log.isEnabledFor(verbosity.level(4))  # as Kubernetes' own recorders do at this verbosity
        for event in said:
            if is_logged:
                about = f"{event.about.kind} {event.about.namespace}/{event.about.name}"
                _log.log(verbosity.level(4), "event: object=%r reason=%s: %s", about, event.reason, event.message)
            if self._speaks and (self._keeps_status or not self._is_status(event)):
                self._queued.put_nowait((at_s, event))

    def _is_status(self, event: Occurrence) -> bool:
        about: About = event.about
        wanted = (self._objects.namespace, self._objects.status_config_map_name)
        return about.kind == "ConfigMap" and (about.namespace, about.name) == wanted

    async def _hand_over(self) -> None:
        """Hand events to the recorder at their pace: thousands of pods may be told something in one loop."""
        while True:
            at_s, event = await self._queued.get()
            by_message = self._is_status(event)
            self._recorder.record(
                event.about, event.type, event.reason, event.message, by_message=by_message, at_s=at_s
            )
            self._queued.task_done()
            await self._pace.wait(self._queued.qsize())
