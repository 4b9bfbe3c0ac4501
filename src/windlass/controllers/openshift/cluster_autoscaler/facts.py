"""Facts: a ClusterAutoscaler, and what is there of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.openshift.gates import Gates

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """What a user wants."""

    name: str
    uid: str = ""
    resource_version: str = ""
    is_deleting: bool = False
    spec: Json = field(default_factory=dict)
    conditions: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision is made from."""

    autoscaler: Autoscaler
    gates: Gates = field(default_factory=Gates)
    live: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    """What is there, by kind and name."""
    trouble: str = ""
    """Why what is there is not known; empty if it is."""


@dataclass(frozen=True, slots=True)
class Operators:
    """What the operator says of itself, and what that depends on."""

    own: Json | None = None
    """The ClusterOperator `cluster-autoscaler`."""
    machine_api: Json | None = None
    """The ClusterOperator `machine-api`."""
    has_autoscaler: bool = False
    deployment: Json | None = None
    targets: tuple[tuple[str, str, str], ...] = ()
    """MachineSets that MachineAutoscalers name: (group, namespace, name)."""
