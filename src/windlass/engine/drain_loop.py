"""The drain loop: the due steps of every node drain, as one ordered tuple (`DRAIN_STEPS`); pure like `loop.decide`.

`decide` starts drains; `advance` moves them, and nothing else. It runs after each decision, after its own plan was
executed, whenever a draining node, its pods or their budgets change, and at `next_s`. Instructions that failed are in
the next observation (`Observation.failed`). A drain that raises is held, and the others advance.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from windlass.engine import loop_memory
from windlass.engine.actuation import deletion_taint, eviction, node_deletion, revalidation, rollback
from windlass.engine.actuation.node_drain import ActuationContext, NodeDrain, list_node_drains, read_context
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import plan
from windlass.engine.model.drains import DrainStatus
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.observation import Observation
from windlass.engine.quarantine import (
    MOST_RUNS,
    Faults,
    FaultSubject,
    SubsetSearch,
    Suspect,
    exclude,
    hide_excluded_pods,
    make_fault,
)

DrainStep = Callable[[Sequence[NodeDrain], ActuationContext], None]

DRAIN_STEPS: tuple[DrainStep, ...] = (
    node_deletion.pause_held_groups,  # while the group is paused or unreadable
    node_deletion.detect_completion,  # node gone, being deleted, or its taint removed by another client
    node_deletion.fail_owned_replicas,  # another controller owns the replicas of the group
    deletion_taint.taint_batches,  # ToBeDeleted taint and cordon, on all nodes of a batch or on none
    deletion_taint.wait_for_taint_propagation,  # --node-delete-delay-after-taint: the scheduler observes the taint
    revalidation.revalidate,  # the pods still fit elsewhere
    eviction.evict_pods,  # within PodDisruptionBudgets, until the pods are gone
    node_deletion.wait_for_delay_annotations,  # delay-deletion annotations
    node_deletion.delete_nodes,  # alone, or in a batch of the group
    rollback.fail_atomic_groups,  # one failure fails all nodes of an atomic group
    rollback.roll_back,  # failed drains: remove taint, uncordon
)


FAULT_RETRY_S = 30.0
"""Retry of a drain that raised; sooner if its node, pods or budgets change."""


@dataclass(frozen=True, slots=True)
class DrainLoopResult:
    """The plan, the memory, the status of each drain, and when to advance again if nothing changes before."""

    plan: plan.Plan
    memory: LoopMemory
    story: tuple[DrainStatus, ...]
    next_s: float
    faults: Faults = ()
    """Drains that raised an unforeseen exception: they stay where they are."""


def advance(observation: Observation, memory: LoopMemory, settings: Settings, now_s: float) -> DrainLoopResult:
    """Run the due steps of all drains. A drain that raises is held, and the others advance."""
    observation = exclude(
        observation, [fault.suspect for fault in memory.volatile.faults if fault.suspect.subject is FaultSubject.GROUP]
    )
    call = _DrainLoop(observation, loop_memory.resume_memory(memory, observation, now_s), settings, now_s)
    try:
        return call.advance()
    except Exception as error:
        return _advance_without_faulty(call, error)


@dataclass(frozen=True, slots=True)
class _DrainLoop:
    """Inputs of one call."""

    seen: Observation
    memory: LoopMemory
    settings: Settings
    now_s: float

    def advance(self, held: Sequence[Suspect] = (), looks_for_abandoned: bool = True) -> DrainLoopResult:
        """Run the due steps of all drains except held ones: nodes, or all nodes of a group."""
        nodes, groups = (
            {suspect.name for suspect in held if suspect.subject is kind}
            for kind in (FaultSubject.NODE, FaultSubject.GROUP)
        )
        drains = self.memory.durable.drains
        names = {name for name, begun in drains.items() if name in nodes or begun.group in groups}
        with hide_excluded_pods(self.seen):
            return self._advance(names, looks_for_abandoned)

    def find_error(self, held: Sequence[Suspect], looks_for_abandoned: bool) -> Exception | None:
        try:
            self.advance(held, looks_for_abandoned)
        except Exception as error:
            return error
        return None

    def list_suspects(self) -> list[Suspect]:
        """Each drain by its node; drains of an atomic group as one, by the group."""
        groups = {group.id: group for group in self.seen.groups}
        suspects = dict[Suspect, None]()
        for name, begun in sorted(self.memory.durable.drains.items()):
            group = groups.get(begun.group)
            is_atomic = group is not None and for_group(self.settings, group.options).zero_or_max
            suspects[Suspect(FaultSubject.GROUP, begun.group) if is_atomic else Suspect(FaultSubject.NODE, name)] = None
        return list(suspects)

    def _advance(self, held: AbstractSet[str], looks_for_abandoned: bool) -> DrainLoopResult:
        settings, memory = self.settings, self.memory
        context = read_context(self.seen, settings, self.now_s, memory.durable)
        kept = {name: begun for name, begun in memory.durable.drains.items() if name in held}
        drains = {name: begun for name, begun in memory.durable.drains.items() if name not in held}
        abandoned = rollback.AbandonedDrains()
        looks_for_abandoned = looks_for_abandoned and settings.deviations.clear_abandoned_marks
        if looks_for_abandoned and memory.durable.loop > 1:  # the first loop clears them all
            abandoned = rollback.find_abandoned(memory.durable.drains, context)
        cases = list_node_drains({**drains, **abandoned.drains}, context)
        for step in DRAIN_STEPS:
            step(cases, context)
        durable = rollback.update_memory(memory.durable, cases, context)
        if kept:
            durable = replace(durable, drains={**durable.drains, **kept})
        durable = loop_memory.record_holds(durable, self.seen, self.now_s)
        story = tuple(case.status for case in cases if case.status is not None)
        next_s = min((status.until_s for status in story), default=float("inf"))
        return DrainLoopResult(
            tuple(instruction for case in cases for instruction in case.instructions),
            memory if durable is memory.durable else replace(memory, durable=durable),
            story,
            min(next_s, abandoned.next_s),
        )


def _advance_without_faulty(call: _DrainLoop, error: Exception) -> DrainLoopResult:
    """Advance all drains except those that raise; if it still raises, without the search for abandoned taints."""
    suspects = call.list_suspects()
    looks = call.find_error(suspects, True) is None
    held = list[Suspect]()
    if looks or call.find_error((), False) is not None:
        if not looks and call.find_error(suspects, False) is not None:
            raise error
        held = SubsetSearch(lambda out: call.find_error(out, looks) is None, MOST_RUNS).find(suspects)
    faults = [make_fault(suspect, error, 0.0) for suspect in held]
    if not looks:
        faults.append(make_fault(Suspect(FaultSubject.PART, "nodes marked by nobody"), error, 0.0))
    done = call.advance(held, looks)
    return replace(done, next_s=min(done.next_s, call.now_s + FAULT_RETRY_S), faults=tuple(faults))
