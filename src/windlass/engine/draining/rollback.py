"""Rolling back: a node that cannot go is given back to the scheduler.

Its marks are removed, and again every 10 s, until they are seen to be gone: they are removed even if they were never
seen, because they may have been on their way. A node whose machine is gone keeps them. A node that was cordoned before
it was marked stays cordoned, unless windlass is to do as the peer does. If one node of a group that goes as a whole
fails, all of them that are not being deleted do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine import facts, plan, taints
from windlass.engine.draining import ending
from windlass.engine.draining.case import Case, Situation
from windlass.engine.draining.progress import Failure, Progress, Why
from windlass.engine.draining.story import Phase
from windlass.engine.memory import DrainBegun

UNDO_AGAIN_S = 10.0
"""When marks that are still seen are asked to be removed again."""


def fail_whole_groups(cases: Sequence[Case], situation: Situation) -> None:
    """Spread failures to the other nodes of groups that are all or nothing."""
    culprits = {case.begun.group: case.name for case in cases if case.has_failed_now}
    for case in cases:
        group = case.begun.group
        is_left = not case.has_ended and case.progress.failure is None and case.progress.deleting_s is None
        if is_left and group in culprits and situation.goes_whole(group):
            case.fail(Why.GROUP_FAILED, culprits[group])


def undo(cases: Sequence[Case], situation: Situation) -> None:
    """Give nodes back whose drains failed."""
    for case in cases:
        if case.progress.failure is not None and not case.has_ended and case.node is not None:
            _undo(case, case.node, situation)


def _undo(case: Case, node: facts.Node, situation: Situation) -> None:
    if ending.has_lost_machine(node, situation.groups.get(case.begun.group)):
        case.end(Phase.GONE)
        return
    uncordons = _is_uncordoned(case, situation)
    is_clean = not case.has_mark and not (uncordons and node.unschedulable)
    undone_s, now_s = case.progress.undone_s, situation.now_s
    if is_clean and (undone_s is not None or case.progress.asked_s is None):
        case.end(Phase.ROLLED_BACK)
        return
    if undone_s is None or now_s >= undone_s + UNDO_AGAIN_S:
        case.instructions.append(plan.RemoveTaint(case.name, taints.TO_BE_DELETED))
        if uncordons:
            case.instructions.append(plan.Cordon(case.name, cordoned=False))
        case.note(undone_s=now_s)
        undone_s = now_s
    case.wait(Phase.ROLLING_BACK, undone_s + UNDO_AGAIN_S)


def _is_uncordoned(case: Case, situation: Situation) -> bool:
    settings = situation.settings
    keeps = case.begun.was_cordoned and settings.deviations.keep_cordons
    return settings.drain.cordon_node_before_terminating and not keeps


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Nodes that are marked, and of which memory knows nothing."""

    drains: Mapping[str, DrainBegun] = field(default_factory=dict)
    """Those whose mark is so old that whoever set it has given up: to be given back."""
    next_s: float = float("inf")
    """When the next one is."""


def find_abandoned(drains: Mapping[str, DrainBegun], situation: Situation) -> Abandoned:
    """Look for marks of which memory knows nothing, on nodes that are not being deleted anyway."""
    now_s, seen = situation.now_s, situation.seen
    marked = [node for node in seen.nodes if node.name not in drains and taints.has(node, taints.TO_BE_DELETED)]
    group_of = seen.group_of_nodes() if marked else {}
    failure = Failure(Why.ABANDONED, now_s)
    found: dict[str, DrainBegun] = {}
    next_s = float("inf")
    for node in marked:
        group = group_of.get(node.name)
        if group is None or ending.is_being_deleted(node, group):
            continue
        if taints.is_being_deleted(node, now_s):
            next_s = min(next_s, (taints.marked_at_s(node, taints.TO_BE_DELETED) or now_s) + taints.DELETION_TAKES_S)
        else:
            found[node.name] = DrainBegun(group.id, now_s, True, uid=node.uid, progress=Progress(failure=failure))
    return Abandoned(found, next_s)
