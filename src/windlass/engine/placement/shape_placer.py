"""The placer: finds nodes for pods of one shape, many at a time, as a scheduler that takes them one by one would.

Search order is round-robin: each pod goes to the next feasible node after the one that took the last. Plain shapes have
a closed form; other shapes are a `BatchPlacement`. For a single pod a `NodeProbe` asks a few nodes one by one instead,
which is cheaper than knowing all nodes. Nothing is written to the snapshot: a placement is (rows, counts).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.facts import TO_BE_DELETED_TAINT
from windlass.engine.model.settings import FilterConfig
from windlass.engine.placement import batch_placement
from windlass.engine.predicates import (
    inter_pod_affinity,
    node_resources_fit,
    pod_topology_spread,
    registry,
    taint_toleration,
)
from windlass.engine.snapshot.topology_counts import PodsMatchingAllTerms

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

RowCheck = Callable[[int], bool]
"""Whether the node of this row passes the check."""


def has_domain_checks(shape: facts.PodShape) -> bool:
    """Whether topology checks of the shape are per domain. Not for host ports and disks, which are per node, nor for
    affinity, which makes an exception for the first pod.
    """
    return not (shape.spec.affinity or shape.spec.host_ports or batch_placement.uses_filtered_volumes(shape))


class NodeProbe:
    """Checks single nodes for one more pod of a shape. Valid while `NodeTable.version` stays the same."""

    __slots__ = ("_allowed", "_apart", "_checked", "_config", "_shape", "_snapshot", "_spread", "_stays")

    def __init__(self, snapshot: "Snapshot", shape: facts.PodShape, config: FilterConfig) -> None:
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
        """Whether one more pod of the shape fits there; equal to `registry.find_feasible`."""
        return self._has_room(row) and all(is_open(row) for is_open in self._iterate_checks())

    def next(self, pointer: int, usable: arrays.Mask, probes: int) -> int | None:
        """The first usable row after the pointer that lets the pod pass, if few need be looked at."""
        row, total, checks = pointer, len(usable), None
        for _ in range(min(probes, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and self._has_room(row):
                checks = list(self._iterate_checks()) if checks is None else checks
                if all(is_open(row) for is_open in checks):
                    return row
        return None

    def _has_room(self, row: int) -> bool:
        """Static filters and free resources of the node."""
        nodes = self._snapshot.nodes
        if self._allowed is None or not (self._allowed[row] and nodes.alive[row]):
            return False
        if nodes.deleting[row] and not self._stays:
            return False
        return all(free[row] >= amount for free, amount in self._checked)

    def _iterate_checks(self) -> Iterator[RowCheck]:
        """Checks that depend on other pods, with current counts."""
        for constraint in self._spread:
            constraint.count()
            yield constraint.is_open
        if inter_pod_affinity.NAME in self._config.disabled:
            return
        snapshot = self._snapshot
        for key, counter in self._apart:
            yield _refuse_occupied(snapshot, key, snapshot.counts(counter))
        for term, number in snapshot.topology_counts.repelling(self._shape):
            yield _refuse_occupied(
                snapshot, term.topology_key, snapshot.topology_counts.counts(number, snapshot.nodes.count)
            )


def _refuse_occupied(snapshot: "Snapshot", key: str, counts: arrays.Counts) -> RowCheck:
    """A check that refuses domains with a counted pod."""
    domains = snapshot.nodes.label_ids(key)
    if snapshot.nodes.is_distinct(key):
        return lambda row: bool(counts[row] == 0 or domains[row] == arrays.ABSENT)
    if not counts.any():
        return lambda row: True
    taken = inter_pod_affinity.occupied_domains(snapshot, key, counts)
    return lambda row: not taken[domains[row]]


_FEW, _PROBES, _MAX_PROBED = 8, 4, 32

_FIRST_WINDOW, _WORTHWHILE = 64, 4


class Placer:
    """Finds places for shapes on one snapshot. What holds until a node changes is looked up once per shape."""

    def __init__(self, snapshot: "Snapshot", config: FilterConfig) -> None:
        self.snapshot, self.config = snapshot, config
        self._plain: dict[int, PlainShape | None] = {}
        self._probes: dict[int, NodeProbe] = {}
        self._version = snapshot.nodes.version

    def find_plain(self, shape: facts.PodShape) -> "PlainShape | None":
        """The shape against these nodes, if it is plain."""
        plain = self._find_plain(shape)
        return None if plain is None or batch_placement.is_repelled(self.snapshot, shape) else plain

    def place(self, shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask) -> batch_placement.Placement:
        """Find room for `count` pods on usable nodes, round-robin from the node after `pointer`.

        Places as many as fit; the rest failed. `usable` is bool (n_nodes): existing nodes that the caller accepts.
        """
        plain = self.find_plain(shape)
        if plain is not None:
            return plain.place(count, pointer, usable)
        if count > 1 and batch_placement.needs_single_placement(self.snapshot, shape):
            return _place_one_at_a_time(self.snapshot, shape, count, pointer, usable, self.config)
        if count == 1 and self._can_probe(shape):
            row = self._find_probe(shape).next(pointer, usable, _MAX_PROBED)
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
        if count == 1 and self._can_probe(shape):
            return int(self._find_probe(shape).passes(row))
        only_there = np.zeros(self.snapshot.nodes.count, bool)
        only_there[row] = True
        return self.place(shape, count, row - 1, only_there).total

    def scatter(
        self, shape: facts.PodShape, count: int, rng: np.random.Generator, usable: arrays.Mask
    ) -> batch_placement.Placement:
        """The same, but every pod starts at a random node and takes the first from there on that it fits on.

        Cluster Autoscaler does so, because its list of nodes is reordered after every placed pod.
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

    def _can_probe(self, shape: facts.PodShape) -> bool:
        return has_domain_checks(shape) and not batch_placement.requests_devices(self.snapshot, shape)

    def _find_plain(self, shape: facts.PodShape) -> "PlainShape | None":
        self._forget_if_changed()
        if shape.id not in self._plain:
            plain_shape = (
                PlainShape(self.snapshot, shape, self.config)
                if batch_placement.has_static_constraints_only(self.snapshot, shape, self.config)
                else None
            )
            self._forget_if_changed()  # a new resource reallocates the columns
            self._plain[shape.id] = plain_shape
        return self._plain[shape.id]

    def _find_probe(self, shape: facts.PodShape) -> NodeProbe:
        self._forget_if_changed()
        node_probe = self._probes.get(shape.id)
        if node_probe is None:
            node_probe = NodeProbe(self.snapshot, shape, self.config)
            self._forget_if_changed()  # as above
            self._probes[shape.id] = node_probe
        return node_probe

    def _forget_if_changed(self) -> None:
        if self._version != self.snapshot.nodes.version:
            self._plain.clear()
            self._probes.clear()
            self._version = self.snapshot.nodes.version


class PlainShape:
    """A plain shape against nodes that do not change, only fill up."""

    __slots__ = ("_allowed", "_capacity", "_columns")

    def __init__(self, snapshot: "Snapshot", shape: facts.PodShape, config: FilterConfig) -> None:
        checked = node_resources_fit.checked_requests(snapshot, shape, config)
        self._allowed = registry.static_mask(snapshot, shape, config)
        self._columns = [(snapshot.nodes.free[column], amount) for column, amount in checked]
        self._capacity: Callable[[arrays.Rows], arrays.Amounts] = lambda rows: batch_placement.find_resource_room(
            snapshot, shape, rows, config
        )

    def place(self, count: int, pointer: int, usable: arrays.Mask) -> batch_placement.Placement:
        """Probe a few nodes one by one; then windows of nodes, each 8 times larger; then all nodes.

        Most calls end with the first probe, which costs no array operation over the cluster.
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
    snapshot: "Snapshot", shape: facts.PodShape, count: int, pointer: int, usable: arrays.Mask, config: FilterConfig
) -> batch_placement.Placement:
    """Place pods one by one in a fork, because volumes have no closed form. The snapshot is restored."""
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
