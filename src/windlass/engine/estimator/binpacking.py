"""Binpacking: how many nodes of a template a set of pods needs, as the peer's estimator would count.

Groups of pods go largest first. Each fills the nodes opened so far, round-robin from the node after the last that took
a pod; what is left opens more. (The peer keeps new nodes in a map and so visits them in random order, which packs less
tightly; `scatter` does as it does.) Pods that do not mind each other are packed class-wise: room per node, levels, cut,
`ceil(rest / per node)` new nodes. The others go one by one, but only what they touch is looked at again.

When packing stops for a group: its pod does not fit on an empty node, or the limiter grants no more nodes. A node that
was opened and refused the pod stays open for the next group, and is not counted unless some pod uses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts, filling, gates, placing, predicates, runs, shapes
from windlass.engine.estimator import limits, ordering
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that are treated alike: one shape, so many of them."""

    shape: shapes.Shape
    count: int


@dataclass(frozen=True, slots=True)
class Template:
    """A node that a group would add, and the pods that would come with it (DaemonSets, mirrors)."""

    node: facts.Node
    pods: tuple[shapes.Shape, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many nodes, and how many pods of each group (in the order given) they help."""

    nodes: int
    placed: tuple[int, ...]
    stopped_by: str | None = None
    """What kept the limiter from granting more nodes; None if nothing did."""


def estimate(
    snapshot: Snapshot,
    groups: Sequence[PodGroup],
    template: Template,
    limiter: limits.Limiter,
    config: FilterConfig,
    fastpath: bool = False,
    scatter: np.random.Generator | None = None,
) -> Estimate:
    """Pack the groups onto new nodes like the template. The snapshot is left as it was found.

    With `fastpath`, the group that gains most goes last and is counted by division instead of being packed. With
    `scatter`, open nodes are searched from a random one for every pod, as the peer does.
    """
    in_order = order(groups, template)
    divided = _best_to_divide(snapshot, groups, in_order, template) if fastpath else None
    if divided is not None:
        in_order = [number for number in in_order if number != divided] + [divided]
    placed = [0] * len(groups)
    packing = Packing(snapshot, template, limiter, config, scatter)
    snapshot.fork()
    try:
        may_open = True
        for number in in_order:
            group = groups[number]
            placed[number] = packing.fill_open_nodes(group.shape, group.count)
            rest = group.count - placed[number]
            if may_open and rest:
                open_nodes = packing.divide if number == divided else packing.open_nodes
                helped, may_open = open_nodes(group.shape, rest)
                placed[number] += helped
    finally:
        snapshot.revert()
    return Estimate(packing.nodes_with_pods, tuple(placed), limiter.stopped_by)


def order(groups: Sequence[PodGroup], template: Template) -> list[int]:
    """The order in which groups are packed."""
    requests = [dict(group.shape.spec.requests) for group in groups]
    allocatable = dict(template.node.allocatable)
    found = ordering.sort_decreasing(
        np.array([amounts.get(facts.CPU, 0) for amounts in requests], dtypes.RESOURCE),
        np.array([amounts.get(facts.MEMORY, 0) for amounts in requests], dtypes.RESOURCE),
        allocatable.get(facts.CPU, 0),
        allocatable.get(facts.MEMORY, 0),
    )
    return [int(number) for number in found]


class Packing:
    """The nodes opened so far, in a fork of the snapshot that the caller opened."""

    def __init__(
        self,
        snapshot: Snapshot,
        template: Template,
        limiter: limits.Limiter,
        config: FilterConfig,
        scatter: np.random.Generator | None,
    ) -> None:
        self._snapshot, self._template, self._limiter, self._config = snapshot, template, limiter, config
        self._scatter = scatter
        self._first = snapshot.nodes.count
        self._with_pods = np.zeros(self._first, bool)
        self._divided = 0
        self._pointer = -1

    @property
    def nodes_with_pods(self) -> int:
        return int(self._with_pods.sum()) + self._divided

    @property
    def _last(self) -> int | None:
        return self._snapshot.nodes.count - 1 if self._snapshot.nodes.count > self._first else None

    @property
    def _last_is_empty(self) -> bool:
        return self._last is not None and not self._with_pods[self._last]

    def fill_open_nodes(self, shape: shapes.Shape, count: int) -> int:
        """Place pods on the nodes opened so far, round-robin; return how many found room."""
        if self._last is None:
            return 0
        rows, room = self._room(shape)
        if room is None:
            return self._place_while(shape, count, self._next, self._new_nodes())
        if self._scatter is not None:
            return self._place(shape, filling.fill_scattered(rows, room, count, self._scatter))
        order = filling.rotate(np.flatnonzero(room), self._pointer - self._first)
        placed = filling.fill_levels(rows[order], room[order], count)
        if len(placed.rows):
            self._pointer = placed.last
        return self._place(shape, placed)

    def _next(self, run: runs.Run) -> int | None:
        if self._scatter is not None:
            return run.next(int(self._scatter.integers(self._first, self._snapshot.nodes.count)))
        row = run.next(self._pointer)
        if row is not None:
            self._pointer = row
        return row

    def open_nodes(self, shape: shapes.Shape, count: int) -> tuple[int, bool]:
        """Open nodes for pods that the open ones refused: (how many are helped, may more nodes be opened?)."""
        helped = self._fill_newest(shape, count) if self._last is not None and _retries_elsewhere(shape) else 0
        if helped == count or self._last_is_empty:
            return helped, True
        if not self._open(1):
            return helped, False
        _, room = self._room(shape)
        if room is None:
            more, may_open = self._open_one_by_one(shape, count - helped)
        else:
            more, may_open = self._open_classwise(shape, count - helped, int(room[-1]))
        return helped + more, may_open

    def _open_classwise(self, shape: shapes.Shape, count: int, per_node: int) -> tuple[int, bool]:
        """The newest node is empty and takes `per_node` pods, and so does every one like it."""
        if per_node == 0:
            return 0, True
        newest = self._snapshot.nodes.count - 1
        wanted = -(-count // per_node) - 1
        granted = self._open(wanted)
        rows = newest + np.arange(granted + 1)
        placed = filling.fill_first(rows, np.full(granted + 1, per_node, dtypes.RESOURCE), count)
        return self._place(shape, placed), granted == wanted

    def _open_one_by_one(self, shape: shapes.Shape, count: int) -> tuple[int, bool]:
        """Pods that mind each other, the newest node being empty: each tries it, then opens another."""
        helped = 0
        while True:
            helped += self._fill_newest(shape, count - helped, is_fresh=True)
            if helped == count or self._last_is_empty:
                return helped, True
            if not self._open(1):
                return helped, False
            _, room = self._room(shape)
            if room is not None:
                # The first of them settled what the others depend on: from here on they pack class-wise.
                more, may_open = self._open_classwise(shape, count - helped, int(room[-1]))
                return helped + more, may_open

    def _fill_newest(self, shape: shapes.Shape, count: int, is_fresh: bool = False) -> int:
        """Place pods on the newest node while it takes them.

        A pod that spreads over hostnames and finds the newest node ahead of the others may still go to one of those,
        existing nodes included: the peer then counts that node as used by this estimate. Not so the pod for which the
        node was opened: if a fresh node refuses it, no other is tried.
        """
        last = self._snapshot.nodes.count - 1
        retries = _retries_elsewhere(shape)
        must_fit = is_fresh

        def choose(run: runs.Run) -> int | None:
            nonlocal must_fit
            if run.mask[last]:
                must_fit = False
                return last
            return self._next_elsewhere(run, last) if retries and not must_fit and run.is_skewed(last) else None

        return self._place_while(shape, count, choose, self._snapshot.nodes.alive)

    def _place_while(
        self,
        shape: shapes.Shape,
        count: int,
        choose: Callable[[runs.Run], int | None],
        usable: dtypes.Mask,
    ) -> int:
        """Place pods one by one where `choose` says, until it says nowhere."""
        taken: list[int] = []
        each = 1 if gates.goes_singly(self._snapshot, shape) else count
        while len(taken) < count:
            run = runs.Run(self._snapshot, shape, usable, self._config)
            batch: list[int] = []
            while len(batch) < min(each, count - len(taken)) and (row := choose(run)) is not None:
                run.add(row)
                batch.append(row)
            self._place_rows(shape, batch)
            taken += batch
            if len(batch) < each:
                break
        return len(taken)

    def _next_elsewhere(self, run: runs.Run, last: int) -> int | None:
        elsewhere = run.mask & ~self._snapshot.nodes.unschedulable
        elsewhere[last] = False
        rows = filling.rotate(np.flatnonzero(elsewhere), self._pointer)
        if not len(rows):
            return None
        self._pointer = int(rows[0])
        return self._pointer

    def divide(self, shape: shapes.Shape, count: int) -> tuple[int, bool]:
        """Open one node, see how many pods it takes, and count the rest by division."""
        if not self._open(1):
            return 0, False
        here = self._fill_newest(shape, count)
        if here == 0:
            return 0, True
        wanted = -(-count // here) - 1
        granted = self._limiter.grant(wanted)
        self._divided += granted
        return min(count, here * (granted + 1)), granted == wanted

    def _open(self, wanted: int) -> int:
        granted = self._limiter.grant(wanted) if wanted > 0 else 0
        if granted:
            known = self._snapshot.nodes.count
            names = [f"estimate-{row}" for row in range(known, known + granted)]
            rows = np.array(self._snapshot.append(self._template.node, names))
            for shape in self._template.pods:
                self._snapshot.place_many(shape, rows, np.ones(granted, dtypes.RESOURCE))
            self._with_pods = np.append(self._with_pods, np.zeros(granted, bool))
        return granted

    def _room(self, shape: shapes.Shape) -> tuple[dtypes.Rows, dtypes.Amounts | None]:
        """(rows of the open nodes, pods of the shape that each has room for); None where that has no closed form."""
        snapshot, config = self._snapshot, self._config
        rows = np.arange(self._first, snapshot.nodes.count)
        if placing.is_plain(snapshot, shape, config):
            new = slice(self._first, snapshot.nodes.count)
            allowed = predicates.static_mask(snapshot, shape, config)[new]
            return rows, runs.capacity(snapshot, shape, new, config) * allowed
        if gates.goes_singly(snapshot, shape):
            return rows, None
        run = runs.Run(snapshot, shape, self._new_nodes(), config)
        if not run.is_closed_form:
            return rows, None
        return rows, np.where(run.mask[rows], run.room[rows], 0)

    def _new_nodes(self) -> dtypes.Mask:
        return np.arange(self._snapshot.nodes.count) >= self._first

    def _place(self, shape: shapes.Shape, placed: filling.Placed) -> int:
        if len(placed.rows):
            self._snapshot.place_many(shape, placed.rows, placed.counts)
            self._with_pods[placed.rows] = True
        return placed.total

    def _place_rows(self, shape: shapes.Shape, taken: list[int]) -> None:
        self._place(shape, filling.one_by_one(taken))


def _retries_elsewhere(shape: shapes.Shape) -> bool:
    return any(constraint.topology_key == facts.HOSTNAME for constraint in shape.spec.spread)


def _best_to_divide(
    snapshot: Snapshot, groups: Sequence[PodGroup], order: Sequence[int], template: Template
) -> int | None:
    """The group for which division saves the most packing: about pods − pods / nodes. The latest of equals.

    Division assumes that a node which refused a pod never takes it later and that all nodes are alike, so groups with
    spread constraints or anti-affinity beyond the node are packed.
    """
    capacity = dict(template.node.capacity)
    best, most_saved = None, 0
    for number in order:
        group = groups[number]
        spec = group.shape.spec
        if spec.spread or any(term.topology_key != facts.HOSTNAME for term in spec.anti_affinity):
            continue
        requests = dict(spec.requests)
        nodes = max(
            *(
                int(np.ceil(group.count * requests.get(resource, 0) / capacity[resource]))
                for resource in (facts.CPU, facts.MEMORY)
                if capacity.get(resource, 0) > 0
            ),
            group.count if _keeps_apart(group.shape) else 0,
            0,
        )
        saved = group.count - group.count // nodes if nodes > 0 else 0
        if saved >= most_saved:
            best, most_saved = number, saved
    return best


def _keeps_apart(shape: shapes.Shape) -> bool:
    """Does the shape's own anti-affinity allow one pod per node?"""
    return any(
        term.topology_key == facts.HOSTNAME
        and term.selector is not None
        and term.selector.matches(shape.profile.label_map)
        for term in shape.spec.anti_affinity
    )
