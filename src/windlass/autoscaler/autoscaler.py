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
from windlass.autoscaler.cluster_state import UNSCHEDULABLE_POD, ClusterObservation, ClusterState
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.readers import dra
from windlass.autoscaler.recording.recorder import DecisionRecorder
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
"""Kinds whose changes may let a drain go on."""

_DRAIN_INTERVAL_S = 0.2
"""Between two looks at drains, however much changes."""
_MEMORY_RETRY_S = 2.0
_TIMER_SLACK_S = 0.001
"""Times are up after their last moment, not at it."""
_log = logging.getLogger(__name__)

DecisionRunner = Callable[[Callable[[], T]], Awaitable[T]]
QueryExpander = Callable[[BestOptionsRequest], Awaitable[BestOptionsResponse]]
"""How the user's own expander is asked."""


class Observer(Protocol):
    """Decides and does nothing: what becomes of memory where someone else acts, or nobody."""

    def before_decision(self, seen: Observation, memory: LoopMemory, settings: Settings, now_s: float) -> LoopMemory:
        """What to decide with."""

    def after_decision(self, seen: Observation, before: LoopMemory, decision: Decision, now_s: float) -> LoopMemory:
        """What to remember."""


async def run_in_thread(work: Callable[[], T]) -> T:
    """Decide while the event loop goes on: leases are renewed, health is answered, watches are read."""
    return await loop.run_in_thread(work)


async def run_inline(work: Callable[[], T]) -> T:
    """Decide while everything else stands still, as in a simulation."""
    return work()


