"""Autoscaler: the main loop (observe, decide, act, report) and the drain loop of the leader.

Both loops share one memory and hold a lock while they use it. `decide` sees everything, every --scan-interval and on
relevant changes. `advance` moves nodes that are being drained whenever something about them changes.

    decide   observe ─▶ decide ─▶ save ─▶ resize ─┬─▶ taints ─▶ report
                          ▲           refused? ───┘
    advance  observe ─▶ advance ─▶ save ─▶ taints, evictions, deletions ─▶ report
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar, cast

from windlass import clock, errors, klog
from windlass.autoscaler import actuator, batcher, loop_timing, memory_store
from windlass.autoscaler.capacity_apis import provisioning_requests
from windlass.autoscaler.cluster_informers import UNSCHEDULABLE_POD, ClusterObservation, ClusterState
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.readers import dra
from windlass.autoscaler.record_replay.recorder import DecisionRecorder
from windlass.engine import loop_memory, taints
from windlass.engine.actuation import rollback
from windlass.engine.drain_loop import advance
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import plan
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.time_limits import MeasuredStep
from windlass.explain import explain_context
from windlass.kube import errors as kube_errors
from windlass.observability import decision_events, reporter
from windlass.observability.metric_definitions import LoopFunction
from windlass.runtime import loop
from windlass.runtime.loop import Loop, is_being_cancelled

T = TypeVar("T")

DRAIN_TRIGGER_KINDS = frozenset({"Node", "Pod", "PodDisruptionBudget", UNSCHEDULABLE_POD})
"""Kinds of objects whose changes wake the drain loop."""

_DRAIN_INTERVAL_S = 0.2
"""Minimum interval between two steps of the drain loop."""
_MEMORY_RETRY_S = 2.0
_TIMER_SLACK_S = 0.001
"""Added to timers: a time is up after its last moment, not at it."""
_log = logging.getLogger(__name__)

DecisionRunner = Callable[[Callable[[], T]], Awaitable[T]]
QueryExpander = Callable[[BestOptionsRequest], Awaitable[BestOptionsResponse]]
"""Calls the gRPC expander."""


class Observer(Protocol):
    """Observer mode: decides without acting; determines how memory evolves when another autoscaler, or none, acts."""

    def before_decision(
        self, observation: Observation, memory: LoopMemory, settings: Settings, now_s: float
    ) -> LoopMemory:
        """Return the memory to decide with."""

    def after_decision(
        self, observation: Observation, before: LoopMemory, decision: Decision, now_s: float
    ) -> LoopMemory:
        """Return the memory after the decision."""


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run a decision in a thread while the event loop renews leases, serves health and reads watches."""
    return await loop.run_in_thread(work)


async def run_inline(work: Callable[[], T]) -> T:
    """Run a decision on the event loop, as in a simulation."""
    return work()


