"""Eligibility: which candidates are worth trying to remove, before anyone asks where their pods would go.

The first of these that holds keeps a node:

    cannot be read in full                               UnreadableNode
    could not be removed lately                          RecentlyUnremovable
    marked for deletion less than 5 minutes ago          CurrentlyBeingDeleted
    annotated cluster-autoscaler.kubernetes.io/scale-down-disabled=true
                                                         ScaleDownDisabledAnnotation
    belongs to no group                                  NotAutoscaled
    does not tell what it has                            UnexpectedError
    not ready, and such nodes are not to be removed      ScaleDownUnreadyDisabled
    used above the threshold; exactly at it is not above NotUnderutilized
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts, readiness, taints
from windlass.engine.scale_down import utilization
from windlass.engine.scale_down.kept import Kept
from windlass.engine.scale_down.removal import Unremovable
from windlass.engine.settings import Settings, for_group
from windlass.engine.snapshot import Snapshot

_TIMED = frozenset({Unremovable.RECENTLY_UNREMOVABLE, Unremovable.CURRENTLY_BEING_DELETED})
"""Reasons that end by themselves."""

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

Rechecks = Mapping[str, float]
"""Nodes that could not be removed: until when they are not tried again."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What became of n candidates, in their order. Objects are made when someone reads them."""

    names: Sequence[str]
    reasons: Sequence[Unremovable | None]
    """None where the node is worth trying."""
    found: utilization.Floats
    """float64 (n,): the number that decided, compared with `limits`; its meaning follows from the reason."""
    limits: utilization.Floats
    measured: Mapping[str, int]
    """Nodes of which the utilization is told, with their place in `usage`."""
    usage: utilization.Usage
    changes_at_s: float
    """The earliest time at which the same nodes would be judged otherwise."""

    @property
    def eligible(self) -> list[str]:
        return [name for name, reason in zip(self.names, self.reasons, strict=True) if reason is None]

    @property
    def kept(self) -> list[Kept]:
        return [
            Kept(name, reason, float(self.found[i]), float(self.limits[i]))
            for i, (name, reason) in enumerate(zip(self.names, self.reasons, strict=True))
            if reason is not None
        ]

    def utilization_of(self, name: str) -> utilization.Utilization | None:
        """None where nobody measured it, or something else had decided by then."""
        position = self.measured.get(name)
        return None if position is None else self.usage.of(position)


def prune(rechecks: Rechecks, snapshot: Snapshot, now_s: float) -> dict[str, float]:
    """Those that still wait, and still exist."""
    return {name: until_s for name, until_s in rechecks.items() if until_s > now_s and name in snapshot.nodes.rows}


def has_scale_down_disabled(node: facts.Node) -> bool:
    return node.annotations.get(SCALE_DOWN_DISABLED) == "true"


def check(
    snapshot: Snapshot,
    names: Sequence[str],
    group_of: Mapping[str, facts.NodeGroup],
    rechecks: Rechecks,
    settings: Settings,
    now_s: float,
    gpu_label: str,
) -> Eligibility:
    """Judge these candidates, each alone: what one is like changes nothing for the others."""
    reasons = _judge_without_pods(snapshot, names, group_of, rechecks, now_s)
    found, limits, changes_at_s = _tell_times(snapshot, names, reasons, rechecks, now_s)
    left = [i for i, reason in enumerate(reasons) if reason is None]
    rows = np.array([snapshot.nodes.rows[names[i]] for i in left], np.intp)
    policies = _Policies([group_of[names[i]] for i in left], settings)
    ignore_mirrors = settings.scale_down.ignore_mirror_pods_utilization
    used = utilization.measure(snapshot, rows, policies.ignore_daemonsets, ignore_mirrors, gpu_label, now_s)
    thresholds = np.where(used.gpu == utilization.NO_GPU, policies.thresholds, policies.gpu_thresholds)
    found[left], limits[left] = used.utilizations.utilization, thresholds
    for place in np.flatnonzero(used.utilizations.utilization > thresholds).tolist():
        reasons[left[place]] = Unremovable.NOT_UNDERUTILIZED
    told = {names[i]: place for place, i in enumerate(left)}
    for place, reason in _find_untold(snapshot, rows, used, settings):
        reasons[left[place]] = reason
        del told[names[left[place]]]
    return Eligibility(names, reasons, found, limits, told, used, min(changes_at_s, used.changes_at_s))


