"""Scale-down eligibility: which candidates are worth simulating, each node alone.

The first of these that holds keeps a node:

    cannot be read in full                               UnreadableNode
    could not be removed lately                          RecentlyUnremovable
    tainted for deletion less than 5 minutes ago         CurrentlyBeingDeleted
    annotated cluster-autoscaler.kubernetes.io/scale-down-disabled=true
                                                         ScaleDownDisabledAnnotation
    belongs to no group                                  NotAutoscaled
    shows no allocatable cpu or memory                   UnexpectedError
    not ready, and such nodes are not to be removed      ScaleDownUnreadyDisabled
    utilization above the threshold (equal is not above) NotUnderutilized
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from windlass.engine import taints
from windlass.engine.cluster_state import readiness
from windlass.engine.model import arrays, facts, node_groups, scale_down_state, well_known
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings, for_group
from windlass.engine.scale_down import utilization
from windlass.engine.snapshot.cluster_snapshot import Snapshot

_TIMED = frozenset({UnremovableReason.RECENTLY_UNREMOVABLE, UnremovableReason.CURRENTLY_BEING_DELETED})
"""Reasons that expire with time."""


def prune_rechecks(rechecks: scale_down_state.RecheckTimes, snapshot: Snapshot, now_s: float) -> dict[str, float]:
    """The entries that have not expired and whose nodes exist."""
    return {name: until_s for name, until_s in rechecks.items() if until_s > now_s and name in snapshot.nodes.rows}


def check_eligibility(
    snapshot: Snapshot,
    names: Sequence[str],
    group_of: Mapping[str, node_groups.NodeGroup],
    rechecks: scale_down_state.RecheckTimes,
    settings: Settings,
    now_s: float,
    gpu_label: str,
) -> scale_down_state.EligibilityResult:
    """Check these candidates, each independently of the others."""
    reasons = _check_nodes(snapshot, names, group_of, rechecks, now_s)
    verdicts, limits, changes_at_s = _find_times(snapshot, names, reasons, rechecks, now_s)
    remaining = [i for i, reason in enumerate(reasons) if reason is None]
    rows = np.array([snapshot.nodes.rows[names[i]] for i in remaining], np.intp)
    policies = _GroupPolicies([group_of[names[i]] for i in remaining], settings)
    ignore_mirrors = settings.scale_down.ignore_mirror_pods_utilization
    used = utilization.measure_utilization(snapshot, rows, policies.ignore_daemonsets, ignore_mirrors, gpu_label, now_s)
    thresholds = np.where(used.gpu == utilization.NO_GPU, policies.thresholds, policies.gpu_thresholds)
    verdicts[remaining], limits[remaining] = used.utilizations.utilization, thresholds
    for place in np.flatnonzero(used.utilizations.utilization > thresholds).tolist():
        reasons[remaining[place]] = UnremovableReason.NOT_UNDERUTILIZED
    utilization_positions = {names[i]: place for place, i in enumerate(remaining)}
    for place, reason in _find_unmeasured(snapshot, rows, used, settings):
        reasons[remaining[place]] = reason
        del utilization_positions[names[remaining[place]]]
    return scale_down_state.EligibilityResult(
        names, reasons, verdicts, limits, utilization_positions, used, min(changes_at_s, used.changes_at_s)
    )


def _find_unmeasured(
    snapshot: Snapshot, rows: arrays.Rows, used: scale_down_state.UtilizationTable, settings: Settings
) -> Iterator[tuple[int, UnremovableReason]]:
    """Positions of the nodes that are decided without their utilization."""
    for place in np.flatnonzero(~used.utilizations.known).tolist():
        yield place, UnremovableReason.UNEXPECTED_ERROR
    if settings.scale_down.scale_down_unready_enabled:
        return
    for place in np.flatnonzero(used.utilizations.known).tolist():
        if not readiness.assess_node(snapshot.nodes.facts[rows[place]]).is_ready:
            yield place, UnremovableReason.SCALE_DOWN_UNREADY_DISABLED


def _check_nodes(
    snapshot: Snapshot,
    names: Sequence[str],
    group_of: Mapping[str, node_groups.NodeGroup],
    rechecks: scale_down_state.RecheckTimes,
    now_s: float,
) -> list[UnremovableReason | None]:
    """The reason that each node's own facts give against its removal."""
    table = snapshot.nodes
    alive = table.alive.tolist()
    reasons: list[UnremovableReason | None] = []
    for name in names:
        row = table.rows.get(name)
        if row is None or not alive[row]:
            reasons.append(UnremovableReason.UNEXPECTED_ERROR)
        elif table.facts[row].unreadable:
            reasons.append(UnremovableReason.UNREADABLE_NODE)
        elif name in rechecks:
            reasons.append(UnremovableReason.RECENTLY_UNREMOVABLE)
        else:
            reasons.append(check_node(table.facts[row], name in group_of, now_s))
    return reasons


def check_node(node: facts.Node, has_group: bool, now_s: float) -> UnremovableReason | None:
    """The reason that a node's own facts give against its removal; None without one."""
    if node.taints and taints.is_being_deleted(node, now_s):
        return UnremovableReason.CURRENTLY_BEING_DELETED
    if node.annotations and well_known.has_scale_down_disabled(node):
        return UnremovableReason.SCALE_DOWN_DISABLED_ANNOTATION
    return None if has_group else UnremovableReason.NOT_AUTOSCALED


def _find_times(
    snapshot: Snapshot,
    names: Sequence[str],
    reasons: Sequence[UnremovableReason | None],
    rechecks: scale_down_state.RecheckTimes,
    now_s: float,
) -> tuple[scale_down_state.Floats, scale_down_state.Floats, float]:
    """float64 (n,) elapsed and (n,) limit where a time decided; and when the first of them ends."""
    verdicts, limits, changes_at_s = np.zeros(len(names)), np.zeros(len(names)), float("inf")
    if _TIMED.isdisjoint(reasons):
        return verdicts, limits, changes_at_s
    for i, reason in enumerate(reasons):
        if reason is UnremovableReason.RECENTLY_UNREMOVABLE:
            over_s = rechecks[names[i]]
            limits[i] = over_s - now_s
        elif reason is UnremovableReason.CURRENTLY_BEING_DELETED:
            node = snapshot.nodes.facts[snapshot.nodes.rows[names[i]]]
            since_s = taints.marked_at_s(node, taints.TO_BE_DELETED_KEY) or 0.0
            verdicts[i], limits[i] = now_s - since_s, taints.DELETION_TAKES_S
            over_s = since_s + taints.DELETION_TAKES_S
        else:
            continue
        changes_at_s = min(changes_at_s, over_s)
    return verdicts, limits, changes_at_s


class _GroupPolicies:
    """Settings of n nodes by their groups, as columns."""

    def __init__(self, groups: Sequence[node_groups.NodeGroup], settings: Settings) -> None:
        known: dict[str, int] = {}
        numbers = np.array([known.setdefault(group.id, len(known)) for group in groups], np.intp)
        first = {group.id: group for group in reversed(groups)}
        group_defaultses = [for_group(settings, first[group_id].options) for group_id in known]
        self.thresholds = np.array(
            [group_defaults.scale_down_utilization_threshold for group_defaults in group_defaultses], float
        )[numbers]
        self.gpu_thresholds = np.array(
            [options.scale_down_gpu_utilization_threshold for options in group_defaultses], float
        )[numbers]
        self.ignore_daemonsets = np.array(
            [options.ignore_daemonsets_utilization for options in group_defaultses], bool
        )[numbers]
