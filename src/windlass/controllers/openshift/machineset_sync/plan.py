"""The plan: what is to be written of a pair, as values. Steps are done in order, and only over what was looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.controllers.openshift import apis

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """Make the MachineSet of Cluster API."""

    body: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Change fields of a MachineSet, replicas never; null takes one away."""

    api: apis.Api
    patch: Json
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ApplyReplicas:
    """Make a MachineSet this size, or mark the size that it has as known."""

    api: apis.Api
    replicas: int


@dataclass(frozen=True, slots=True)
class ApplyAnnotations:
    """Make these the annotations of a MachineSet that either side may write, and mark them as known."""

    api: apis.Api
    annotations: Mapping[str, str]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkMachine:
    """Say of a Machine that it goes first, or (None) that it does not."""

    api: apis.Api
    name: str
    uid: str
    resource_version: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetAuthority:
    """Say which API holds. `status` may say more."""

    status: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a MachineSet."""

    api: apis.Api


@dataclass(frozen=True, slots=True)
class ApplyTemplate:
    """Make a template."""

    body: Json


@dataclass(frozen=True, slots=True)
class DeleteTemplate:
    """Delete a template that was made for a set and is no longer its."""

    api_version: str
    kind: str
    name: str


Step = (
    Create
    | Patch
    | ApplyReplicas
    | ApplyAnnotations
    | MarkMachine
    | SetAuthority
    | Delete
    | ApplyTemplate
    | DeleteTemplate
)


@dataclass(frozen=True, slots=True)
class Condition:
    """Synchronized, as it should be said; `generation` is the holder's that the other is equal to."""

    status: str
    reason: str
    message: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell of a MachineSet."""

    api: apis.Api
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and what is said then."""

    steps: tuple[Step, ...] = ()
    condition: Condition | None = None
    """Said once the steps are done."""
    events: tuple[Event, ...] = ()
    why: str = ""
    """For the log."""
    needs_machines: bool = False
    """Nothing is decided before the pair's Machines are read, after the MachineSets were."""


NOTHING = Plan()
