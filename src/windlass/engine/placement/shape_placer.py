"""The placer: finds nodes for pods of one shape, many at a time, as a scheduler that takes them one by one would.

Search order is round-robin: each pod goes to the next feasible node after the one that took the last. Plain shapes have
a closed form; other shapes are a `BatchPlacement`. For a single pod a `NodeProbe` asks a few nodes one by one instead,
which is cheaper than knowing all nodes. Nothing is written to the snapshot: a placement is (rows, counts).
"""

from collections.abc import Callable, Iterator

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.settings import FilterConfig
from windlass.engine.placement import batch_placement
from windlass.engine.predicates import (
    inter_pod_affinity,
    node_resources_fit,
    pod_topology_spread,
    registry,
    taint_toleration,
)
from windlass.engine.snapshot.node_table import TO_BE_DELETED_TAINT
from windlass.engine.snapshot.snapshot import Snapshot
from windlass.engine.snapshot.topology_counts import PodsMatchingAllTerms

RowCheck = Callable[[int], bool]
"""Is it open on the node of this row?"""


def has_domain_checks(shape: facts.PodShape) -> bool:
    """Can what the shape asks be told by domain? Not ports and disks, of which nodes have their own; nor affinity, of
    which the first pod of its kind is excepted.
    """
    return not (shape.spec.affinity or shape.spec.host_ports or batch_placement.uses_filtered_volumes(shape))


