"""Searching places for pods that exist: pending ones on nodes that are there, those of a node that should go elsewhere.

Pods of higher priority first. Within a priority the peer takes pods in no particular order, so windlass takes pods of
one shape together, in order of first appearance. Pods go back to where they were placed the last time if they still
fit there (hints); all others go round-robin from the node after the last match.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from windlass.engine import dtypes, placing, shapes
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


class Hints:
    """Where pods were placed lately: pod uid -> node name. Losing them changes speed and choice, never whether."""

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def get(self, uid: str) -> str | None:
        return self._current.get(uid) or self._old.get(uid)

    def set(self, uid: str, node_name: str) -> None:
        self._current[uid] = node_name

    def drop_old(self) -> None:
        """Forget what was not confirmed since the last time this was called."""
        self._old, self._current = self._current, {}

    def __bool__(self) -> bool:
        return bool(self._current or self._old)


@dataclass(slots=True)
class Search:
    """Where the round-robin stands, and what it found before."""

    pointer: int = -1
    hints: Hints = field(default_factory=Hints)


@dataclass(frozen=True, slots=True)
class Found:
    """Pods that have a place now, and those that have none (all that were not tried included)."""

    placed: list[int]
    failed: list[int]


def find_places(
    snapshot: Snapshot,
    pod_rows: Sequence[int],
    search: Search,
    usable: dtypes.Mask,
    config: FilterConfig,
    all_or_nothing: bool = False,
) -> Found:
    """Bind waiting pods to usable nodes that have room for them.

    With `all_or_nothing` the search ends at the first pod that fits nowhere; the caller reverts.
    """
    usable = usable & ~snapshot.nodes.unschedulable  # the peer never looks at cordoned nodes, tolerated or not
    placed: list[int] = []
    failed: list[int] = []
    for group in by_priority(snapshot, pod_rows):
        without = _follow_hints(snapshot, group, search, usable, config, placed) if search.hints else group
        for shape_id, rows in by_shape(snapshot, without):
            shape = snapshot.shapes[shape_id]
            taken = _place(snapshot, shape, rows, search, usable, config)
            placed += rows[:taken]
            failed += rows[taken:]
            if all_or_nothing and failed:
                return Found(placed, failed)
    return Found(placed, failed)


def by_priority(snapshot: Snapshot, pod_rows: Iterable[int]) -> list[list[int]]:
    """Pods by priority, highest first; within one, as given."""
    groups: dict[int, list[int]] = {}
    for row in pod_rows:
        groups.setdefault(snapshot.shape_of_row(row).spec.priority, []).append(row)
    return [groups[priority] for priority in sorted(groups, reverse=True)]


def by_shape(snapshot: Snapshot, pod_rows: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Pods by shape, in order of first appearance."""
    groups: dict[int, list[int]] = {}
    for row, shape_id in zip(pod_rows, snapshot.pods.shape_ids[pod_rows].tolist(), strict=True):
        groups.setdefault(shape_id, []).append(row)
    return list(groups.items())


def _place(
    snapshot: Snapshot,
    shape: shapes.Shape,
    rows: list[int],
    search: Search,
    usable: dtypes.Mask,
    config: FilterConfig,
) -> int:
    """Bind as many of the rows as find a place, first ones first; return how many."""
    found = placing.place(snapshot, shape, len(rows), search.pointer, usable, config)
    total = found.total
    if total:
        search.pointer = found.last
        snapshot.bind_many(rows[:total], found.rows, found.counts)
        _remember(snapshot, rows[:total], search.hints)
    return total


def _remember(snapshot: Snapshot, rows: list[int], hints: Hints) -> None:
    names, uids = snapshot.nodes.names, snapshot.pods.uids
    for row, node_row in zip(rows, snapshot.pods.node_rows[rows].tolist(), strict=True):
        hints.set(uids[row], names[node_row])


def _follow_hints(
    snapshot: Snapshot,
    rows: list[int],
    search: Search,
    usable: dtypes.Mask,
    config: FilterConfig,
    placed: list[int],
) -> list[int]:
    """Put pods back where they were placed the last time; return those that need a search."""
    without: list[int] = []
    hinted: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        name = search.hints.get(snapshot.pods.uids[row])
        node_row = None if name is None else snapshot.nodes.rows.get(name)
        if node_row is None or not usable[node_row]:
            without.append(row)
        else:
            hinted.setdefault((int(snapshot.pods.shape_ids[row]), node_row), []).append(row)
    for (shape_id, node_row), together in hinted.items():
        only_there = np.zeros(snapshot.nodes.count, bool)
        only_there[node_row] = True
        found = placing.place(snapshot, snapshot.shapes[shape_id], len(together), -1, only_there, config)
        total = found.total
        if total:
            snapshot.bind_many(together[:total], found.rows, found.counts)
            _remember(snapshot, together[:total], search.hints)
            placed += together[:total]
        without += together[total:]
    return without