def _find_untold(
    snapshot: Snapshot, rows: dtypes.Rows, used: utilization.Usage, settings: Settings
) -> Iterator[tuple[int, Unremovable]]:
    """Nodes, by their place, about which something decides before their utilization does."""
    for place in np.flatnonzero(~used.utilizations.known).tolist():
        yield place, Unremovable.UNEXPECTED_ERROR
    if settings.scale_down.scale_down_unready_enabled:
        return
    for place in np.flatnonzero(used.utilizations.known).tolist():
        if not readiness.judge(snapshot.nodes.facts[rows[place]]).is_ready:
            yield place, Unremovable.SCALE_DOWN_UNREADY_DISABLED


def _judge_without_pods(
    snapshot: Snapshot,
    names: Sequence[str],
    group_of: Mapping[str, facts.NodeGroup],
    rechecks: Rechecks,
    now_s: float,
) -> list[Unremovable | None]:
    """What keeps each node, for all that it says of itself."""
    table = snapshot.nodes
    alive = table.alive.tolist()
    reasons: list[Unremovable | None] = []
    for name in names:
        row = table.rows.get(name)
        if row is None or not alive[row]:
            reasons.append(Unremovable.UNEXPECTED_ERROR)
        elif table.facts[row].unreadable:
            reasons.append(Unremovable.UNREADABLE_NODE)
        elif name in rechecks:
            reasons.append(Unremovable.RECENTLY_UNREMOVABLE)
        else:
            reasons.append(judge_node(table.facts[row], name in group_of, now_s))
    return reasons


def judge_node(node: facts.Node, has_group: bool, now_s: float) -> Unremovable | None:
    """What keeps a node, for all that it says of itself."""
    if node.taints and taints.is_being_deleted(node, now_s):
        return Unremovable.CURRENTLY_BEING_DELETED
    if node.annotations and has_scale_down_disabled(node):
        return Unremovable.SCALE_DOWN_DISABLED_ANNOTATION
    return None if has_group else Unremovable.NOT_AUTOSCALED


def _tell_times(
    snapshot: Snapshot, names: Sequence[str], reasons: Sequence[Unremovable | None], rechecks: Rechecks, now_s: float
) -> tuple[utilization.Floats, utilization.Floats, float]:
    """Where time decided, how long (n,) of how long (n,); and when the first of these times is over."""
    found, limits, changes_at_s = np.zeros(len(names)), np.zeros(len(names)), float("inf")
    if _TIMED.isdisjoint(reasons):
        return found, limits, changes_at_s
    for i, reason in enumerate(reasons):
        if reason is Unremovable.RECENTLY_UNREMOVABLE:
            over_s = rechecks[names[i]]
            limits[i] = over_s - now_s
        elif reason is Unremovable.CURRENTLY_BEING_DELETED:
            node = snapshot.nodes.facts[snapshot.nodes.rows[names[i]]]
            since_s = taints.marked_at_s(node, taints.TO_BE_DELETED) or 0.0
            found[i], limits[i] = now_s - since_s, taints.DELETION_TAKES_S
            over_s = since_s + taints.DELETION_TAKES_S
        else:
            continue
        changes_at_s = min(changes_at_s, over_s)
    return found, limits, changes_at_s


class _Policies:
    """What holds for each of n nodes by its group."""

    def __init__(self, groups: Sequence[facts.NodeGroup], settings: Settings) -> None:
        known: dict[str, int] = {}
        numbers = np.array([known.setdefault(group.id, len(known)) for group in groups], np.intp)
        first = {group.id: group for group in reversed(groups)}
        found = [for_group(settings, first[group_id].options) for group_id in known]
        self.thresholds = np.array([one.scale_down_utilization_threshold for one in found], float)[numbers]
        self.gpu_thresholds = np.array([one.scale_down_gpu_utilization_threshold for one in found], float)[numbers]
        self.ignore_daemonsets = np.array([one.ignore_daemonsets_utilization for one in found], bool)[numbers]
