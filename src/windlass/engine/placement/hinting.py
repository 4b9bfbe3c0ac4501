"""Hinting simulator: binds pending pods to nodes that have room, first where each was placed the last time.

Pods of higher priority first. Within a priority Cluster Autoscaler has no order; windlass takes pods of one shape
alike_rows, large ones first, which places more of them, or interleaves shapes and starts each pod at a random node
(`HintingState.scatter`). Pods without a valid hint go round-robin from the node after the last match.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.dra import resource_claims
from windlass.engine.model import arrays, facts
from windlass.engine.placement import batch_placement

if TYPE_CHECKING:
    from windlass.engine.placement import shape_placer
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

ShapeRows = tuple[facts.PodShape, list[int]]
"""Pods of one shape."""

_PARTS_PER_SHAPE = 8
"""Maximum number of parts into which `interleave_shapes` divides the pods of a shape."""


class PlacementHints:
    """Last placement of pods: pod uid -> node name. Hints affect speed and choice, not feasibility."""

    __slots__ = ("_current", "_unmerged", "old")

    def __init__(self, current: dict[str, str] | None = None, old: dict[str, str] | None = None) -> None:
        self._current, self.old = current if current is not None else {}, old if old is not None else {}
        self._unmerged: list[tuple[Snapshot, arrays.Rows, batch_placement.Placement]] = []

    @property
    def current(self) -> dict[str, str]:
        """Hints of this round, merged on access: pods may be placed many times before that."""
        if self._unmerged:
            snapshot = self._unmerged[0][0]
            node_row_per_pod = np.full(len(snapshot.pods.uids), arrays.ABSENT)
            rows = np.concatenate([rows for _, rows, _ in self._unmerged])
            node_row_per_pod[rows] = np.concatenate([placed.node_row_per_pod() for *_, placed in self._unmerged])
            (known,) = (node_row_per_pod != arrays.ABSENT).nonzero()
            uids = map(snapshot.pods.uids.__getitem__, known.tolist())
            self._current.update(
                zip(uids, map(snapshot.nodes.names.__getitem__, node_row_per_pod[known].tolist()), strict=True)
            )
            self._unmerged.clear()
        return self._current

    def note(self, snapshot: "Snapshot", rows: Sequence[int] | arrays.Rows, placed: batch_placement.Placement) -> None:
        """Record a placement of these pods; the last one counts."""
        self._unmerged.append((snapshot, np.asarray(rows, np.intp), placed))

    def suggest(self, places: Iterable[Mapping[str, str]]) -> None:
        """Try these nodes first for pods that have no hint, by uid."""
        for suggested in places:
            self.old = {**suggested, **self.old}

    def drop_old(self) -> None:
        """Drop the hints that were not confirmed since the last call."""
        self.old, self._current = self.current, {}

    def __bool__(self) -> bool:
        return bool(self.current or self.old)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementHints) and (self.current, self.old) == (other.current, other.old)


@dataclass(slots=True)
class HintingState:
    """Round-robin pointer and placement hints."""

    pointer: int = -1
    hints: PlacementHints = field(default_factory=PlacementHints)
    scatter: np.random.Generator | None = None
    """Search as Cluster Autoscaler does: shapes interleaved, each pod from a random node. Packs less tightly."""

    def next_loop(self, scatter: np.random.Generator | None) -> "HintingState":
        """A search that goes on where this one stands, and leaves it as it is."""
        return HintingState(self.pointer, PlacementHints(dict(self.hints.current), dict(self.hints.old)), scatter)


@dataclass(frozen=True, slots=True)
class SchedulingResult:
    """Pods that have a place now, and those that have none (all that were not tried included)."""

    placed: list[int]
    failed: list[int]


def try_schedule_pods(
    placer: "shape_placer.Placer",
    pod_rows: Sequence[int],
    search: HintingState,
    usable: arrays.Mask,
    all_or_nothing: bool = False,
    last: AbstractSet[int] = frozenset(),
) -> SchedulingResult:
    """Bind waiting pods to usable nodes that have room for them.

    With `all_or_nothing` the search ends at the first pod that fits nowhere; the caller reverts. Pods in `last` come
    after the others of their priority, unless they go back to where they were placed the last time.
    """
    snapshot = placer.snapshot
    usable = usable & ~snapshot.nodes.unschedulable  # as in Cluster Autoscaler, also if tolerated
    scheduling_result = SchedulingResult([], [])
    for groups in group_by_priority(snapshot, pod_rows):
        if search.hints.old:
            groups = _apply_hints(placer, groups, search, usable, scheduling_result.placed)
        order = interleave_shapes if search.scatter else functools.partial(sort_by_size, snapshot)
        for shape, rows in order(groups) if not last else itertools.chain(*map(order, _split_last(groups, last))):
            shape = _representative_shape(snapshot, shape, rows)
            if search.scatter is None:
                placed = placer.place(shape, len(rows), search.pointer, usable)
            else:
                placed = placer.scatter(shape, len(rows), search.scatter, usable)
            total = placed.total
            if total:
                search.pointer = placed.last
                _bind(snapshot, rows[:total], placed, search.hints)
                scheduling_result.placed.extend(rows[:total])
            if total < len(rows):
                scheduling_result.failed.extend(rows[total:])
                if all_or_nothing:
                    return scheduling_result
    return scheduling_result


def _split_last(groups: list[ShapeRows], last: AbstractSet[int]) -> Iterator[list[ShapeRows]]:
    """The pods that are not in `last`, then those that are."""
    for is_last in (False, True):
        parts = [(shape, [row for row in rows if (row in last) is is_last]) for shape, rows in groups]
        yield [(shape, rows) for shape, rows in parts if rows]


def find_plain_shape(
    placer: "shape_placer.Placer", pod_rows: arrays.Rows, search: HintingState
) -> "shape_placer.PlainShape | None":
    """The plain shape of these pods, whose placement can be predicted without a fork.

    None where the pods are not all alike, mind other pods, or have hints.
    """
    snapshot, hints = placer.snapshot, search.hints
    if not len(pod_rows) or search.scatter is not None or snapshot.devices.inventory.claims:
        return None
    shape_ids = snapshot.pods.shape_ids[pod_rows]
    if (shape_ids != shape_ids[0]).any():
        return None
    plain = placer.find_plain(snapshot.shapes[shape_ids[0]])
    if plain is None:
        return None
    if hints.old and not hints.old.keys().isdisjoint(map(snapshot.pods.uids.__getitem__, pod_rows.tolist())):
        return None
    return plain


def predict_placement(
    placer: "shape_placer.Placer",
    plain: "shape_placer.PlainShape",
    pod_rows: arrays.Rows,
    search: HintingState,
    usable: arrays.Mask,
) -> batch_placement.Placement:
    """Where `find_places` would put such pods of a node once they were taken off it, none of `usable`.

    Wherever some are put, the search goes on from there, as it would.
    """
    placed = plain.place(len(pod_rows), search.pointer, usable)
    if placed.total:
        search.pointer = placed.last
        search.hints.note(placer.snapshot, pod_rows[: placed.total], placed)
    return placed


def group_by_priority(snapshot: "Snapshot", pod_rows: Sequence[int]) -> list[list[ShapeRows]]:
    """Pods by priority, highest first; within one by shape, in order of first appearance."""
    shape_ids = snapshot.pods.shape_ids[list(pod_rows)].tolist()
    if snapshot.devices.inventory.claims:
        shape_ids = resource_claims.representative_shapes(snapshot, shape_ids)
    if shape_ids and shape_ids.count(shape_ids[0]) == len(shape_ids):
        return [[(snapshot.shapes[shape_ids[0]], list(pod_rows))]]
    alike_rows: dict[int, list[int]] = {}
    for row, shape_id in zip(pod_rows, shape_ids, strict=True):
        alike_rows.setdefault(shape_id, []).append(row)
    groups: dict[int, list[ShapeRows]] = {}
    for shape_id, rows in alike_rows.items():
        shape = snapshot.shapes[shape_id]
        groups.setdefault(shape.spec.priority or 0, []).append((shape, rows))
    return [groups[priority] for priority in sorted(groups, reverse=True)]


def _representative_shape(snapshot: "Snapshot", shape: facts.PodShape, rows: list[int]) -> facts.PodShape:
    """The shape to place for these pods: that of the first row if pods have claims of their own."""
    return snapshot.shape_of_row(rows[0]) if shape.spec.claims else shape


def sort_by_size(snapshot: "Snapshot", groups: list[ShapeRows]) -> list[ShapeRows]:
    """Shapes that need most of a node first."""
    if len(groups) < 2:
        return groups
    return sorted(groups, key=lambda alike: -snapshot.size_of(alike[0]))


def interleave_shapes(groups: list[ShapeRows]) -> list[ShapeRows]:
    """Shapes in turns: each is cut into a few parts, and the parts are spread evenly over the whole."""
    if len(groups) < 2:
        return groups
    parts: list[tuple[float, int, ShapeRows]] = []
    for number, (shape, rows) in enumerate(groups):
        length = -(-len(rows) // _PARTS_PER_SHAPE)
        for start in range(0, len(rows), length):
            part = rows[start : start + length]
            parts.append(((start + len(part) / 2) / len(rows), number, (shape, part)))
    return [alike for _, _, alike in sorted(parts, key=lambda part: part[:2])]


def _bind(snapshot: "Snapshot", rows: list[int], placed: batch_placement.Placement, hints: PlacementHints) -> None:
    if len(rows) == 1:
        snapshot.bind(rows[0], placed.last)
    else:
        snapshot.bind_many(rows, placed.rows, placed.counts)
    hints.note(snapshot, rows, placed)


def _apply_hints(
    placer: "shape_placer.Placer",
    groups: list[ShapeRows],
    search: HintingState,
    usable: arrays.Mask,
    hinted_rows: list[int],
) -> list[ShapeRows]:
    """Bind pods to their hinted nodes; return those that need a search.

    Hints of this round are no use: they name the node that the pod is on, or was taken off just now.
    """
    snapshot = placer.snapshot
    uids, node_rows = snapshot.pods.uids, snapshot.nodes.rows
    old = search.hints.old
    remaining: list[ShapeRows] = []
    for shape, rows in groups:
        without: list[int] = []
        hinted: dict[int, list[int]] = {}
        for row in rows:
            name = old.get(uids[row])
            node_row = -1 if name is None else node_rows.get(name, -1)
            if node_row < 0 or not usable[node_row]:
                without.append(row)
            else:
                hinted.setdefault(node_row, []).append(row)
        for node_row, alike_rows in hinted.items():
            total = placer.room_on(node_row, _representative_shape(snapshot, shape, alike_rows), len(alike_rows))
            if total:
                _bind(snapshot, alike_rows[:total], batch_placement.place_all_on(node_row, total), search.hints)
                hinted_rows.extend(alike_rows[:total])
            without += alike_rows[total:]
        if without:
            remaining.append((shape, without))
    return remaining
