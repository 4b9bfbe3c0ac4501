"""Turns: pods go by the order that MachineDrainRules give them; within one by ascending priority, rule by rule
of --drain-priority-config, or all at once without.

A pod belongs to the rule with the highest priority that is not above its own, or to the first rule if all are. Each
rule has a time that its pods get to end, at most.

The order comes first: it is said of these very pods, and Cluster API promises that those of a lower order are gone
before others are evicted; priorities hold for all pods. Pods of DaemonSets have no order: they go with the last.
"""

from bisect import bisect_right
from dataclasses import dataclass

from windlass.engine import facts, machine_drain_rules, pod_traits
from windlass.engine.settings import Drain, PriorityGrace


@dataclass(frozen=True, slots=True)
class Turns:
    """The rules in ascending order of priority; at least one."""

    rules: tuple[PriorityGrace, ...]
    drain_rules: machine_drain_rules.DrainRules = machine_drain_rules.NO_RULES

    def of(self, pod: facts.Pod) -> int:
        """Whose turn the pod goes in. Negative where its order is."""
        rank = bisect_right(self.rules, pod.spec.priority or 0, key=lambda rule: rule.priority) - 1
        return self.drain_rules.find_order(pod) * len(self.rules) + max(rank, 0)

    def limit_s(self, turn: int) -> float:
        """The time to end that pods of a turn get at most."""
        return float(self.rules[turn % len(self.rules)].grace_s)

    def grace_s(self, pod: facts.Pod) -> float:
        """The time to end that a pod gets. A limit of 0 limits nothing."""
        own_s = pod_traits.DEFAULT_GRACE_S if pod.grace_s is None else pod.grace_s
        limit_s = self.limit_s(self.of(pod))
        return min(own_s, limit_s) if limit_s > 0 else own_s


def read_turns(drain: Drain, rules: machine_drain_rules.DrainRules = machine_drain_rules.NO_RULES) -> Turns:
    """What the user's flags make of priorities, and these rules of pods."""
    if not drain.drain_priority_config:
        return Turns((PriorityGrace(0, drain.max_graceful_termination_s),), rules)
    return Turns(tuple(sorted(drain.drain_priority_config, key=lambda rule: rule.priority)), rules)
