"""Scale-down candidates: which nodes are considered, in which order, and how many removals are simulated.

Not candidates: nodes of groups at minimum size, of groups being rolled out or unable to choose the machine, and of
groups whose replicas another controller owns. Empty nodes come first, then nodes that were unneeded before.

With N parallel deletions per loop, more than N removable nodes beyond those already unneeded are of no use; nor are
more than N for each loop within the unneeded time.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from windlass.engine.cluster_state import remediation
from windlass.engine.model import arrays, deviations, node_groups, scale_down_state
from windlass.engine.scale_down import utilization
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def filter_above_min_size(names: Sequence[str], group_of: Mapping[str, node_groups.NodeGroup]) -> list[str]:
    """The nodes of groups above their minimum size."""
    return [name for name in names if (group := group_of.get(name)) and group.target_size > group.min_size]


def filter_choosable(
    names: Sequence[str], group_of: Mapping[str, node_groups.NodeGroup], active_deviations: deviations.Deviations
) -> list[str]:
    """The nodes whose group lets the provider delete a given instance."""
    return [name for name in names if _removes_this_node(group_of[name], active_deviations)]


def filter_removable_now(
    names: Sequence[str], group_of: Mapping[str, node_groups.NodeGroup], snapshot: Snapshot
) -> list[str]:
    """The nodes whose group can delete them now."""
    table = snapshot.nodes
    if not any(group.kept for group in group_of.values()):
        return list(names)
    return [name for name in names if table.facts[table.rows[name]].provider_id not in group_of[name].kept]


def _removes_this_node(group: node_groups.NodeGroup, active_deviations: deviations.Deviations) -> bool:
    if group.is_rolling_out or remediation.is_owned_elsewhere(group, active_deviations):
        return False
    return group.can_choose or group.target_size == 1 or not active_deviations.never_shrink_blindly


def sort_candidates(
    names: Sequence[str], snapshot: Snapshot, occupancy: utilization.Occupancy, unneeded_before: Collection[str]
) -> list[str]:
    """Empty nodes, then nodes that only wait for pods, then others; within each, previously unneeded nodes first."""
    rows = [snapshot.nodes.rows.get(name, arrays.ABSENT) for name in names]
    levels = np.append(occupancy, utilization.OCCUPIED)[
        rows
    ]  # the appended entry is for row -1: nodes that do not exist
    new = np.array([name not in unneeded_before for name in names], bool)
    return [names[i] for i in np.lexsort((new, levels)).tolist()]


def limit_simulations(
    unneeded_before: int, parallelism: int, unneeded_time_s: float, pace: scale_down_state.LoopInterval
) -> int:
    """How many removable nodes are enough: min(before + 2N, N·⌊U/I⌋ + N), U and I in whole nanoseconds.

    Before a second evaluation, I is U.
    """
    unneeded_ns = _nanoseconds(unneeded_time_s)
    interval_ns = unneeded_ns if pace.shortest_s is None else min(unneeded_ns, _nanoseconds(pace.shortest_s))
    loops = unneeded_ns // interval_ns
    return min(unneeded_before + 2 * parallelism, parallelism * loops + parallelism)


def _nanoseconds(seconds: float) -> int:
    """At least 1, so that two evaluations at the same time do not divide by zero."""
    return max(round(seconds * 1e9), 1)