class NodeProbe:
    """One more pod of a shape that has gates. Holds as long as `NodeTable.version` stays the same."""

    __slots__ = ("_allowed", "_apart", "_checked", "_config", "_shape", "_snapshot", "_spread", "_stays")

    def __init__(self, snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig) -> None:
        self._snapshot, self._shape, self._config = snapshot, shape, config
        self._checked = [
            (snapshot.nodes.free[c], amount)
            for c, amount in node_resources_fit.checked_requests(snapshot, shape, config)
        ]
        refused = registry.run_pre_filters(snapshot, shape, config) is not None
        self._allowed = None if refused else registry.static_mask(snapshot, shape, config)
        self._stays = taint_toleration.NAME in config.disabled or any(
            toleration.tolerates(TO_BE_DELETED_TAINT) for toleration in shape.spec.tolerations
        )
        self._spread = pod_topology_spread.make_recounts(snapshot, shape, config)
        self._apart = [(term.topology_key, PodsMatchingAllTerms((term,))) for term in shape.spec.anti_affinity]

    def passes(self, row: int) -> bool:
        """May one more pod of the shape run there, as `predicates.feasible` would say?"""
        return self._has_room(row) and all(is_open(row) for is_open in self._find_gates())

    def next(self, pointer: int, usable: arrays.Mask, probes: int) -> int | None:
        """The first usable row after the pointer that lets the pod pass, if few need be looked at."""
        row, total, gates = pointer, len(usable), None
        for _ in range(min(probes, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and self._has_room(row):
                gates = list(self._find_gates()) if gates is None else gates
                if all(is_open(row) for is_open in gates):
                    return row
        return None

    def _has_room(self, row: int) -> bool:
        """What the node says, and what is left of it."""
        nodes = self._snapshot.nodes
        if self._allowed is None or not (self._allowed[row] and nodes.alive[row]):
            return False
        if nodes.deleting[row] and not self._stays:
            return False
        return all(free[row] >= amount for free, amount in self._checked)

    def _find_gates(self) -> Iterator[RowCheck]:
        """What other pods say, as it is now."""
        for constraint in self._spread:
            constraint.count()
            yield constraint.is_open
        if inter_pod_affinity.NAME in self._config.disabled:
            return
        snapshot = self._snapshot
        for key, tally in self._apart:
            yield _refuse_occupied(snapshot, key, snapshot.counts(tally))
        for term, number in snapshot.topology_counts.repelling(self._shape):
            yield _refuse_occupied(
                snapshot, term.topology_key, snapshot.topology_counts.counts(number, snapshot.nodes.count)
            )


def _refuse_occupied(snapshot: Snapshot, key: str, counts: arrays.Counts) -> RowCheck:
    """Closed where any counted pod is."""
    domains = snapshot.nodes.label_ids(key)
    if snapshot.nodes.is_distinct(key):
        return lambda row: bool(counts[row] == 0 or domains[row] == arrays.ABSENT)
    if not counts.any():
        return lambda row: True
    taken = inter_pod_affinity.occupied_domains(snapshot, key, counts)
    return lambda row: not taken[domains[row]]


_FEW, _PROBES, _GATES = 8, 4, 32

_FIRST_WINDOW, _WORTHWHILE = 64, 4


def is_plain(snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig) -> bool:
    """Do only the nodes' facts and free resources decide where pods of this shape go, however many there are?"""
    return has_static_constraints_only(snapshot, shape, config) and not is_repelled(snapshot, shape)


def has_static_constraints_only(snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig) -> bool:
    """Does the shape itself ask for nothing but resources and facts of nodes?"""
    spec = shape.spec
    asks = spec.spread or spec.affinity or spec.anti_affinity or spec.host_ports or config.default_constraints
    is_parsable = not (spec.spread_fault or spec.interpod_fault)
    return (
        not asks
        and is_parsable
        and not batch_placement.uses_filtered_volumes(shape)
        and not batch_placement.requests_devices(snapshot, shape)
    )


def is_repelled(snapshot: Snapshot, shape: facts.PodShape) -> bool:
    """Is any pod there whose anti-affinity matches the shape?"""
    if not snapshot.topology_counts.carriers:
        return False
    nodes = snapshot.nodes.count
    return any(
        snapshot.topology_counts.counts(tally, nodes).any() for _, tally in snapshot.topology_counts.repelling(shape)
    )


class Placer:
    """Finds places for shapes on one snapshot. What holds until a node changes is looked up once per shape."""

    def __init__(self, snapshot: Snapshot, config: FilterConfig) -> None:
        self.snapshot, self.config = snapshot, config
        self._plain: dict[int, PlainShape | None] = {}
        self._gates: dict[int, NodeProbe] = {}
        self._version = snapshot.nodes.version

    def find_plain(self, shape: facts.PodShape) -> "PlainShape | None":
        """The shape against these nodes, if it is plain."""
        plain = self._find_plain(shape)
        return None if plain is None or is_repelled(self.snapshot, shape) else plain

    def place(self, shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask) -> batch_placement.Placement:
        """Find room for `count` pods on usable nodes, round-robin from the node after `pointer`.

        Places as many as fit; the rest failed. `usable` is bool (n_nodes): existing nodes that the caller accepts.
        """
        plain = self.find_plain(shape)
        if plain is not None:
            return plain.place(count, pointer, usable)
        if count > 1 and batch_placement.needs_single_placement(self.snapshot, shape):
            return _place_one_at_a_time(self.snapshot, shape, count, pointer, usable, self.config)
        if count == 1 and self._has_gates(shape):
            row = self._find_gates(shape).next(pointer, usable, _GATES)
            if row is not None:
                return batch_placement.place_one_each(np.array([row]))
        run = batch_placement.BatchPlacement(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            rows = batch_placement.rotate(np.flatnonzero(run.mask), pointer)
            return batch_placement.fill_levels(rows, run.room[rows], count)
        return run.place_round_robin(count, pointer)

    def room_on(self, row: int, shape: facts.PodShape, count: int) -> int:
        """How many of `count` pods find room on one node."""
        plain = self.find_plain(shape)
        if plain is not None:
            return plain.room_on(row, count)
        if count == 1 and self._has_gates(shape):
            return int(self._find_gates(shape).passes(row))
        only_there = np.zeros(self.snapshot.nodes.count, bool)
        only_there[row] = True
        return self.place(shape, count, row - 1, only_there).total

    def scatter(
        self, shape: facts.PodShape, count: int, rng: np.random.Generator, usable: arrays.Mask
    ) -> batch_placement.Placement:
        """The same, but every pod starts at a random node and takes the first from there on that it fits on.

        So does the peer, because its list of nodes begins somewhere else after every pod that was placed.
        """
        if not len(usable):
            return batch_placement.NO_PLACES
        if batch_placement.needs_single_placement(self.snapshot, shape):
            return self.place(shape, count, int(rng.integers(len(usable))), usable)
        run = batch_placement.BatchPlacement(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            return batch_placement.fill_scattered(np.arange(len(usable)), np.where(run.mask, run.room, 0), count, rng)
        taken: list[int] = []
        while len(taken) < count and (row := run.next(int(rng.integers(len(usable))))) is not None:
            run.add(row)
            taken.append(row)
        return batch_placement.place_one_by_one(taken)

    def _has_gates(self, shape: facts.PodShape) -> bool:
        return has_domain_checks(shape) and not batch_placement.requests_devices(self.snapshot, shape)

    def _find_plain(self, shape: facts.PodShape) -> "PlainShape | None":
        self._forget_if_changed()
        if shape.id not in self._plain:
            found = (
                PlainShape(self.snapshot, shape, self.config)
                if has_static_constraints_only(self.snapshot, shape, self.config)
                else None
            )
            self._forget_if_changed()  # a resource met for the first time makes a column, and moves the others
            self._plain[shape.id] = found
        return self._plain[shape.id]

    def _find_gates(self, shape: facts.PodShape) -> NodeProbe:
        self._forget_if_changed()
        found = self._gates.get(shape.id)
        if found is None:
            found = NodeProbe(self.snapshot, shape, self.config)
            self._forget_if_changed()  # as above
            self._gates[shape.id] = found
        return found

    def _forget_if_changed(self) -> None:
        if self._version != self.snapshot.nodes.version:
            self._plain.clear()
            self._gates.clear()
            self._version = self.snapshot.nodes.version


class PlainShape:
    """A plain shape against nodes that do not change, only fill up."""

    __slots__ = ("_allowed", "_capacity", "_columns")

    def __init__(self, snapshot: Snapshot, shape: facts.PodShape, config: FilterConfig) -> None:
        checked = node_resources_fit.checked_requests(snapshot, shape, config)
        self._allowed = registry.static_mask(snapshot, shape, config)
        self._columns = [(snapshot.nodes.free[column], amount) for column, amount in checked]
        self._capacity: Callable[[arrays.Rows], arrays.Amounts] = lambda rows: batch_placement.find_resource_room(
            snapshot, shape, rows, config
        )

    def place(self, count: int, pointer: int, usable: arrays.Mask) -> batch_placement.Placement:
        """Try the next few nodes; then a window of nodes, and a larger one; then the whole cluster.

        Usually the next node takes a single pod, and nothing else of the cluster need be looked at.
        """
        total = len(usable)
        if count <= _FEW:
            taken = self._probe(count, pointer, usable)
            if len(taken) == count:
                return batch_placement.place_one_each(np.array(taken))
        window = max(_FIRST_WINDOW, 2 * count)
        while _WORTHWHILE * window < total:
            start = pointer + 1 if pointer + 1 < total else 0
            if start + window <= total:
                (found,) = self._fits(slice(start, start + window), usable).nonzero()
                if len(found) >= count:
                    return batch_placement.place_one_each(found[:count] + start)
            window *= 8
        (found,) = self._fits(slice(None), usable).nonzero()
        if not len(found):
            return batch_placement.NO_PLACES
        rows = batch_placement.rotate(found, pointer)
        if len(rows) >= count:
            return batch_placement.place_one_each(rows[:count])
        return batch_placement.fill_levels(rows, self._capacity(rows), count)

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

    def _probe(self, count: int, pointer: int, usable: arrays.Mask) -> list[int]:
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

    def _fits(self, rows: slice, usable: arrays.Mask) -> arrays.Mask:
        fits: arrays.Mask = self._allowed[rows] & usable[rows]
        for free, amount in self._columns:
            fits &= free[rows] >= amount
        return fits


def _place_one_at_a_time(
    snapshot: Snapshot, shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask, config: FilterConfig
) -> batch_placement.Placement:
    """One at a time, the snapshot told of each: what volumes allow has no closed form. Left as it was found."""
    taken: list[int] = []
    snapshot.fork()
    try:
        while len(taken) < count:
            row = batch_placement.BatchPlacement(snapshot, shape, usable, config).next(pointer)
            if row is None:
                break
            snapshot.place(shape, row)
            taken.append(row)
            pointer = row
    finally:
        snapshot.revert()
    return batch_placement.place_one_by_one(taken)
