"""The loop: one decision of the autoscaler as a pure function.

    observation -> health and remediation -> pod list -> scale-up -> unneeded nodes -> scale-down
                   (may end the loop)        (in a fork of the snapshot with upcoming nodes)

Same input, same answer: the time is an argument, ties are drawn from a generator seeded by settings and loop number.
The snapshot is forked and left unchanged. An object with which an unforeseen exception is raised is left out, and the
rest is decided (`quarantine`).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import fault_isolation, loop_memory, next_change, observation, quarantine, taints, time_limits
from windlass.engine.actuation import deletion_taint, node_drain
from windlass.engine.capacity_apis import buffer_pods, proactive_pods, provisioning_dispatch, provisioning_queue
from windlass.engine.capacity_apis.provisioning_queue import RequestQueue, inject_request_pods
from windlass.engine.cluster_state import health, readiness, remediation, scale_requests, upcoming_nodes
from windlass.engine.drainability import context, rules
from windlass.engine.expanders import grpc
from windlass.engine.loop_memory import CachedDecision, LoopMemory
from windlass.engine.model import (
    cluster_health,
    decision_record,
    facts,
    node_groups,
    plan,
    scale_down_state,
    scale_up_status,
)
from windlass.engine.model.decision_record import BufferScaleUp, DecisionRecord, ScaleDownRecord, ScaleDownResult
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.dynamic_resources import SelectorError
from windlass.engine.model.provisioning import BufferPods
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_down import (
    cooldown,
    deletion_budgets,
    planner,
    recently_evicted,
    simulation,
    soft_taints,
    unneeded,
)
from windlass.engine.scale_up import node_templates, options, orchestrator, pod_list, quotas
from windlass.engine.time_limits import MeasuredStep

UNTIMED = time_limits.UnlimitedTimer()


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, what to remember, and why."""

    plan: plan.Plan
    memory: LoopMemory
    story: DecisionRecord
    quiet_until_s: float
    """Before this time the same observation is decided alike: nothing is ordered, and nothing new is remembered. The
    time of the decision itself, if it may be decided otherwise at once."""
    evaluated: Observation = field(repr=False, compare=False)
    """What was decided on: what was seen, without what cannot be evaluated."""
    ran_out: time_limits.RanOut = field(default_factory=dict)
    """Where time was up: `time_limits.Replayed` comes to the same end."""
    question: grpc.BestOptionsRequest | None = None
    """What the user's own expander should be asked before any of this is done; then it is to be decided again. Where
    nobody can ask, what is decided here is what happens without an answer."""

    @property
    def faults(self) -> quarantine.Faults:
        """What cannot be evaluated, and was left out."""
        return self.memory.volatile.faults

    @property
    def selector_errors(self) -> tuple[SelectorError, ...]:
        """Device selectors that cannot be evaluated: pods that need them fit nowhere. Not to be asked after the
        snapshot has changed.
        """
        return self.evaluated.snapshot.devices.selector_errors()


def decide(
    seen: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer = UNTIMED
) -> Decision:
    """One loop. While the last decision stands, and nothing has changed, it is given again."""
    seen.snapshot.now_s = now_s
    known, stale = quarantine.find_current(memory.volatile.faults, seen, now_s)
    evaluated = quarantine.exclude(seen, [fault.suspect for fault in known])
    resumed = loop_memory.resume_memory(memory, evaluated, now_s)
    last = memory.volatile.standing
    if last is not None and last.holds(evaluated, resumed.durable, settings, now_s):
        if settings.templates.expires:
            resumed = _refresh_learned_times(resumed, last, now_s)
        return Decision(last.plan, resumed, last.story, last.until_s, last.seen)
    seen.snapshot.guarded = frozenset(budget.namespace for budget in seen.budgets)

    def run(evaluated: Observation) -> Decision:
        resumed = loop_memory.resume_memory(memory, evaluated, now_s)
        with quarantine.hide_excluded_pods(evaluated):
            return _Loop(evaluated, resumed, settings, now_s, timer).run()

    def find_unsound() -> list[tuple[quarantine.Suspect, Exception]]:
        return fault_isolation.find_faulty_objects(evaluated, settings, now_s)

    try:
        return _remember_faults(run(evaluated), known)
    except Exception as raised:  # whatever it is, it must cost no more than what it was raised with
        error = raised
    ledger = time_limits.DecisionTimer(timer)
    time = ledger.begin("isolation", quarantine.MOST_S)
    decision, faults = fault_isolation.isolate(run, find_unsound, seen, known, stale, error, now_s, time)
    return _remember_faults(replace(decision, ran_out={**decision.ran_out, **ledger.ran_out}), faults)


