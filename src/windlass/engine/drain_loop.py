"""The drain loop: the due steps of every node drain, as one ordered tuple (`DRAIN_STEPS`); pure like `loop.decide`.

`decide` starts drains; `advance` moves them, and nothing else. It runs after each decision, after its own plan was
executed, whenever a draining node, its pods or their budgets change, and at `next_s`. What could not be executed is in
the next observation (`Observation.failed`). A drain that raises is held, and the others go on.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from windlass.engine import loop_memory
from windlass.engine.actuation import deletion, deletion_taint, evictor, revalidation, rollback
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
    deletion.pause_held_groups,  # while its group must be left alone
    deletion.detect_completion,  # gone, being deleted, or given back by someone else
    deletion.fail_owned_replicas,  # when another controller applies the size of its group
    deletion_taint.taint_batches,  # taint and cordon, on all nodes of a batch or on none
    deletion_taint.wait_for_taint_propagation,  # until everyone has seen them
    revalidation.revalidate,  # does it still hold?
    evictor.evict_pods,  # until the pods are gone
    deletion.wait_for_delay_annotations,  # until nobody delays the deletion
    deletion.delete_nodes,  # alone, or with others of the group
    rollback.fail_atomic_groups,  # all or nothing
    rollback.roll_back,  # what failed
)


FAULT_RETRY_S = 30.0
"""After this time the next step of a drain that raised is tried again, or sooner if anything about it changes."""


@dataclass(frozen=True, slots=True)
class DrainLoopResult:
    """What to do, what to remember, how each drain stands, and when to ask again if nothing changes before."""

    plan: plan.Plan
    memory: LoopMemory
    story: tuple[DrainStatus, ...]
    next_s: float
    faults: Faults = ()
    """Drains whose next step raised what nothing foresaw: they stay where they are."""


def advance(seen: Observation, memory: LoopMemory, settings: Settings, now_s: float) -> DrainLoopResult:
    """Take the steps that are due. A drain that raises what nothing foresees waits, and the others go on."""
    seen = exclude(seen, [one.suspect for one in memory.volatile.faults if one.suspect.subject is FaultSubject.GROUP])
    call = _DrainLoop(seen, loop_memory.resume_memory(memory, seen, now_s), settings, now_s)
    try:
        return call.advance()
    except Exception as error:
        return _advance_without_faulty(call, error)


@dataclass(frozen=True, slots=True)
class _DrainLoop:
    """What one call is given."""

    seen: Observation
    memory: LoopMemory
    settings: Settings
    now_s: float

    def advance(self, held: Sequence[Suspect] = (), looks_for_abandoned: bool = True) -> DrainLoopResult:
        """Take the steps that are due of all drains but those that are held: nodes, or all of a group."""
        nodes, groups = (
            {one.name for one in held if one.subject is kind} for kind in (FaultSubject.NODE, FaultSubject.GROUP)
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
        """Each drain; those of a group that goes as a whole, or not at all, as one."""
        groups = {group.id: group for group in self.seen.groups}
        found = dict[Suspect, None]()
        for name, begun in sorted(self.memory.durable.drains.items()):
            group = groups.get(begun.group)
            goes_whole = group is not None and for_group(self.settings, group.options).zero_or_max
            found[Suspect(FaultSubject.GROUP, begun.group) if goes_whole else Suspect(FaultSubject.NODE, name)] = None
        return list(found)

    def _advance(self, held: AbstractSet[str], looks_for_abandoned: bool) -> DrainLoopResult:
        settings, memory = self.settings, self.memory
        situation = read_context(self.seen, settings, self.now_s, memory.durable)
        kept = {name: begun for name, begun in memory.durable.drains.items() if name in held}
        drains = {name: begun for name, begun in memory.durable.drains.items() if name not in held}
        abandoned = rollback.AbandonedDrains()
        looks_for_abandoned = looks_for_abandoned and settings.deviations.clear_abandoned_marks
        if looks_for_abandoned and memory.durable.loop > 1:  # the first loop clears them all
            abandoned = rollback.find_abandoned(memory.durable.drains, situation)
        cases = list_node_drains({**drains, **abandoned.drains}, situation)
        for step in DRAIN_STEPS:
            step(cases, situation)
        durable = rollback.update_memory(memory.durable, cases, situation)
        if kept:
            durable = replace(durable, drains={**durable.drains, **kept})
        durable = loop_memory.record_holds(durable, self.seen, self.now_s)
        story = tuple(case.status for case in cases if case.status is not None)
        next_s = min((told.until_s for told in story), default=float("inf"))
        return DrainLoopResult(
            tuple(instruction for case in cases for instruction in case.instructions),
            memory if durable is memory.durable else replace(memory, durable=durable),
            story,
            min(next_s, abandoned.next_s),
        )


def _advance_without_faulty(call: _DrainLoop, error: Exception) -> DrainLoopResult:
    """Advance all drains but those that raise. If that does not help, nobody else's marks are looked for."""
    suspects = call.list_suspects()
    looks = call.find_error(suspects, True) is None
    held = list[Suspect]()
    if looks or call.find_error((), False) is not None:
        if not looks and call.find_error(suspects, False) is not None:
            raise error
        held = SubsetSearch(lambda out: call.find_error(out, looks) is None, MOST_RUNS).find(suspects)
    faults = [make_fault(one, error, 0.0) for one in held]
    if not looks:
        faults.append(make_fault(Suspect(FaultSubject.PART, "nodes marked by nobody"), error, 0.0))
    done = call.advance(held, looks)
    return replace(done, next_s=min(done.next_s, call.now_s + FAULT_RETRY_S), faults=tuple(faults))
