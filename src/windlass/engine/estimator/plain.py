"""Packing pods that mind nothing but resources: what is there already does not matter, so neither does the snapshot.

The same counts as `binpacking.estimate`, which says how, for groups of which

    every shape is plain (`placing.is_plain`), and stays so: pods that come with a node repel nobody
    an empty node takes a pod of every one, as far as filters other than NodeResourcesFit have a say
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, filling
from windlass.engine.estimator import binpacking, limits
from windlass.engine.predicates import fit
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods that are alike: so many of them, and what each takes as (column, amount)."""

    count: int
    takes: Sequence[tuple[int, int]]
    checked: Sequence[tuple[int, int]]
    """Of what each takes, that which must be left."""


def estimate(
    snapshot: Snapshot,
    groups: Sequence[binpacking.PodGroup],
    template: binpacking.Template,
    limiter: limits.Limiter,
    config: FilterConfig,
    scatter: np.random.Generator | None = None,
) -> binpacking.Estimate:
    """Pack the groups onto new nodes like the template."""
    demands = [
        Demand(group.count, snapshot.requests(group.shape), fit.checked(snapshot, group.shape, config))
        for group in groups
    ]
    packing = _Packing(_empty_node(snapshot, template), limiter, scatter)
    placed = [0] * len(groups)
    may_open = True
    for number in binpacking.order(groups, template):
        demand = demands[number]
        placed[number] = packing.fill_open_nodes(demand)
        rest = demand.count - placed[number]
        if may_open and rest:
            helped, may_open = packing.open_nodes(demand, rest)
            placed[number] += helped
    return binpacking.Estimate(packing.nodes_with_pods, tuple(placed), limiter.stopped_by)


def _empty_node(snapshot: Snapshot, template: binpacking.Template) -> dtypes.Amounts:
    """Int64 (n_resources,): what a new node has left beside the pods that come with it."""
    columns = [(snapshot.nodes.resource_column(resource), amount) for resource, amount in template.node.allocatable]
    takes = [pair for shape in template.pods for pair in snapshot.requests(shape)]
    free = np.zeros(len(snapshot.nodes.resources), dtypes.RESOURCE)
    for column, amount in columns:
        free[column] = amount
    for column, amount in takes:
        free[column] -= amount
    return free


class _Packing:
    """The nodes opened so far: what each has left, and whether a pod was placed on it."""

    def __init__(self, empty: dtypes.Amounts, limiter: limits.Limiter, scatter: np.random.Generator | None) -> None:
        self._empty, self._limiter, self._scatter = empty, limiter, scatter
        self._free = np.zeros((len(empty), 64), dtypes.RESOURCE)
        self._used = np.zeros(64, bool)
        self._count = 0
        self._pointer = -1

    @property
    def nodes_with_pods(self) -> int:
        return int(self._used[: self._count].sum())

    def fill_open_nodes(self, demand: Demand) -> int:
        """Place pods on the nodes opened so far, round-robin; return how many found room."""
        if not self._count:
            return 0
        room = self._room(demand)
        if self._scatter is not None:
            return self._place(demand, filling.fill_scattered(np.arange(len(room)), room, demand.count, self._scatter))
        rows = filling.rotate(np.flatnonzero(room), self._pointer)
        placed = filling.fill_levels(rows, room[rows], demand.count)
        if len(placed.rows):
            self._pointer = placed.last
        return self._place(demand, placed)

    def open_nodes(self, demand: Demand, count: int) -> tuple[int, bool]:
        """Open nodes for pods that the open ones refused: (how many are helped, may more nodes be opened?)."""
        if self._count and not self._used[self._count - 1]:
            return 0, True
        if not self._open(1):
            return 0, False
        newest = self._count - 1
        per_node = int(filling.count_room([(self._free[column, newest:self._count], amount)
                                           for column, amount in demand.checked], 1)[0])  # fmt: skip
        if per_node == 0:
            return 0, True
        wanted = -(-count // per_node) - 1
        granted = self._open(wanted)
        rows = newest + np.arange(granted + 1)
        placed = filling.fill_first(rows, np.full(granted + 1, per_node, dtypes.RESOURCE), count)
        return self._place(demand, placed), granted == wanted

    def _room(self, demand: Demand) -> dtypes.Amounts:
        """Int64 (n_open): how many such pods each open node has room for."""
        here = [(self._free[column, : self._count], amount) for column, amount in demand.checked]
        return filling.count_room(here, self._count)

    def _open(self, wanted: int) -> int:
        granted = self._limiter.grant(wanted) if wanted > 0 else 0
        first, self._count = self._count, self._count + granted
        more = self._count - len(self._used)
        if more > 0:
            more = max(more, len(self._used))
            self._free = np.pad(self._free, ((0, 0), (0, more)))
            self._used = np.pad(self._used, (0, more))
        self._free[:, first : self._count] = self._empty[:, None]
        return granted

    def _place(self, demand: Demand, placed: filling.Placed) -> int:
        if placed.total:
            for column, amount in demand.takes:
                self._free[column, placed.rows] -= placed.counts * amount
            self._used[placed.rows] = True
        return placed.total