def _refresh_learned_times(memory: LoopMemory, last: CachedDecision, now_s: float) -> LoopMemory:
    """The memory; what was learned from nodes is learned from them again as long as they are there."""
    learned_s = {**memory.volatile.learned_s, **dict.fromkeys(last.examples, now_s)}
    return replace(memory, volatile=replace(memory.volatile, learned_s=learned_s))


def _remember_faults(decision: Decision, faults: quarantine.Faults) -> Decision:
    """The decision, which stands until what it was made without is tried again."""
    if not faults:
        return decision
    retry_s = min(fault.since_s for fault in faults) + quarantine.RETRY_S
    until_s, volatile = min(decision.quiet_until_s, retry_s), decision.memory.volatile
    standing = None if volatile.standing is None else replace(volatile.standing, until_s=until_s)
    volatile = replace(volatile, standing=standing, faults=faults)
    return replace(decision, memory=replace(decision.memory, volatile=volatile), quiet_until_s=until_s)


@contextlib.contextmanager
def scale_up_context(
    evaluated: Observation, memory: LoopMemory, settings: Settings, now_s: float
) -> Iterator[orchestrator.ScaleUpContext]:
    """What a loop with these arguments decides its scale-up on, set up by the steps of that loop; gone when this ends.

    `evaluated` is the decision's: without what cannot be evaluated. A loop that ends early does not come this far; the
    context is what it would have had.
    """
    with _run_until_scale_up(evaluated, memory, settings, now_s, UNTIMED) as (loop, groups):
        yield loop.list_pods(groups)


@contextlib.contextmanager
def round_context(
    evaluated: Observation,
    memory: LoopMemory,
    settings: Settings,
    now_s: float,
    ran_out: time_limits.RanOut,
    number: int | None = None,
) -> Iterator[orchestrator.ScaleUpContext]:
    """What a round of such a loop's scale-up is decided on: what the rounds before it ordered is there.

    `ran_out` is the decision's. `number` counts from 1; None is the last round.
    """
    if number is not None:
        ran_out = {**ran_out, orchestrator.ROUNDS: number}
    with _run_until_scale_up(evaluated, memory, settings, now_s, time_limits.ReplayedTimer(ran_out)) as (loop, groups):
        context = loop.list_pods(groups)
        yield replace(context, groups=loop.scale_up(context).groups or groups)


