"""Advancing drains: the next step of every node on its way out, as one pure function.

`decide` begins drains; `advance` moves them, and nothing else. It is to be asked after each decision, after its own
plan was carried out, whenever a node on its way out, its pods or their budgets change, and at `next_s`. What could not
be carried out is handed to it with the next observation (`Observation.failed`).
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from windlass.engine import held_groups, plan
from windlass.engine.draining import consequences, deleting, ending, evicting, holding, marking, rechecking, rollback
from windlass.engine.draining.case import Case, Situation, read_cases, read_situation
from windlass.engine.draining.story import DrainStory
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.quarantine import MOST_RUNS, Faults, Search, Subject, Suspect, hidden, leave_out, make_fault
from windlass.engine.settings import Settings, for_group

Step = Callable[[Sequence[Case], Situation], None]

STEPS: tuple[Step, ...] = (
    holding.hold,  # while its group must be left alone
    ending.find_ends,  # gone, being deleted, or given back by someone else
    holding.give_back_owned,  # when another controller applies the size of its group
    marking.mark,  # taint and cordon, on all nodes of a batch or on none
    marking.settle,  # until everyone has seen them
    rechecking.recheck,  # does it still hold?
    evicting.evict,  # until the pods are gone
    deleting.hold,  # until nobody delays the deletion
    deleting.delete,  # alone, or with others of the group
    rollback.fail_whole_groups,  # all or nothing
    rollback.undo,  # what failed
)


HELD_S = 30.0
"""After this time the next step of a drain that raised is tried again, or sooner if anything about it changes."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """What to do, what to remember, how each drain stands, and when to ask again if nothing changes before."""

    plan: plan.Plan
    memory: Memory
    story: tuple[DrainStory, ...]
    next_s: float
    faults: Faults = ()
    """Drains whose next step raised what nothing foresaw: they stay where they are."""


def advance(seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Advanced:
    """Take the steps that are due. A drain that raises what nothing foresees waits, and the others go on."""
    seen = leave_out(seen, [one.suspect for one in memory.volatile.faults if one.suspect.subject is Subject.GROUP])
    call = _Call(seen, held_groups.resume_memory(memory, seen, now_s), settings, now_s)
    try:
        return call.advance()
    except Exception as error:
        return _hold_some(call, error)


@dataclass(frozen=True, slots=True)
class _Call:
    """What one call is given."""

    seen: Observation
    memory: Memory
    settings: Settings
    now_s: float

    def advance(self, held: Sequence[Suspect] = (), looks_for_abandoned: bool = True) -> Advanced:
        """Take the steps that are due of all drains but those that are held: nodes, or all of a group."""
        nodes, groups = ({one.name for one in held if one.subject is kind} for kind in (Subject.NODE, Subject.GROUP))
        drains = self.memory.durable.drains
        names = {name for name, begun in drains.items() if name in nodes or begun.group in groups}
        with hidden(self.seen):
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
            found[Suspect(Subject.GROUP, begun.group) if goes_whole else Suspect(Subject.NODE, name)] = None
        return list(found)

    def _advance(self, held: AbstractSet[str], looks_for_abandoned: bool) -> Advanced:
        settings, memory = self.settings, self.memory
        situation = read_situation(self.seen, settings, self.now_s, memory.durable)
        kept = {name: begun for name, begun in memory.durable.drains.items() if name in held}
        drains = {name: begun for name, begun in memory.durable.drains.items() if name not in held}
        abandoned = rollback.Abandoned()
        looks_for_abandoned = looks_for_abandoned and settings.deviations.clear_abandoned_marks
        if looks_for_abandoned and memory.durable.loop > 1:  # the first loop clears them all
            abandoned = rollback.find_abandoned(memory.durable.drains, situation)
        cases = read_cases({**drains, **abandoned.drains}, situation)
        for step in STEPS:
            step(cases, situation)
        durable = consequences.remember(memory.durable, cases, situation)
        if kept:
            durable = replace(durable, drains={**durable.drains, **kept})
        durable = held_groups.note(durable, self.seen, self.now_s)
        story = tuple(case.told for case in cases if case.told is not None)
        next_s = min((told.until_s for told in story), default=float("inf"))
        return Advanced(
            tuple(instruction for case in cases for instruction in case.instructions),
            memory if durable is memory.durable else replace(memory, durable=durable),
            story,
            min(next_s, abandoned.next_s),
        )


def _hold_some(call: _Call, error: Exception) -> Advanced:
    """Advance all drains but those that raise. If that does not help, nobody else's marks are looked for."""
    suspects = call.list_suspects()
    looks = call.find_error(suspects, True) is None
    held = list[Suspect]()
    if looks or call.find_error((), False) is not None:
        if not looks and call.find_error(suspects, False) is not None:
            raise error
        held = Search(lambda out: call.find_error(out, looks) is None, MOST_RUNS).find(suspects)
    faults = [make_fault(one, error, 0.0) for one in held]
    if not looks:
        faults.append(make_fault(Suspect(Subject.PART, "nodes marked by nobody"), error, 0.0))
    done = call.advance(held, looks)
    return replace(done, next_s=min(done.next_s, call.now_s + HELD_S), faults=tuple(faults))
