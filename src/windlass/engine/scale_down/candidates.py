"""Candidates: which nodes could go at all, in which order they are tried, and how many.

Nodes of a group at or below its minimum are no candidates: nothing is said of them. Nor are nodes of a group of which
nobody can say which node goes when it shrinks: one that is being rolled out, or that cannot choose; nor those of a
group whose size another controller applies, because a new node would come in their place. Empty nodes come first,
because they cost nobody anything; then nodes that were unneeded before, because their time has begun to run.

Trying is limited. With N nodes deleted per loop, more than N can be used only in later loops; so N beyond those already
unneeded are enough, and N to spare. If a node is unneeded for U before it goes and a loop takes I, the nodes of U/I
loops are on their way at the same time, and more than these would only queue up.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windlass.engine import deviations, dtypes, facts, pod_traits, replicas_owners
from windlass.engine.drain import context, rules
from windlass.engine.drain.outcome import Action
from windlass.engine.scale_down import kinds
from windlass.engine.snapshot import Snapshot

EMPTY, WAITING, OCCUPIED = 0, 1, 2
"""Nothing to be moved; nothing but pods to be waited for; pods to be moved, or one that must not be."""

Occupancy = npt.NDArray[np.int8]
"""Int8 (n_nodes): one of the three above."""


def above_min(names: Sequence[str], group_of: Mapping[str, facts.NodeGroup]) -> list[str]:
    """The nodes of groups that are larger than they must be."""
    return [name for name in names if (group := group_of.get(name)) and group.target_size > group.min_size]


def leave_out_unchosen(
    names: Sequence[str], group_of: Mapping[str, facts.NodeGroup], chosen: deviations.Deviations
) -> list[str]:
    """The nodes that would be the ones to go if their group shrank because of them."""
    return [name for name in names if _goes_itself(group_of[name], chosen)]


def leave_out_kept(names: Sequence[str], group_of: Mapping[str, facts.NodeGroup], snapshot: Snapshot) -> list[str]:
    """The nodes whose groups can remove them now."""
    table = snapshot.nodes
    if not any(group.kept for group in group_of.values()):
        return list(names)
    return [name for name in names if table.facts[table.rows[name]].provider_id not in group_of[name].kept]


def _goes_itself(group: facts.NodeGroup, chosen: deviations.Deviations) -> bool:
    if group.is_rolling_out or replicas_owners.is_left_alone(group, chosen):
        return False
    return group.can_choose or group.target_size == 1 or not chosen.never_shrink_blindly


# ── Order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_occupancy(snapshot: Snapshot, options: context.Options, now_s: float) -> Occupancy:
    """What of each node's pods would have to be moved, asking the drain rules but neither budgets nor controllers."""
    about = context.Context(now_s, options)
    codes = kinds.ask(snapshot.pods, lambda pod: _occupies(pod, about), ("occupied", options))
    for row, gone_at_s in kinds.terminating(snapshot.pods):
        if gone_at_s < now_s:
            codes[row] = EMPTY
    occupancy = np.zeros(snapshot.nodes.count, np.int8)
    for code in (WAITING, OCCUPIED):
        occupancy[snapshot.pods.node_rows[codes == code]] = code
    return occupancy


def _occupies(pod: facts.Pod, about: context.Context) -> int:
    outcome = rules.judge(pod, about)
    action = Action.DRAIN if outcome is None else outcome.action
    if action is Action.WAIT:
        return WAITING
    if action is Action.SKIP or (action is Action.DRAIN and pod_traits.is_daemonset(pod)):
        return EMPTY
    return OCCUPIED


def sort(names: Sequence[str], snapshot: Snapshot, occupancy: Occupancy, unneeded_before: Collection[str]) -> list[str]:
    """Empty nodes, then those that only wait, then others; within each, those unneeded before come first."""
    rows = [snapshot.nodes.rows.get(name, dtypes.ABSENT) for name in names]
    levels = np.append(occupancy, OCCUPIED)[rows]  # the last stands for nodes that are not there
    new = np.array([name not in unneeded_before for name in names], bool)
    return [names[i] for i in np.lexsort((new, levels)).tolist()]


# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pace:
    """How often nodes are looked at: when last, and the shortest time that was ever between two looks."""

    latest_s: float | None = None
    shortest_s: float | None = None
    """None before the second look."""

    def look(self, now_s: float) -> "Pace":
        """The pace after looking now."""
        if self.latest_s is None:
            return Pace(now_s, self.shortest_s)
        between_s = now_s - self.latest_s
        return Pace(now_s, between_s if self.shortest_s is None else min(self.shortest_s, between_s))


def limit_trials(unneeded_before: int, parallelism: int, unneeded_time_s: float, pace: Pace) -> int:
    """How many removable nodes are enough: min(before + 2N, N·⌊U/I⌋ + N), U and I in whole nanoseconds.

    Without a second look yet, I is U: nobody knows better.
    """
    unneeded_ns = _nanoseconds(unneeded_time_s)
    interval_ns = unneeded_ns if pace.shortest_s is None else min(unneeded_ns, _nanoseconds(pace.shortest_s))
    loops = unneeded_ns // interval_ns
    return min(unneeded_before + 2 * parallelism, parallelism * loops + parallelism)


def _nanoseconds(seconds: float) -> int:
    """At least one: two looks at the same moment are not infinitely many."""
    return max(round(seconds * 1e9), 1)
