"""Quotas: how much of a resource the cluster may have at most, or must keep at least.

A quota limits cores, bytes of memory, nodes, GPUs by type or any other resource, of the nodes that it selects. The same
tracker serves both directions: what is left is the room under a maximum, for adding nodes, or what is above a minimum,
for removing them. Nodes are counted whole: cpu in cores, rounded up, from capacity.

The first node met of a group stands for all nodes of that group, also those still to come: what a group's nodes hold is
asked once. Its labels, which decide whether a quota applies, are each node's own. Virtual nodes (virtual kubelet) take
part in no usage, but quotas do apply to them.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine import facts, gpus
from windlass.selectors import EVERYTHING, LabelSelector

NODES = "nodes"
"""The resource that every node has one of."""

CLUSTER_WIDE = "cluster-wide"
"""Id of the quota that the flags --cores-total, --memory-total and --gpu-total make."""

Measure = Callable[[facts.Node, str | None], Mapping[str, int]]
"""What a node of a group (None: of no group) holds, by resource."""


class Bound(enum.Enum):
    """Which way a quota limits."""

    MAXIMUM = "max"
    MINIMUM = "min"


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits on the nodes that it selects. A resource that it does not name is not limited."""

    id: str
    limits: Mapping[str, int]
    """In whole units: cores, bytes, pieces."""
    selector: LabelSelector = EVERYTHING

    def applies_to(self, node: facts.Node) -> bool:
        return self.selector.matches(node.labels)


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Limits on the whole cluster, as flags set them. Without a minimum it is 0; without a maximum there is none."""

    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)

    def make_quota(self, bound: Bound) -> Quota:
        """A maximum names what it limits; a minimum also what only has a maximum, with 0."""
        if bound is Bound.MAXIMUM:
            return Quota(CLUSTER_WIDE, dict(self.maximum))
        return Quota(CLUSTER_WIDE, {name: self.minimum.get(name, 0) for name in {**self.minimum, **self.maximum}})


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left of a quota. Never negative."""

    quota: Quota
    left: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A quota that stands in the way, and the resources of it that do, by name."""

    quota: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """How many of the nodes asked for are allowed, and what stands in the way of the others."""

    allowed: int
    exceeded: tuple[Exceeded, ...] = ()


def count_whole(node: facts.Node, _group: str | None) -> dict[str, int]:
    """Cores, bytes of memory and the node itself."""
    capacity = dict(node.capacity)
    cores = -(-capacity.get(facts.CPU, 0) // 1000)
    return {facts.CPU: max(cores, 0), facts.MEMORY: max(capacity.get(facts.MEMORY, 0), 0), NODES: 1}


@dataclass(frozen=True, slots=True)
class WithGpus:
    """Counts GPUs too, under their type: the value of the GPU label, which is what --gpu-total names."""

    label: str
    templates: Mapping[str, facts.Node]
    """By group: what a new node looks like, for nodes whose GPUs do not show yet."""

    def __call__(self, node: facts.Node, group: str | None) -> dict[str, int]:
        held = count_whole(node, group)
        found = gpus.expect(node, self.label, self.templates.get(group) if group is not None else None)
        if found is not None:
            held[found[0]] = found[1]
        return held

    def find_unknown(self, nodes: Iterable[tuple[facts.Node, str | None]]) -> str | None:
        """The first node whose GPUs cannot be counted. As in `Holdings`, the first node of a group stands for it."""
        met: set[str] = set()
        for node, group in nodes:
            if is_virtual(node.labels) or group in met:
                continue
            if group is not None:
                met.add(group)
            template = self.templates.get(group) if group is not None else None
            if gpus.is_count_unknown(node, self.label, template):
                return node.name
        return None


class Holdings:
    """What nodes count for: the first node met of a group for all of that group, a node without group for itself."""

    __slots__ = ("_by_group", "_measure")

    def __init__(self, measure: Measure = count_whole) -> None:
        self._measure = measure
        self._by_group: dict[str, Mapping[str, int]] = {}

    def look_up(self, group: str | None, node: facts.Node) -> Mapping[str, int]:
        if group is None:
            return self._measure(node, None)
        held = self._by_group.get(group)
        if held is None:
            held = self._by_group[group] = self._measure(node, group)
        return held

    def fork(self) -> "Holdings":
        other = Holdings(self._measure)
        other._by_group = dict(self._by_group)
        return other


class Tracker:
    """What quotas leave, counted down as nodes are planned. A scratch value of one decision: fork it to try things."""

    __slots__ = ("_holdings", "_left", "_quotas")

    def __init__(self, headrooms: Iterable[Headroom], holdings: Holdings | None = None) -> None:
        rooms = tuple(headrooms)
        self._quotas = tuple(room.quota for room in rooms)
        self._left = [dict(room.left) for room in rooms]
        self._holdings = Holdings() if holdings is None else holdings

    @property
    def headrooms(self) -> tuple[Headroom, ...]:
        return tuple(Headroom(quota, dict(left)) for quota, left in zip(self._quotas, self._left, strict=True))

    def fork(self) -> "Tracker":
        return Tracker(self.headrooms, self._holdings.fork())

    def check(self, group: str | None, node: facts.Node, count: int) -> Answer:
        """How many of `count` nodes like this one every quota allows. Changes nothing that is left."""
        return self._check(self._holdings.look_up(group, node), self._applicable(node), count)

    def consume(self, group: str | None, node: facts.Node, count: int) -> Answer:
        """The same, and takes it off what is left; all of it, or nothing if not all is allowed."""
        held, applicable = self._holdings.look_up(group, node), self._applicable(node)
        answer = self._check(held, applicable, count)
        if answer.allowed == count:
            for position in applicable:
                left = self._left[position]
                for resource in held.keys() & left.keys():
                    left[resource] = max(left[resource] - held[resource] * count, 0)
        return answer

    def _applicable(self, node: facts.Node) -> list[int]:
        return [position for position, quota in enumerate(self._quotas) if quota.applies_to(node)]

    def _check(self, held: Mapping[str, int], applicable: Sequence[int], count: int) -> Answer:
        if count < 0:
            raise ValueError(f"a number of nodes is never negative, not even of nodes to remove: {count}")
        allowed, exceeded = count, []
        for position in applicable:
            left = self._left[position]
            short = tuple(
                sorted(name for name, each in held.items() if each > 0 and left.get(name, each * count) < each * count)
            )
            if short:
                allowed = min(allowed, *(left[resource] // held[resource] for resource in short))
                exceeded.append(Exceeded(self._quotas[position].id, short))
        return Answer(allowed, tuple(exceeded))


def track(
    bound: Bound,
    quotas: Iterable[Quota],
    nodes: Iterable[tuple[facts.Node, str | None]],
    measure: Measure = count_whole,
) -> Tracker:
    """A tracker of what the quotas leave, given the nodes that there are, each with its group."""
    usages: list[tuple[Quota, dict[str, int]]] = [(quota, {}) for quota in quotas]
    holdings = Holdings(measure)
    for node, group in nodes:
        if is_virtual(node.labels):
            continue
        held = holdings.look_up(group, node)
        for quota, usage in usages:
            if quota.applies_to(node):
                for resource, amount in held.items():
                    usage[resource] = usage.get(resource, 0) + amount
    return Tracker((Headroom(quota, _leave(bound, quota, usage)) for quota, usage in usages), holdings)


def is_virtual(labels: Mapping[str, str]) -> bool:
    """Are these the labels of a virtual kubelet's node? It may show any amount of resources, so it is not counted."""
    return labels.get("type") == "virtual-kubelet"


def _leave(bound: Bound, quota: Quota, usage: Mapping[str, int]) -> dict[str, int]:
    sign = 1 if bound is Bound.MAXIMUM else -1
    return {name: max(sign * (limit - usage.get(name, 0)), 0) for name, limit in quota.limits.items()}
