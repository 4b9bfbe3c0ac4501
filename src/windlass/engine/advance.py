"""Advancing drains: the next step of every node on its way out, as one pure function.

`decide` begins drains; `advance` moves them, and nothing else. It is to be asked after each decision, after its own
plan was carried out, whenever a node on its way out, its pods or their budgets change, and at `next_s`. What could not
be carried out is handed to it with the next observation (`Observation.failed`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from windlass.engine import held_groups, plan
from windlass.engine.draining import consequences, deleting, ending, evicting, holding, marking, rechecking, rollback
from windlass.engine.draining.case import Case, Situation, read_cases, read_situation
from windlass.engine.draining.story import DrainStory
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings

Step = Callable[[Sequence[Case], Situation], None]

STEPS: tuple[Step, ...] = (
    holding.hold,  # while its group must be left alone
    ending.find_ends,  # gone, being deleted, or given back by someone else
    marking.mark,  # taint and cordon, on all nodes of a batch or on none
    marking.settle,  # until everyone has seen them
    rechecking.recheck,  # does it still hold?
    evicting.evict,  # until the pods are gone
    deleting.hold,  # until nobody delays the deletion
    deleting.delete,  # alone, or with others of the group
    rollback.fail_whole_groups,  # all or nothing
    rollback.undo,  # what failed
)


@dataclass(frozen=True, slots=True)
class Advanced:
    """What to do, what to remember, how each drain stands, and when to ask again if nothing changes before."""

    plan: plan.Plan
    memory: Memory
    story: tuple[DrainStory, ...]
    next_s: float


def advance(seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Advanced:
    """Take the steps that are due."""
    memory = held_groups.resume_memory(memory, seen, now_s)
    situation = read_situation(seen, settings, now_s, memory.durable.held)
    drains, abandoned = memory.durable.drains, rollback.Abandoned()
    if settings.deviations.clear_abandoned_marks and memory.durable.loop > 1:  # the first loop clears them all
        abandoned = rollback.find_abandoned(drains, situation)
    cases = read_cases({**drains, **abandoned.drains}, situation)
    for step in STEPS:
        step(cases, situation)
    durable = consequences.remember(memory.durable, cases, situation)
    durable = held_groups.note(durable, seen, now_s)
    story = tuple(case.told for case in cases if case.told is not None)
    next_s = min((told.until_s for told in story), default=float("inf"))
    return Advanced(
        tuple(instruction for case in cases for instruction in case.instructions),
        memory if durable is memory.durable else replace(memory, durable=durable),
        story,
        min(next_s, abandoned.next_s),
    )
