"""The decision: one loop of the autoscaler as one pure function.

    what is seen ──▶ health and repairs ──▶ who needs help ──▶ scale up ──▶ who is not needed ──▶ scale down
                       (may end the loop)     (in a fork with what is on its way)

Same input, same answer: the time is an argument, ties are drawn from a generator seeded by settings and loop number.
The snapshot is forked and left as it was found. An object with which an exception is raised that nothing foresees is
left out, and the rest is decided (`quarantine`).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import (
    actionable_cluster,
    facts,
    health,
    held_groups,
    isolation,
    left_out,
    outlook,
    plan,
    quarantine,
    quiet,
    readiness,
    repairs,
    requests,
    soundness,
    taints,
    time_limits,
)
from windlass.engine.buffers import proactive, scale_ups
from windlass.engine.buffers.injecting import Spare
from windlass.engine.buffers.scale_ups import BufferScaleUp
from windlass.engine.devices.outcome import SelectorError
from windlass.engine.drain import by_kind
from windlass.engine.draining import beginning, marking
from windlass.engine.expanders import outside
from windlass.engine.memory import Durable, Memory, Standing
from windlass.engine.observation import Observation
from windlass.engine.provisioning import atomic, booking, picking, turns
from windlass.engine.provisioning.docket import Docket, imagine
from windlass.engine.scale_down import cooldown, deletion_budgets, planning, recently_evicted, soft_taints, unneeded
from windlass.engine.scale_down import scene as scenes
from windlass.engine.scale_up import (
    balancing,
    currently_drained_nodes,
    helping,
    pending,
    proposing,
    quotas,
    raising,
    templates,
)
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.engine.story import ScaleDownResult, ScaleDownStory, Story
from windlass.engine.time_limits import Step

UNTIMED = time_limits.Untimed()


@dataclass(frozen=True, slots=True)
class ScaleUpContext:
    """What a scale-up is decided on. True until the fork of the snapshot ends in which it was set up.

    Nodes on their way are in the snapshot; expendable pods are not. Pods that are not to be helped because there is
    room for them are on the nodes that have it.
    """

    snapshot: Snapshot
    groups: proposing.Groups
    waiting: pending.Waiting
    """Pending pods by what the scheduler made of them, with the pods of buffers and of controllers that create more."""
    unschedulable: tuple[int, ...]
    """Rows of the pods that no node has room for, and that a new node could help now."""
    requested: tuple[int, ...]
    """Rows of the pods of the ProvisioningRequest that is due."""
    ready_nodes: int
    """Counted only where --max-nodes-total limits them."""
    obstacle: helping.Helped | None
    """Why nothing is tried for pods, where nothing is."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, what to remember, and why."""

    plan: plan.Plan
    memory: Memory
    story: Story
    quiet_until_s: float
    """Before this time the same observation is decided alike: nothing is ordered, and nothing new is remembered. The
    time of the decision itself, if it may be decided otherwise at once."""
    evaluated: Observation = field(repr=False, compare=False)
    """What was decided on: what was seen, without what cannot be evaluated."""
    ran_out: time_limits.RanOut = field(default_factory=dict)
    """Where time was up: `time_limits.Replayed` comes to the same end."""
    question: outside.Question | None = None
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
    seen: Observation, memory: Memory, settings: Settings, now_s: float, timer: time_limits.Timer = UNTIMED
) -> Decision:
    """One loop. While the last decision stands, and nothing has changed, it is given again."""
    seen.snapshot.now_s = now_s
    known, stale = quarantine.find_current(memory.volatile.faults, seen, now_s)
    evaluated = quarantine.leave_out(seen, [fault.suspect for fault in known])
    resumed = held_groups.resume_memory(memory, evaluated, now_s)
    last = memory.volatile.standing
    if last is not None and last.holds(evaluated, resumed.durable, settings, now_s):
        if settings.templates.expires:
            resumed = _learn_again(resumed, last, now_s)
        return Decision(last.plan, resumed, last.story, last.until_s, last.seen)
    seen.snapshot.guarded = frozenset(budget.namespace for budget in seen.budgets)

    def run(evaluated: Observation) -> Decision:
        resumed = held_groups.resume_memory(memory, evaluated, now_s)
        with quarantine.hidden(evaluated):
            return _Loop(evaluated, resumed, settings, now_s, timer).run()

    def find_unsound() -> list[tuple[quarantine.Suspect, Exception]]:
        return soundness.find_unsound(evaluated, settings, now_s)

    try:
        return _remember(run(evaluated), known)
    except Exception as raised:  # whatever it is, it must cost no more than what it was raised with
        error = raised
    ledger = time_limits.Ledger(timer)
    time = ledger.begin("isolation", quarantine.MOST_S)
    decision, faults = isolation.isolate(run, find_unsound, seen, known, stale, error, now_s, time)
    return _remember(replace(decision, ran_out={**decision.ran_out, **ledger.ran_out}), faults)


