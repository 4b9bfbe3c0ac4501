"""Evicting: pods are asked to leave turn by turn, and waited for.

asked, and again every 10 s while refused     for --max-pod-eviction-time from the first answer, then the drain fails
all of the turn are on their way out          for the turn's grace period and 30 s; then the drain fails, or pods that
                                              should be gone by then count as gone
all of the turn are gone                      the next turn begins
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from windlass.engine import facts, plan, pod_traits
from windlass.engine.drain import drain_label, machine_drain_rule, outcome, unreadable_drain_rules
from windlass.engine.draining import latecomers, leaving, paying, turns
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.progress import Evicting, Why
from windlass.engine.draining.story import Phase
from windlass.engine.pods import identity

HEADROOM_S = 30.0
"""How long after its grace period a pod may take to be gone."""


def evict(cases: Sequence[Case], situation: Situation) -> None:
    """Let those cases go on whose pods are gone."""
    purse = paying.Purse(situation)
    for case in cases:
        if case.progress.evicting is not None:
            case.note(evicting=paying.hear(case.progress.evicting, situation))
            purse.pay_for_what_is_under_way(case)
    for case, _ in find_open(cases):
        if case.progress.evicting is not None:
            _Eviction(case, case.progress.evicting, purse, situation).go_on()


class _Eviction:
    """The evictions of one node."""

    def __init__(self, case: Case, evicting: Evicting, purse: paying.Purse, situation: Situation) -> None:
        self._case, self._purse, self._situation = case, purse, situation
        self._now_s, self._settings = situation.now_s, situation.settings
        self._turns = turns.read_turns(self._settings.drain, situation.drain_rules)
        self._left = leaving.find_left(case, evicting, situation)
        self._evicting = evicting

    def go_on(self) -> None:
        """Ask, wait or give up; leave the case open if nobody is left."""
        if self._left.late:
            self._evicting = latecomers.let_in(self._case, self._left.late, self._evicting, self._situation)
            self._left = leaving.find_left(self._case, self._evicting, self._situation)
        if self._case.is_open:
            self._take_turns()
        if self._case.is_open:
            self._ask()
            self._rest()
            self._case.note(evicting=self._evicting)

    # Whose turn it is

    @property
    def _current(self) -> list[facts.Pod]:
        """Those whose turn it is, or has been."""
        return [pod for pod in self._left.holding if self._turns.of(pod) <= self._evicting.stage]

    def _take_turns(self) -> None:
        """Go on to the next turn while there is nobody to wait for; give up if someone was waited for too long."""
        while self._left.holding:
            if not self._current:
                stage = min(self._turns.of(pod) for pod in self._left.holding)
                self._evicting = replace(self._evicting, stage=stage, since_s=self._now_s, accepted_s=None)
            if self._evicting.accepted_s is None and not self._waiting:
                self._evicting = replace(self._evicting, accepted_s=self._now_s)
            if not self._is_overdue():
                return
            if not self._may_leave_behind():
                refused = self._evicting.accepted_s is None
                pods = self._waiting if refused else self._current
                self._case.fail(
                    Why.EVICTION_REFUSED if refused else Why.PODS_STAYED, *(self._describe(pod) for pod in pods)
                )
                return
            behind = self._evicting.left_behind | {identity(pod) for pod in self._current}
            self._evicting = replace(self._evicting, left_behind=behind)
            self._left = leaving.find_left(self._case, self._evicting, self._situation)

    @property
    def _waiting(self) -> list[facts.Pod]:
        """Those whose turn it is and who are not on their way out."""
        return [pod for pod in self._current if not pod.is_terminating]

    @property
    def _deadline_s(self) -> float:
        evicting = self._evicting
        if evicting.accepted_s is None:
            return self._began_s + max(self._settings.drain.max_pod_eviction_time_s, paying.RETRY_S)
        return evicting.accepted_s + self._turns.limit_s(evicting.stage) + HEADROOM_S

    @property
    def _began_s(self) -> float:
        """Since when pods of the turn are asked to leave: all of them were answered once by then."""
        answered = self._situation.seen.evictions.answered
        waiting = (identity(pod) for pod in self._waiting) if answered else ()
        return max(self._evicting.since_s, *(answered[uid].first_s for uid in waiting if uid in answered), -math.inf)

    def _is_overdue(self) -> bool:
        """Is the time up? Whoever was just asked is still given time to answer."""
        if self._now_s < self._deadline_s:
            return False
        if self._evicting.accepted_s is not None:
            return True
        return not any(paying.is_under_way(pod, self._evicting, self._situation) for pod in self._waiting)

    def _may_leave_behind(self) -> bool:
        """Is everyone who is left just not ending, and does that count as gone?"""
        is_ending = self._evicting.accepted_s is not None and not self._waiting
        return is_ending and self._settings.deviations.count_stuck_pods_as_gone

    def _describe(self, pod: facts.Pod) -> str:
        if self._is_left_to_finish(pod):
            return self._explain_wait(pod).text(pod)
        said = self._evicting.refused.get(identity(pod))
        return f"{pod.key}: {said}" if said else pod.key

    def _explain_wait(self, pod: facts.Pod) -> outcome.Outcome:
        """Why a pod is left to finish."""
        rules = self._situation.drain_rules
        if pod.drain_behavior is facts.DrainBehavior.DRAIN and (why := rules.on_node(pod.node_name).unreadable):
            return unreadable_drain_rules.tell(why)
        rule = rules.find(pod)
        return (None if rule is None else machine_drain_rule.tell(rule)) or drain_label.UNTIL_DONE

    # Asking, and waiting for the answer

    def _ask(self) -> None:
        """Ask those who are due, as far as budgets allow."""
        agents = [pod for pod in self._left.agents if self._left.holding or identity(pod) not in self._evicting.tried]
        tried, refused = dict(self._evicting.tried), dict(self._evicting.refused)
        for pod in (*self._current, *agents):
            uid = identity(pod)
            if self._is_left_to_finish(pod):
                continue
            if pod.is_terminating or self._now_s < paying.due_s(uid, self._evicting, self._situation):
                continue
            if self._purse.pay(pod):
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
            phase = Phase.EVICTING if self._evicting.accepted_s is None else Phase.TERMINATING
            waits_for = self._waiting if phase is Phase.EVICTING else self._current
            self._case.wait(phase, self._find_change_s(), [pod.key for pod in waits_for])
        elif self._case.instructions:
            self._case.wait(Phase.EVICTING, self._now_s, [pod.key for pod in self._left.agents])
        elif self._case.progress.emptied_s is None:
            self._case.note(emptied_s=self._now_s)

    def _find_change_s(self) -> float:
        """When the same pods would be dealt with otherwise."""
        now_s, evicting = self._now_s, self._evicting
        times = [self._deadline_s]
        asked = (*self._waiting, *(pod for pod in self._left.agents if not pod.is_terminating))
        for uid in map(identity, asked):
            is_tried = uid in evicting.tried
            times.append(paying.due_s(uid, evicting, self._situation) if is_tried else now_s + paying.RETRY_S)
        if self._settings.deviations.count_stuck_pods_as_gone:
            gone = [
                pod_traits.gone_at_s(pod.deleted_s, pod.grace_s) for pod in self._current if pod.deleted_s is not None
            ]
            times += [math.nextafter(at_s, math.inf) for at_s in gone]  # at that very moment it is not yet
        return min((at_s for at_s in times if at_s > now_s), default=now_s + paying.RETRY_S)
