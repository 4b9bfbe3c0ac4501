"""Facts: a MachineAutoscaler, the MachineSets that it is about, and who else is about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.openshift import apis
from windlass.controllers.openshift.authority import Pair
from windlass.controllers.openshift.machine_autoscaler import names


@dataclass(frozen=True, slots=True)
class Reference:
    """What is to be scaled, as a user names it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""

    @property
    def machine_set(self) -> str:
        """The name of the MachineSets that are meant, in whichever API; empty if it is something else."""
        return self.name if self.kind == names.TARGET_KIND and apis.find(self.api_version) else ""


@dataclass(frozen=True, slots=True)
class Status:
    """What we say of a MachineAutoscaler."""

    last_target: Reference | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """What a user wants."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    created: str = ""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    min: int = 0
    max: int = 0
    target: Reference = field(default_factory=Reference)
    status: Status = field(default_factory=Status)

    @property
    def key(self) -> str:
        """As MachineSets name their owner."""
        return f"{self.namespace}/{self.name}"

    @property
    def sets(self) -> frozenset[str]:
        """The names of the MachineSets that it is, or was, about."""
        last = self.status.last_target
        return frozenset(name for name in (self.target.machine_set, last.machine_set if last else "") if name)


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision is made from."""

    autoscaler: Autoscaler
    supported: frozenset[apis.Api]
    """The APIs whose MachineSets may be targets: turned on, and there."""
    target: Pair
    last: Pair | None = None
    """What it was about before, if that is no longer what it is about."""
    others: Mapping[str, Autoscaler] = field(default_factory=dict)
    """All others of its namespace that are, or were, about the same MachineSets, by key."""
