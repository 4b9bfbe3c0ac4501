"""Explain context: one observation, the decision on it, past expander choices, and objects set aside.

The decision and its contexts come from the loop's own steps; nothing of the loop is rebuilt here.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass import product
from windlass.engine import time_limits
from windlass.engine.expanders import least_waste
from windlass.engine.loop import UNTIMED, Decision, decide, round_context, scale_up_context
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.loop_state import ScaleUpContext
from windlass.engine.model import node_groups, scale_up_status
from windlass.engine.model.decision_record import DecisionRecord
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.quarantine import Fault, FaultSubject, find_nodes_with_excluded_pods
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.explain import decision_view
from windlass.explain.decision_view import DecisionView


@dataclass(frozen=True, slots=True)
class OptionExplanation:
    """One expansion option, with the figures that expanders compare."""

    group: str
    nodes: int
    pods: int
    waste: float
    """Sum of the unused fractions of CPU and memory (least-waste)."""
    price_per_hour: float | None = None
    """Price of all nodes of the option; None where the group has no price."""


@dataclass(frozen=True, slots=True)
class ExpanderStep:
    """The options that one expander of the chain kept."""

    expander: str
    kept: tuple[str, ...]
    """Groups."""


@dataclass(frozen=True, slots=True)
class ChoiceExplanation:
    """The choice of one scale-up round."""

    winner: str
    options: tuple[OptionExplanation, ...]
    steps: tuple[ExpanderStep, ...]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Sizes before and after, by group that grows."""
    opinion: str = ""
    """Response of the external gRPC expander, where it was called."""


@dataclass(frozen=True, slots=True)
class PastChoice:
    """A choice that was executed."""

    at_s: float
    choice: ChoiceExplanation


@dataclass(frozen=True)
class ExplainContext:
    """Observation, memory, settings and decision of one time. None of them is changed."""

    observation: Observation
    """Without excluded objects."""
    memory: LoopMemory
    """Before the decision."""
    settings: Settings
    now_s: float
    decision: Decision
    past: Mapping[str, PastChoice] = field(default_factory=dict)
    """The last executed choice by group, where it was recorded."""

    @functools.cached_property
    def view(self) -> DecisionView:
        return DecisionView(self.decision)

    @property
    def snapshot(self) -> Snapshot:
        return self.observation.snapshot

    def find_pod(self, namespace: str, name: str) -> int | None:
        """The row of a pod; None if there is none of that name."""
        table = self.snapshot.pods
        rows = (row for row, other in enumerate(table.names) if other == name)
        return next((row for row in rows if table.template_key(row).namespace == namespace), None)

    def exists(self, row: int) -> bool:
        """Is it the row of an existing pod? Rows of injected pods come after them."""
        return row < len(self.snapshot.pods.names)

    @contextlib.contextmanager
    def scale_up(self) -> Iterator[ScaleUpContext]:
        """The context that the loop decided its scale-up on, made by the loop's own steps; valid until the end."""
        with scale_up_context(self.observation, self.memory, self.settings, self.now_s) as context:
            yield context

    @contextlib.contextmanager
    def scale_up_round(self, number: int | None = None) -> Iterator[ScaleUpContext]:
        """The context of one round of the loop's scale-up, counted from 1; without a number the last round.

        A pod's verdict holds in the round that helped it, or in the last one if none did.
        """
        number = number or self._count_rounds()
        ran_out = self.decision.ran_out
        with round_context(self.observation, self.memory, self.settings, self.now_s, ran_out, number) as context:
            yield context

    def _count_rounds(self) -> int:
        """Rounds that were carried out. Those that were proposed after one that failed are not among them, nor is the
        proposal by which groups grow to their minimum, which comes last.
        """
        story = self.decision.story.scale_ups
        return max(len(story) - self.settings.scale_up.enforce_node_group_min_size, 1)


def evaluate(
    observation: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer = UNTIMED
) -> ExplainContext:
    """Decide on a cluster as the loop would now. `timer`: of a recorded loop, with the checkpoints of its limits."""
    decision = decide(observation, memory, settings, now_s, timer)
    return ExplainContext(decision.evaluated, memory, settings, now_s, decision)


def record_choices(past: Mapping[str, PastChoice], story: DecisionRecord) -> dict[str, PastChoice]:
    """The last choice by group, updated with the choices of this loop."""
    kept = dict(past)
    for proposal in story.scale_ups:
        choice = explain_choice(proposal)
        if choice is not None:
            kept |= dict.fromkeys(choice.sizes, PastChoice(story.at_s, choice))
    return kept


def explain_choice(proposal: scale_up_status.ScaleUpProposal) -> ChoiceExplanation | None:
    """The choice of a round; None where there were no options."""
    choice = proposal.choice
    if choice is None or choice.winner is None:
        return None
    return ChoiceExplanation(
        choice.winner.group,
        tuple(_measure_option(option) for option in choice.options),
        tuple(ExpanderStep(expander, tuple(option.group for option in kept)) for expander, kept in choice.steps),
        {increase.group.id: (increase.group.size, increase.new_size) for increase in proposal.increases},
        "" if choice.opinion is None else decision_view.describe_opinion(choice.opinion),
    )


def _measure_option(option: ExpansionOption) -> OptionExplanation:
    price = option.template.annotations.get(product.PRICE_ANNOTATION)
    total = None if price is None else float(price) * option.node_count
    return OptionExplanation(
        option.group, option.node_count, option.pod_count, least_waste.calculate_waste(option), total
    )


def find_fault_of_pod(at: ExplainContext, row: int) -> str:
    """The fault by which the pod in this row is excluded; empty without one."""
    kind = at.snapshot.pods.template_key(row)
    for fault in at.decision.faults:
        if fault.suspect.subject is FaultSubject.POD and fault.suspect.value == kind:
            return decision_view.describe_fault(fault)
        is_named = fault.suspect.name == kind.namespace
        if fault.suspect.subject is FaultSubject.NAMESPACE and is_named:
            return decision_view.describe_fault(fault)
        if fault.suspect.subject is FaultSubject.PENDING and is_named and at.snapshot.pods.node_rows[row] < 0:
            return decision_view.describe_fault(fault)
    return ""


def find_fault_of_node(at: ExplainContext, name: str) -> str:
    """The fault by which the node, its group or a pod on it is excluded; empty without one."""
    for fault in at.decision.faults:
        if fault.suspect.subject is FaultSubject.NODE and fault.suspect.name == name:
            return decision_view.describe_fault(fault)
    row = at.snapshot.nodes.rows[name]
    provider_id = at.snapshot.nodes.facts[row].provider_id
    for fault in at.decision.faults:
        group = fault.suspect.value
        if isinstance(group, node_groups.NodeGroup) and any(
            instance.provider_id == provider_id for instance in group.instances
        ):
            return decision_view.describe_fault(fault)
    if row not in find_nodes_with_excluded_pods(at.snapshot.pods).tolist():
        return ""
    return next((reason for pod in at.snapshot.pods_on(row) if (reason := find_fault_of_pod(at, pod))), "")


def find_faulty_group(at: ExplainContext, name: str) -> Fault | None:
    """The fault of an excluded group, by its id or the last part of it."""
    for fault in at.decision.faults:
        own = fault.suspect.name
        if fault.suspect.subject is FaultSubject.GROUP and (own == name or own.endswith(f"/{name}")):
            return fault
    return None
