"""Quotas: how much of a resource the cluster may have at most or must keep at least, from flags and CapacityQuotas.

One tracker serves both: it counts down the room under a maximum for adding nodes, or above a minimum for removing them.
Nodes are counted whole: cpu in cores, rounded up, from capacity. The first node of a group stands for all of its nodes;
labels, which decide whether a quota applies, are each node's own. Virtual nodes do not count, but quotas apply to them.

A CapacityQuota is enforced only while its status says that it is valid. Amounts are exact numbers of the caller's
(`QuotaAmount`), because the usage is shown as it adds up.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

from windlass import selectors
from windlass.engine.model import facts, scale_up_status, well_known
from windlass.selectors import EVERYTHING, LabelSelector

NODES_RESOURCE = "nodes"
"""The resource that every node has one of."""

CLUSTER_WIDE_ID = "cluster-wide"
"""Id of the quota that the flags --cores-total, --memory-total and --gpu-total make."""

NodeMeasure = Callable[[facts.Node, str | None], Mapping[str, int]]
"""What a node of a group (None: of no group) holds, by resource."""


class QuotaBound(enum.Enum):
    """Which way a quota limits."""

    MAXIMUM = "max"
    MINIMUM = "min"


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Limits on the whole cluster, as flags set them. Without a minimum it is 0; without a maximum there is none."""

    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)

    def make_quota(self, bound: QuotaBound) -> scale_up_status.Quota:
        """A maximum names what it limits; a minimum also what only has a maximum, with 0."""
        if bound is QuotaBound.MAXIMUM:
            return scale_up_status.Quota(CLUSTER_WIDE_ID, dict(self.maximum))
        return scale_up_status.Quota(
            CLUSTER_WIDE_ID, {name: self.minimum.get(name, 0) for name in {**self.minimum, **self.maximum}}
        )


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left of a quota. Never negative."""

    quota: scale_up_status.Quota
    left: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """How many of the nodes asked for are allowed, and what stands in the way of the others."""

    allowed: int
    exceeded: tuple[scale_up_status.ExceededQuota, ...] = ()


def count_whole(node: facts.Node, _group: str | None) -> dict[str, int]:
    """Cores, bytes of memory and the node itself."""
    capacity = dict(node.capacity)
    cores = -(-capacity.get(facts.CPU, 0) // 1000)
    return {facts.CPU: max(cores, 0), facts.MEMORY: max(capacity.get(facts.MEMORY, 0), 0), NODES_RESOURCE: 1}


@dataclass(frozen=True, slots=True)
class GpuMeasure:
    """Counts GPUs too, under their type: the value of the GPU label, which is what --gpu-total names."""

    label: str
    templates: Mapping[str, facts.Node]
    """By group: what a new node looks like, for nodes whose GPUs do not show yet."""

    def __call__(self, node: facts.Node, group: str | None) -> dict[str, int]:
        held = count_whole(node, group)
        expected_gpus = well_known.find_expected_gpus(
            node, self.label, self.templates.get(group) if group is not None else None
        )
        if expected_gpus is not None:
            held[expected_gpus[0]] = expected_gpus[1]
        return held

    def find_unknown(self, nodes: Iterable[tuple[facts.Node, str | None]]) -> str | None:
        """The first node whose GPUs cannot be counted. As in `Holdings`, the first node of a group stands for it."""
        met: set[str] = set()
        for node, group in nodes:
            if is_virtual_node(node.labels) or group in met:
                continue
            if group is not None:
                met.add(group)
            template = self.templates.get(group) if group is not None else None
            if well_known.is_gpu_count_unknown(node, self.label, template):
                return node.name
        return None


class MeasuredGroups:
    """What nodes count for: the first node met of a group for all of that group, a node without group for itself."""

    __slots__ = ("_by_group", "_measure")

    def __init__(self, measure: NodeMeasure = count_whole) -> None:
        self._measure = measure
        self._by_group: dict[str, Mapping[str, int]] = {}

    def look_up(self, group: str | None, node: facts.Node) -> Mapping[str, int]:
        if group is None:
            return self._measure(node, None)
        held = self._by_group.get(group)
        if held is None:
            held = self._by_group[group] = self._measure(node, group)
        return held

    def fork(self) -> "MeasuredGroups":
        other = MeasuredGroups(self._measure)
        other._by_group = dict(self._by_group)
        return other


class QuotaTracker:
    """What quotas leave, counted down as nodes are planned. A scratch value of one decision: fork it to try things."""

    __slots__ = ("_holdings", "_left", "_quotas")

    def __init__(self, headrooms: Iterable[Headroom], holdings: MeasuredGroups | None = None) -> None:
        rooms = tuple(headrooms)
        self._quotas = tuple(room.quota for room in rooms)
        self._left = [dict(room.left) for room in rooms]
        self._holdings = MeasuredGroups() if holdings is None else holdings

    @property
    def headrooms(self) -> tuple[Headroom, ...]:
        return tuple(Headroom(quota, dict(left)) for quota, left in zip(self._quotas, self._left, strict=True))

    def fork(self) -> "QuotaTracker":
        return QuotaTracker(self.headrooms, self._holdings.fork())

    def check(self, group: str | None, node: facts.Node, count: int) -> QuotaCheck:
        """How many of `count` nodes like this one every quota allows. Changes nothing that is left."""
        return self._check(self._holdings.look_up(group, node), self._applicable(node), count)

    def consume(self, group: str | None, node: facts.Node, count: int) -> QuotaCheck:
        """The same, and takes it off what is left; all of it, or nothing if not all is allowed."""
        held, applicable = self._holdings.look_up(group, node), self._applicable(node)
        answer = self._check(held, applicable, count)
        if answer.allowed == count:
            for position in applicable:
                remaining = self._left[position]
                for resource in held.keys() & remaining.keys():
                    remaining[resource] = max(remaining[resource] - held[resource] * count, 0)
        return answer

    def _applicable(self, node: facts.Node) -> list[int]:
        return [position for position, quota in enumerate(self._quotas) if quota.applies_to(node)]

    def _check(self, held: Mapping[str, int], applicable: Sequence[int], count: int) -> QuotaCheck:
        if count < 0:
            raise ValueError(f"a number of nodes is never negative, not even of nodes to remove: {count}")
        allowed, exceeded = count, []
        for position in applicable:
            remaining = self._left[position]
            short = tuple(
                sorted(
                    name for name, item in held.items() if item > 0 and remaining.get(name, item * count) < item * count
                )
            )
            if short:
                allowed = min(allowed, *(remaining[resource] // held[resource] for resource in short))
                exceeded.append(scale_up_status.ExceededQuota(self._quotas[position].id, short))
        return QuotaCheck(allowed, tuple(exceeded))


def make_tracker(
    bound: QuotaBound,
    quotas: Iterable[scale_up_status.Quota],
    nodes: Iterable[tuple[facts.Node, str | None]],
    measure: NodeMeasure = count_whole,
) -> QuotaTracker:
    """A tracker of what the quotas leave, given the nodes that there are, each with its group."""
    usages: list[tuple[scale_up_status.Quota, dict[str, int]]] = [(quota, {}) for quota in quotas]
    holdings = MeasuredGroups(measure)
    for node, group in nodes:
        if is_virtual_node(node.labels):
            continue
        held = holdings.look_up(group, node)
        for quota, usage in usages:
            if quota.applies_to(node):
                for resource, amount in held.items():
                    usage[resource] = usage.get(resource, 0) + amount
    return QuotaTracker((Headroom(quota, _subtract_usage(bound, quota, usage)) for quota, usage in usages), holdings)


def is_virtual_node(labels: Mapping[str, str]) -> bool:
    """Are these the labels of a virtual kubelet's node? It may show any amount of resources, so it is not counted."""
    return labels.get("type") == "virtual-kubelet"


