"""A CapacityBuffer as decisions see it: what is to be kept spare, and what its status says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windlass.engine.provisioning.request import Condition
from windlass.quantity import Quantity

ACTIVE = "buffer.x-k8s.io/active-capacity"
"""The strategy of buffers whose capacity is there, running and empty."""

READY, PROVISIONING, LIMITED = "ReadyForProvisioning", "Provisioning", "LimitedByQuotas"


@dataclass(frozen=True, slots=True)
class Scalable:
    """A workload, by the group and kind under which it can be scaled."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Status:
    """What a buffer says of itself."""

    pod_template: str | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    strategy: str | None = None
    conditions: tuple[Condition, ...] = ()

    def has(self, condition_type: str, status: str) -> bool:
        return any(one.type == condition_type and one.status == status for one in self.conditions)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A CapacityBuffer."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    created_s: float = 0.0
    strategy: str | None = None
    template: str | None = None
    """The PodTemplate that says what is kept spare."""
    scalable: Scalable | None = None
    """Or the workload whose pods do."""
    replicas: int | None = None
    percentage: int | None = None
    limits: Mapping[str, Quantity] | None = None
    status: Status = field(default_factory=Status)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_ours(self) -> bool:
        return self.strategy in (None, "", ACTIVE)


@dataclass(frozen=True, slots=True)
class Sample:
    """A pod such as room is kept for, as far as sizes and quotas ask."""

    requests: Mapping[str, Quantity]
    priority_class: str = ""
    crosses_namespaces: bool = False
    """Its affinity looks at pods of other namespaces."""


def put(
    status: Status, kind: str, value: bool, reason: str, message: str, now_s: float, generation: int | None = None
) -> Status:
    """The status with this said; since when it is so stays, while it is."""
    text = str(value)
    old = next((one for one in status.conditions if one.type == kind), None)
    since_s = old.since_s if old is not None and old.status == text else now_s
    new = Condition(kind, text, reason, message, since_s, generation)
    if old is None:
        return replace(status, conditions=(*status.conditions, new))
    return replace(status, conditions=tuple(new if one is old else one for one in status.conditions))
