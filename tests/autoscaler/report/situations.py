"""Situations as they were when the peer's face was recorded: the same names, decided by windlass in the peer's way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.engine.decide import builders
from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.report import events
from windlass.engine import advance, decide, facts, plan
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.kube.events import About, Occurrence

PEER, NOW_S = builders.PEER, builders.NOW_S
STATUS = About("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")
GIB = 2**30

Told = tuple[str, str, str, str, str, str]
"""Type, reason, kind, namespace, name and message."""


def flat(occurrences: Iterable[Occurrence]) -> list[Told]:
    return [
        (one.type, one.reason, one.about.kind, one.about.namespace, one.about.name, one.message) for one in occurrences
    ]


def find(occurrences: Iterable[Occurrence], reason: str) -> list[Occurrence]:
    return [one for one in occurrences if one.reason == reason]


@dataclass
class Play:
    """Loops and drains, one after another, with what is told of each."""

    settings: Settings = PEER
    memory: Memory = field(default_factory=Memory)
    drains: events.Drains = field(default_factory=dict)
    said: list[Occurrence] = field(default_factory=list)

    def decide(
        self, seen: Observation, now_s: float = NOW_S, failed: Mapping[plan.Instruction, str] | None = None
    ) -> decide.Decision:
        decision = decide.decide(seen, self.memory, self.settings, now_s)
        told = events.tell_decision(seen, decision, self.settings, STATUS, now_s)
        outcome = carried_out(decision.plan, failed)
        doing = events.doing_decision(seen, decision, self.settings)
        self.said += told.before
        self.said += events.tell_outcome(doing, outcome, STATUS)
        self.said += [*told.after, *events.tell_triggered(told, outcome)]
        self.memory, self.drains = decision.memory, decision.memory.durable.drains
        return decision

    def advance(
        self, seen: Observation, now_s: float = NOW_S, failed: Mapping[plan.Instruction, str] | None = None
    ) -> advance.Advanced:
        advanced = advance.advance(seen, self.memory, self.settings, now_s)
        told = events.tell_advance(seen, advanced, self.drains)
        doing = events.doing_advance(seen, advanced, self.drains)
        self.said += told.before
        self.said += events.tell_outcome(doing, carried_out(advanced.plan, failed), STATUS)
        self.memory, self.drains = advanced.memory, advanced.memory.durable.drains
        return advanced


def carried_out(wanted: plan.Plan, failed: Mapping[plan.Instruction, str] | None = None) -> Outcome:
    failed = failed or {}
    return Outcome(tuple(one for one in wanted if one not in failed), dict(failed))


def mark(node: facts.Node, now_s: float) -> facts.Node:
    taint = facts.Taint(facts.TO_BE_DELETED, str(int(now_s)), "NoSchedule")
    return replace(node, taints=(*node.taints, taint), unschedulable=True)