def _subtract_usage(bound: QuotaBound, quota: scale_up_status.Quota, usage: Mapping[str, int]) -> dict[str, int]:
    sign = 1 if bound is QuotaBound.MAXIMUM else -1
    return {name: max(sign * (limit - usage.get(name, 0)), 0) for name, limit in quota.limits.items()}


VALID_CONDITION = "cluster-autoscaler.kubernetes.io/valid"

RECONCILED_REASON = "Reconciled"


class QuotaAmount(Protocol):
    """An exact amount of a resource."""

    def __add__(self, other: Self, /) -> Self: ...

    def value(self) -> int:
        """Whole units, rounded up."""
        ...


ExactAmount = TypeVar("ExactAmount", bound=QuotaAmount)


@dataclass(frozen=True, slots=True)
class QuotaCondition:
    """A condition of the object's status."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int
    since_s: float


@dataclass(frozen=True, slots=True)
class CapacityQuotaStatus(Generic[ExactAmount]):
    """What the object says of itself."""

    observed_generation: int = 0
    conditions: tuple[QuotaCondition, ...] = ()
    used: Mapping[str, ExactAmount] | None = None

    def has(self, condition_type: str) -> bool:
        """Is the condition there, and true?"""
        return any(
            quota_condition.type == condition_type and quota_condition.status == "True"
            for quota_condition in self.conditions
        )


@dataclass(frozen=True, slots=True)
class CapacityQuota(Generic[ExactAmount]):
    """A CapacityQuota object."""

    name: str
    limits: Mapping[str, ExactAmount]
    selector: selectors.UnparsedLabelSelector | None = None
    """None, like an empty one, selects every node."""
    generation: int = 0
    status: CapacityQuotaStatus[ExactAmount] = field(default_factory=CapacityQuotaStatus)


@dataclass(frozen=True, slots=True)
class QuotaNode(Generic[ExactAmount]):
    """A node as quotas see it: labels, and capacity in exact amounts."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, ExactAmount]


