"""Soft taints: unneeded nodes are marked, so that the scheduler prefers others and their time is not lost on a restart.

Only so many marks change per loop, because each is a call to the API server; marks that no longer hold go first, since
they keep pods away from nodes that are needed. A node that is being removed is left as it is.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine import facts, plan, taints
from windlass.engine.settings import ScaleDown

Change: TypeAlias = plan.RemoveTaint | plan.SetTaint


@dataclass(frozen=True, slots=True)
class Marks:
    """What changes now, in this order, and how many more should."""

    changes: tuple[Change, ...] = ()
    left_over: int = 0


def change_marks(
    nodes: Iterable[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    unneeded: Collection[str],
    settings: ScaleDown,
    now_s: float,
) -> Marks:
    """Which of the nodes that belong to groups lose the mark, and which get it. None, where marks are switched off."""
    if settings.max_bulk_soft_taint_count == 0:
        return Marks()
    lose: list[str] = []
    get: list[str] = []
    for node in nodes:
        is_unneeded = node.name in unneeded
        if not (node.taints or is_unneeded):
            continue  # most nodes
        if node.name not in group_of or taints.has(node, taints.TO_BE_DELETED):
            continue
        if taints.has(node, taints.DELETION_CANDIDATE) != is_unneeded:
            (get if is_unneeded else lose).append(node.name)
    allowed = max(settings.max_bulk_soft_taint_count, 0) if settings.max_bulk_soft_taint_time_s > 0 else 0
    now = lose[:allowed], get[: max(allowed - len(lose), 0)]
    changes: tuple[Change, ...] = (*(_unmark(name) for name in now[0]), *(_mark(name, now_s) for name in now[1]))
    return Marks(changes, len(lose) + len(get) - len(changes))


def clean_up(nodes: Iterable[facts.Node], settings: ScaleDown, now_s: float) -> tuple[plan.RemoveTaint, ...]:
    """What is done at the start where marks are switched off: all go but those from which times are to be restored."""
    if settings.max_bulk_soft_taint_count != 0:
        return ()
    young = settings.node_deletion_candidate_ttl_s
    return tuple(
        _unmark(node.name)
        for node in nodes
        if taints.has(node, taints.DELETION_CANDIDATE)
        and not (young and now_s - (taints.marked_at_s(node, taints.DELETION_CANDIDATE) or 0.0) < young)
    )


def _unmark(name: str) -> plan.RemoveTaint:
    return plan.RemoveTaint(name, taints.DELETION_CANDIDATE)


def _mark(name: str, now_s: float) -> plan.SetTaint:
    taint = taints.deletion_candidate(now_s)
    return plan.SetTaint(name, taint.key, taint.value, taint.effect)
