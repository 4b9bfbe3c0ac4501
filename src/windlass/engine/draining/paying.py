"""Charges evictions against PodDisruptionBudgets, evictions in flight included.

Budgets are charged as the eviction API charges them, whatever nodes are chosen by: Cluster Autoscaler, too, evicts what
the API lets go, pods that are not Ready included. What budgets leave is shared by all drains. Evictions that were asked
for, and of which nothing can be seen yet, have been charged: otherwise the last disruption that a budget allows would
be spent twice.
"""

import math
from dataclasses import replace

from windlass.engine import disruption, facts
from windlass.engine.draining.case import Case, Situation
from windlass.engine.draining.progress import Evicting
from windlass.engine.pods import identity

RETRY_S = 10.0
"""When an eviction that had no effect is asked for again."""


def hear(evicting: Evicting, situation: Situation) -> Evicting:
    """Remember what was refused."""
    said = {uid: said for uid, said in situation.refused_evictions.items() if uid in evicting.tried}
    return replace(evicting, refused={**evicting.refused, **said}) if said else evicting


def is_under_way(pod: facts.Pod, evicting: Evicting, situation: Situation) -> bool:
    """Is its eviction still to be answered, or was it so lately that the effect may not be seen yet?"""
    uid = identity(pod)
    if pod.is_terminating or uid not in evicting.tried or uid in evicting.refused:
        return False
    return situation.now_s < due_s(uid, evicting, situation)


def due_s(uid: str, evicting: Evicting, situation: Situation) -> float:
    """When a pod is to be asked to leave, or again: some time after the last answer. Not while there is none."""
    evictions = situation.seen.evictions
    if uid in evictions.unanswered:
        return math.inf
    answer, asked_s = evictions.answered.get(uid), evicting.tried.get(uid, -math.inf)
    return (asked_s if answer is None else max(answer.last_s, asked_s)) + RETRY_S


class Purse:
    """What budgets leave in one call."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._left = disruption.Remaining(situation.seen.budgets, spares_unhealthy=True)

    def pay_for_what_is_under_way(self, case: Case) -> None:
        evicting = case.progress.evicting
        if case.node is None or evicting is None or not evicting.tried:
            return
        snapshot = self._situation.seen.snapshot
        pods = [snapshot.pod(row) for row in snapshot.pods_on(snapshot.nodes.rows[case.name])]
        self._left.remove(pod for pod in pods if is_under_way(pod, evicting, self._situation))

    def pay(self, pod: facts.Pod) -> bool:
        """May this pod go, too? If so, it has been paid for."""
        budgets = self._left.charged_for(pod)
        if self._left.exhausted(budgets) is not None:
            return False
        self._left.spend([budgets])
        return True