def _learn_again(memory: Memory, last: Standing, now_s: float) -> Memory:
    """The memory; what was learned from nodes is learned from them again as long as they are there."""
    learned_s = {**memory.volatile.learned_s, **dict.fromkeys(last.examples, now_s)}
    return replace(memory, volatile=replace(memory.volatile, learned_s=learned_s))


def _remember(decision: Decision, faults: quarantine.Faults) -> Decision:
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
    evaluated: Observation, memory: Memory, settings: Settings, now_s: float
) -> Iterator[ScaleUpContext]:
    """What a loop with these arguments decides its scale-up on, set up by the steps of that loop; gone when this ends.

    `evaluated` is the decision's: without what cannot be evaluated. A loop that ends early does not come this far; the
    context is what it would have had.
    """
    with _enter(evaluated, memory, settings, now_s, UNTIMED) as (loop, groups):
        yield loop.list_pods(groups)


@contextlib.contextmanager
def round_context(
    evaluated: Observation,
    memory: Memory,
    settings: Settings,
    now_s: float,
    ran_out: time_limits.RanOut,
    number: int | None = None,
) -> Iterator[ScaleUpContext]:
    """What a round of such a loop's scale-up is decided on: what the rounds before it ordered is there.

    `ran_out` is the decision's. `number` counts from 1; None is the last round.
    """
    if number is not None:
        ran_out = {**ran_out, helping.ROUNDS: number}
    with _enter(evaluated, memory, settings, now_s, time_limits.Replayed(ran_out)) as (loop, groups):
        context = loop.list_pods(groups)
        yield replace(context, groups=loop.scale_up(context).groups or groups)


@contextlib.contextmanager
def _enter(
    evaluated: Observation, memory: Memory, settings: Settings, now_s: float, timer: time_limits.Timer
) -> Iterator[tuple["_Loop", proposing.Groups]]:
    """A loop that has come as far as its scale-up."""
    with quarantine.hidden(evaluated):
        loop = _Loop(evaluated, held_groups.resume_memory(memory, evaluated, now_s), settings, now_s, timer)
        with loop.look_ahead(loop.assess()) as ahead:
            yield loop, ahead.groups


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What is known before anything is scaled."""

    health: health.Health
    repairs: repairs.Repairs
    templates: outlook.Templates
    """What a new node of each group would be like."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The cluster with the nodes that are on their way."""

    groups: proposing.Groups
    awaited: outlook.Upcoming
    verdicts: Mapping[str, health.Verdict]


