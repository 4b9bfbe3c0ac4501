"""Binpacking estimator: how many nodes of a template a set of pods needs, counted as Cluster Autoscaler does.

Groups go largest first. Each fills the nodes opened so far, round-robin from the node after the last that took a pod;
the rest opens more. Pods that do not affect each other are packed class-wise: room per node, levels, cut,
ceil(rest / per node) new nodes. The others go one by one.

Packing stops for a group when its pod does not fit on an empty node or the limiter grants no more nodes. A node that
refused the pod stays open for the next group, and counts only if some pod uses it. Thresholds combine: 0 sets none, a
negative one allows nothing, the tightest decides.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from windlass.engine import time_limits
from windlass.engine.model import arrays, facts
from windlass.engine.model.arrays import Amounts, Rows
from windlass.engine.model.settings import FilterConfig
from windlass.engine.placement import batch_placement
from windlass.engine.predicates import registry

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

Number = TypeVar("Number", int, float)

NO_LIMIT = 0

NO_NODES = -1


def combine_limits(one: Number, other: Number) -> Number:
    """The tighter of two limits: NO_NODES if either is negative, else the smaller one that is set."""
    if one < 0 or other < 0:
        return NO_NODES
    if one == 0 or other == 0:
        return one + other
    return min(one, other)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit on new nodes, and its reason."""

    reason: str
    nodes: int


def make_static_threshold(max_nodes_per_scale_up: int) -> Threshold:
    """--max-nodes-per-scaleup, as it stands."""
    return Threshold("max nodes per scale-up", max_nodes_per_scale_up)


def make_similar_groups_threshold(sizes: Iterable[tuple[int, int]]) -> Threshold:
    """The room that a group and its similar ones have together, from (target size, maximum size) of each."""
    room = sum(max(maximum - size, 0) for size, maximum in sizes)
    return Threshold("max size of the group and its similar groups", room if room > 0 else NO_NODES)


def make_cluster_capacity_threshold(max_nodes_total: int, current_nodes: int) -> Threshold:
    """What --max-nodes-total leaves; 0 there sets no limit."""
    if max_nodes_total == NO_LIMIT:
        nodes = NO_LIMIT
    else:
        nodes = max_nodes_total - current_nodes if max_nodes_total > max(current_nodes, 0) else NO_NODES
    return Threshold("max nodes in the cluster", nodes)


class EstimationLimiter:
    """Grants nodes to one estimate until a limit is reached."""

    __slots__ = ("_budget", "granted", "limit", "stopped_by")

    def __init__(self, limits: Iterable[Threshold], budget: time_limits.TimeBudget | None = None) -> None:
        self.limit = _find_tightest_threshold(limits)
        self._budget = time_limits.UnlimitedBudget() if budget is None else budget
        self.granted = 0
        self.stopped_by: str | None = None
        """The limit that last refused nodes."""

    def grant(self, desired: int) -> int:
        """How many of the wanted nodes may be opened; they count as opened. One checkpoint, however many are wanted."""
        allowed = self._count_allowed(desired)
        if allowed < desired:
            self.stopped_by = self.limit.reason
        if allowed > 0 and self._budget.exhausted():
            allowed, self.stopped_by = 0, "time"
        self.granted += allowed
        return allowed

    def _count_allowed(self, desired: int) -> int:
        if self.limit.nodes == NO_LIMIT:
            return max(desired, 0)
        return max(min(desired, self.limit.nodes - self.granted), 0)


def _find_tightest_threshold(limits: Iterable[Threshold]) -> Threshold:
    tightest = Threshold("", NO_LIMIT)
    for limit in limits:
        if combine_limits(tightest.nodes, limit.nodes) != tightest.nodes:
            tightest = Threshold(limit.reason, combine_limits(tightest.nodes, limit.nodes))
    return tightest


def sort_decreasing(
    millicpu: Amounts, memory_bytes: Amounts, allocatable_millicpu: int, allocatable_memory_bytes: int
) -> Rows:
    """Positions of n groups in the order of packing, intp (n,), from int64 (n,) requests of one pod of each."""
    scores = packing_score(millicpu, memory_bytes, allocatable_millicpu, allocatable_memory_bytes)
    return np.argsort(-scores, kind="stable")


def packing_score(
    millicpu: Amounts, memory_bytes: Amounts, allocatable_millicpu: int, allocatable_memory_bytes: int
) -> npt.NDArray[np.float64]:
    """float64 (n,): how much of an empty node a pod of each group takes."""
    total = np.zeros(len(millicpu))
    if allocatable_millicpu > 0:
        total += millicpu / allocatable_millicpu
    if allocatable_memory_bytes > 0:
        total += memory_bytes / allocatable_memory_bytes
    return total


