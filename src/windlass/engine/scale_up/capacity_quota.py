"""CapacityQuota: quotas that users write as objects (autoscaling.x-k8s.io/v1beta1).

An object is checked, its status says whether it is valid and how much its nodes hold now, and while the status says
that it is valid it is enforced as a quota for adding nodes. A new object is therefore not enforced before its status is
written, and one that turns invalid keeps showing its last usage.

Amounts are whatever exact number the caller brings (`Amount`), because the usage is shown as it adds up, not rounded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, Self, TypeVar

from windlass import label_syntax
from windlass.engine.scale_up import quotas
from windlass.selectors import EVERYTHING, LabelSelector

VALID = "cluster-autoscaler.kubernetes.io/valid"
RECONCILED = "Reconciled"


class Amount(Protocol):
    """An exact amount of a resource."""

    def __add__(self, other: Self, /) -> Self: ...

    def value(self) -> int:
        """Whole units, rounded up."""
        ...


Q = TypeVar("Q", bound=Amount)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the object's status."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Status(Generic[Q]):
    """What the object says of itself."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    used: Mapping[str, Q] | None = None

    def has(self, condition_type: str) -> bool:
        """Is the condition there, and true?"""
        return any(one.type == condition_type and one.status == "True" for one in self.conditions)


@dataclass(frozen=True, slots=True)
class CapacityQuota(Generic[Q]):
    """A CapacityQuota object."""

    name: str
    limits: Mapping[str, Q]
    selector: label_syntax.WrittenSelector | None = None
    """None, like an empty one, selects every node."""
    generation: int = 0
    status: Status[Q] = field(default_factory=Status)


@dataclass(frozen=True, slots=True)
class QuotaNode(Generic[Q]):
    """A node as quotas see it: labels, and capacity in exact amounts."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, Q]


def update_status(
    quota: CapacityQuota[Q], nodes: Iterable[QuotaNode[Q]], whole: Callable[[int], Q], now_s: float
) -> Status[Q]:
    """The status that the object should have. `whole` makes an amount of whole units."""
    status = replace(quota.status, observed_generation=quota.generation)
    try:
        selector = read_selector(quota)
    except label_syntax.BadSelector as error:
        fault = f"spec.selector: Invalid value: {quota.selector}: {error}"
        status = _set(status, quota, now_s, VALID, "False", "ValidationFailed", fault)
        return _set(status, quota, now_s, RECONCILED, "False", "ReconciliationFailed", "Validation failed")
    status = _set(status, quota, now_s, VALID, "True", "ValidationSucceeded", "CapacityQuota is valid")
    counted = [node for node in nodes if selector.matches(node.labels) and not quotas.is_virtual(node.labels)]
    status = replace(status, used={name: _add_up(name, counted, whole) for name in quota.limits})
    done = "CapacityQuota successfully reconciled"
    return _set(status, quota, now_s, RECONCILED, "True", "ReconciliationSucceeded", done)


def read_selector(quota: CapacityQuota[Q]) -> LabelSelector:
    """BadSelector if it cannot be used."""
    return EVERYTHING if quota.selector is None else label_syntax.read_selector(quota.selector)


def enforce(quota: CapacityQuota[Q]) -> quotas.Quota | None:
    """What is enforced: limits rounded up to whole units, and nothing unless the status says that it is valid."""
    if not quota.status.has(VALID):
        return None
    try:
        selector = read_selector(quota)
    except label_syntax.BadSelector:
        return None
    limits = {name: limit.value() for name, limit in quota.limits.items()}
    return quotas.Quota(f"CapacityQuota/{quota.name}", limits, selector)


def _add_up(resource: str, nodes: Iterable[QuotaNode[Q]], whole: Callable[[int], Q]) -> Q:
    total = whole(0)
    for node in nodes:
        if resource == quotas.NODES:
            total = total + whole(1)
        elif resource in node.capacity:
            total = total + node.capacity[resource]
    return total


def _set(
    status: Status[Q], quota: CapacityQuota[Q], now_s: float, condition_type: str, value: str, reason: str, message: str
) -> Status[Q]:
    """The status with one condition set; its time stays while the condition's status does."""
    new = Condition(condition_type, value, reason, message, quota.generation, now_s)
    conditions = list(status.conditions)
    for position, old in enumerate(conditions):
        if old.type == condition_type:
            conditions[position] = replace(new, since_s=old.since_s) if old.status == value else new
            break
    else:
        conditions.append(new)
    return replace(status, conditions=tuple(conditions))