class _Loop:
    """The steps of one loop, each reading what the ones before it found."""

    def __init__(
        self, seen: Observation, memory: Memory, settings: Settings, now_s: float, timer: time_limits.Timer
    ) -> None:
        self._seen, self._memory, self._settings, self._now_s = seen, memory, settings, now_s
        self._passing = taints.read_settings(settings.templates, settings.deviations.readiness_taints)
        self._group_of: Mapping[str, facts.NodeGroup] = seen.group_of_nodes()
        self._nodes = outlook.find_nodes(seen, self._group_of, memory.volatile.templates, settings, self._passing)
        self._rng = np.random.default_rng((settings.seed, memory.durable.loop))
        self._plan: list[plan.Instruction] = []
        self._ledger = time_limits.Ledger(timer, seen.opinions)
        scatter = None if settings.deviations.tight_packing else self._rng
        self._pending = memory.volatile.pending.go_on(scatter)
        self._removal = memory.volatile.removal.go_on(scatter)
        self._booking = memory.volatile.booking.go_on(scatter)
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
        self._docket = Docket(seen.requests, memory.durable.requests, settings, now_s)
        self._spares = seen.spares if settings.injection.capacity_buffer_pod_injection_enabled else ()
        self._real = len(seen.snapshot.pods.names)
        """Rows of pods that exist; those that are imagined come after them."""
        self._copies = self._real
        """From this row on, pods are copies for controllers; those of buffers come before them."""
        self._expected: frozenset[int] = frozenset()
        """Rows of pods that run on nodes that are being drained, and count where they are expected."""
        self._buffer_rows: list[tuple[Spare, range]] = []
        self._buffer_scale_ups: tuple[BufferScaleUp, ...] = ()
        drains = memory.durable.drains
        self._drains = {
            node.name: drains[node.name]
            for node in self._nodes
            if node.name in drains and marking.is_in_progress(drains[node.name], node, now_s)
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
                groups = _grown(groups, helped.increases)
                self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
            shrunk, durable = self._scale_down(ahead, helped, durable)
            proposals = helped.proposals
            may_grow = left_out.Part.SCALE_UP not in self._seen.left_out.parts
            if self._settings.scale_up.enforce_node_group_min_size and may_grow:
                candidates = replace(candidates, all=tuple(groups.values()))
                raised, durable = self._raise_to_minimum(candidates, present, helped.increases, durable)
                groups = _grown(groups, raised.increases)
                proposals = (*(proposals if helped.was_tried else ()), raised)
        if repaired.uncreated or any(isinstance(one, plan.Resize | plan.Drain) for one in self._plan):
            verdicts = self._judge_groups(found, groups, durable.health.requests)
        else:
            groups = {
                group.id: group for group in self._seen.groups
            }  # the peer looks at sizes again only after changes
        story = Story(
            self._now_s,
            found,
            repaired,
            proposals,
            shrunk,
            self._find_upcoming(found, durable, groups),
            _unhealthy(verdicts),
            self._docket.dealings,
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
        self._docket.age()
        self._docket.learn(self._seen.snapshot)
        for spare in self._spares:
            self._seen.snapshot.shape_of(spare.like)  # inside a fork no selector may appear that nobody knew
        with self._ledger.measure(Step.UPDATE_STATE):
            found = health.assess(
                self._nodes, self._seen.groups, self._group_of, self._memory.durable.health, self._settings, self._now_s
            )
            made = self._find_templates()
        repaired = repairs.plan(self._seen.groups, found, self._settings, self._now_s)
        self._repair(repaired)
        return _Assessment(found, repaired, made)

    @contextlib.contextmanager
    def look_ahead(self, assessed: _Assessment) -> Iterator[_Ahead]:
        """The groups as repaired, and the snapshot with the nodes that are on their way; reverted when this ends."""
        found, repaired, made = assessed.health, assessed.repairs, assessed.templates
        groups = self._resized(repaired.sizes)
        self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
        snapshot, cutoff = self._seen.snapshot, self._settings.pods.expendable_pods_priority_cutoff
        awaited = outlook.find_awaited(repaired.upcoming, found, made, self._nodes, self._seen, self._settings)
        allowed = self._settings.pods.allowed_scheduler_names
        with outlook.look_ahead(snapshot, self._nodes, made, awaited, cutoff) as upcoming:
            if allowed and not self._settings.deviations.count_pods_of_all_schedulers:
                helping.drop_pods_of_other_schedulers(snapshot, allowed)
            verdicts = outlook.verdicts_of(found)
            if repaired.uncreated:
                verdicts = self._judge_groups(found, groups, found.memory.requests)
            unsafe = outlook.find_unsafe(groups.values(), found, verdicts, self._settings.deviations)
            unknown = tuple(group for group in awaited if group not in made)
            every = proposing.Groups(tuple(groups.values()), made, unsafe, upcoming, unknown)
            yield _Ahead(every, awaited, verdicts)

    def _conclude(self, durable: Durable, story: Story) -> Decision:
        """The decision, which stands until time alone would change it."""
        seen, settings, ordered = self._seen, self._settings, (*self._plan, *self._docket.orders())
        durable = replace(durable, requests=self._docket.memory)
        durable = held_groups.retain(self._memory.durable, durable, seen, self._now_s)
        until_s = quiet.find_until_s(
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
        if self._ledger.ran_out or self._ledger.inquiry.was_needed or story.repairs.stop in repairs.NOT_ACTIONABLE:
            until_s = self._now_s  # the next loop may get further, or hear otherwise
        standing = Standing(seen, seen.snapshot.generation, durable, settings, ordered, story, until_s, self._examples)
        return Decision(
            ordered,
            Memory(durable, replace(self._volatile, standing=standing)),
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
            if taints.has(node, taints.TO_BE_DELETED):
                self._plan.append(plan.RemoveTaint(node.name, taints.TO_BE_DELETED))
                if settings.drain.cordon_node_before_terminating:
                    self._plan.append(plan.Cordon(node.name, cordoned=False))
        self._plan += soft_taints.clean_up(self._nodes, settings.scale_down, self._now_s)
        since = unneeded.restore(own, settings.scale_down.node_deletion_candidate_ttl_s, self._now_s)
        known = self._memory.durable.scale_down
        state = replace(known, since={**since, **known.since}, previous=known.previous | since.keys())
        self._memory = replace(self._memory, durable=replace(self._memory.durable, scale_down=state))

    def _find_templates(self) -> outlook.Templates:
        """What new nodes look like, by group; what their nodes are like now is remembered."""
        before, expire_time_s = self._memory.volatile, self._settings.templates.node_info_cache_expire_time_s
        kept = templates.drop_expired(before.templates, before.learned_s, expire_time_s, self._now_s)
        made, remembered = outlook.find_templates(
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

    def _repair(self, repaired: repairs.Repairs) -> None:
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

    def _find_stop(self) -> repairs.Stop | None:
        """Why nothing may be decided at all, if the user wants a cluster without ready nodes to be left alone."""
        began_s = self._volatile.began_s
        if self._settings.scale_up.scale_up_from_zero or began_s is None:
            return None
        return actionable_cluster.find_stop(self._nodes, began_s, self._now_s)

    def _assess_nothing(self, stop: repairs.Stop) -> _Assessment:
        """Nothing is found out about groups, and nothing changes in what is remembered of them."""
        known = self._memory.durable.health
        found = health.assess(self._nodes, self._seen.groups, self._group_of, known, self._settings, self._now_s)
        return _Assessment(found.as_before(known), repairs.do_nothing(self._seen.groups, stop), self._find_templates())

    def _end_early(self, assessed: _Assessment, durable: Durable) -> Decision:
        found, repaired = assessed.health, assessed.repairs
        upcoming = {group: one.nodes for group, one in repaired.upcoming.items()}
        unhealthy = _unhealthy(outlook.verdicts_of(found))
        if repaired.stop in repairs.NOT_ACTIONABLE:
            last = self._memory.volatile.standing
            upcoming, unhealthy = ({}, ()) if last is None else (dict(last.story.upcoming), ())
        if repaired.stop is repairs.Stop.UNHEALTHY or repaired.stop in repairs.NOT_ACTIONABLE:
            durable = replace(durable, scale_down=durable.scale_down.clear())
        story = Story(
            self._now_s,
            found,
            repaired,
            (proposing.Proposal(proposing.Result.NOT_TRIED),),
            ScaleDownStory(ScaleDownResult.NOT_TRIED),
            upcoming,
            unhealthy,
            self._docket.dealings,
            tuple(self._nodes),
            assessed.templates,
        )
        return self._conclude(durable, story)

    def _resized(self, sizes: repairs.Sizes) -> dict[str, facts.NodeGroup]:
        return {group.id: replace(group, target_size=sizes[group.id].target) for group in self._seen.groups}

    def _judge_groups(
        self, found: health.Health, groups: Mapping[str, facts.NodeGroup], under_way: requests.Requests
    ) -> dict[str, health.Verdict]:
        sizes = {group.id: group.target_size for group in groups.values()}
        return outlook.judge_groups(found, sizes, under_way, self._settings.health)

    # Scale-up

    def _scale_up(self, groups: proposing.Groups, durable: Durable) -> tuple[helping.Helped, Durable]:
        if left_out.Part.SCALE_UP in self._seen.left_out.parts:
            return helping.Helped((proposing.Proposal(proposing.Result.NOT_TRIED),)), durable
        helped = self.scale_up(self.list_pods(groups))
        scene = self._set_scale_up_scene(groups)
        proposals, durable = self._carry_out(helped.proposals, durable)
        if self._docket.picked and any(one.result is proposing.Result.SUCCESSFUL for one in proposals):
            durable = replace(durable, activity=replace(durable.activity, added_s=self._now_s))
        self._booking.hints.old.update(self._docket.places)
        self._buffer_scale_ups = tuple(scale_ups.find(self._buffer_rows, proposals))
        return turns.close(self._docket, scene, self._real, replace(helped, proposals=proposals)), durable

    def scale_up(self, context: ScaleUpContext) -> helping.Helped:
        """What is proposed for pods and requests, before any of it is ordered."""
        if left_out.Part.SCALE_UP in self._seen.left_out.parts:
            return helping.Helped((proposing.Proposal(proposing.Result.NOT_TRIED),))
        scene = self._set_scale_up_scene(context.groups)
        return turns.take_turns(
            self._docket, scene, context.unschedulable, context.requested, context.obstacle, self._now_s
        )

    def _set_scale_up_scene(self, groups: proposing.Groups) -> atomic.Scene:
        return atomic.Scene(self._seen, self._seen.snapshot, groups, self._settings, self._rng, self._ledger)

    def list_pods(self, groups: proposing.Groups) -> ScaleUpContext:
        """The pods to be helped, in the fork of `look_ahead`; the others that wait are bound to where there is room."""
        settings, snapshot = self._settings, self._seen.snapshot
        if left_out.Part.SCALE_UP in self._seen.left_out.parts:
            return ScaleUpContext(snapshot, groups, pending.Waiting((), (), ()), (), (), 0, None)
        waiting = pending.arrange(snapshot, settings)
        helping.settle_nominated(snapshot, waiting.nominated, settings.pods.expendable_pods_priority_cutoff)
        waiting = self._add_drained(self._make_up_pods(waiting))
        with self._ledger.measure(Step.FILTER_OUT_SCHEDULABLE):
            helpless = helping.find_helpless(snapshot, waiting, self._pending, settings, self._now_s)
        helpless = proactive.keep_within(helpless, self._copies, settings.injection.pod_injection_limit)
        helpless, asked = self._take_in_requests(helpless)
        ready = self._count_ready() if settings.limits.max_nodes_total > 0 else 0
        obstacle = helping.find_obstacle(snapshot, [*helpless, *asked], ready, settings, self._now_s)
        return ScaleUpContext(snapshot, groups, waiting, tuple(helpless), tuple(asked), ready, obstacle)

    def _count_ready(self) -> int:
        """Ready nodes, as far as they count against --max-nodes-total before a scale-up is tried."""
        counts_cordoned = self._settings.deviations.count_cordoned_nodes_in_max_nodes_total
        schedulable = (node for node in self._nodes if counts_cordoned or not node.unschedulable)
        return sum(1 for node in schedulable if readiness.judge(node).is_ready)

    def _make_up_pods(self, waiting: pending.Waiting) -> pending.Waiting:
        """With the pods that buffers keep room for, and those that controllers want and have not created."""
        snapshot, made_up = self._seen.snapshot, list[int]()
        for spare in self._spares:
            appended = snapshot.append_pods(spare.like, list(spare.names))
            self._buffer_rows.append((spare, appended))
            made_up += appended
        self._copies += len(made_up)
        if self._settings.injection.enable_proactive_scaleup:
            rows = [*waiting.unschedulable, *waiting.unprocessed]
            made_up += proactive.imagine(snapshot, (self._seen.controllers or {}).values(), rows)
        return replace(waiting, unschedulable=(*waiting.unschedulable, *made_up)) if made_up else waiting

    def _add_drained(self, waiting: pending.Waiting) -> pending.Waiting:
        """With the pods of nodes that are being drained."""
        drains = {name: drain for name, drain in self._drains.items() if not drain.is_empty}
        if not drains:
            return waiting
        rows = currently_drained_nodes.find_recreatable(self._seen.snapshot, drains)
        moves = self._settings.deviations.move_drained_pods
        if moves:
            self._pending.hints.suggest(drain.places for drain in drains.values())
        taken = currently_drained_nodes.take_off(self._seen.snapshot, rows, counts_originals=not moves)
        if moves:
            self._expected = frozenset(taken)
        return replace(waiting, drained=tuple(taken))

    def _take_in_requests(self, helpless: list[int]) -> tuple[list[int], list[int]]:
        """The pods that ask for themselves, and those of the next request that is due. What is booked is taken."""
        if not self._settings.provisioning_requests.enable_provisioning_requests:
            return helpless, []
        snapshot, settings = self._seen.snapshot, self._settings
        helpless = booking.set_consumers_aside(self._docket, snapshot, helpless)
        picked = picking.pick(self._docket, settings.provisioning_requests, self._now_s)
        asked = imagine(snapshot, picked) if picked is not None else []
        booking.book(self._docket, snapshot, self._booking, settings)
        return helpless, pending.find_old_enough(snapshot, asked, settings.pods.new_pod_scale_up_delay_s, self._now_s)

    def _raise_to_minimum(
        self, groups: proposing.Groups, present: int, ordered: Sequence[balancing.Increase], durable: Durable
    ) -> tuple[proposing.Proposal, Durable]:
        """Grow groups to their minimum. `ordered` is what this loop asked for already, and `present` how many rows of
        nodes there were before that.
        """
        snapshot, settings = self._seen.snapshot, self._settings
        respects_total = settings.deviations.enforce_min_respects_max_nodes_total
        with self._ledger.measure(Step.SCALE_UP):
            nodes = helping.list_nodes(self._seen, snapshot, groups)[: int(snapshot.nodes.alive[:present].sum())]
            proposer = helping.make_proposer(self._seen, snapshot, groups, settings, self._rng, self._ledger, nodes)
            if respects_total:
                proposer.count_ordered(ordered)
            raised = proposer.raise_to_minimum(respects_total)
        (raised,), durable = self._carry_out((raised,), durable)
        return raised, durable

    def _carry_out(self, proposals: raising.Proposals, durable: Durable) -> tuple[raising.Proposals, Durable]:
        is_atomic = bool(self._docket.ordering) and self._settings.deviations.atomic_across_groups
        raised = raising.Raising(self._seen, self._settings, self._now_s, self._plan)
        return raised.carry_out(proposals, durable, is_atomic)

    def _find_upcoming(
        self, found: health.Health, durable: Durable, groups: Mapping[str, facts.NodeGroup]
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

    def _scale_down(self, ahead: _Ahead, helped: helping.Helped, durable: Durable) -> tuple[ScaleDownStory, Durable]:
        settings = self._settings
        if not settings.scale_down.scale_down_enabled or left_out.Part.SCALE_DOWN in self._seen.left_out.parts:
            return ScaleDownStory(ScaleDownResult.NOT_TRIED), durable
        passed_over = {name for one in ahead.awaited.values() for name in one.not_started} | self._find_unevaluated()
        with self._ledger.measure(Step.FIND_UNNEEDED):
            scene = self._set_scene([node for node in self._nodes if node.name not in passed_over])
            names = planning.find_candidates(scene, durable.scale_down, durable.activities, settings, self._now_s)
            names = self._leave_out_deleted(names, durable)
            time = self._ledger.begin("scale-down simulation", settings.scale_down.scale_down_simulation_timeout_s)
            looked = planning.look(scene, names, durable.scale_down, settings, self._now_s, time)
        durable = replace(durable, scale_down=looked.state)
        story = ScaleDownStory(ScaleDownResult.IN_COOLDOWN, looked)
        if not self._is_cooling(helped, durable):
            with self._ledger.measure(Step.SCALE_DOWN):
                story, durable = self._delete(scene, names, looked, helped.groups or ahead.groups, durable)
        with self._ledger.measure(Step.SOFT_TAINT):
            marks = soft_taints.change_marks(
                self._nodes, self._group_of, looked.state.since, settings.scale_down, self._now_s
            )
            going = {instruction.node for instruction in self._plan if isinstance(instruction, plan.Drain)}
            self._plan += [change for change in marks.changes if change.node not in going]
        return story, durable

    def _leave_out_deleted(self, names: list[str], durable: Durable) -> list[str]:
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
        rows = left_out.find_nodes(self._seen.snapshot.pods).tolist()
        return {*self._seen.left_out.nodes, *(self._seen.snapshot.nodes.names[row] for row in rows)}

    def _set_scene(self, nodes: Sequence[facts.Node]) -> scenes.Scene:
        about = scenes.make_drain_context(self._seen, self._settings, self._now_s)
        evicted = self._find_recently_evicted()
        return scenes.Scene(
            self._seen.snapshot,
            [node.name for node in nodes],
            self._group_of,
            by_kind.Judge(self._seen.snapshot.pods, about),
            about.budgets,
            self._removal,
            deletion_budgets.InProgress(
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
        rows = recently_evicted.find_terminating(snapshot, self._drains)
        missing = recently_evicted.count_missing(snapshot, rows, controllers)
        return recently_evicted.find_missing(snapshot, rows, missing)

    def _is_cooling(self, helped: helping.Helped, durable: Durable) -> bool:
        if helped.wait_for_more:
            return True
        if self._settings.scale_down.scale_down_delay_type_local:
            return False
        return cooldown.ends_at_s(durable.activity, self._settings.scale_down) > self._now_s

    def _delete(
        self,
        scene: scenes.Scene,
        names: Sequence[str],
        looked: planning.Look,
        groups: proposing.Groups,
        durable: Durable,
    ) -> tuple[ScaleDownStory, Durable]:
        if not names:
            return ScaleDownStory(ScaleDownResult.NO_CANDIDATES, looked), durable
        minimum = self._minimum(groups)
        if minimum is None:
            return ScaleDownStory(ScaleDownResult.NO_NODE_DELETED, looked), durable
        choice = planning.choose(scene, looked, minimum, self._settings, self._now_s)
        started = deletion_budgets.crop(
            [one.node_name for one in choice.empty],
            [one.node_name for one in choice.drain],
            self._group_of,
            scene.count_registered(),
            scene.in_progress,
            self._settings,
        )
        going = [name for bucket in (*started.empty, *started.drain) for name in bucket.nodes]
        if not going:
            return ScaleDownStory(ScaleDownResult.NO_NODE_DELETED, looked, choice, started), durable
        moves = {one.node_name: one.moves.move for one in (*choice.empty, *choice.drain)}
        chosen = {name: moves[name] for name in going}
        drains = dict(durable.drains)
        places = self._removal.hints.old
        for order, begun in beginning.begin(scene.snapshot, chosen, self._real, places, self._group_of, self._now_s):
            self._plan.append(order)
            drains[order.node] = begun
        owners = {name: self._group_of[name].id for name in going}
        asked = requests.shrink_all(durable.health.requests, [(owners[name], name) for name in going], self._now_s)
        activities = dict(durable.activities)
        deleted_s = self._now_s + self._settings.drain.node_delete_delay_after_taint_s
        for group in dict.fromkeys(owners.values()):
            activities[group] = replace(activities.get(group, cooldown.Activity()), deleted_s=deleted_s)
        durable = replace(
            durable,
            health=replace(durable.health, requests=asked),
            activity=replace(durable.activity, deleted_s=self._now_s),
            activities=activities,
            drains=drains,
        )
        return ScaleDownStory(ScaleDownResult.STARTED, looked, choice, started), durable

    def _minimum(self, groups: proposing.Groups) -> quotas.Tracker | None:
        """What the cluster must keep at least; None where what it has cannot be counted, as in Cluster Autoscaler.

        Nodes to come count, as they do against the most that it may have.
        """
        limits = self._settings.limits
        smallest = {facts.CPU: limits.cores_total.min, facts.MEMORY: limits.memory_total_bytes.min}
        smallest |= {bounds.gpu_type: bounds.min for bounds in limits.gpu_total}
        quota = quotas.ClusterLimits(minimum=smallest).make_quota(quotas.Bound.MINIMUM)
        nodes = helping.list_nodes(self._seen, self._seen.snapshot, groups)
        if helping.find_unknown(self._seen, nodes, groups, self._settings).node is not None:
            return None
        return quotas.track(quotas.Bound.MINIMUM, [quota], nodes, helping.count_with_gpus(self._seen))


def _grown(
    groups: Mapping[str, facts.NodeGroup], increases: Sequence[balancing.Increase]
) -> dict[str, facts.NodeGroup]:
    """The groups as large as they will be."""
    sizes = {increase.group.id: increase.new_size for increase in increases}
    return {id: replace(group, target_size=sizes.get(id, group.target_size)) for id, group in groups.items()}


def _unhealthy(verdicts: Mapping[str, health.Verdict]) -> tuple[str, ...]:
    return tuple(sorted(group for group, verdict in verdicts.items() if not verdict.is_healthy))
