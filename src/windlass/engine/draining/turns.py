"""Turns: pods go in ascending order of priority, rule by rule of --drain-priority-config, or all at once without.

A pod belongs to the rule with the highest priority that is not above its own, or to the first rule if all are. Each
rule has a time that its pods get to end, at most.
"""

from bisect import bisect_right
from dataclasses import dataclass

from windlass.engine import facts, pod_traits
from windlass.engine.settings import Drain, PriorityGrace


@dataclass(frozen=True, slots=True)
class Turns:
    """The rules in ascending order of priority; at least one."""

    rules: tuple[PriorityGrace, ...]

    def of(self, pod: facts.Pod) -> int:
        """Whose turn the pod goes in."""
        rank = bisect_right(self.rules, pod.spec.priority or 0, key=lambda rule: rule.priority) - 1
        return max(rank, 0)

    def limit_s(self, turn: int) -> float:
        """The time to end that pods of a turn get at most."""
        return float(self.rules[turn].grace_s)

    def grace_s(self, pod: facts.Pod) -> float:
        """The time to end that a pod gets. A limit of 0 limits nothing."""
        own_s = pod_traits.DEFAULT_GRACE_S if pod.grace_s is None else pod.grace_s
        limit_s = self.limit_s(self.of(pod))
        return min(own_s, limit_s) if limit_s > 0 else own_s


def read_turns(drain: Drain) -> Turns:
    """What the user's flags make of priorities."""
    if not drain.drain_priority_config:
        return Turns((PriorityGrace(0, drain.max_graceful_termination_s),))
    return Turns(tuple(sorted(drain.drain_priority_config, key=lambda rule: rule.priority)))
