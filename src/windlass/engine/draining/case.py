"""Cases: the nodes on their way out as one call looks at them, and everything a step may know beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.engine import facts, machine_drain_rules, plan, taints
from windlass.engine.draining.progress import Failure, Progress, Why
from windlass.engine.draining.story import ENDED, DrainStory, Phase
from windlass.engine.draining.taint_latency import TaintLatency
from windlass.engine.memory import DrainBegun, Durable
from windlass.engine.observation import Observation
from windlass.engine.scale_down.scene import read_drain_rules
from windlass.engine.settings import Settings, for_group


@dataclass(frozen=True, slots=True)
class Situation:
    """What all steps of one call look at."""

    seen: Observation
    settings: Settings
    now_s: float
    groups: Mapping[str, facts.NodeGroup]
    refused_marks: Mapping[str, str]
    """By node: what was said. The same of deletions; of evictions by pod."""
    refused_evictions: Mapping[str, str]
    refused_deletions: Mapping[str, str]
    held_since: Mapping[str, float] = field(default_factory=dict)
    """Groups that must be left alone, by id: since when, as far as that is remembered."""
    taint_latencies: Sequence[TaintLatency] = ()
    """Measured by earlier calls."""
    drain_rules: machine_drain_rules.DrainRules = machine_drain_rules.NO_RULES

    def goes_whole(self, group: str) -> bool:
        """Is the group all or nothing?"""
        known = self.groups.get(group)
        return known is not None and for_group(self.settings, known.options).zero_or_max


def read_situation(seen: Observation, settings: Settings, now_s: float, durable: Durable) -> Situation:
    """Sort out what became of the last plan."""
    marks: dict[str, str] = {}
    evictions: dict[str, str] = {}
    deletions: dict[str, str] = {}
    for instruction, said in seen.failed.items():
        match instruction:
            case plan.SetTaint(node=node, key=taints.TO_BE_DELETED) | plan.Cordon(node=node, cordoned=True):
                marks[node] = said
            case plan.Evict():
                evictions[instruction.identity] = said
            case plan.DeleteNode(node=node):
                deletions[node] = said
    groups = {group.id: group for group in seen.groups}
    return Situation(
        seen,
        settings,
        now_s,
        groups,
        marks,
        evictions,
        deletions,
        durable.held,
        durable.taint_latencies,
        read_drain_rules(seen, settings),
    )


@dataclass(slots=True)
class Case:
    """One node on its way out. Open until a step has said what it waits for, why it failed, or how it ended."""

    name: str
    begun: DrainBegun
    node: facts.Node | None
    """None where it is gone."""
    now_s: float
    progress: Progress
    instructions: list[plan.Instruction] = field(default_factory=list)
    told: DrainStory | None = None

    @property
    def is_open(self) -> bool:
        return self.told is None and self.progress.failure is None

    @property
    def has_ended(self) -> bool:
        return self.told is not None and self.told.phase in ENDED

    @property
    def has_mark(self) -> bool:
        return self.node is not None and taints.has(self.node, taints.TO_BE_DELETED)

    @property
    def has_failed_now(self) -> bool:
        failure = self.progress.failure
        return failure is not None and failure is not self.begun.progress.failure

    def note(self, **changes: Any) -> None:
        """Remember something about it."""
        self.progress = replace(self.progress, **changes)

    def wait(self, phase: Phase, until_s: float = float("inf"), waits_for: Sequence[str] = ()) -> None:
        """Rest until then, or until something changes."""
        failure = self.progress.failure
        self.told = DrainStory(self.name, self.begun.group, phase, until_s, tuple(waits_for), failure)

    def end(self, phase: Phase) -> None:
        """Forget it."""
        self.told = DrainStory(self.name, self.begun.group, phase, failure=self.progress.failure)

    def fail(self, why: Why, *details: str) -> None:
        """Give it up. Nothing else is done to it but undoing."""
        self.note(failure=Failure(why, self.now_s, details))
        self.instructions.clear()
        self.told = None


def read_cases(drains: Mapping[str, DrainBegun], situation: Situation) -> list[Case]:
    """All nodes on their way out, oldest first: the order of a mapping that was saved may not survive."""
    table, now_s = situation.seen.snapshot.nodes, situation.now_s
    cases = []
    for name in sorted(drains, key=lambda name: (drains[name].since_s, name)):
        row = table.rows.get(name)
        node = None if row is None or not table.alive[row] else table.facts[row]
        cases.append(Case(name, drains[name], node, now_s, drains[name].progress))
    return cases


def find_open(cases: Sequence[Case]) -> Iterator[tuple[Case, facts.Node]]:
    """The cases that no step has settled yet, with their nodes."""
    for case in cases:
        if case.is_open and case.node is not None:
            yield case, case.node
