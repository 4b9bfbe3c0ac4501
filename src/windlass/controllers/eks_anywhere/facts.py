"""Facts: an EKS Anywhere Cluster, its groups, and what is there of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.controllers.worker_pools.machine_deployments import MachineDeployment
from windlass.controllers.worker_pools.manifest import Machine
from windlass.controllers.worker_pools.sizes import Size


@dataclass(frozen=True, slots=True)
class Condition:
    """As Cluster API v1beta1 had them: one that is False has a severity."""

    type: str
    status: str
    reason: str = ""
    severity: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A worker node group, complete."""

    name: str
    machine_deployment: str
    """What its MachineDeployment is called."""
    size: Size
    machine: Machine = field(default_factory=Machine)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_in_place: bool = False
    """Are its machines upgraded in place?"""


@dataclass(frozen=True, slots=True)
class Status:
    """What we say of a Cluster."""

    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    reconciled_generation: int | None = None
    """The last one whose groups were written."""
    failure_reason: str = ""
    failure_message: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a user wants."""

    namespace: str
    name: str
    generation: int = 0
    is_left_alone: bool = False
    """On its way out, or paused."""
    control_plane_count: int = 1
    is_in_place: bool = False
    """Is its control plane upgraded in place?"""
    has_external_etcd: bool = False
    groups: tuple[Group, ...] = ()
    status: Status = field(default_factory=Status)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A KubeadmControlPlane."""

    name: str
    generation: int = 0
    observed_generation: int = 0
    current: int = 0
    ready: int = 0
    up_to_date: int = 0
    is_available: bool = False
    unhealthy: str | None = None
    """What its components lack, in words that may be empty; None if they lack nothing."""


@dataclass(frozen=True, slots=True)
class Etcd:
    """An external etcd."""

    is_current: bool
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision is made from."""

    cluster: Cluster
    api_version: str
    """Of Cluster API."""
    namespace: str
    has_capi_cluster: bool = True
    control_plane: ControlPlane | None = None
    is_initialized_by_other: bool = False
    """Does Cluster API say that a control plane which is no KubeadmControlPlane is up?"""
    etcd: Etcd | None = None
    rival: str = ""
    """An older Cluster of the same name, elsewhere, whose the MachineDeployments are."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """MachineDeployments that our groups' names stand for, and the other Clusters that they belong to."""
    machine_deployments: tuple[MachineDeployment, ...] = ()
    """All that carry the cluster's name."""
