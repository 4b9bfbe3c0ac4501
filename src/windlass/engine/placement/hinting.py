"""Hinting simulator: binds pending pods to nodes that have room, first where each was placed the last time.

Pods of higher priority first. Within a priority Cluster Autoscaler has no order; windlass takes pods of one shape
together, large ones first, which places more of them, or interleaves shapes and starts each pod at a random node
(`HintingState.scatter`). Pods without a valid hint go round-robin from the node after the last match.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from windlass.engine.dra import reservations
from windlass.engine.model import arrays, facts
from windlass.engine.placement import batch_placement, shape_placer
from windlass.engine.snapshot.snapshot import Snapshot

ShapeRows = tuple[facts.PodShape, list[int]]
"""Pods of one shape."""

_PARTS_PER_SHAPE = 8
"""Into how many parts the pods of a shape are cut, at most."""


class PlacementHints:
    """Where pods were placed lately: pod uid -> node name. Losing them changes speed and choice, never whether."""

    __slots__ = ("_current", "_noted", "old")

    def __init__(self, current: dict[str, str] | None = None, old: dict[str, str] | None = None) -> None:
        self._current, self.old = current if current is not None else {}, old if old is not None else {}
        self._noted: list[tuple[Snapshot, arrays.Rows, batch_placement.Placement]] = []

    @property
    def current(self) -> dict[str, str]:
        """Those of this round. They are put together when someone asks: pods may be placed many times before that."""
        if self._noted:
            snapshot = self._noted[0][0]
            homes = np.full(len(snapshot.pods.uids), arrays.ABSENT)
            rows = np.concatenate([rows for _, rows, _ in self._noted])
            homes[rows] = np.concatenate([placed.homes() for *_, placed in self._noted])
            (known,) = (homes != arrays.ABSENT).nonzero()
            uids = map(snapshot.pods.uids.__getitem__, known.tolist())
            self._current.update(zip(uids, map(snapshot.nodes.names.__getitem__, homes[known].tolist()), strict=True))
            self._noted.clear()
        return self._current

    def note(self, snapshot: Snapshot, rows: Sequence[int] | arrays.Rows, placed: batch_placement.Placement) -> None:
        """These pods were placed so; the last time counts."""
        self._noted.append((snapshot, np.asarray(rows, np.intp), placed))

    def suggest(self, places: Iterable[Mapping[str, str]]) -> None:
        """Try these nodes first for pods that have no hint, by uid."""
        for suggested in places:
            self.old = {**suggested, **self.old}

    def drop_old(self) -> None:
        """Forget what was not confirmed since the last time this was called."""
        self.old, self._current = self.current, {}

    def __bool__(self) -> bool:
        return bool(self.current or self.old)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementHints) and (self.current, self.old) == (other.current, other.old)


@dataclass(slots=True)
class HintingState:
    """Where the round-robin stands, and what it found before."""

    pointer: int = -1
    hints: PlacementHints = field(default_factory=PlacementHints)
    scatter: np.random.Generator | None = None
    """Search as the peer does: pods of different shapes in turns, each from a random node on. Packs less tightly."""

    def next_loop(self, scatter: np.random.Generator | None) -> "HintingState":
        """A search that goes on where this one stands, and leaves it as it is."""
        return HintingState(self.pointer, PlacementHints(dict(self.hints.current), dict(self.hints.old)), scatter)


@dataclass(frozen=True, slots=True)
class SchedulingResult:
    """Pods that have a place now, and those that have none (all that were not tried included)."""

    placed: list[int]
    failed: list[int]


def try_schedule_pods(
    placer: shape_placer.Placer,
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
    usable = usable & ~snapshot.nodes.unschedulable  # the peer never looks at cordoned nodes, tolerated or not
    found = SchedulingResult([], [])
    for groups in group_by_priority(snapshot, pod_rows):
        if search.hints.old:
            groups = _follow_hints(placer, groups, search, usable, found.placed)
        order = interleave_shapes if search.scatter else functools.partial(sort_by_size, snapshot)
        for shape, rows in order(groups) if not last else itertools.chain(*map(order, _split(groups, last))):
            shape = _representative_shape(snapshot, shape, rows)
            if search.scatter is None:
                placed = placer.place(shape, len(rows), search.pointer, usable)
            else:
                placed = placer.scatter(shape, len(rows), search.scatter, usable)
            total = placed.total
            if total:
                search.pointer = placed.last
                _bind(snapshot, rows[:total], placed, search.hints)
                found.placed.extend(rows[:total])
            if total < len(rows):
                found.failed.extend(rows[total:])
                if all_or_nothing:
                    return found
    return found


def _split(groups: list[ShapeRows], last: AbstractSet[int]) -> Iterator[list[ShapeRows]]:
    """The pods that are not in `last`, then those that are."""
    for is_last in (False, True):
        parts = [(shape, [row for row in rows if (row in last) is is_last]) for shape, rows in groups]
        yield [(shape, rows) for shape, rows in parts if rows]


def find_plain_shape(
    placer: shape_placer.Placer, pod_rows: arrays.Rows, search: HintingState
) -> shape_placer.PlainShape | None:
    """The shape of pods of which it can be told where they go before it is tried.

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
    placer: shape_placer.Placer,
    plain: shape_placer.PlainShape,
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