def update_status(
    quota: CapacityQuota[ExactAmount],
    nodes: Iterable[QuotaNode[ExactAmount]],
    whole: Callable[[int], ExactAmount],
    now_s: float,
) -> CapacityQuotaStatus[ExactAmount]:
    """The status that the object should have. `whole` makes an amount of whole units."""
    status = replace(quota.status, observed_generation=quota.generation)
    try:
        selector = read_selector(quota)
    except selectors.InvalidLabelSelector as error:
        fault = f"spec.selector: Invalid value: {quota.selector}: {error}"
        status = _set_condition(status, quota, now_s, VALID_CONDITION, "False", "ValidationFailed", fault)
        return _set_condition(
            status, quota, now_s, RECONCILED_REASON, "False", "ReconciliationFailed", "Validation failed"
        )
    status = _set_condition(
        status, quota, now_s, VALID_CONDITION, "True", "ValidationSucceeded", "CapacityQuota is valid"
    )
    counted = [node for node in nodes if selector.matches(node.labels) and not is_virtual_node(node.labels)]
    status = replace(status, used={name: _sum_usage(name, counted, whole) for name in quota.limits})
    done = "CapacityQuota successfully reconciled"
    return _set_condition(status, quota, now_s, RECONCILED_REASON, "True", "ReconciliationSucceeded", done)


def read_selector(quota: CapacityQuota[ExactAmount]) -> LabelSelector:
    """BadSelector if it cannot be used."""
    return EVERYTHING if quota.selector is None else selectors.parse_label_selector(quota.selector)


def make_enforced_quota(quota: CapacityQuota[ExactAmount]) -> scale_up_status.Quota | None:
    """What is enforced: limits rounded up to whole units, and nothing unless the status says that it is valid."""
    if not quota.status.has(VALID_CONDITION):
        return None
    try:
        selector = read_selector(quota)
    except selectors.InvalidLabelSelector:
        return None
    limits = {name: limit.value() for name, limit in quota.limits.items()}
    return scale_up_status.Quota(f"CapacityQuota/{quota.name}", limits, selector)


def _sum_usage(
    resource: str, nodes: Iterable[QuotaNode[ExactAmount]], whole: Callable[[int], ExactAmount]
) -> ExactAmount:
    total = whole(0)
    for node in nodes:
        if resource == NODES_RESOURCE:
            total = total + whole(1)
        elif resource in node.capacity:
            total = total + node.capacity[resource]
    return total


def _set_condition(
    status: CapacityQuotaStatus[ExactAmount],
    quota: CapacityQuota[ExactAmount],
    now_s: float,
    condition_type: str,
    value: str,
    reason: str,
    message: str,
) -> CapacityQuotaStatus[ExactAmount]:
    """The status with one condition set; its time stays while the condition's status does."""
    new = QuotaCondition(condition_type, value, reason, message, quota.generation, now_s)
    conditions = list(status.conditions)
    for position, old in enumerate(conditions):
        if old.type == condition_type:
            conditions[position] = replace(new, since_s=old.since_s) if old.status == value else new
            break
    else:
        conditions.append(new)
    return replace(status, conditions=tuple(conditions))
