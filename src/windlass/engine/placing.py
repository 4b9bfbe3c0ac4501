"""Placing pods of one shape, many at a time, as a scheduler that takes them one by one would.

The peer's search order is round-robin: every pod goes to the next feasible node after the one that took the last. For a
shape whose pods do not mind each other that has a closed form: fill level by level, in node order from the pointer.
Shapes that do mind each other (spread, affinity, anti-affinity) change what is feasible as they are placed: `runs.Run`
keeps that current, pod by pod, at the cost of the domains touched.

Nothing here writes to the snapshot: a plan is (rows, counts); the caller places it.
"""

from collections.abc import Callable

import numpy as np

from windlass.engine import dtypes, filling, gates, predicates, runs, shapes
from windlass.engine.predicates import fit
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot

_FEW, _PROBES, _GATES = 8, 4, 32
_FIRST_WINDOW, _WORTHWHILE = 64, 4


def is_plain(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> bool:
    """Do only the nodes' facts and free resources decide where pods of this shape go, however many there are?"""
    return asks_nothing(snapshot, shape, config) and not is_repelled(snapshot, shape)


def asks_nothing(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> bool:
    """Does the shape itself ask for nothing but resources and facts of nodes?"""
    spec = shape.spec
    asks = spec.spread or spec.affinity or spec.anti_affinity or spec.host_ports or config.default_constraints
    is_parsable = not (spec.spread_fault or spec.interpod_fault)
    return not asks and is_parsable and not gates.holds_disks(shape) and not gates.wants_devices(snapshot, shape)


def is_repelled(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Is any pod there whose anti-affinity matches the shape?"""
    if not snapshot.tallies.carriers:
        return False
    nodes = snapshot.nodes.count
    return any(snapshot.tallies.counts(tally, nodes).any() for _, tally in snapshot.tallies.repelling(shape))


class Placer:
    """Finds places for shapes on one snapshot. What holds until a node changes is looked up once per shape."""

    def __init__(self, snapshot: Snapshot, config: FilterConfig) -> None:
        self.snapshot, self.config = snapshot, config
        self._plain: dict[int, Plain | None] = {}
        self._gates: dict[int, gates.Gates] = {}
        self._version = snapshot.nodes.version

    def find_plain(self, shape: shapes.Shape) -> "Plain | None":
        """The shape against these nodes, if it is plain."""
        plain = self._find_plain(shape)
        return None if plain is None or is_repelled(self.snapshot, shape) else plain

    def place(self, shape: shapes.Shape, count: int, pointer: int, usable: dtypes.Mask) -> filling.Placed:
        """Find room for `count` pods on usable nodes, round-robin from the node after `pointer`.

        Places as many as fit; the rest failed. `usable` is bool (n_nodes): existing nodes that the caller accepts.
        """
        plain = self.find_plain(shape)
        if plain is not None:
            return plain.place(count, pointer, usable)
        if count > 1 and gates.goes_singly(self.snapshot, shape):
            return _place_singly(self.snapshot, shape, count, pointer, usable, self.config)
        if count == 1 and self._has_gates(shape):
            row = self._find_gates(shape).next(pointer, usable, _GATES)
            if row is not None:
                return filling.one_each(np.array([row]))
        run = runs.Run(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            rows = filling.rotate(np.flatnonzero(run.mask), pointer)
            return filling.fill_levels(rows, run.room[rows], count)
        return run.place_round_robin(count, pointer)

    def room_on(self, row: int, shape: shapes.Shape, count: int) -> int:
        """How many of `count` pods find room on one node."""
        plain = self.find_plain(shape)
        if plain is not None:
            return plain.room_on(row, count)
        if count == 1 and self._has_gates(shape):
            return int(self._find_gates(shape).lets_pass(row))
        only_there = np.zeros(self.snapshot.nodes.count, bool)
        only_there[row] = True
        return self.place(shape, count, row - 1, only_there).total

    def scatter(self, shape: shapes.Shape, count: int, rng: np.random.Generator, usable: dtypes.Mask) -> filling.Placed:
        """The same, but every pod starts at a random node and takes the first from there on that it fits on.

        So does the peer, because its list of nodes begins somewhere else after every pod that was placed.
        """
        if not len(usable):
            return filling.NOWHERE
        if gates.goes_singly(self.snapshot, shape):
            return self.place(shape, count, int(rng.integers(len(usable))), usable)
        run = runs.Run(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            return filling.fill_scattered(np.arange(len(usable)), np.where(run.mask, run.room, 0), count, rng)
        taken: list[int] = []
        while len(taken) < count and (row := run.next(int(rng.integers(len(usable))))) is not None:
            run.add(row)
            taken.append(row)
        return filling.one_by_one(taken)

    def _has_gates(self, shape: shapes.Shape) -> bool:
        return gates.has_gates(shape) and not gates.wants_devices(self.snapshot, shape)

    def _find_plain(self, shape: shapes.Shape) -> "Plain | None":
        self._forget_if_changed()
        if shape.id not in self._plain:
            found = (
                Plain(self.snapshot, shape, self.config) if asks_nothing(self.snapshot, shape, self.config) else None
            )
            self._forget_if_changed()  # a resource met for the first time makes a column, and moves the others
            self._plain[shape.id] = found
        return self._plain[shape.id]

    def _find_gates(self, shape: shapes.Shape) -> gates.Gates:
        self._forget_if_changed()
        found = self._gates.get(shape.id)
        if found is None:
            found = gates.Gates(self.snapshot, shape, self.config)
            self._forget_if_changed()  # as above
            self._gates[shape.id] = found
        return found

    def _forget_if_changed(self) -> None:
        if self._version != self.snapshot.nodes.version:
            self._plain.clear()
            self._gates.clear()
            self._version = self.snapshot.nodes.version


class Plain:
    """A plain shape against nodes that do not change, only fill up."""

    __slots__ = ("_allowed", "_capacity", "_columns")

    def __init__(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> None:
        checked = fit.checked(snapshot, shape, config)
        self._allowed = predicates.static_mask(snapshot, shape, config)
        self._columns = [(snapshot.nodes.free[column], amount) for column, amount in checked]
        self._capacity: Callable[[dtypes.Rows], dtypes.Amounts] = lambda rows: runs.capacity(
            snapshot, shape, rows, config
        )

    def place(self, count: int, pointer: int, usable: dtypes.Mask) -> filling.Placed:
        """Try the next few nodes; then a window of nodes, and a larger one; then the whole cluster.

        Usually the next node takes a single pod, and nothing else of the cluster need be looked at.
        """
        total = len(usable)
        if count <= _FEW:
            taken = self._probe(count, pointer, usable)
            if len(taken) == count:
                return filling.one_each(np.array(taken))
        window = max(_FIRST_WINDOW, 2 * count)
        while _WORTHWHILE * window < total:
            start = pointer + 1 if pointer + 1 < total else 0
            if start + window <= total:
                (found,) = self._fits(slice(start, start + window), usable).nonzero()
                if len(found) >= count:
                    return filling.one_each(found[:count] + start)
            window *= 8
        (found,) = self._fits(slice(None), usable).nonzero()
        if not len(found):
            return filling.NOWHERE
        rows = filling.rotate(found, pointer)
        if len(rows) >= count:
            return filling.one_each(rows[:count])
        return filling.fill_levels(rows, self._capacity(rows), count)

    def fits_on(self, row: int) -> bool:
        """Has the node room for one?"""
        return bool(self._allowed[row]) and all(free[row] >= amount for free, amount in self._columns)

    def room_on(self, row: int, count: int) -> int:
        """How many of `count` pods the node has room for."""
        if not self._allowed[row]:
            return 0
        for free, amount in self._columns:
            count = min(count, int(free[row]) // amount)
        return max(count, 0)

    def _probe(self, count: int, pointer: int, usable: dtypes.Mask) -> list[int]:
        """The next nodes that take one pod each, if few need be looked at."""
        taken: list[int] = []
        row, total, allowed, columns = pointer, len(usable), self._allowed, self._columns
        for _ in range(min(_PROBES * count, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and allowed[row]:
                for free, amount in columns:
                    if free[row] < amount:
                        break
                else:
                    taken.append(row)
                    if len(taken) == count:
                        break
        return taken

    def _fits(self, rows: slice, usable: dtypes.Mask) -> dtypes.Mask:
        fits: dtypes.Mask = self._allowed[rows] & usable[rows]
        for free, amount in self._columns:
            fits &= free[rows] >= amount
        return fits


def _place_singly(
    snapshot: Snapshot, shape: shapes.Shape, count: int, pointer: int, usable: dtypes.Mask, config: FilterConfig
) -> filling.Placed:
    """One at a time, the snapshot told of each: what volumes allow has no closed form. Left as it was found."""
    taken: list[int] = []
    snapshot.fork()
    try:
        while len(taken) < count:
            row = runs.Run(snapshot, shape, usable, config).next(pointer)
            if row is None:
                break
            snapshot.place(shape, row)
            taken.append(row)
            pointer = row
    finally:
        snapshot.revert()
    return filling.one_by_one(taken)