class Autoscaler:
    """Main loop and drain loop of one cluster and its node groups."""

    def __init__(
        self,
        state: ClusterState,
        executor: actuator.Actuator,
        reporter: reporter.Reporter,
        store: memory_store.MemoryStore,
        settings: Settings,
        time: clock.Clock,
        *,
        frequent: bool = True,
        patient: bool = False,
        think: DecisionRunner[Decision] = run_in_thread,
        observer: Observer | None = None,
        may_act: Callable[[], bool] = lambda: True,
        recorder: DecisionRecorder | None = None,
        ask: QueryExpander | None = None,
    ) -> None:
        self.memory = LoopMemory()
        self.decision: Decision | None = None
        self.past_choices: Mapping[str, explain_context.PastChoice] = {}
        """Reasons for past choices of node groups, for explain."""
        self.loop = Loop("autoscaler", self._run_loop, settings.scale_down.scan_interval_s, time)
        self._cluster_state, self._actuator, self._reporter, self._memory_store = state, executor, reporter, store
        self._settings, self._clock = settings, time
        self._frequent, self._run_decision, self._observer, self._may_act = frequent, think, observer, may_act
        self._query_expander, self._expander_responses = ask, tuple[BestOptionsResponse, ...]()
        self._skips_idle_loops = patient
        """Skip loops that cannot decide anything new, when neither health nor metrics are observed."""
        self._decision_timer, self._clock_skew = loop_timing.DecisionTimer(time), loop_timing.ClockSkew(time)
        self._engine_decide = decide if recorder is None else recorder.decide
        self._engine_advance = advance if recorder is None else recorder.advance
        self._batcher = batcher.PodBatcher(time, settings.deviations, state.unprocessed_pods.awaited_until_s)
        self._loop_lock, self._query_lock = asyncio.Lock(), asyncio.Lock()
        self._evictor, executor.evictor.on_answer = executor.evictor, self._on_eviction_answered
        self._failed_instructions: dict[plan.Instruction, str] = {}
        self._last_done: plan.Plan = ()
        """Result of the last loop's node group changes."""
        self._observed_s = float("-inf")
        """Monotonic time at which the last loop observed the cluster."""
        self._ended_s: float | None = None
        """Monotonic time at which the last loop ended."""
        self._wake_timer: asyncio.TimerHandle | None = None
        """Next time at which a timer changes the decision, as known to the last loop."""
        self._drains_changed = asyncio.Event()
        self._unreadable: tuple[errors.InvalidObject, ...] = ()
        self._unevaluated: tuple[errors.InvalidObject, ...] = ()
        """Claims and device classes whose selectors failed to evaluate in the last decision."""
        self._set_aside: tuple[errors.InvalidObject, ...] = ()
        self._superseded: asyncio.Future[memory_store.MemoryConflict]
        """Completed when another process is found to lead."""

    @property
    def set_aside(self) -> tuple[errors.InvalidObject, ...]:
        """Objects that could not be read or evaluated completely, as of the last loop."""
        return self._set_aside

    # Notifications

    def on_change(self, kind: str) -> None:
        """Handle a change of an object of this kind."""
        self.loop.mark_changed()
        if kind == UNSCHEDULABLE_POD and self._frequent and not self._is_already_counted():
            self._batcher.trigger(self._cluster_state.unprocessed_pods.last_arrival_s)
            self.loop.wake()
        if kind == provisioning_requests.PROVISIONING_REQUEST_KIND and self._frequent:
            self.loop.wake()
        if kind in DRAIN_TRIGGER_KINDS and self.memory.durable.drains:
            self._drains_changed.set()

    def _on_eviction_answered(self) -> None:
        """Handle the answer to an eviction."""
        self._drains_changed.set()

    def _is_already_counted(self) -> bool:
        """Whether the last decision already counted this pod as unschedulable."""
        unprocessed = self._cluster_state.unprocessed_pods
        return (
            self._settings.deviations.foresee_alike_pods
            and unprocessed.is_foreseen
            and unprocessed.last_arrival_s < self._observed_s
        )

    # Queries

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        """Answer a question about the current observation between two loops; the question must not change anything.

        One question at a time, so that a loop waits for one answer at most. WindlassError before the first decision:
        the process may not lead, and has no timers.
        """
        if self.decision is None:
            raise errors.WindlassError("no decision yet: this process does not lead, or its informers are not synced")
        think = cast(DecisionRunner[T], self._run_decision)
        async with self._query_lock, self._loop_lock:
            with self._cluster_state.frozen():
                observation, now_s = self._observe().observation, self._clock.now_s()
                if self._expander_responses:  # a query must not call the external expander
                    observation = replace(observation, opinions=self._expander_responses)
                return await think(lambda: question(observation, self.memory, self._settings, now_s))

    # Leading

    async def run(self) -> None:
        """Load the memory, then run both loops until cancelled."""
        self.memory = await self._load_memory()
        self._decision_timer, self._superseded = (
            loop_timing.DecisionTimer(self._clock),
            asyncio.get_running_loop().create_future(),
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._abort_at_end())
            tasks.create_task(self.loop.run())
            if self._observer is None:
                tasks.create_task(self._run_drain_loop())
                tasks.create_task(self._evictor.run())

    async def _abort_at_end(self) -> None:
        """Abort a decision in its thread at its next checkpoint when the loops end.

        Loss of leadership ends the loops here.
        """
        try:
            raise await self._superseded
        finally:
            self._decision_timer.abort()
            if self._wake_timer is not None:
                self._wake_timer.cancel()

    async def _load_memory(self) -> LoopMemory:
        while True:
            try:
                memory = await self._memory_store.read()
                drains = rollback.resume_after_restart(memory.durable.drains)
                return self._clock_skew.correct_saved(replace(memory, durable=replace(memory.durable, drains=drains)))
            except kube_errors.KubeError as error:
                # Without the memory, nodes of scale-ups in progress would be requested twice.
                _log.warning(
                    "cannot read memory ConfigMap, scaling is paused: configmap=%s retry_s=%g error=%s",
                    self._memory_store.key,
                    _MEMORY_RETRY_S,
                    error,
                )
                await self._clock.sleep(_MEMORY_RETRY_S)

    def _observe(self, failed: dict[plan.Instruction, str] | None = None) -> ClusterObservation:
        if self._cluster_state.stale_reason:
            raise kube_errors.WatchStale(f"cannot decide on stale state: {self._cluster_state.stale_reason}")
        cluster_observation = self._cluster_state.observe(failed)
        self._unreadable = cluster_observation.set_aside
        self._log_set_aside()
        return cluster_observation

    def _refresh(self) -> Observation:
        """Observe the inputs of a loop. The time counts as updating the cluster state."""
        began_s = self._clock.monotonic_s()
        cluster_observation = self._observe()
        self._reporter.buffers_reconciled(cluster_observation.buffers_reconciled_s)
        self._reporter.observe_duration(LoopFunction.CLOUD_PROVIDER_REFRESH, cluster_observation.refresh_s)
        self._reporter.observe_duration(LoopFunction.UPDATE_STATE, self._clock.monotonic_s() - began_s)
        return cluster_observation.observation

    def _log_set_aside(self) -> None:
        """Log each newly invalid object once, and count them."""
        now = (*self._unreadable, *self._unevaluated)
        if now == self._set_aside:
            return
        known = {str(complaint) for complaint in self._set_aside}
        for text in dict.fromkeys(map(str, now)):
            if text not in known:
                _log.warning("set aside invalid object: error=%s", text)
        self._set_aside = now
        self._reporter.set_aside(now)

    def _read_clock(self) -> float:
        """Read the clock, and correct the times in memory if the wall clock was set."""
        self.memory = self._clock_skew.correct(self.memory)
        return self._clock.now_s()

    def _check_may_act(self) -> None:
        if not self._may_act():
            raise errors.WindlassError("this process no longer leads")

    # Main loop

    async def _run_loop(self) -> None:
        if self._frequent:
            await self._batcher.wait()
        self._observed_s = self._clock.monotonic_s()
        _log.log(klog.verbosity_level(4), "Starting main loop")
        self._reporter.begin_loop()
        if self._ended_s is not None:
            self._reporter.observe_duration(LoopFunction.LOOP_WAIT, self._observed_s - self._ended_s)
        try:
            async with self._loop_lock:
                report, decision, result = await self._decide_and_resize()
            if self._observer is None:
                soft_taint_s = self._settings.scale_down.max_bulk_soft_taint_time_s
                began_s = self._clock.monotonic_s()
                changed = await self._actuator.apply_changes(decision.plan, self._cluster_state.find_node, soft_taint_s)
                result = actuator.merge_results(result, changed)
                if any(isinstance(instruction, plan.NodeInstruction) for instruction in decision.plan):
                    self._reporter.extend_duration(LoopFunction.SOFT_TAINT, self._clock.monotonic_s() - began_s)
            self._reporter.after_acting(report, result)
            self._reporter.invalid_priorities(self._unreadable)
            if self._observer is None:
                await self._save_or_warn()
        except Exception as error:
            self._reporter.loop_failed(error)
            raise
        finally:
            self._ended_s = self._clock.monotonic_s()
        self._reporter.end_loop()
        self._schedule_next(decision, result)

    async def _decide_and_resize(self) -> tuple[decision_events.DecisionReport, Decision, PlanResult]:
        now_s = self._read_clock()
        with self._cluster_state.frozen():
            observation = self._refresh()
            if self._observer is not None:
                return await self._observe_only(self._observer, observation, now_s)
            before = self.memory
            observation, decision = await self._decide(observation, before, now_s)
            report = self._reporter.before_acting(observation, decision, now_s)
            if decision.plan:
                self._check_may_act()
                await self._save(decision.memory)
            result = await self._resize(decision.plan)
            if result.refused:
                observation, decision = await self._decide(replace(observation, refused=result.refused), before, now_s)
                report = self._reporter.before_acting(observation, decision, now_s, instead_of=report)
                self.memory = decision.memory  # at once: resizes and rejections are facts
                if decision.plan:
                    await self._write(decision.memory)
        self._conclude(decision.memory, decision)
        return report, decision, result

    async def _observe_only(
        self, observer: Observer, observation: Observation, now_s: float
    ) -> tuple[decision_events.DecisionReport, Decision, PlanResult]:
        self.memory = observer.before_decision(observation, self.memory, self._settings, now_s)
        observation, decision = await self._decide(observation, self.memory, now_s)
        report = self._reporter.before_acting(observation, decision, now_s)
        self._conclude(observer.after_decision(observation, self.memory, decision, now_s), decision)
        return report, decision, PlanResult()

    async def _decide(self, seen: Observation, memory: LoopMemory, now_s: float) -> tuple[Observation, Decision]:
        """Decide, with the gRPC expander's answers where it is configured; they become part of the observation."""
        within_s = self._settings.scale_up.salvo_scale_up_budget_s

        async def decide(observation: Observation) -> Decision:
            return await self._decide_once(observation, memory, now_s)

        seen, decision = await expander_query.decide_with_expander(
            seen, decide, self._query_expander, self._clock, within_s
        )
        self._expander_responses = seen.opinions
        return seen, decision

    async def _decide_once(self, observation: Observation, memory: LoopMemory, now_s: float) -> Decision:
        began_s = self._clock.monotonic_s()
        with self._reporter.measure(LoopFunction.AUTOSCALING):
            decision = await self._run_decision(
                lambda: self._engine_decide(observation, memory, self._settings, now_s, self._decision_timer)
            )
        self._reporter.observe_decision("decide", self._clock.monotonic_s() - began_s)
        for step, seconds in self._decision_timer.take_durations():
            if step is MeasuredStep.UPDATE_STATE:
                self._reporter.extend_duration(LoopFunction.UPDATE_STATE, seconds)
            else:
                self._reporter.observe_duration(LoopFunction(step), seconds)
        self._unevaluated = dra.report_selector_errors(decision.selector_errors)
        self._log_set_aside()
        return decision

    async def _resize(self, ordered: plan.Plan) -> PlanResult:
        settings = self._settings
        tasks = settings.deviations.joint_scale_up or settings.scale_up.parallel_scale_up
        began_s = self._clock.monotonic_s()
        result = await self._actuator.resize(ordered, tasks)
        if any(isinstance(instruction, plan.Resize) for instruction in ordered):
            self._reporter.extend_duration(LoopFunction.SCALE_UP, self._clock.monotonic_s() - began_s)
        return result

    def _conclude(self, memory: LoopMemory, decision: Decision) -> None:
        self.memory, self.decision = memory, decision
        self.past_choices = explain_context.record_choices(self.past_choices, decision.story)
        if memory.durable.drains or self._has_deletion_taints():
            self._drains_changed.set()

    def _has_deletion_taints(self) -> bool:
        """Whether any node has a ToBeDeleted taint. The drain loop rolls back taints that belong to no drain."""
        table = self._cluster_state.snapshot.nodes
        present = zip(table.facts, table.alive.tolist(), strict=True)
        return any(alive and taints.has_taint(node, taints.TO_BE_DELETED_KEY) for node, alive in present if node.taints)

    # Memory: `self.memory` is always the newest, and no older memory is written after it

    async def _save(self, memory: LoopMemory) -> None:
        """Adopt the memory and write it before anything that depends on it is done. If that fails, restore the previous
        memory and raise MemoryNotSaved.
        """
        before, self.memory = self.memory, memory
        try:
            await self._write(memory)
        except BaseException:
            self.memory = before
            raise

    async def _save_or_warn(self) -> None:
        """Write the current memory. If that fails, log a warning; the next loop writes it."""
        try:
            await self._write(self.memory)
        except memory_store.MemoryNotSaved as error:
            _log.warning("failed to save memory: error=%s", error)

    async def _write(self, memory: LoopMemory) -> None:
        try:
            await self._memory_store.write(memory.durable)
        except memory_store.MemoryConflict as error:
            if not self._superseded.done():
                self._superseded.set_result(error)
            raise
        self._reporter.memory_saved(self._memory_store.size_bytes)

    def _schedule_next(self, decision: Decision, result: PlanResult) -> None:
        """Schedule the next loop: at once after an action or a rejection, otherwise when a timer changes the
        decision.
        """
        if self._skips_idle_loops:
            until_s = self._clock.monotonic_s() + decision.quiet_until_s - self._clock.now_s()
            self.loop.skip_until(until_s, until_s + _TIMER_SLACK_S if self._frequent else math.inf)
        if not self._frequent:
            return
        group_instructions = (plan.Resize, plan.DeleteInstances, plan.ReduceTarget, plan.SetConditions)
        done = tuple(instruction for instruction in result.done if isinstance(instruction, group_instructions))
        # An unchanged plan means that its effect is not visible yet: deciding again at once would loop without end.
        if result.refused or (done and done != self._last_done):
            self.loop.wake()
        self._last_done = done
        rest_s = decision.quiet_until_s - self._clock.now_s()
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        if 0.0 < rest_s < self._settings.scale_down.scan_interval_s:
            self._wake_timer = asyncio.get_running_loop().call_later(rest_s + _TIMER_SLACK_S, self.loop.wake)

    # Drain loop

    async def _run_drain_loop(self) -> None:
        while True:
            try:
                rest_s = await self._advance_drains()
            except Exception as error:
                if is_being_cancelled():
                    raise
                is_unexpected = not isinstance(error, errors.WindlassError)
                _log.warning("failed to advance node drains: error=%s", error, exc_info=is_unexpected)
                rest_s = self._settings.scale_down.scan_interval_s
            await self._clock.sleep(_DRAIN_INTERVAL_S)
            await self._wait_for_change(rest_s - _DRAIN_INTERVAL_S)

    async def _advance_drains(self) -> float:
        """Advance every drain by one step. Return the seconds until the next step, if nothing changes before."""
        async with self._loop_lock:
            now_s = self._read_clock()
            self._drains_changed.clear()
            observation = self._observe_drains()
            advanced = self._engine_advance(observation, self.memory, self._settings, now_s)
            nodes = {
                instruction.node: self._cluster_state.find_node(instruction.node)
                for instruction in advanced.plan
                if isinstance(instruction, plan.NodeInstruction)
            }
            report = self._reporter.before_acting(observation, advanced, now_s)
            self.loop.mark_changed()
            if advanced.plan:
                self._check_may_act()
                await self._save(advanced.memory)
            self.memory = advanced.memory
            self._failed_instructions = {}  # cleared only after the observation was decided on and memory was written
        self._evict(advanced.plan, observation, report)
        began_s = self._clock.monotonic_s()
        result = await self._actuator.apply_changes(advanced.plan, nodes.get)
        if nodes:
            self._reporter.observe_duration(LoopFunction.NODE_DELETION, self._clock.monotonic_s() - began_s)
        self._failed_instructions |= result.failed
        self._reporter.after_acting(report, result)
        await self._save_or_warn()
        if any(isinstance(instruction, plan.DeleteNode) for instruction in result.done):
            self.loop.wake()
        return 0.0 if advanced.plan else advanced.next_s - now_s

    def _observe_drains(self) -> Observation:
        """Observe with the results of the last plan and of queued evictions."""
        for report, result in self._evictor.take_results():
            self._reporter.after_evicting(report, result)
            self._failed_instructions |= result.failed
        try:
            observation = self._observe(self._failed_instructions).observation
        except kube_errors.WatchStale:
            self._evictor.cancel_except(())
            raise
        return replace(observation, evictions=self._evictor.observe())

    def _evict(self, ordered: plan.Plan, observation: Observation, report: decision_events.DecisionReport) -> None:
        """Queue evictions, and cancel queued ones of nodes that no longer drain."""
        drains = self.memory.durable.drains
        self._evictor.cancel_except(
            {
                name
                for name, begun in drains.items()
                if begun.progress.failure is None and loop_memory.find_hold(begun.group, observation.held) is None
            }
        )
        self._evictor.submit((order for order in ordered if isinstance(order, plan.Evict)), report)
        if not drains:
            self._evictor.clear_answers()

    async def _wait_for_change(self, rest_s: float) -> None:
        if rest_s <= 0.0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if rest_s == float("inf") else rest_s):
                await self._drains_changed.wait()