class Autoscaler:
    """One cluster and its node groups."""

    def __init__(
        self,
        world: ClusterState,
        does: actuator.Actuator,
        reporter: reporter.Reporter,
        keeper: memory_store.MemoryStore,
        settings: Settings,
        time: clock.Clock,
        *,
        frequent: bool = True,
        patient: bool = False,
        think: DecisionRunner[Decision] = run_in_thread,
        bystander: Observer | None = None,
        may_act: Callable[[], bool] = lambda: True,
        recorder: DecisionRecorder | None = None,
        ask: QueryExpander | None = None,
    ) -> None:
        self.memory = LoopMemory()
        self.decision: Decision | None = None
        self.past_choices: Mapping[str, explain_context.PastChoice] = {}
        """Why groups grew the last time, for those who ask."""
        self.loop = Loop("autoscaler", self._run_loop, settings.scale_down.scan_interval_s, time)
        self._world, self._actor, self._reporter, self._keeper = world, does, reporter, keeper
        self._settings, self._clock = settings, time
        self._frequent, self._think, self._bystander, self._may_act = frequent, think, bystander, may_act
        self._ask, self._opinions = ask, tuple[BestOptionsResponse, ...]()
        self._patient = patient
        """Loops that would decide nothing new are left out: where nobody looks at health or metrics."""
        self._stopwatch, self._jumps = loop_timing.DecisionTimer(time), loop_timing.ClockSkew(time)
        self._choose = decide if recorder is None else recorder.decide
        self._advance = advance if recorder is None else recorder.advance
        self._rhythm = batcher.PodBatcher(time, settings.deviations, world.unprocessed_pods.awaited_until_s)
        self._turns, self._questions = asyncio.Lock(), asyncio.Lock()
        self._evictor, does.evictor.on_answer = does.evictor, self._note_eviction
        self._failed: dict[plan.Instruction, str] = {}
        self._done: plan.Plan = ()
        """What the last loop did about groups."""
        self._looked_s = float("-inf")
        """When the last loop looked at what there is to decide on, monotonic."""
        self._ended_s: float | None = None
        """When the last loop ended, monotonic."""
        self._waking: asyncio.TimerHandle | None = None
        """When time will have changed something: what the last loop knew of that, and none before it."""
        self._drains_changed = asyncio.Event()
        self._unread: tuple[errors.InvalidObject, ...] = ()
        self._unevaluated: tuple[errors.InvalidObject, ...] = ()
        """Of the last decision: claims and device classes whose selectors cannot be evaluated."""
        self._set_aside: tuple[errors.InvalidObject, ...] = ()
        self._over: asyncio.Future[memory_store.MemoryConflict]
        """Done when another process turns out to lead."""

    @property
    def set_aside(self) -> tuple[errors.InvalidObject, ...]:
        """Objects that cannot be read or evaluated, or not in full, as the last loop saw them."""
        return self._set_aside

    # Being told

    def on_change(self, kind: str) -> None:
        """Something of this kind changed."""
        self.loop.mark_changed()
        if kind == UNSCHEDULABLE_POD and self._frequent and not self._was_decided_on():
            self._rhythm.trigger(self._world.unprocessed_pods.last_arrival_s)
            self.loop.wake()
        if kind == provisioning_requests.PROVISIONING_REQUEST_KIND and self._frequent:
            self.loop.wake()
        if kind in DRAIN_TRIGGER_KINDS and self.memory.durable.drains:
            self._drains_changed.set()

    def _note_eviction(self) -> None:
        """An eviction was answered."""
        self._drains_changed.set()

    def _was_decided_on(self) -> bool:
        """Did the last decision count the pod that turns unschedulable now among those that are?"""
        untried = self._world.unprocessed_pods
        return (
            self._settings.deviations.foresee_alike_pods
            and untried.is_foreseen
            and untried.last_arrival_s < self._looked_s
        )

    # Being asked

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        """Put a question about what there is to decide on, between two turns; it must change nothing.

        One at a time: however many are asked, a turn waits for one answer at most. WindlassError while it has decided
        nothing: it may not lead, and knows of no timer then.
        """
        if self.decision is None:
            raise errors.WindlassError("it has decided nothing yet: it does not lead, or has not seen everything")
        think = cast(DecisionRunner[T], self._think)
        async with self._questions, self._turns:
            with self._world.frozen():
                seen, now_s = self._observe().observation, self._clock.now_s()
                if self._opinions:  # nobody outside is asked because somebody asks us
                    seen = replace(seen, opinions=self._opinions)
                return await think(lambda: question(seen, self.memory, self._settings, now_s))

    # Leading

    async def run(self) -> None:
        """Remember, then go round until cancelled."""
        self.memory = await self._load_memory()
        self._stopwatch, self._over = loop_timing.DecisionTimer(self._clock), asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as together:
            together.create_task(self._abort_at_end())
            together.create_task(self.loop.run())
            if self._bystander is None:
                together.create_task(self._run_drain_loop())
                together.create_task(self._evictor.run())

    async def _abort_at_end(self) -> None:
        """Whatever ends the loops, a decision that runs in its thread ends at its next checkpoint.

        Where another process has taken over, this is what ends them.
        """
        try:
            raise await self._over
        finally:
            self._stopwatch.abort()
            if self._waking is not None:
                self._waking.cancel()

    async def _load_memory(self) -> LoopMemory:
        while True:
            try:
                found = await self._keeper.read()
                drains = rollback.resume_after_restart(found.durable.drains)
                return self._jumps.correct_saved(replace(found, durable=replace(found.durable, drains=drains)))
            except kube_errors.KubeError as error:
                _log.warning("memory cannot be read, and without it nodes might be ordered twice: %s", error)
                await self._clock.sleep(_MEMORY_RETRY_S)

    def _observe(self, failed: dict[plan.Instruction, str] | None = None) -> ClusterObservation:
        if self._world.stale_reason:
            raise kube_errors.WatchStale(f"nothing is decided on what may be over by now: {self._world.stale_reason}")
        seen = self._world.observe(failed)
        self._unread = seen.set_aside
        self._note_set_aside()
        return seen

    def _refresh(self) -> Observation:
        """What a loop decides on. Reading it is part of updating the cluster state."""
        began_s = self._clock.monotonic_s()
        seen = self._observe()
        self._reporter.buffers_reconciled(seen.buffers_reconciled_s)
        self._reporter.observe_duration(LoopFunction.CLOUD_PROVIDER_REFRESH, seen.refresh_s)
        self._reporter.observe_duration(LoopFunction.UPDATE_STATE, self._clock.monotonic_s() - began_s)
        return seen.observation

    def _note_set_aside(self) -> None:
        """Log each object that is not used as it is once, and count them."""
        now = (*self._unread, *self._unevaluated)
        if now == self._set_aside:
            return
        known = {str(complaint) for complaint in self._set_aside}
        for text in dict.fromkeys(map(str, now)):
            if text not in known:
                _log.warning("set aside: %s", text)
        self._set_aside = now
        self._reporter.set_aside(now)

    def _read_clock(self) -> float:
        """What time it is, and by the same clock all that is remembered."""
        self.memory = self._jumps.correct(self.memory)
        return self._clock.now_s()

    def _check_may_act(self) -> None:
        if not self._may_act():
            raise errors.WindlassError("it does not lead any more")

    # The loop

    async def _run_loop(self) -> None:
        if self._frequent:
            await self._rhythm.wait()
        self._looked_s = self._clock.monotonic_s()
        _log.log(klog.verbosity_level(4), "Starting main loop")
        self._reporter.begin_loop()
        if self._ended_s is not None:
            self._reporter.observe_duration(LoopFunction.LOOP_WAIT, self._looked_s - self._ended_s)
        try:
            async with self._turns:
                account, decision, outcome = await self._decide_and_resize()
            if self._bystander is None:
                soft_taint_s = self._settings.scale_down.max_bulk_soft_taint_time_s
                began_s = self._clock.monotonic_s()
                changed = await self._actor.apply_changes(decision.plan, self._world.find_node, soft_taint_s)
                outcome = actuator.merge_results(outcome, changed)
                if any(isinstance(one, plan.NodeInstruction) for one in decision.plan):
                    self._reporter.extend_duration(LoopFunction.SOFT_TAINT, self._clock.monotonic_s() - began_s)
            self._reporter.after_acting(account, outcome)
            self._reporter.invalid_priorities(self._unread)
            if self._bystander is None:
                await self._save_or_warn()
        except Exception as error:
            self._reporter.loop_failed(error)
            raise
        finally:
            self._ended_s = self._clock.monotonic_s()
        self._reporter.end_loop()
        self._schedule_next(decision, outcome)

    async def _decide_and_resize(self) -> tuple[decision_events.DecisionReport, Decision, PlanResult]:
        now_s = self._read_clock()
        with self._world.frozen():
            seen = self._refresh()
            if self._bystander is not None:
                return await self._observe_only(self._bystander, seen, now_s)
            before = self.memory
            seen, decision = await self._decide(seen, before, now_s)
            account = self._reporter.before_acting(seen, decision, now_s)
            if decision.plan:
                self._check_may_act()
                await self._save(decision.memory)
            outcome = await self._resize(decision.plan)
            if outcome.refused:
                seen, decision = await self._decide(replace(seen, refused=outcome.refused), before, now_s)
                account = self._reporter.before_acting(seen, decision, now_s, instead_of=account)
                self.memory = decision.memory  # whatever becomes of the rest: groups were raised, and others refused
                if decision.plan:
                    await self._write(decision.memory)
        self._conclude(decision.memory, decision)
        return account, decision, outcome

    async def _observe_only(
        self, bystander: Observer, seen: Observation, now_s: float
    ) -> tuple[decision_events.DecisionReport, Decision, PlanResult]:
        self.memory = bystander.before_decision(seen, self.memory, self._settings, now_s)
        seen, decision = await self._decide(seen, self.memory, now_s)
        account = self._reporter.before_acting(seen, decision, now_s)
        self._conclude(bystander.after_decision(seen, self.memory, decision, now_s), decision)
        return account, decision, PlanResult()

    async def _decide(self, seen: Observation, memory: LoopMemory, now_s: float) -> tuple[Observation, Decision]:
        """With what the user's own expander says, where it is to be asked; that is part of what is seen then."""
        within_s = self._settings.scale_up.salvo_scale_up_budget_s

        async def decide(seen: Observation) -> Decision:
            return await self._decide_once(seen, memory, now_s)

        seen, decision = await expander_query.decide_with_expander(seen, decide, self._ask, self._clock, within_s)
        self._opinions = seen.opinions
        return seen, decision

    async def _decide_once(self, seen: Observation, memory: LoopMemory, now_s: float) -> Decision:
        began_s = self._clock.monotonic_s()
        with self._reporter.measure(LoopFunction.AUTOSCALING):
            decision = await self._think(lambda: self._choose(seen, memory, self._settings, now_s, self._stopwatch))
        self._reporter.observe_decision("decide", self._clock.monotonic_s() - began_s)
        for step, seconds in self._stopwatch.take_durations():
            if step is MeasuredStep.UPDATE_STATE:
                self._reporter.extend_duration(LoopFunction.UPDATE_STATE, seconds)
            else:
                self._reporter.observe_duration(LoopFunction(step), seconds)
        self._unevaluated = dra.report_selector_errors(decision.selector_errors)
        self._note_set_aside()
        return decision

    async def _resize(self, ordered: plan.Plan) -> PlanResult:
        chosen = self._settings
        together = chosen.deviations.joint_scale_up or chosen.scale_up.parallel_scale_up
        began_s = self._clock.monotonic_s()
        outcome = await self._actor.resize(ordered, together)
        if any(isinstance(one, plan.Resize) for one in ordered):
            self._reporter.extend_duration(LoopFunction.SCALE_UP, self._clock.monotonic_s() - began_s)
        return outcome

    def _conclude(self, memory: LoopMemory, decision: Decision) -> None:
        self.memory, self.decision = memory, decision
        self.past_choices = explain_context.record_choices(self.past_choices, decision.story)
        if memory.durable.drains or self._is_any_marked():
            self._drains_changed.set()

    def _is_any_marked(self) -> bool:
        """Is there a node that is marked to go? Where nobody remembers why, `advance` gives it back."""
        table = self._world.snapshot.nodes
        present = zip(table.facts, table.alive.tolist(), strict=True)
        return any(alive and taints.has_taint(node, taints.TO_BE_DELETED_KEY) for node, alive in present if node.taints)

    # Memory: the one that `self.memory` is at any time is the newest, and no older one is written after it

    async def _save(self, memory: LoopMemory) -> None:
        """Remember this from now on, and write it down before anything is done that it speaks of. NotSaved, and what
        was remembered before, if that fails.
        """
        before, self.memory = self.memory, memory
        try:
            await self._write(memory)
        except BaseException:
            self.memory = before
            raise

    async def _save_or_warn(self) -> None:
        """Write down what is remembered. If that fails, it is remembered all the same, and written the next time."""
        try:
            await self._write(self.memory)
        except memory_store.MemoryNotSaved as error:
            _log.warning("%s", error)

    async def _write(self, memory: LoopMemory) -> None:
        try:
            await self._keeper.write(memory.durable)
        except memory_store.MemoryConflict as error:
            if not self._over.done():
                self._over.set_result(error)
            raise
        self._reporter.memory_saved(self._keeper.size_bytes)

    def _schedule_next(self, decision: Decision, outcome: PlanResult) -> None:
        """Look again at once where something was done or refused, and when time will have changed something."""
        if self._patient:
            until_s = self._clock.monotonic_s() + decision.quiet_until_s - self._clock.now_s()
            self.loop.skip_until(until_s, until_s + _TIMER_SLACK_S if self._frequent else math.inf)
        if not self._frequent:
            return
        of_groups = (plan.Resize, plan.DeleteInstances, plan.ReduceTarget, plan.SetConditions)
        done = tuple(one for one in outcome.done if isinstance(one, of_groups))
        # The same once more means that doing it did not show: to look again at once would go on without end.
        if outcome.refused or (done and done != self._done):
            self.loop.wake()
        self._done = done
        rest_s = decision.quiet_until_s - self._clock.now_s()
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if 0.0 < rest_s < self._settings.scale_down.scan_interval_s:
            self._waking = asyncio.get_running_loop().call_later(rest_s + _TIMER_SLACK_S, self.loop.wake)

    # Drains

    async def _run_drain_loop(self) -> None:
        while True:
            try:
                rest_s = await self._advance_drains()
            except Exception as error:
                if is_being_cancelled():
                    raise
                is_unforeseen = not isinstance(error, errors.WindlassError)
                _log.warning("failed to advance node drains: %s", error, exc_info=is_unforeseen)
                rest_s = self._settings.scale_down.scan_interval_s
            await self._clock.sleep(_DRAIN_INTERVAL_S)
            await self._wait_for_change(rest_s - _DRAIN_INTERVAL_S)

    async def _advance_drains(self) -> float:
        """Take the next step of every drain. How long until the next look, if nothing changes before."""
        async with self._turns:
            now_s = self._read_clock()
            self._drains_changed.clear()
            seen = self._observe_drains()
            advanced = self._advance(seen, self.memory, self._settings, now_s)
            nodes = {
                one.node: self._world.find_node(one.node)
                for one in advanced.plan
                if isinstance(one, plan.NodeInstruction)
            }
            account = self._reporter.before_acting(seen, advanced, now_s)
            self.loop.mark_changed()
            if advanced.plan:
                self._check_may_act()
                await self._save(advanced.memory)
            self.memory = advanced.memory
            self._failed = {}  # not before they were seen, and what is made of them is written
        self._evict(advanced.plan, seen, account)
        began_s = self._clock.monotonic_s()
        outcome = await self._actor.apply_changes(advanced.plan, nodes.get)
        if nodes:
            self._reporter.observe_duration(LoopFunction.NODE_DELETION, self._clock.monotonic_s() - began_s)
        self._failed |= outcome.failed
        self._reporter.after_acting(account, outcome)
        await self._save_or_warn()
        if any(isinstance(one, plan.DeleteNode) for one in outcome.done):
            self.loop.wake()
        return 0.0 if advanced.plan else advanced.next_s - now_s

    def _observe_drains(self) -> Observation:
        """With what became of the last plan, and of evictions that were ordered before."""
        for account, outcome in self._evictor.take_results():
            self._reporter.after_evicting(account, outcome)
            self._failed |= outcome.failed
        try:
            seen = self._observe(self._failed).observation
        except kube_errors.WatchStale:
            self._evictor.cancel_except(())
            raise
        return replace(seen, evictions=self._evictor.observe())

    def _evict(self, ordered: plan.Plan, seen: Observation, account: decision_events.DecisionReport) -> None:
        """Have pods evicted, and none of a node that does not go any more, or is left alone."""
        drains = self.memory.durable.drains
        self._evictor.cancel_except(
            {
                name
                for name, begun in drains.items()
                if begun.progress.failure is None and loop_memory.find_hold(begun.group, seen.held) is None
            }
        )
        self._evictor.submit((order for order in ordered if isinstance(order, plan.Evict)), account)
        if not drains:
            self._evictor.clear_answers()

    async def _wait_for_change(self, rest_s: float) -> None:
        if rest_s <= 0.0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if rest_s == float("inf") else rest_s):
                await self._drains_changed.wait()