def group_by_priority(snapshot: Snapshot, pod_rows: Sequence[int]) -> list[list[ShapeRows]]:
    """Pods by priority, highest first; within one by shape, in order of first appearance."""
    shape_ids = snapshot.pods.shape_ids[list(pod_rows)].tolist()
    if snapshot.devices.inventory.claims:
        shape_ids = reservations.representative_shapes(snapshot, shape_ids)
    if shape_ids and shape_ids.count(shape_ids[0]) == len(shape_ids):
        return [[(snapshot.shapes[shape_ids[0]], list(pod_rows))]]
    together: dict[int, list[int]] = {}
    for row, shape_id in zip(pod_rows, shape_ids, strict=True):
        together.setdefault(shape_id, []).append(row)
    groups: dict[int, list[ShapeRows]] = {}
    for shape_id, rows in together.items():
        shape = snapshot.shapes[shape_id]
        groups.setdefault(shape.spec.priority or 0, []).append((shape, rows))
    return [groups[priority] for priority in sorted(groups, reverse=True)]


def _representative_shape(snapshot: Snapshot, shape: facts.PodShape, rows: list[int]) -> facts.PodShape:
    """The shape that speaks for these pods: with claims of its own, each has one, and one that is placed has them."""
    return snapshot.shape_of_row(rows[0]) if shape.spec.claims else shape


def sort_by_size(snapshot: Snapshot, groups: list[ShapeRows]) -> list[ShapeRows]:
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


def _bind(snapshot: Snapshot, rows: list[int], placed: batch_placement.Placement, hints: PlacementHints) -> None:
    if len(rows) == 1:
        snapshot.bind(rows[0], placed.last)
    else:
        snapshot.bind_many(rows, placed.rows, placed.counts)
    hints.note(snapshot, rows, placed)


def _follow_hints(
    placer: shape_placer.Placer, groups: list[ShapeRows], search: HintingState, usable: arrays.Mask, found: list[int]
) -> list[ShapeRows]:
    """Put pods back where they were placed the last time; return those that need a search.

    Hints of this round are no use: they name the node that the pod is on, or was taken off just now.
    """
    snapshot = placer.snapshot
    uids, node_rows = snapshot.pods.uids, snapshot.nodes.rows
    old = search.hints.old
    left: list[ShapeRows] = []
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
        for node_row, together in hinted.items():
            total = placer.room_on(node_row, _representative_shape(snapshot, shape, together), len(together))
            if total:
                _bind(snapshot, together[:total], batch_placement.place_all_on(node_row, total), search.hints)
                found.extend(together[:total])
            without += together[total:]
        if without:
            left.append((shape, without))
    return left
