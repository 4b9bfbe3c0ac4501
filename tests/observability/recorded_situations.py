"""Situations as they were when the peer's face was recorded: the same names, decided by windlass in the peer's way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.engine.loop import builders
from windlass.engine import drain_loop, loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.kube.events import EventOccurrence, InvolvedObject
from windlass.observability import decision_events

PEER, NOW_S = builders.PEER, builders.NOW_S
STATUS = InvolvedObject("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")
GIB = 2**30

Told = tuple[str, str, str, str, str, str]
"""Type, reason, kind, namespace, name and message."""


def flat(occurrences: Iterable[EventOccurrence]) -> list[Told]:
    return [
        (event.type, event.reason, event.about.kind, event.about.namespace, event.about.name, event.message)
        for event in occurrences
    ]


def find(occurrences: Iterable[EventOccurrence], reason: str) -> list[EventOccurrence]:
    return [event for event in occurrences if event.reason == reason]


@dataclass
class Play:
    """Loops and drains, one after another, with what is told of each."""

    settings: Settings = PEER
    memory: LoopMemory = field(default_factory=LoopMemory)
    drains: decision_events.DrainsByNode = field(default_factory=dict)
    said: list[EventOccurrence] = field(default_factory=list)

    def decide(
        self, observation: Observation, now_s: float = NOW_S, failed: Mapping[plan.Instruction, str] | None = None
    ) -> loop.Decision:
        decision = loop.decide(observation, self.memory, self.settings, now_s)
        view = DecisionView(decision)
        told = decision_events.scaling_events(view, self.settings, STATUS, now_s)
        outcome = carried_out(decision.plan, failed)
        doing = decision_events.scaling_plan_context(view, self.settings)
        self.said += told.before
        self.said += decision_events.plan_result_events(doing, outcome, STATUS)
        self.said += [*told.after, *decision_events.raised_group_events(told, outcome)]
        self.memory, self.drains = decision.memory, decision.memory.durable.drains
        return decision

    def advance(
        self, observation: Observation, now_s: float = NOW_S, failed: Mapping[plan.Instruction, str] | None = None
    ) -> drain_loop.DrainLoopResult:
        advanced = drain_loop.advance(observation, self.memory, self.settings, now_s)
        told = decision_events.drain_events(observation, advanced, self.drains)
        doing = decision_events.drain_plan_context(observation, advanced, self.drains)
        self.said += told.before
        self.said += decision_events.plan_result_events(doing, carried_out(advanced.plan, failed), STATUS)
        self.memory, self.drains = advanced.memory, advanced.memory.durable.drains
        return advanced


def carried_out(wanted: plan.Plan, failed: Mapping[plan.Instruction, str] | None = None) -> PlanResult:
    failed = failed or {}
    return PlanResult(tuple(instruction for instruction in wanted if instruction not in failed), dict(failed))


def mark(node: facts.Node, now_s: float) -> facts.Node:
    taint = facts.Taint(facts.TO_BE_DELETED, str(int(now_s)), "NoSchedule")
    return replace(node, taints=(*node.taints, taint), unschedulable=True)
