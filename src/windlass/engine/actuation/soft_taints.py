"""Soft taints: DeletionCandidate (PreferNoSchedule) taints on unneeded nodes.

The scheduler prefers other nodes, and unneeded times survive a restart. The number of changes per loop is limited,
because each is an API call; removals come first, since a taint on a needed node keeps pods away. A node being deleted
is left as it is.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine import taints
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.settings import ScaleDownSettings

SoftTaintChange: TypeAlias = plan.RemoveTaint | plan.SetTaint


@dataclass(frozen=True, slots=True)
class SoftTaintUpdate:
    """Instructions for this loop, in order, and the number of postponed ones."""

    changes: tuple[SoftTaintChange, ...] = ()
    left_over: int = 0


def update_soft_taints(
    nodes: Iterable[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    unneeded: Collection[str],
    settings: ScaleDownSettings,
    now_s: float,
) -> SoftTaintUpdate:
    """Soft taints to add and remove on nodes of groups; nothing if soft taints are disabled."""
    if settings.max_bulk_soft_taint_count == 0:
        return SoftTaintUpdate()
    lose: list[str] = []
    get: list[str] = []
    for node in nodes:
        is_unneeded = node.name in unneeded
        if not (node.taints or is_unneeded):
            continue  # most nodes
        if node.name not in group_of or taints.has_taint(node, taints.TO_BE_DELETED_KEY):
            continue
        if taints.has_taint(node, taints.DELETION_CANDIDATE_KEY) != is_unneeded:
            (get if is_unneeded else lose).append(node.name)
    allowed = max(settings.max_bulk_soft_taint_count, 0) if settings.max_bulk_soft_taint_time_s > 0 else 0
    now = lose[:allowed], get[: max(allowed - len(lose), 0)]
    changes: tuple[SoftTaintChange, ...] = (
        *(_remove_soft_taint(name) for name in now[0]),
        *(_add_soft_taint(name, now_s) for name in now[1]),
    )
    return SoftTaintUpdate(changes, len(lose) + len(get) - len(changes))


def clean_up_soft_taints(
    nodes: Iterable[facts.Node], settings: ScaleDownSettings, now_s: float
) -> tuple[plan.RemoveTaint, ...]:
    """On the first loop with soft taints disabled: remove them, except those that restore unneeded times."""
    if settings.max_bulk_soft_taint_count != 0:
        return ()
    young = settings.node_deletion_candidate_ttl_s
    return tuple(
        _remove_soft_taint(node.name)
        for node in nodes
        if taints.has_taint(node, taints.DELETION_CANDIDATE_KEY)
        and not (young and now_s - (taints.marked_at_s(node, taints.DELETION_CANDIDATE_KEY) or 0.0) < young)
    )


def _remove_soft_taint(name: str) -> plan.RemoveTaint:
    return plan.RemoveTaint(name, taints.DELETION_CANDIDATE_KEY)


def _add_soft_taint(name: str, now_s: float) -> plan.SetTaint:
    taint = taints.make_deletion_candidate(now_s)
    return plan.SetTaint(name, taint.key, taint.value, taint.effect)
