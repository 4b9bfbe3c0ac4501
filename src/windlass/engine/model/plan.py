"""The plan: what a decision orders, as frozen instructions.

Each is idempotent: executing it twice does no more than once. They are in the order of execution; one that fails is a
fact of the next observation, and does not keep the others from being tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.engine.model import node_groups
from windlass.engine.model.provisioning import Condition


@dataclass(frozen=True, slots=True)
class Resize:
    """Grow a group."""

    group: str
    from_size: int
    to_size: int
    max_size: int


@dataclass(frozen=True, slots=True)
class ReduceTarget:
    """Lower a group's target size without deleting an instance: missing nodes are no longer waited for."""

    group: str
    by: int
    why: str
    from_size: int
    """What it was when this was decided. A group that is no larger than intended is left as it is, and one that was
    raised meanwhile too: why is not known here."""

    @property
    def to_size(self) -> int:
        return self.from_size - self.by


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take back the increase of a group, because a scale-up over several groups failed in part."""

    group: str
    by: int
    why: str
    from_size: int
    """What it was raised to."""


@dataclass(frozen=True, slots=True)
class DeleteInstances:
    """Delete instances that have no node: they never registered, or could not be created."""

    group: str
    provider_ids: tuple[str, ...]
    why: str
    force: bool = False
    """Even below the group's minimum."""


@dataclass(frozen=True, slots=True)
class SetTaint:
    """Put a taint on a node; one with the same key and effect is replaced."""

    node: str
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class RemoveTaint:
    """Remove all taints with this key from a node."""

    node: str
    key: str


@dataclass(frozen=True, slots=True)
class Cordon:
    """Set or clear spec.unschedulable of a node."""

    node: str
    cordoned: bool = True


@dataclass(frozen=True, slots=True)
class Drain:
    """Drain a node and delete it: taint, cordon, evict, delete the machine. `drain_loop.advance` executes the steps."""

    node: str
    group: str
    evict: tuple[str, ...] = ()
    """Pods to be moved, as namespace/name."""
    daemonset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod with a grace period."""

    namespace: str
    name: str
    uid: str
    grace_s: float | None
    node: str

    @property
    def identity(self) -> str:
        """The pod, as drains know it: by its uid, or by its key where it has none."""
        return self.uid or f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node's machine through its group. The Node object is deleted by the provider's controllers."""

    node: str
    group: str


@dataclass(frozen=True, slots=True)
class SetConditions:
    """Write the conditions of a ProvisioningRequest, as long as it is of this version."""

    namespace: str
    name: str
    version: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Delete a ProvisioningRequest whose last condition is older than the retention time."""

    namespace: str
    name: str
    uid: str


GroupInstruction: TypeAlias = Resize | ReduceTarget | TakeBack | DeleteInstances

NodeInstruction: TypeAlias = SetTaint | RemoveTaint | Cordon | DeleteNode

ProvisioningRequestInstruction: TypeAlias = SetConditions | DeleteRequest

Instruction: TypeAlias = (
    GroupInstruction | SetTaint | RemoveTaint | Cordon | Drain | Evict | DeleteNode | ProvisioningRequestInstruction
)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Every instruction of the plan is in exactly one of the first two."""

    done: tuple[Instruction, ...] = ()
    """In the order in which they were completed. What was so already counts as done."""
    failed: Mapping[Instruction, str] = field(default_factory=dict)
    """With the error message."""
    refused: Mapping[str, node_groups.InstanceError] = field(default_factory=dict)
    """Groups that could not be raised, among those that failed: why."""


Plan: TypeAlias = tuple[Instruction, ...]
