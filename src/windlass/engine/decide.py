"""The decision: one loop of the autoscaler as one pure function.

    what is seen ──▶ health and repairs ──▶ who needs help ──▶ scale up ──▶ who is not needed ──▶ scale down
                       (may end the loop)     (in a fork with what is on its way)

Same input, same answer: the time is an argument, ties are drawn from a generator seeded by settings and loop number.
The snapshot is forked and left as it was found. An object with which an exception is raised that nothing foresees is
left out, and the rest is decided (`quarantine`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import (
    disruption,
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
from windlass.engine.buffers import proactive
from windlass.engine.devices.outcome import SelectorError
from windlass.engine.drain import by_kind, context
from windlass.engine.draining import beginning, marking
from windlass.engine.expanders import outside
from windlass.engine.memory import Durable, Memory, Standing, Volatile
from windlass.engine.observation import Observation
from windlass.engine.provisioning import atomic, booking, picking, turns
from windlass.engine.provisioning.docket import Docket, imagine
from windlass.engine.scale_down import cooldown, deletion_budgets, planning, soft_taints, unneeded
from windlass.engine.scale_down import scene as scenes
from windlass.engine.scale_up import balancing, helping, pending, proposing, quotas, raising
from windlass.engine.settings import Settings
from windlass.engine.story import ScaleDownResult, ScaleDownStory, Story

UNTIMED = time_limits.Untimed()


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
    known, stale = quarantine.find_current(memory.volatile.faults, seen, now_s)
    evaluated = quarantine.leave_out(seen, [fault.suspect for fault in known])
    resumed = held_groups.resume_memory(memory, evaluated, now_s)
    last = memory.volatile.standing
    if last is not None and last.holds(evaluated, resumed.durable, settings, now_s):
        return Decision(last.plan, resumed, last.story, last.until_s, last.seen)

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


def _remember(decision: Decision, faults: quarantine.Faults) -> Decision:
    """The decision, which stands until what it was made without is tried again."""
    if not faults:
        return decision
    retry_s = min(fault.since_s for fault in faults) + quarantine.RETRY_S
    until_s, volatile = min(decision.quiet_until_s, retry_s), decision.memory.volatile
    standing = None if volatile.standing is None else replace(volatile.standing, until_s=until_s)
    volatile = replace(volatile, standing=standing, faults=faults)
    return replace(decision, memory=replace(decision.memory, volatile=volatile), quiet_until_s=until_s)


class _Loop:
    """The steps of one loop, each reading what the ones before it found."""

    def __init__(
        self, seen: Observation, memory: Memory, settings: Settings, now_s: float, timer: time_limits.Timer
    ) -> None:
        self._seen, self._memory, self._settings, self._now_s = seen, memory, settings, now_s
        self._passing = taints.read_settings(settings.templates)
        self._nodes = [self._passing.judge_starting(node) for node in seen.nodes]
        self._group_of: Mapping[str, facts.NodeGroup] = seen.group_of_nodes()
        templates = memory.volatile.templates
        self._nodes = outlook.await_devices(self._nodes, self._group_of, seen.snapshot, templates)
        self._rng = np.random.default_rng((settings.seed, memory.durable.loop))
        self._plan: list[plan.Instruction] = []
        self._ledger = time_limits.Ledger(timer, seen.opinions)
        scatter = None if settings.deviations.tight_packing else self._rng
        self._pending = memory.volatile.pending.go_on(scatter)
        self._removal = memory.volatile.removal.go_on(scatter)
        self._booking = memory.volatile.booking.go_on(scatter)
        self._docket = Docket(seen.requests, memory.durable.requests, settings, now_s)
        self._spares = seen.spares if settings.injection.capacity_buffer_pod_injection_enabled else ()
        self._real = len(seen.snapshot.pods.names)
        """Rows of pods that exist; those that are imagined come after them."""
        self._copies = self._real
        """From this row on, pods are copies for controllers; those of buffers come before them."""
        drains = memory.durable.drains
        self._drains = {
            node.name: drains[node.name]
            for node in self._nodes
            if node.name in drains and marking.is_in_progress(drains[node.name], node, now_s)
        }

    def run(self) -> Decision:
        self._clean_up_at_start()
        self._docket.age()
        self._docket.learn(self._seen.snapshot)
        for spare in self._spares:
            self._seen.snapshot.shape_of(spare.like)  # inside a fork no selector may appear that nobody knew
        found = health.assess(
            self._nodes, self._seen.groups, self._group_of, self._memory.durable.health, self._settings, self._now_s
        )
        repaired = repairs.plan(self._seen.groups, found, self._settings, self._now_s)
        self._repair(repaired)
        made, remembered = outlook.find_templates(
            self._seen,
            [node for node in self._nodes if node.name not in self._seen.left_out.nodes],
            self._group_of,
            self._memory.volatile.templates,
            self._settings.templates,
            self._now_s,
        )
        durable = replace(self._memory.durable, loop=self._memory.durable.loop + 1, health=found.memory)
        volatile = Volatile(remembered, self._pending, self._removal, self._booking)
        if repaired.stop is not None:
            return self._end_early(found, repaired, durable, volatile)
        groups = self._resized(repaired.sizes)
        self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
        snapshot, cutoff = self._seen.snapshot, self._settings.pods.expendable_pods_priority_cutoff
        awaited = outlook.find_awaited(repaired.upcoming, found, made, self._nodes, self._seen, self._settings)
        with outlook.look_ahead(snapshot, self._nodes, made, awaited, cutoff) as upcoming:
            verdicts = outlook.verdicts_of(found)
            if repaired.uncreated:
                verdicts = self._judge_groups(found, groups, found.memory.requests)
            unsafe = outlook.find_unsafe(found, verdicts)
            candidates = proposing.Groups(tuple(groups.values()), made, unsafe, upcoming)
            helped, durable = self._scale_up(candidates, durable)
            if helped.increases:
                groups = _grown(groups, helped.increases)
                self._group_of = {name: groups[group.id] for name, group in self._group_of.items()}
            shrunk, durable = self._scale_down(awaited, helped, durable)
            proposals = helped.proposals
            may_grow = left_out.Part.SCALE_UP not in self._seen.left_out.parts
            if self._settings.scale_up.enforce_node_group_min_size and may_grow:
                raised, durable = self._raise_to_minimum(replace(candidates, all=tuple(groups.values())), durable)
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
        )
        return self._conclude(durable, volatile, story)

    def _conclude(self, durable: Durable, volatile: Volatile, story: Story) -> Decision:
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
        until_s = min(until_s, min((one for one in self._docket.changes_at_s() if one >= self._now_s), default=until_s))
        if self._ledger.ran_out or self._ledger.inquiry.was_needed:
            until_s = self._now_s  # the next loop may get further, or hear otherwise
        standing = Standing(seen, seen.snapshot.generation, durable, settings, ordered, story, until_s)
        return Decision(
            ordered,
            Memory(durable, replace(volatile, standing=standing)),
            story,
            until_s,
            seen,
            self._ledger.ran_out,
            self._ledger.inquiry.question,
        )

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
        self._plan += soft_taints.clean_up(own, settings.scale_down, self._now_s)
        since = unneeded.restore(own, settings.scale_down.node_deletion_candidate_ttl_s, self._now_s)
        known = self._memory.durable.scale_down
        state = replace(known, since={**since, **known.since}, previous=known.previous | since.keys())
        self._memory = replace(self._memory, durable=replace(self._memory.durable, scale_down=state))

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

    def _end_early(
        self, found: health.Health, repaired: repairs.Repairs, durable: Durable, volatile: Volatile
    ) -> Decision:
        if repaired.stop is repairs.Stop.UNHEALTHY:
            durable = replace(durable, scale_down=durable.scale_down.clear())
        story = Story(
            self._now_s,
            found,
            repaired,
            (proposing.Proposal(proposing.Result.NOT_TRIED),),
            ScaleDownStory(ScaleDownResult.NOT_TRIED),
            {group: one.nodes for group, one in repaired.upcoming.items()},
            _unhealthy(outlook.verdicts_of(found)),
            self._docket.dealings,
        )
        return self._conclude(durable, volatile, story)

    def _resized(self, sizes: repairs.Sizes) -> dict[str, facts.NodeGroup]:
        return {group.id: replace(group, target_size=sizes[group.id].target) for group in self._seen.groups}

    def _judge_groups(
        self, found: health.Health, groups: Mapping[str, facts.NodeGroup], under_way: requests.Requests
    ) -> dict[str, health.Verdict]:
        sizes = {group.id: group.target_size for group in groups.values()}
        return outlook.judge_groups(found, sizes, under_way, self._settings.health)

    # Scale-up

    def _scale_up(self, groups: proposing.Groups, durable: Durable) -> tuple[helping.Helped, Durable]:
        settings, snapshot = self._settings, self._seen.snapshot
        if left_out.Part.SCALE_UP in self._seen.left_out.parts:
            return helping.Helped((proposing.Proposal(proposing.Result.NOT_TRIED),)), durable
        waiting = pending.arrange(snapshot, settings)
        helping.settle_nominated(snapshot, waiting.nominated, settings.pods.expendable_pods_priority_cutoff)
        waiting = self._make_up_pods(waiting)
        helpless = helping.find_helpless(snapshot, waiting, self._pending, settings, self._now_s)
        helpless = proactive.keep_within(helpless, self._copies, settings.injection.pod_injection_limit)
        helpless, asked = self._take_in_requests(helpless)
        is_limited = settings.limits.max_nodes_total > 0  # else nobody asks how many there are
        ready = sum(1 for node in self._nodes if readiness.judge(node).is_ready) if is_limited else 0
        scene = atomic.Scene(self._seen, snapshot, groups, settings, self._rng, self._ledger)
        helped = turns.take_turns(self._docket, scene, helpless, asked, ready, self._now_s)
        proposals, durable = self._carry_out(helped.proposals, durable)
        if self._docket.picked and any(one.result is proposing.Result.SUCCESSFUL for one in proposals):
            durable = replace(durable, activity=replace(durable.activity, added_s=self._now_s))
        self._booking.hints.old.update(self._docket.places)
        return turns.close(self._docket, scene, self._real, replace(helped, proposals=proposals)), durable

    def _make_up_pods(self, waiting: pending.Waiting) -> pending.Waiting:
        """With the pods that buffers keep room for, and those that controllers want and have not created."""
        snapshot, made_up = self._seen.snapshot, list[int]()
        for spare in self._spares:
            made_up += snapshot.append_pods(spare.like, list(spare.names))
        self._copies += len(made_up)
        if self._settings.injection.enable_proactive_scaleup:
            rows = [*waiting.unschedulable, *waiting.unprocessed]
            made_up += proactive.imagine(snapshot, (self._seen.controllers or {}).values(), rows)
        return replace(waiting, unschedulable=(*waiting.unschedulable, *made_up)) if made_up else waiting

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

    def _raise_to_minimum(self, groups: proposing.Groups, durable: Durable) -> tuple[proposing.Proposal, Durable]:
        proposer = helping.make_proposer(
            self._seen, self._seen.snapshot, groups, self._settings, self._rng, self._ledger
        )
        raised = proposer.raise_to_minimum(self._settings.deviations.enforce_min_respects_max_nodes_total)
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

    def _scale_down(
        self, upcoming: Mapping[str, health.Upcoming], helped: helping.Helped, durable: Durable
    ) -> tuple[ScaleDownStory, Durable]:
        settings = self._settings
        if not settings.scale_down.scale_down_enabled or left_out.Part.SCALE_DOWN in self._seen.left_out.parts:
            return ScaleDownStory(ScaleDownResult.NOT_TRIED), durable
        passed_over = {name for one in upcoming.values() for name in one.not_started} | self._find_unevaluated()
        scene = self._set_scene([node for node in self._nodes if node.name not in passed_over])
        names = planning.find_candidates(scene, durable.scale_down, durable.activities, settings, self._now_s)
        names = self._leave_out_deleted(names, durable)
        time = self._ledger.begin("scale-down simulation", settings.scale_down.scale_down_simulation_timeout_s)
        looked = planning.look(scene, names, durable.scale_down, settings, self._now_s, time)
        durable = replace(durable, scale_down=looked.state)
        story = ScaleDownStory(ScaleDownResult.IN_COOLDOWN, looked)
        if not self._is_cooling(helped, durable):
            story, durable = self._delete(scene, names, looked, durable)
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
        budgets = disruption.Remaining(self._seen.budgets)
        options = scenes.read_drain_options(self._settings.drain)
        about = context.Context(self._now_s, options, self._seen.controllers, budgets)
        return scenes.Scene(
            self._seen.snapshot,
            [node.name for node in nodes],
            self._group_of,
            by_kind.Judge(self._seen.snapshot.pods, about),
            budgets,
            self._removal,
            deletion_budgets.InProgress(
                frozenset(name for name, drain in self._drains.items() if drain.is_empty),
                frozenset(name for name, drain in self._drains.items() if not drain.is_empty),
            ),
        )

    def _is_cooling(self, helped: helping.Helped, durable: Durable) -> bool:
        if helped.wait_for_more:
            return True
        if self._settings.scale_down.scale_down_delay_type_local:
            return False
        return cooldown.ends_at_s(durable.activity, self._settings.scale_down) > self._now_s

    def _delete(
        self, scene: scenes.Scene, names: Sequence[str], looked: planning.Look, durable: Durable
    ) -> tuple[ScaleDownStory, Durable]:
        if not names:
            return ScaleDownStory(ScaleDownResult.NO_CANDIDATES, looked), durable
        choice = planning.choose(scene, looked, self._minimum(), self._settings, self._now_s)
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
        groups = {name: self._group_of[name].id for name in going}
        asked = requests.shrink_all(durable.health.requests, [(groups[name], name) for name in going], self._now_s)
        activities = dict(durable.activities)
        deleted_s = self._now_s + self._settings.drain.node_delete_delay_after_taint_s
        for group in dict.fromkeys(groups.values()):
            activities[group] = replace(activities.get(group, cooldown.Activity()), deleted_s=deleted_s)
        durable = replace(
            durable,
            health=replace(durable.health, requests=asked),
            activity=replace(durable.activity, deleted_s=self._now_s),
            activities=activities,
            drains=drains,
        )
        return ScaleDownStory(ScaleDownResult.STARTED, looked, choice, started), durable

    def _minimum(self) -> quotas.Tracker:
        """What the cluster must keep at least."""
        limits = self._settings.limits
        smallest = {facts.CPU: limits.cores_total.min, facts.MEMORY: limits.memory_total_bytes.min}
        smallest |= {bounds.gpu_type: bounds.min for bounds in limits.gpu_total}
        quota = quotas.ClusterLimits(minimum=smallest).make_quota(quotas.Bound.MINIMUM)
        own = {name: group.id for name, group in self._group_of.items()}
        nodes = [(node, own.get(node.name)) for node in self._nodes]
        return quotas.track(quotas.Bound.MINIMUM, [quota], nodes, helping.count_with_gpus(self._seen))


def _grown(
    groups: Mapping[str, facts.NodeGroup], increases: Sequence[balancing.Increase]
) -> dict[str, facts.NodeGroup]:
    """The groups as large as they will be."""
    sizes = {increase.group.id: increase.new_size for increase in increases}
    return {id: replace(group, target_size=sizes.get(id, group.target_size)) for id, group in groups.items()}


def _unhealthy(verdicts: Mapping[str, health.Verdict]) -> tuple[str, ...]:
    return tuple(sorted(group for group, verdict in verdicts.items() if not verdict.is_healthy))