@dataclass(frozen=True, slots=True)
class ShapeCount:
    """Pods that are treated alike: one shape, so many of them."""

    shape: facts.PodShape
    count: int


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A node that a group would add, and the pods that would come with it (DaemonSets, mirrors)."""

    node: facts.Node
    pods: tuple[facts.PodShape, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """Number of nodes, and of scheduled pods of each group in the order given."""

    nodes: int
    placed: tuple[int, ...]
    stopped_by: str | None = None
    """What kept the limiter from granting more nodes; None if nothing did."""


def estimate(
    snapshot: "Snapshot",
    groups: Sequence[ShapeCount],
    template: NodeTemplate,
    limiter: EstimationLimiter,
    config: FilterConfig,
    fastpath: bool = False,
    scatter: np.random.Generator | None = None,
) -> Estimate:
    """Pack the groups onto new nodes like the template. The snapshot is left as it was found.

    With `fastpath`, the group that gains most goes last and is counted by division instead of being packed. With
    `scatter`, open nodes are searched from a random one for every pod, as Cluster Autoscaler does.
    """
    in_order = packing_order(groups, template)
    divided = _find_best_to_divide(snapshot, groups, in_order, template) if fastpath else None
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


def packing_order(groups: Sequence[ShapeCount], template: NodeTemplate) -> list[int]:
    """The order in which groups are packed."""
    requests = [dict(group.shape.spec.requests) for group in groups]
    allocatable = dict(template.node.allocatable)
    order = sort_decreasing(
        np.array([amounts.get(facts.CPU, 0) for amounts in requests], arrays.RESOURCE_DTYPE),
        np.array([amounts.get(facts.MEMORY, 0) for amounts in requests], arrays.RESOURCE_DTYPE),
        allocatable.get(facts.CPU, 0),
        allocatable.get(facts.MEMORY, 0),
    )
    return [int(number) for number in order]


class Packing:
    """The nodes opened so far, in a fork of the snapshot that the caller opened."""

    def __init__(
        self,
        snapshot: "Snapshot",
        template: NodeTemplate,
        limiter: EstimationLimiter,
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
    def _newest_row(self) -> int | None:
        return self._snapshot.nodes.count - 1 if self._snapshot.nodes.count > self._first else None

    @property
    def _is_newest_empty(self) -> bool:
        return self._newest_row is not None and not self._with_pods[self._newest_row]

    def fill_open_nodes(self, shape: facts.PodShape, count: int) -> int:
        """Place pods on the nodes opened so far, round-robin; return how many found room."""
        if self._newest_row is None:
            return 0
        rows, room = self._find_room(shape)
        if room is None:
            return self._place_while(shape, count, self._find_next_open, self._new_nodes())
        if self._scatter is not None:
            return self._place(shape, batch_placement.fill_scattered(rows, room, count, self._scatter))
        order = batch_placement.rotate(np.flatnonzero(room), self._pointer - self._first)
        placed = batch_placement.fill_levels(rows[order], room[order], count)
        if len(placed.rows):
            self._pointer = placed.last
        return self._place(shape, placed)

    def _find_next_open(self, run: batch_placement.BatchPlacement) -> int | None:
        if self._scatter is not None:
            return run.next(int(self._scatter.integers(self._first, self._snapshot.nodes.count)))
        row = run.next(self._pointer)
        if row is not None:
            self._pointer = row
        return row

    def open_nodes(self, shape: facts.PodShape, count: int) -> tuple[int, bool]:
        """Open nodes for pods that the open ones refused: (how many are helped, may more nodes be opened?)."""
        helped = self._fill_newest(shape, count) if self._newest_row is not None and _retries_elsewhere(shape) else 0
        if helped == count or self._is_newest_empty:
            return helped, True
        if not self._append_nodes(1):
            return helped, False
        _, room = self._find_room(shape)
        if room is None:
            more, may_open = self._open_one_by_one(shape, count - helped)
        else:
            more, may_open = self._open_classwise(shape, count - helped, int(room[-1]))
        return helped + more, may_open

    def _open_classwise(self, shape: facts.PodShape, count: int, per_node: int) -> tuple[int, bool]:
        """The newest node is empty and takes `per_node` pods, and so does every one like it."""
        if per_node == 0:
            return 0, True
        newest = self._snapshot.nodes.count - 1
        desired = -(-count // per_node) - 1
        granted = self._append_nodes(desired)
        rows = newest + np.arange(granted + 1)
        placed = batch_placement.fill_first(rows, np.full(granted + 1, per_node, arrays.RESOURCE_DTYPE), count)
        return self._place(shape, placed), granted == desired

    def _open_one_by_one(self, shape: facts.PodShape, count: int) -> tuple[int, bool]:
        """Pods that affect each other: fill the newest node, which is empty, then open another one."""
        helped = 0
        while True:
            helped += self._fill_newest(shape, count - helped, is_fresh=True)
            if helped == count or self._is_newest_empty:
                return helped, True
            if not self._append_nodes(1):
                return helped, False
            _, room = self._find_room(shape)
            if room is not None:
                # The first pod fixed the domain of the others: from here on they pack class-wise.
                more, may_open = self._open_classwise(shape, count - helped, int(room[-1]))
                return helped + more, may_open

    def _fill_newest(self, shape: facts.PodShape, count: int, is_fresh: bool = False) -> int:
        """Place pods on the newest node while it takes them.

        A pod that spreads over hostnames and finds the newest node ahead of the others may still go to one of those,
        existing nodes included: Cluster Autoscaler then counts that node as used. Not so the pod for which the
        node was opened: if a fresh node refuses it, no other is tried.
        """
        last = self._snapshot.nodes.count - 1
        retries = _retries_elsewhere(shape)
        must_fit = is_fresh

        def choose(run: batch_placement.BatchPlacement) -> int | None:
            nonlocal must_fit
            if run.mask[last]:
                must_fit = False
                return last
            return self._next_elsewhere(run, last) if retries and not must_fit and run.is_skewed(last) else None

        return self._place_while(shape, count, choose, self._snapshot.nodes.alive)

    def _place_while(
        self,
        shape: facts.PodShape,
        count: int,
        choose: Callable[[batch_placement.BatchPlacement], int | None],
        usable: arrays.Mask,
    ) -> int:
        """Place pods one by one on the row that `choose` returns, until it returns None."""
        taken: list[int] = []
        item = 1 if batch_placement.needs_single_placement(self._snapshot, shape) else count
        while len(taken) < count:
            run = batch_placement.BatchPlacement(self._snapshot, shape, usable, self._config)
            batch: list[int] = []
            while len(batch) < min(item, count - len(taken)) and (row := choose(run)) is not None:
                run.add(row)
                batch.append(row)
            self._place_rows(shape, batch)
            taken += batch
            if len(batch) < item:
                break
        return len(taken)

    def _next_elsewhere(self, run: batch_placement.BatchPlacement, last: int) -> int | None:
        elsewhere = run.mask & ~self._snapshot.nodes.unschedulable
        elsewhere[last] = False
        rows = batch_placement.rotate(np.flatnonzero(elsewhere), self._pointer)
        if not len(rows):
            return None
        self._pointer = int(rows[0])
        return self._pointer

    def divide(self, shape: facts.PodShape, count: int) -> tuple[int, bool]:
        """Open one node, see how many pods it takes, and count the rest by division."""
        if not self._append_nodes(1):
            return 0, False
        here = self._fill_newest(shape, count)
        if here == 0:
            return 0, True
        desired = -(-count // here) - 1
        granted = self._limiter.grant(desired)
        self._divided += granted
        return min(count, here * (granted + 1)), granted == desired

    def _append_nodes(self, desired: int) -> int:
        granted = self._limiter.grant(desired) if desired > 0 else 0
        if granted:
            known = self._snapshot.nodes.count
            names = [f"estimate-{row}" for row in range(known, known + granted)]
            rows = np.array(self._snapshot.append(self._template.node, names))
            for shape in self._template.pods:
                self._snapshot.place_many(shape, rows, np.ones(granted, arrays.RESOURCE_DTYPE))
            self._with_pods = np.append(self._with_pods, np.zeros(granted, bool))
        return granted

    def _find_room(self, shape: facts.PodShape) -> tuple[arrays.Rows, arrays.Amounts | None]:
        """(rows of the open nodes, pods of the shape that each has room for); None where that has no closed form."""
        snapshot, config = self._snapshot, self._config
        rows = np.arange(self._first, snapshot.nodes.count)
        if batch_placement.is_plain(snapshot, shape, config):
            new = slice(self._first, snapshot.nodes.count)
            allowed = registry.static_mask(snapshot, shape, config)[new]
            return rows, batch_placement.find_resource_room(snapshot, shape, new, config) * allowed
        if batch_placement.needs_single_placement(snapshot, shape):
            return rows, None
        run = batch_placement.BatchPlacement(snapshot, shape, self._new_nodes(), config)
        if not run.is_closed_form:
            return rows, None
        return rows, np.where(run.mask[rows], run.room[rows], 0)

    def _new_nodes(self) -> arrays.Mask:
        return np.arange(self._snapshot.nodes.count) >= self._first

    def _place(self, shape: facts.PodShape, placed: batch_placement.Placement) -> int:
        if len(placed.rows):
            self._snapshot.place_many(shape, placed.rows, placed.counts)
            self._with_pods[placed.rows] = True
        return placed.total

    def _place_rows(self, shape: facts.PodShape, taken: list[int]) -> None:
        self._place(shape, batch_placement.place_one_by_one(taken))


def _retries_elsewhere(shape: facts.PodShape) -> bool:
    return any(constraint.topology_key == facts.HOSTNAME for constraint in shape.spec.spread)


def _find_best_to_divide(
    snapshot: "Snapshot", groups: Sequence[ShapeCount], order: Sequence[int], template: NodeTemplate
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
            group.count if _has_own_anti_affinity(group.shape) else 0,
            0,
        )
        saved = group.count - group.count // nodes if nodes > 0 else 0
        if saved >= most_saved:
            best, most_saved = number, saved
    return best


def _has_own_anti_affinity(shape: facts.PodShape) -> bool:
    """Does the shape's own anti-affinity allow one pod per node?"""
    return any(
        term.topology_key == facts.HOSTNAME
        and term.selector is not None
        and term.selector.matches(shape.profile.label_map)
        for term in shape.spec.anti_affinity
    )