@contextlib.contextmanager
def _run_until_scale_up(
    evaluated: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer
) -> Iterator[tuple["_Loop", options.ScaleUpGroups]]:
    """A loop that has come as far as its scale-up."""
    with quarantine.hide_excluded_pods(evaluated):
        loop = _Loop(evaluated, loop_memory.resume_memory(memory, evaluated, now_s), settings, now_s, timer)
        with loop.look_ahead(loop.assess()) as ahead:
            yield loop, ahead.groups


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What is known before anything is scaled."""

    health: cluster_health.ClusterHealth
    repairs: decision_record.Remediation
    templates: upcoming_nodes.GroupTemplates
    """What a new node of each group would be like."""


@dataclass(frozen=True, slots=True)
class _UpcomingState:
    """The cluster with the nodes that are on their way."""

    groups: options.ScaleUpGroups
    awaited: upcoming_nodes.UpcomingByGroup
    verdicts: Mapping[str, cluster_health.HealthVerdict]


class _Loop:
    """The steps of one loop, each reading what the ones before it found."""

    def __init__(
        self, seen: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer
    ) -> None:
        self._seen, self._memory, self._settings, self._now_s = seen, memory, settings, now_s
        self._passing = taints.make_transient_taints(settings.templates, settings.deviations.readiness_taints)
        self._group_of: Mapping[str, node_groups.NodeGroup] = seen.group_of_nodes()
        self._nodes = upcoming_nodes.list_effective_nodes(
            seen, self._group_of, memory.volatile.templates, settings, self._passing
        )
        self._rng = np.random.default_rng((settings.seed, memory.durable.loop))
        self._plan: list[plan.Instruction] = []
        self._ledger = time_limits.DecisionTimer(timer, seen.opinions)
        scatter = None if settings.deviations.tight_packing else self._rng
        self._pending = memory.volatile.pending.next_loop(scatter)
        self._removal = memory.volatile.removal.next_loop(scatter)
        self._booking = memory.volatile.booking.next_loop(scatter)
        self._volatile = replace(
            memory.volatile,
            pending=self._pending,
            removal=self._removal,
            booking=self._booking,
            standing=None,
            faults=(),
            began_s=now_s if memory.volatile.began_s is None else memory.volatile.began_s,
        )
        """What the next loop is handed, but what must survive a restart."""
        self._examples: frozenset[str] = frozenset()
        """Groups that have a node which speaks for new ones."""
        self._docket = RequestQueue(seen.requests, memory.durable.requests, settings, now_s)
        self._spares = seen.spares if settings.injection.capacity_buffer_pod_injection_enabled else ()
        self._real = len(seen.snapshot.pods.names)
        """Rows of pods that exist; those that are imagined come after them."""
        self._copies = self._real
        """From this row on, pods are copies for controllers; those of buffers come before them."""
        self._expected: frozenset[int] = frozenset()
        """Rows of pods that run on nodes that are being drained, and count where they are expected."""
        self._buffer_rows: list[tuple[BufferPods, range]] = []
        self._buffer_scale_ups: tuple[BufferScaleUp, ...] = ()
        drains = memory.durable.drains
        self._drains = {
            node.name: drains[node.name]
            for node in self._nodes
            if node.name in drains and deletion_taint.is_in_progress(drains[node.name], node, now_s)
        }

    def run(self) -> Decision:
        assessed = self.assess()
        found, repaired = assessed.health, assessed.repairs
        durable = replace(self._memory.durable, loop=self._memory.durable.loop + 1, health=found.memory)
        if repaired.stop is not None:
            return self._end_early(assessed, durable)
        with self.look_ahead(assessed) as ahead:
            candidates, verdicts = ahead.groups, ahead.verdicts
            groups = {group.id: group for group in candidates.all}
            present = self._seen.snapshot.nodes.count
            helped, durable = self._scale_up(candidates, durable)
            if helped.increases:
                groups = _apply_increases(groups, helped.increases)
                self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
            shrunk, durable = self._scale_down(ahead, helped, durable)
            proposals = helped.proposals
            may_grow = observation.DecisionPart.SCALE_UP not in self._seen.left_out.parts
            if self._settings.scale_up.enforce_node_group_min_size and may_grow:
                candidates = replace(candidates, all=tuple(groups.values()))
                raised, durable = self._raise_to_minimum(candidates, present, helped.increases, durable)
                groups = _apply_increases(groups, raised.increases)
                proposals = (*(proposals if helped.was_tried else ()), raised)
        if repaired.uncreated or any(isinstance(one, plan.Resize | plan.Drain) for one in self._plan):
            verdicts = self._judge_groups(found, groups, durable.health.requests)
        else:
            groups = {
                group.id: group for group in self._seen.groups
            }  # the peer looks at sizes again only after changes
        story = DecisionRecord(
            self._now_s,
            found,
            repaired,
            proposals,
            shrunk,
            self._find_upcoming(found, durable, groups),
            _list_unhealthy(verdicts),
            self._docket.report,
            tuple(self._nodes),
            assessed.templates,
            self._buffer_scale_ups,
        )
        return self._conclude(durable, story)

    def assess(self) -> _Assessment:
        """The cluster's health, what is repaired, and what new nodes would be like."""
        self._clean_up_at_start()
        if (stop := self._find_stop()) is not None:
            return self._assess_nothing(stop)
        self._docket.expire()
        self._docket.intern_shapes(self._seen.snapshot)
        for spare in self._spares:
            self._seen.snapshot.shape_of(spare.like)  # inside a fork no selector may appear that nobody knew
        with self._ledger.measure(MeasuredStep.UPDATE_STATE):
            found = health.assess_health(
                self._nodes, self._seen.groups, self._group_of, self._memory.durable.health, self._settings, self._now_s
            )
            made = self._find_templates()
        repaired = remediation.plan_remediation(self._seen.groups, found, self._settings, self._now_s)
        self._repair(repaired)
        return _Assessment(found, repaired, made)

    @contextlib.contextmanager
    def look_ahead(self, assessed: _Assessment) -> Iterator[_UpcomingState]:
        """The groups as repaired, and the snapshot with the nodes that are on their way; reverted when this ends."""
        found, repaired, made = assessed.health, assessed.repairs, assessed.templates
        groups = self._resized(repaired.sizes)
        self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
        snapshot, cutoff = self._seen.snapshot, self._settings.pods.expendable_pods_priority_cutoff
        awaited = upcoming_nodes.find_upcoming_and_unready(
            repaired.upcoming, found, made, self._nodes, self._seen, self._settings
        )
        allowed = self._settings.pods.allowed_scheduler_names
        with upcoming_nodes.inject_upcoming(snapshot, self._nodes, made, awaited, cutoff) as upcoming:
            if allowed and not self._settings.deviations.count_pods_of_all_schedulers:
                pod_list.filter_out_other_schedulers(snapshot, allowed)
            verdicts = upcoming_nodes.list_verdicts(found)
            if repaired.uncreated:
                verdicts = self._judge_groups(found, groups, found.memory.requests)
            unsafe = upcoming_nodes.find_unsafe(groups.values(), found, verdicts, self._settings.deviations)
            unknown = tuple(group for group in awaited if group not in made)
            every = options.ScaleUpGroups(tuple(groups.values()), made, unsafe, upcoming, unknown)
            yield _UpcomingState(every, awaited, verdicts)

    def _conclude(self, durable: DurableMemory, story: DecisionRecord) -> Decision:
        """The decision, which stands until time alone would change it."""
        seen, settings, ordered = self._seen, self._settings, (*self._plan, *self._docket.instructions())
        durable = replace(durable, requests=self._docket.memory)
        durable = loop_memory.retain_held(self._memory.durable, durable, seen, self._now_s)
        until_s = next_change.find_next_change_s(
            seen,
            story.health,
            self._nodes,
            self._group_of,
            ordered,
            self._memory.durable,
            durable,
            story.scale_down,
            settings,
            self._now_s,
        )
        changes_at_s = (*self._docket.changes_at_s(), *self._find_expiries())
        until_s = min(until_s, min((one for one in changes_at_s if one >= self._now_s), default=until_s))
        if (
            self._ledger.ran_out
            or self._ledger.inquiry.was_needed
            or story.repairs.stop in decision_record.NOT_ACTIONABLE
        ):
            until_s = self._now_s  # the next loop may get further, or hear otherwise
        standing = CachedDecision(
            seen, seen.snapshot.generation, durable, settings, ordered, story, until_s, self._examples
        )
        return Decision(
            ordered,
            LoopMemory(durable, replace(self._volatile, standing=standing)),
            story,
            until_s,
            seen,
            self._ledger.ran_out,
            self._ledger.inquiry.question,
        )

    def _find_expiries(self) -> list[float]:
        """When templates that no node speaks for any more are forgotten."""
        expire_time_s, learned_s = self._settings.templates.node_info_cache_expire_time_s, self._volatile.learned_s
        return [at_s + expire_time_s for group, at_s in learned_s.items() if group not in self._examples]

    # Before anything is decided

    def _clean_up_at_start(self) -> None:
        """A process that died may have left nodes marked for deletion: nobody deletes them now.

        Marks of candidates tell since when nodes are unneeded, if the user wants them to.
        """
        if self._memory.durable.loop > 0:
            return
        settings, own = self._settings, [node for node in self._nodes if node.name in self._group_of]
        for node in own:
            if taints.has_taint(node, taints.TO_BE_DELETED_KEY):
                self._plan.append(plan.RemoveTaint(node.name, taints.TO_BE_DELETED_KEY))
                if settings.drain.cordon_node_before_terminating:
                    self._plan.append(plan.Cordon(node.name, cordoned=False))
        self._plan += soft_taints.clean_up_soft_taints(self._nodes, settings.scale_down, self._now_s)
        since = unneeded.restore_unneeded_since(own, settings.scale_down.node_deletion_candidate_ttl_s, self._now_s)
        known = self._memory.durable.scale_down
        state = replace(known, since={**since, **known.since}, previous=known.previous | since.keys())
        self._memory = replace(self._memory, durable=replace(self._memory.durable, scale_down=state))

    def _find_templates(self) -> upcoming_nodes.GroupTemplates:
        """What new nodes look like, by group; what their nodes are like now is remembered."""
        before, expire_time_s = self._memory.volatile, self._settings.templates.node_info_cache_expire_time_s
        kept = node_templates.drop_expired_templates(before.templates, before.learned_s, expire_time_s, self._now_s)
        made, remembered = upcoming_nodes.find_group_templates(
            self._seen,
            [node for node in self._nodes if node.name not in self._seen.left_out.nodes],
            self._group_of,
            kept,
            self._settings,
            self._passing,
            self._now_s,
        )
        self._examples = frozenset(group for group, one in remembered.items() if kept.get(group) is not one)
        learned_s = {
            group: self._now_s if group in self._examples else before.learned_s.get(group, self._now_s)
            for group in remembered
        }
        self._volatile = replace(self._volatile, templates=remembered, learned_s=learned_s)
        return made

    def _repair(self, repaired: decision_record.Remediation) -> None:
        for revert in repaired.reverts:
            self._plan.append(
                plan.ReduceTarget(revert.group, revert.by, "nodes did not come in time", revert.before.target)
            )
        for removal in repaired.unregistered:
            self._plan.append(
                plan.DeleteInstances(removal.group, removal.instances, "never registered", removal.is_forced)
            )
        for removal in repaired.uncreated:
            self._plan.append(
                plan.DeleteInstances(removal.group, removal.instances, "could not be created", removal.is_forced)
            )
        for fix in repaired.fixes:
            self._plan.append(plan.ReduceTarget(fix.group, fix.by, "size was wrong for too long", fix.before.target))

    def _find_stop(self) -> decision_record.LoopStop | None:
        """Why nothing may be decided at all, if the user wants a cluster without ready nodes to be left alone."""
        began_s = self._volatile.began_s
        if self._settings.scale_up.scale_up_from_zero or began_s is None:
            return None
        return remediation.find_not_actionable(self._nodes, began_s, self._now_s)

    def _assess_nothing(self, stop: decision_record.LoopStop) -> _Assessment:
        """Nothing is found out about groups, and nothing changes in what is remembered of them."""
        known = self._memory.durable.health
        found = health.assess_health(self._nodes, self._seen.groups, self._group_of, known, self._settings, self._now_s)
        return _Assessment(
            found.as_before(known), remediation.do_nothing(self._seen.groups, stop), self._find_templates()
        )

    def _end_early(self, assessed: _Assessment, durable: DurableMemory) -> Decision:
        found, repaired = assessed.health, assessed.repairs
        upcoming = {group: one.nodes for group, one in repaired.upcoming.items()}
        unhealthy = _list_unhealthy(upcoming_nodes.list_verdicts(found))
        if repaired.stop in decision_record.NOT_ACTIONABLE:
            last = self._memory.volatile.standing
            upcoming, unhealthy = ({}, ()) if last is None else (dict(last.story.upcoming), ())
        if repaired.stop is decision_record.LoopStop.UNHEALTHY or repaired.stop in decision_record.NOT_ACTIONABLE:
            durable = replace(durable, scale_down=durable.scale_down.clear())
        story = DecisionRecord(
            self._now_s,
            found,
            repaired,
            (scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_TRIED),),
            ScaleDownRecord(ScaleDownResult.NOT_TRIED),
            upcoming,
            unhealthy,
            self._docket.report,
            tuple(self._nodes),
            assessed.templates,
        )
        return self._conclude(durable, story)

    def _resized(self, sizes: decision_record.GroupSizes) -> dict[str, node_groups.NodeGroup]:
        return {group.id: replace(group, target_size=sizes[group.id].target) for group in self._seen.groups}

    def _judge_groups(
        self,
        found: cluster_health.ClusterHealth,
        groups: Mapping[str, node_groups.NodeGroup],
        under_way: cluster_health.ScaleRequests,
    ) -> dict[str, cluster_health.HealthVerdict]:
        sizes = {group.id: group.target_size for group in groups.values()}
        return upcoming_nodes.check_groups(found, sizes, under_way, self._settings.health)

    # Scale-up

    def _scale_up(
        self, groups: options.ScaleUpGroups, durable: DurableMemory
    ) -> tuple[orchestrator.ScaleUpStatus, DurableMemory]:
        if observation.DecisionPart.SCALE_UP in self._seen.left_out.parts:
            return orchestrator.ScaleUpStatus(
                (scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_TRIED),)
            ), durable
        helped = self.scale_up(self.list_pods(groups))
        scene = self._set_scale_up_scene(groups)
        proposals, durable = self._carry_out(helped.proposals, durable)
        if self._docket.picked and any(one.result is scale_up_status.ScaleUpResult.SUCCESSFUL for one in proposals):
            durable = replace(durable, activity=replace(durable.activity, added_s=self._now_s))
        self._booking.hints.old.update(self._docket.places)
        self._buffer_scale_ups = tuple(buffer_pods.find_buffer_scale_ups(self._buffer_rows, proposals))
        return provisioning_dispatch.record_results(
            self._docket, scene, self._real, replace(helped, proposals=proposals)
        ), durable

    def scale_up(self, context: orchestrator.ScaleUpContext) -> orchestrator.ScaleUpStatus:
        """What is proposed for pods and requests, before any of it is ordered."""
        if observation.DecisionPart.SCALE_UP in self._seen.left_out.parts:
            return orchestrator.ScaleUpStatus(
                (scale_up_status.ScaleUpProposal(scale_up_status.ScaleUpResult.NOT_TRIED),)
            )
        scene = self._set_scale_up_scene(context.groups)
        return provisioning_dispatch.dispatch_scale_up(
            self._docket, scene, context.unschedulable, context.requested, context.obstacle, self._now_s
        )

    def _set_scale_up_scene(self, groups: options.ScaleUpGroups) -> provisioning_dispatch.ProvisioningContext:
        return provisioning_dispatch.ProvisioningContext(
            self._seen, self._seen.snapshot, groups, self._settings, self._rng, self._ledger
        )

    def list_pods(self, groups: options.ScaleUpGroups) -> orchestrator.ScaleUpContext:
        """The pods to be helped, in the fork of `look_ahead`; the others that wait are bound to where there is room."""
        settings, snapshot = self._settings, self._seen.snapshot
        if observation.DecisionPart.SCALE_UP in self._seen.left_out.parts:
            return orchestrator.ScaleUpContext(snapshot, groups, pod_list.PendingPods((), (), ()), (), (), 0, None)
        waiting = pod_list.sort_pending(snapshot, settings)
        pod_list.bind_nominated(snapshot, waiting.nominated, settings.pods.expendable_pods_priority_cutoff)
        waiting = self._add_drained(self._make_up_pods(waiting))
        with self._ledger.measure(MeasuredStep.FILTER_OUT_SCHEDULABLE):
            helpless = pod_list.filter_out_schedulable(snapshot, waiting, self._pending, settings, self._now_s)
        helpless = proactive_pods.limit_fake_pods(helpless, self._copies, settings.injection.pod_injection_limit)
        helpless, asked = self._take_in_requests(helpless)
        ready = self._count_ready() if settings.limits.max_nodes_total > 0 else 0
        obstacle = orchestrator.check_preconditions(snapshot, [*helpless, *asked], ready, settings, self._now_s)
        return orchestrator.ScaleUpContext(snapshot, groups, waiting, tuple(helpless), tuple(asked), ready, obstacle)

    def _count_ready(self) -> int:
        """Ready nodes, as far as they count against --max-nodes-total before a scale-up is tried."""
        counts_cordoned = self._settings.deviations.count_cordoned_nodes_in_max_nodes_total
        schedulable = (node for node in self._nodes if counts_cordoned or not node.unschedulable)
        return sum(1 for node in schedulable if readiness.assess_node(node).is_ready)

    def _make_up_pods(self, waiting: pod_list.PendingPods) -> pod_list.PendingPods:
        """With the pods that buffers keep room for, and those that controllers want and have not created."""
        snapshot, made_up = self._seen.snapshot, list[int]()
        for spare in self._spares:
            appended = snapshot.append_pods(spare.like, list(spare.names))
            self._buffer_rows.append((spare, appended))
            made_up += appended
        self._copies += len(made_up)
        if self._settings.injection.enable_proactive_scaleup:
            rows = [*waiting.unschedulable, *waiting.unprocessed]
            made_up += proactive_pods.inject_missing_pods(snapshot, (self._seen.controllers or {}).values(), rows)
        return replace(waiting, unschedulable=(*waiting.unschedulable, *made_up)) if made_up else waiting

    def _add_drained(self, waiting: pod_list.PendingPods) -> pod_list.PendingPods:
        """With the pods of nodes that are being drained."""
        drains = {name: drain for name, drain in self._drains.items() if not drain.is_empty}
        if not drains:
            return waiting
        rows = pod_list.find_drained_pods(self._seen.snapshot, drains)
        moves = self._settings.deviations.move_drained_pods
        if moves:
            self._pending.hints.suggest(drain.places for drain in drains.values())
        taken = pod_list.unbind_drained_pods(self._seen.snapshot, rows, counts_originals=not moves)
        if moves:
            self._expected = frozenset(taken)
        return replace(waiting, drained=tuple(taken))

    def _take_in_requests(self, helpless: list[int]) -> tuple[list[int], list[int]]:
        """The pods that ask for themselves, and those of the next request that is due. What is booked is taken."""
        if not self._settings.provisioning_requests.enable_provisioning_requests:
            return helpless, []
        snapshot, settings = self._seen.snapshot, self._settings
        helpless = provisioning_queue.filter_out_consumers(self._docket, snapshot, helpless)
        picked = provisioning_queue.select_request(self._docket, settings.provisioning_requests, self._now_s)
        asked = inject_request_pods(snapshot, picked) if picked is not None else []
        provisioning_queue.book_capacity(self._docket, snapshot, self._booking, settings)
        return helpless, pod_list.find_old_enough(snapshot, asked, settings.pods.new_pod_scale_up_delay_s, self._now_s)

    def _raise_to_minimum(
        self,
        groups: options.ScaleUpGroups,
        present: int,
        ordered: Sequence[scale_up_status.GroupIncrease],
        durable: DurableMemory,
    ) -> tuple[scale_up_status.ScaleUpProposal, DurableMemory]:
        """Grow groups to their minimum. `ordered` is what this loop asked for already, and `present` how many rows of
        nodes there were before that.
        """
        snapshot, settings = self._seen.snapshot, self._settings
        respects_total = settings.deviations.enforce_min_respects_max_nodes_total
        with self._ledger.measure(MeasuredStep.SCALE_UP):
            nodes = orchestrator.list_nodes(self._seen, snapshot, groups)[: int(snapshot.nodes.alive[:present].sum())]
            proposer = orchestrator.make_planner(self._seen, snapshot, groups, settings, self._rng, self._ledger, nodes)
            if respects_total:
                proposer.count_ordered(ordered)
            raised = proposer.raise_to_minimum(respects_total)
        (raised,), durable = self._carry_out((raised,), durable)
        return raised, durable

    def _carry_out(
        self, proposals: orchestrator.ScaleUpProposals, durable: DurableMemory
    ) -> tuple[orchestrator.ScaleUpProposals, DurableMemory]:
        is_atomic = bool(self._docket.ordering) and self._settings.deviations.atomic_across_groups
        raised = orchestrator.ScaleUpExecutor(self._seen, self._settings, self._now_s, self._plan)
        return raised.execute(proposals, durable, is_atomic)

    def _find_upcoming(
        self, found: cluster_health.ClusterHealth, durable: DurableMemory, groups: Mapping[str, node_groups.NodeGroup]
    ) -> dict[str, int]:
        upcoming = health.find_upcoming(
            {group.id: group.target_size for group in groups.values()},
            {group: each.readiness for group, each in found.groups.items()},
            durable.health.requests.scale_ups,
            durable.health.backoffs,
            self._now_s,
        )
        return {group: one.nodes for group, one in upcoming.items()}

    # Scale-down

    def _scale_down(
        self, ahead: _UpcomingState, helped: orchestrator.ScaleUpStatus, durable: DurableMemory
    ) -> tuple[ScaleDownRecord, DurableMemory]:
        settings = self._settings
        if (
            not settings.scale_down.scale_down_enabled
            or observation.DecisionPart.SCALE_DOWN in self._seen.left_out.parts
        ):
            return ScaleDownRecord(ScaleDownResult.NOT_TRIED), durable
        passed_over = {name for one in ahead.awaited.values() for name in one.not_started} | self._find_unevaluated()
        with self._ledger.measure(MeasuredStep.FIND_UNNEEDED):
            scene = self._set_scene([node for node in self._nodes if node.name not in passed_over])
            names = planner.find_candidates(scene, durable.scale_down, durable.activities, settings, self._now_s)
            names = self._leave_out_deleted(names, durable)
            time = self._ledger.begin("scale-down simulation", settings.scale_down.scale_down_simulation_timeout_s)
            looked = planner.evaluate_candidates(scene, names, durable.scale_down, settings, self._now_s, time)
        durable = replace(durable, scale_down=looked.state)
        story = ScaleDownRecord(ScaleDownResult.IN_COOLDOWN, looked)
        if not self._is_cooling(helped, durable):
            with self._ledger.measure(MeasuredStep.SCALE_DOWN):
                story, durable = self._delete(scene, names, looked, helped.groups or ahead.groups, durable)
        with self._ledger.measure(MeasuredStep.SOFT_TAINT):
            marks = soft_taints.update_soft_taints(
                self._nodes, self._group_of, looked.state.since, settings.scale_down, self._now_s
            )
            going = {instruction.node for instruction in self._plan if isinstance(instruction, plan.Drain)}
            self._plan += [change for change in marks.changes if change.node not in going]
        return story, durable

    def _leave_out_deleted(self, names: list[str], durable: DurableMemory) -> list[str]:
        """Without nodes whose deletion the provider was told, however long ago: they must not be chosen once more.

        Those that were marked lately stay: that they are being deleted is told of them.
        """
        deleted = {
            name
            for name, begun in durable.drains.items()
            if begun.progress.deleting_s is not None and begun.progress.failure is None
        }
        if not deleted:
            return names
        table, now_s = self._seen.snapshot.nodes, self._now_s
        return [
            name
            for name in names
            if name not in deleted or taints.is_being_deleted(table.facts[table.rows[name]], now_s)
        ]

    def _find_unevaluated(self) -> set[str]:
        """The nodes that are left out, or run a pod that is: they stay."""
        rows = quarantine.find_nodes_with_excluded_pods(self._seen.snapshot.pods).tolist()
        return {*self._seen.left_out.nodes, *(self._seen.snapshot.nodes.names[row] for row in rows)}

    def _set_scene(self, nodes: Sequence[facts.Node]) -> simulation.ScaleDownContext:
        about = context.make_drain_context(self._seen, self._settings, self._now_s)
        evicted = self._find_recently_evicted()
        return simulation.ScaleDownContext(
            self._seen.snapshot,
            [node.name for node in nodes],
            self._group_of,
            rules.PodDrainability(self._seen.snapshot.pods, about),
            about.budgets,
            self._removal,
            deletion_budgets.DeletionsInProgress(
                frozenset(name for name, drain in self._drains.items() if drain.is_empty),
                frozenset(name for name, drain in self._drains.items() if not drain.is_empty),
            ),
            evicted,
            self._expected.union(evicted),
        )

    def _find_recently_evicted(self) -> list[int]:
        """Rows of evicted pods that hold room elsewhere."""
        snapshot, controllers = self._seen.snapshot, self._seen.controllers or {}
        if not self._drains or not self._settings.deviations.hold_room_for_evicted_pods:
            return []
        rows = recently_evicted.find_terminating_rows(snapshot, self._drains)
        missing = recently_evicted.count_missing_replicas(snapshot, rows, controllers)
        return recently_evicted.find_rows_to_recreate(snapshot, rows, missing)

    def _is_cooling(self, helped: orchestrator.ScaleUpStatus, durable: DurableMemory) -> bool:
        if helped.wait_for_more:
            return True
        if self._settings.scale_down.scale_down_delay_type_local:
            return False
        return cooldown.cooldown_ends_at_s(durable.activity, self._settings.scale_down) > self._now_s

    def _delete(
        self,
        scene: simulation.ScaleDownContext,
        names: Sequence[str],
        looked: scale_down_state.CandidateEvaluation,
        groups: options.ScaleUpGroups,
        durable: DurableMemory,
    ) -> tuple[ScaleDownRecord, DurableMemory]:
        if not names:
            return ScaleDownRecord(ScaleDownResult.NO_CANDIDATES, looked), durable
        minimum = self._minimum(groups)
        if minimum is None:
            return ScaleDownRecord(ScaleDownResult.NO_NODE_DELETED, looked), durable
        choice = planner.select_nodes_to_delete(scene, looked, minimum, self._settings, self._now_s)
        started = deletion_budgets.crop_nodes(
            [one.node_name for one in choice.empty],
            [one.node_name for one in choice.drain],
            self._group_of,
            scene.count_registered(),
            scene.in_progress,
            self._settings,
        )
        going = [name for bucket in (*started.empty, *started.drain) for name in bucket.nodes]
        if not going:
            return ScaleDownRecord(ScaleDownResult.NO_NODE_DELETED, looked, choice, started), durable
        moves = {one.node_name: one.moves.move for one in (*choice.empty, *choice.drain)}
        chosen = {name: moves[name] for name in going}
        drains = dict(durable.drains)
        places = self._removal.hints.old
        for order, begun in node_drain.start_drains(
            scene.snapshot, chosen, self._real, places, self._group_of, self._now_s
        ):
            self._plan.append(order)
            drains[order.node] = begun
        owners = {name: self._group_of[name].id for name in going}
        asked = scale_requests.register_scale_downs(
            durable.health.requests, [(owners[name], name) for name in going], self._now_s
        )
        activities = dict(durable.activities)
        deleted_s = self._now_s + self._settings.drain.node_delete_delay_after_taint_s
        for group in dict.fromkeys(owners.values()):
            activities[group] = replace(activities.get(group, scale_down_state.ScaleActivity()), deleted_s=deleted_s)
        durable = replace(
            durable,
            health=replace(durable.health, requests=asked),
            activity=replace(durable.activity, deleted_s=self._now_s),
            activities=activities,
            drains=drains,
        )
        return ScaleDownRecord(ScaleDownResult.STARTED, looked, choice, started), durable

    def _minimum(self, groups: options.ScaleUpGroups) -> quotas.QuotaTracker | None:
        """What the cluster must keep at least; None where what it has cannot be counted, as in Cluster Autoscaler.

        Nodes to come count, as they do against the most that it may have.
        """
        limits = self._settings.limits
        smallest = {facts.CPU: limits.cores_total.min, facts.MEMORY: limits.memory_total_bytes.min}
        smallest |= {bounds.gpu_type: bounds.min for bounds in limits.gpu_total}
        quota = quotas.ClusterLimits(minimum=smallest).make_quota(quotas.QuotaBound.MINIMUM)
        nodes = orchestrator.list_nodes(self._seen, self._seen.snapshot, groups)
        if orchestrator.find_unknown_capacity(self._seen, nodes, groups, self._settings).node is not None:
            return None
        return quotas.make_tracker(quotas.QuotaBound.MINIMUM, [quota], nodes, orchestrator.make_gpu_measure(self._seen))


def _apply_increases(
    groups: Mapping[str, node_groups.NodeGroup], increases: Sequence[scale_up_status.GroupIncrease]
) -> dict[str, node_groups.NodeGroup]:
    """The groups as large as they will be."""
    sizes = {increase.group.id: increase.new_size for increase in increases}
    return {id: replace(group, target_size=sizes.get(id, group.target_size)) for id, group in groups.items()}


def _list_unhealthy(verdicts: Mapping[str, cluster_health.HealthVerdict]) -> tuple[str, ...]:
    return tuple(sorted(group for group, verdict in verdicts.items() if not verdict.is_healthy))
