"""The plan: what is to be done about a pool, as values. Steps are idempotent, and done in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.machine_pool import facts
from windlass.controllers.telling import Event


@dataclass(frozen=True, slots=True)
class Adopt:
    """Make the pool the controller of a provider's object, and label it."""

    external: facts.External
    owners: tuple[facts.Owner, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteExternal:
    """Delete a provider's object."""

    external: facts.External


@dataclass(frozen=True, slots=True)
class ApplyMachine:
    """Make a Machine, or make it as it should be."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MarkMachine:
    """Say on a Machine whether it is up to date."""

    name: str
    condition: facts.Condition


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Say on a Node whose it is, and take the taint away that was to wait for that."""

    node: facts.Node
    annotations: Mapping[str, str]
    taints: tuple[facts.Taint, ...] | None
    """None: they stay as they are."""


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a Node."""

    name: str
    uid: str


Step = Adopt | DeleteExternal | ApplyMachine | MarkMachine | PatchNode | DeleteNode


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and what the pool should then be."""

    pool: facts.Pool
    """As it should be. Written after the steps."""
    steps: tuple[Step, ...] = ()
    events: tuple[Event, ...] = ()
    failures: tuple[str, ...] = field(default=())
    """What stands in the way, in words: the pool is looked at again, and later each time."""
    again_s: float | None = None
    """When to look again in any case."""
