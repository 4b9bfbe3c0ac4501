"""Template fit: which pending pods a new node of each group takes, and how many nodes they need.

Plain shapes are evaluated for all groups at once. What was found for them holds for all rounds of a loop, and so do
estimates in which no other shapes take part. `estimate_by_resources` gives the same counts as `binpacking.estimate`
where every shape is plain and an empty node takes a pod of each: then the snapshot does not matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.model.settings import FilterConfig
from windlass.engine.placement import batch_placement
from windlass.engine.predicates import node_resources_fit, registry
from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.snapshot.cluster_snapshot import Snapshot

RejectionReasons = dict[int, tuple[str, ...]]
"""By shape: the reasons why a new node would not take it; none if it would."""

_EstimateKey = tuple[str, binpacking_estimator.Threshold, tuple[tuple[int, int], ...]]
"""Group, limit, and (shape, number) of the pods."""


class TemplateFit:
    """Answers about one snapshot, which is left as it was found, and the groups' templates, which never change."""

    def __init__(self, snapshot: Snapshot, templates: Mapping[str, GroupTemplate], config: FilterConfig) -> None:
        self._snapshot, self._config = snapshot, config
        self._templates = {
            group: binpacking_estimator.NodeTemplate(
                template.node, tuple(snapshot.shape_of(pod) for pod in template.pods)
            )
            for group, template in templates.items()
        }
        self._answers: dict[str, RejectionReasons] = {group: {} for group in templates}
        self._estimates: dict[_EstimateKey, binpacking_estimator.Estimate] = {}

    # Which pods

    def pod(self, row: int) -> facts.Pod:
        """The pod of a row of the snapshot."""
        return self._snapshot.pod(row)

    def check_pods(self, groups: Sequence[str], pod_shapes: Iterable[facts.PodShape]) -> dict[str, RejectionReasons]:
        """What a new, empty node of each of these groups would say to each of these shapes."""
        alone: list[facts.PodShape] = []
        together: list[facts.PodShape] = []
        for shape in pod_shapes:
            (together if batch_placement.is_plain(self._snapshot, shape, self._config) else alone).append(shape)
        unknown = [shape for shape in together if any(shape.id not in self._answers[group] for group in groups)]
        repelled = self._check_together(groups, unknown) if unknown else []
        known = [shape.id for shape in together if shape not in repelled]
        pods: dict[str, RejectionReasons] = {}
        for group in groups:
            answers = self._answers[group]
            pods[group] = {number: answers[number] for number in known}
            if alone or repelled:
                pods[group] |= self._check_alone(group, (*alone, *repelled))
        return pods

    def _check_together(self, groups: Sequence[str], pod_shapes: Sequence[facts.PodShape]) -> list[facts.PodShape]:
        """Judge shapes for all these groups at once, and keep what is found; return those that others' pods repel."""
        snapshot, repelled = self._snapshot, []
        snapshot.fork()
        try:
            rows = [self._append(group) for group in groups]
            for shape in pod_shapes:
                if batch_placement.is_repelled(snapshot, shape):
                    repelled.append(shape)
                    continue
                for group, answer in zip(groups, self._explain(shape, rows), strict=True):
                    self._answers[group][shape.id] = answer
        finally:
            snapshot.revert()
        return repelled

    def _check_alone(self, group: str, pod_shapes: Iterable[facts.PodShape]) -> RejectionReasons:
        """Judge shapes for one group; other groups' new nodes would be domains that there are not."""
        self._snapshot.fork()
        try:
            row = self._append(group)
            return {shape.id: self._explain(shape, [row])[0] for shape in pod_shapes}
        finally:
            self._snapshot.revert()

    def _append(self, group: str) -> int:
        template = self._templates[group]
        (row,) = self._snapshot.append(template.node, [template.node.name])
        for shape in template.pods:
            self._snapshot.place(shape, row)
        return row

    def _explain(self, shape: facts.PodShape, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """The reasons of each row; the filters are asked for reasons only where one refuses."""
        snapshot, config = self._snapshot, self._config
        feasible = registry.find_feasible(snapshot, shape, config)[list(rows)].tolist()
        if all(feasible):
            return [()] * len(rows)
        judged = registry.diagnose(snapshot, shape, config)
        return [() if (refusal := judged[row]) is None else tuple(refusal.texts) for row in rows]

    # How many nodes

    def estimate(
        self,
        group: str,
        pods: Sequence[binpacking_estimator.ShapeCount],
        limiter: binpacking_estimator.EstimationLimiter,
        fastpath: bool = False,
        scatter: np.random.Generator | None = None,
    ) -> binpacking_estimator.Estimate:
        """How many nodes of the group these pods need. A new node takes each of them."""
        template = self._templates[group]
        if fastpath or not self._are_plain(template, pods):
            return binpacking_estimator.estimate(
                self._snapshot, pods, template, limiter, self._config, fastpath=fastpath, scatter=scatter
            )
        if scatter is not None:
            return estimate_by_resources(self._snapshot, pods, template, limiter, self._config, scatter)
        asked = (group, limiter.limit, tuple((shape_count.shape.id, shape_count.count) for shape_count in pods))
        if asked not in self._estimates:
            self._estimates[asked] = estimate_by_resources(self._snapshot, pods, template, limiter, self._config)
        return self._estimates[asked]

    def _are_plain(
        self, template: binpacking_estimator.NodeTemplate, pods: Sequence[binpacking_estimator.ShapeCount]
    ) -> bool:
        if any(shape.spec.anti_affinity for shape in template.pods):
            return False  # new nodes would repel pods, or others
        return all(batch_placement.is_plain(self._snapshot, shape_count.shape, self._config) for shape_count in pods)


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """Pods that are alike: so many of them, and what each takes as (column, amount)."""

    count: int
    takes: Sequence[tuple[int, int]]
    checked: Sequence[tuple[int, int]]
    """Of what each takes, that which must be left."""


def estimate_by_resources(
    snapshot: Snapshot,
    groups: Sequence[binpacking_estimator.ShapeCount],
    template: binpacking_estimator.NodeTemplate,
    limiter: binpacking_estimator.EstimationLimiter,
    config: FilterConfig,
    scatter: np.random.Generator | None = None,
) -> binpacking_estimator.Estimate:
    """Pack the groups onto new nodes like the template."""
    demands = [
        ResourceDemand(
            group.count,
            snapshot.requests(group.shape),
            node_resources_fit.checked_requests(snapshot, group.shape, config),
        )
        for group in groups
    ]
    packing = _ResourcePacking(_free_on_empty_node(snapshot, template), limiter, scatter)
    placed = [0] * len(groups)
    may_open = True
    for number in binpacking_estimator.packing_order(groups, template):
        demand = demands[number]
        placed[number] = packing.fill_open_nodes(demand)
        rest = demand.count - placed[number]
        if may_open and rest:
            helped, may_open = packing.open_nodes(demand, rest)
            placed[number] += helped
    return binpacking_estimator.Estimate(packing.nodes_with_pods, tuple(placed), limiter.stopped_by)


def _free_on_empty_node(snapshot: Snapshot, template: binpacking_estimator.NodeTemplate) -> arrays.Amounts:
    """Int64 (n_resources,): what a new node has left beside the pods that come with it."""
    columns = [(snapshot.nodes.resource_column(resource), amount) for resource, amount in template.node.allocatable]
    takes = [pair for shape in template.pods for pair in snapshot.requests(shape)]
    free = np.zeros(len(snapshot.nodes.resources), arrays.RESOURCE_DTYPE)
    for column, amount in columns:
        free[column] = amount
    for column, amount in takes:
        free[column] -= amount
    return free


class _ResourcePacking:
    """The nodes opened so far: what each has left, and whether a pod was placed on it."""

    def __init__(
        self,
        empty: arrays.Amounts,
        limiter: binpacking_estimator.EstimationLimiter,
        scatter: np.random.Generator | None,
    ) -> None:
        self._empty, self._limiter, self._scatter = empty, limiter, scatter
        self._free = np.zeros((len(empty), 64), arrays.RESOURCE_DTYPE)
        self._used = np.zeros(64, bool)
        self._count = 0
        self._pointer = -1

    @property
    def nodes_with_pods(self) -> int:
        return int(self._used[: self._count].sum())

    def fill_open_nodes(self, demand: ResourceDemand) -> int:
        """Place pods on the nodes opened so far, round-robin; return how many found room."""
        if not self._count:
            return 0
        room = self._room(demand)
        if self._scatter is not None:
            return self._place(
                demand, batch_placement.fill_scattered(np.arange(len(room)), room, demand.count, self._scatter)
            )
        rows = batch_placement.rotate(np.flatnonzero(room), self._pointer)
        placed = batch_placement.fill_levels(rows, room[rows], demand.count)
        if len(placed.rows):
            self._pointer = placed.last
        return self._place(demand, placed)

    def open_nodes(self, demand: ResourceDemand, count: int) -> tuple[int, bool]:
        """Open nodes for pods that the open ones refused: (how many are helped, may more nodes be opened?)."""
        if self._count and not self._used[self._count - 1]:
            return 0, True
        if not self._open(1):
            return 0, False
        newest = self._count - 1
        per_node = int(batch_placement.count_room([(self._free[column, newest:self._count], amount)
                                           for column, amount in demand.checked], 1)[0])  # fmt: skip
        if per_node == 0:
            return 0, True
        desired = -(-count // per_node) - 1
        granted = self._open(desired)
        rows = newest + np.arange(granted + 1)
        placed = batch_placement.fill_first(rows, np.full(granted + 1, per_node, arrays.RESOURCE_DTYPE), count)
        return self._place(demand, placed), granted == desired

    def _room(self, demand: ResourceDemand) -> arrays.Amounts:
        """Int64 (n_open): how many such pods each open node has room for."""
        here = [(self._free[column, : self._count], amount) for column, amount in demand.checked]
        return batch_placement.count_room(here, self._count)

    def _open(self, desired: int) -> int:
        granted = self._limiter.grant(desired) if desired > 0 else 0
        first, self._count = self._count, self._count + granted
        more = self._count - len(self._used)
        if more > 0:
            more = max(more, len(self._used))
            self._free = np.pad(self._free, ((0, 0), (0, more)))
            self._used = np.pad(self._used, (0, more))
        self._free[:, first : self._count] = self._empty[:, None]
        return granted

    def _place(self, demand: ResourceDemand, placed: batch_placement.Placement) -> int:
        if placed.total:
            for column, amount in demand.takes:
                self._free[column, placed.rows] -= placed.counts * amount
            self._used[placed.rows] = True
        return placed.total
