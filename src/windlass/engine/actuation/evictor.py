"""Evictor: evicts pods tier by tier within PodDisruptionBudgets, retries, and waits for them to terminate.

    requested, every 10 s while refused    for --max-pod-eviction-time from the first answer, then the drain fails
    all pods of the tier terminating       for the tier's grace period and 30 s, then the drain fails, or pods that
                                           should be gone count as gone
    all pods of the tier gone              the next tier begins

Tiers: the order of MachineDrainRules, then priority by --drain-priority-config. Budgets are charged as the eviction
API charges them, evictions in flight included, and are shared by all drains.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass.engine.actuation import pods_to_evict
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, find_open_drains
from windlass.engine.drainability import context, machine_drain, pdb
from windlass.engine.model import drainability, facts, plan, well_known
from windlass.engine.model.drains import DrainFailureReason, DrainPhase, EvictionProgress
from windlass.engine.model.settings import DrainSettings, PriorityGrace
from windlass.engine.snapshot.pod_table import pod_identity

POD_EVICTION_HEADROOM_S = 30.0
"""How long after its grace period a pod may take to be gone."""


def evict_pods(cases: Sequence[NodeDrain], situation: ActuationContext) -> None:
    """Let those cases go on whose pods are gone."""
    purse = EvictionBudget(situation)
    for case in cases:
        if case.progress.evicting is not None:
            case.update(evicting=record_refusals(case.progress.evicting, situation))
            purse.charge_in_flight(case)
    for case, _ in find_open_drains(cases):
        if case.progress.evicting is not None:
            _NodeEviction(case, case.progress.evicting, purse, situation).go_on()


EVICTION_RETRY_S = 10.0
"""When an eviction that had no effect is asked for again."""


def record_refusals(evicting: EvictionProgress, situation: ActuationContext) -> EvictionProgress:
    """Remember what was refused."""
    said = {uid: said for uid, said in situation.refused_evictions.items() if uid in evicting.tried}
    return replace(evicting, refused={**evicting.refused, **said}) if said else evicting


def is_eviction_in_flight(pod: facts.Pod, evicting: EvictionProgress, situation: ActuationContext) -> bool:
    """Is its eviction still to be answered, or was it so lately that the effect may not be seen yet?"""
    uid = pod_identity(pod)
    if pod.is_terminating or uid not in evicting.tried or uid in evicting.refused:
        return False
    return situation.now_s < next_eviction_s(uid, evicting, situation)


def next_eviction_s(uid: str, evicting: EvictionProgress, situation: ActuationContext) -> float:
    """When a pod is to be asked to leave, or again: some time after the last answer. Not while there is none."""
    evictions = situation.observation.evictions
    if uid in evictions.unanswered:
        return math.inf
    answer, asked_s = evictions.answered.get(uid), evicting.tried.get(uid, -math.inf)
    return (asked_s if answer is None else max(answer.last_s, asked_s)) + EVICTION_RETRY_S


class EvictionBudget:
    """What budgets leave in one call."""

    def __init__(self, situation: ActuationContext) -> None:
        self._situation = situation
        self._left = pdb.RemainingPdbTracker(situation.observation.budgets, spares_unhealthy=True)

    def charge_in_flight(self, case: NodeDrain) -> None:
        evicting = case.progress.evicting
        if case.node is None or evicting is None or not evicting.tried:
            return
        snapshot = self._situation.observation.snapshot
        pods = [snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[case.name])]
        self._left.consume_for_pods(pod for pod in pods if is_eviction_in_flight(pod, evicting, self._situation))

    def try_consume(self, pod: facts.Pod) -> bool:
        """May this pod go, too? If so, it has been paid for."""
        budgets = self._left.charged_for(pod)
        if self._left.exhausted(budgets) is not None:
            return False
        self._left.consume([budgets])
        return True


class _NodeEviction:
    """The evictions of one node."""

    def __init__(
        self, case: NodeDrain, evicting: EvictionProgress, purse: EvictionBudget, situation: ActuationContext
    ) -> None:
        self._case, self._purse, self._situation = case, purse, situation
        self._now_s, self._settings = situation.now_s, situation.settings
        self._turns = read_priority_tiers(self._settings.drain, situation.drain_rules)
        self._left = pods_to_evict.find_remaining_pods(case, evicting, situation)
        self._evicting = evicting

    def go_on(self) -> None:
        """Ask, wait or give up; leave the case open if nobody is left."""
        if self._left.late:
            self._evicting = pods_to_evict.admit_late_pods(self._case, self._left.late, self._evicting, self._situation)
            self._left = pods_to_evict.find_remaining_pods(self._case, self._evicting, self._situation)
        if self._case.is_open:
            self._take_turns()
        if self._case.is_open:
            self._ask()
            self._rest()
            self._case.update(evicting=self._evicting)

    # Whose turn it is

    @property
    def _current(self) -> list[facts.Pod]:
        """Those whose turn it is, or has been."""
        return [pod for pod in self._left.holding if self._turns.tier_of(pod) <= self._evicting.stage]

    def _take_turns(self) -> None:
        """Go on to the next turn while there is nobody to wait for; give up if someone was waited for too long."""
        while self._left.holding:
            if not self._current:
                stage = min(self._turns.tier_of(pod) for pod in self._left.holding)
                self._evicting = replace(self._evicting, stage=stage, since_s=self._now_s, accepted_s=None)
            if self._evicting.accepted_s is None and not self._waiting:
                self._evicting = replace(self._evicting, accepted_s=self._now_s)
            if not self._is_overdue():
                return
            if not self._may_leave_behind():
                refused = self._evicting.accepted_s is None
                pods = self._waiting if refused else self._current
                self._case.fail(
                    DrainFailureReason.EVICTION_REFUSED if refused else DrainFailureReason.PODS_STAYED,
                    *(self._describe(pod) for pod in pods),
                )
                return
            behind = self._evicting.left_behind | {pod_identity(pod) for pod in self._current}
            self._evicting = replace(self._evicting, left_behind=behind)
            self._left = pods_to_evict.find_remaining_pods(self._case, self._evicting, self._situation)

    @property
    def _waiting(self) -> list[facts.Pod]:
        """Those whose turn it is and who are not on their way out."""
        return [pod for pod in self._current if not pod.is_terminating]

    @property
    def _deadline_s(self) -> float:
        evicting = self._evicting
        if evicting.accepted_s is None:
            return self._began_s + max(self._settings.drain.max_pod_eviction_time_s, EVICTION_RETRY_S)
        return evicting.accepted_s + self._turns.limit_s(evicting.stage) + POD_EVICTION_HEADROOM_S

    @property
    def _began_s(self) -> float:
        """Since when pods of the turn are asked to leave: all of them were answered once by then."""
        answered = self._situation.observation.evictions.answered
        waiting = (pod_identity(pod) for pod in self._waiting) if answered else ()
        return max(self._evicting.since_s, *(answered[uid].first_s for uid in waiting if uid in answered), -math.inf)

    def _is_overdue(self) -> bool:
        """Is the time up? Whoever was just asked is still given time to answer."""
        if self._now_s < self._deadline_s:
            return False
        if self._evicting.accepted_s is not None:
            return True
        return not any(is_eviction_in_flight(pod, self._evicting, self._situation) for pod in self._waiting)

    def _may_leave_behind(self) -> bool:
        """Is everyone who is left just not ending, and does that count as gone?"""
        is_ending = self._evicting.accepted_s is not None and not self._waiting
        return is_ending and self._settings.deviations.count_stuck_pods_as_gone

    def _describe(self, pod: facts.Pod) -> str:
        if self._is_left_to_finish(pod):
            return self._explain_wait(pod).text(pod)
        said = self._evicting.refused.get(pod_identity(pod))
        return f"{pod.key}: {said}" if said else pod.key

    def _explain_wait(self, pod: facts.Pod) -> drainability.DrainabilityStatus:
        """Why a pod is left to finish."""
        rules = self._situation.drain_rules
        if pod.drain_behavior is facts.DrainBehavior.DRAIN and (why := rules.on_node(pod.node_name).unreadable):
            return machine_drain.unreadable_drain_rules_status(why)
        rule = rules.find(pod)
        return (
            None if rule is None else machine_drain.machine_drain_rule_status(rule)
        ) or machine_drain.DRAIN_LABEL_WAIT

    # Asking, and waiting for the answer

    def _ask(self) -> None:
        """Ask those who are due, as far as budgets allow."""
        agents = [
            pod for pod in self._left.agents if self._left.holding or pod_identity(pod) not in self._evicting.tried
        ]
        tried, refused = dict(self._evicting.tried), dict(self._evicting.refused)
        for pod in (*self._current, *agents):
            uid = pod_identity(pod)
            if self._is_left_to_finish(pod):
                continue
            if pod.is_terminating or self._now_s < next_eviction_s(uid, self._evicting, self._situation):
                continue
            if self._purse.try_consume(pod):
                tried[uid] = self._now_s
                refused.pop(uid, None)
                self._case.instructions.append(
                    plan.Evict(pod.namespace, pod.name, pod.uid, self._turns.grace_s(pod), self._case.name)
                )
        self._evicting = replace(self._evicting, tried=tried, refused=refused)

    def _is_left_to_finish(self, pod: facts.Pod) -> bool:
        """Is it to be waited for since the node was checked? It is for as long as an eviction may take."""
        return self._situation.drain_rules.find_behavior(pod) is facts.DrainBehavior.WAIT_COMPLETED

    def _rest(self) -> None:
        """Say what is waited for. Agents are only waited for to have been asked."""
        if self._left.holding:
            phase = DrainPhase.EVICTING if self._evicting.accepted_s is None else DrainPhase.TERMINATING
            waits_for = self._waiting if phase is DrainPhase.EVICTING else self._current
            self._case.wait(phase, self._find_change_s(), [pod.key for pod in waits_for])
        elif self._case.instructions:
            self._case.wait(DrainPhase.EVICTING, self._now_s, [pod.key for pod in self._left.agents])
        elif self._case.progress.emptied_s is None:
            self._case.update(emptied_s=self._now_s)

    def _find_change_s(self) -> float:
        """When the same pods would be dealt with otherwise."""
        now_s, evicting = self._now_s, self._evicting
        times = [self._deadline_s]
        asked = (*self._waiting, *(pod for pod in self._left.agents if not pod.is_terminating))
        for uid in map(pod_identity, asked):
            is_tried = uid in evicting.tried
            times.append(next_eviction_s(uid, evicting, self._situation) if is_tried else now_s + EVICTION_RETRY_S)
        if self._settings.deviations.count_stuck_pods_as_gone:
            gone = [
                well_known.gone_at_s(pod.deleted_s, pod.grace_s) for pod in self._current if pod.deleted_s is not None
            ]
            times += [math.nextafter(at_s, math.inf) for at_s in gone]  # at that very moment it is not yet
        return min((at_s for at_s in times if at_s > now_s), default=now_s + EVICTION_RETRY_S)


@dataclass(frozen=True, slots=True)
class PriorityTiers:
    """The rules in ascending order of priority; at least one."""

    rules: tuple[PriorityGrace, ...]
    drain_rules: context.DrainRules = context.NO_DRAIN_RULES

    def tier_of(self, pod: facts.Pod) -> int:
        """Whose turn the pod goes in. Negative where its order is."""
        rank = bisect_right(self.rules, pod.spec.priority or 0, key=lambda rule: rule.priority) - 1
        return self.drain_rules.find_order(pod) * len(self.rules) + max(rank, 0)

    def limit_s(self, turn: int) -> float:
        """The time to end that pods of a turn get at most."""
        return float(self.rules[turn % len(self.rules)].grace_s)

    def grace_s(self, pod: facts.Pod) -> float:
        """The time to end that a pod gets. A limit of 0 limits nothing."""
        own_s = well_known.DEFAULT_GRACE_S if pod.grace_s is None else pod.grace_s
        limit_s = self.limit_s(self.tier_of(pod))
        return min(own_s, limit_s) if limit_s > 0 else own_s


def read_priority_tiers(drain: DrainSettings, rules: context.DrainRules = context.NO_DRAIN_RULES) -> PriorityTiers:
    """What the user's flags make of priorities, and these rules of pods."""
    if not drain.drain_priority_config:
        return PriorityTiers((PriorityGrace(0, drain.max_graceful_termination_s),), rules)
    return PriorityTiers(tuple(sorted(drain.drain_priority_config, key=lambda rule: rule.priority)), rules)
