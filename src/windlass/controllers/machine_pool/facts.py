"""Facts: all that a decision about one MachinePool is made from. Frozen values, spelled in no API version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Reference:
    """An object in the pool's own namespace."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    def is_same_object(self, other: "Owner") -> bool:
        """By name: an object that was made anew is still the same one here."""
        return (self.group, self.kind, self.name) == (other.group, other.kind, other.name)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A Node that belongs to the pool."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, of the old kind with a severity or of the new kind with a generation."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    severity: str = ""
    observed_generation: int | None = None
    since: str = ""
    """When it last changed, as the API spells it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Nodes that are ready, that have been so for long enough, and replicas that are not."""

    ready: int = 0
    available: int = 0
    unavailable: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What the pool says of itself."""

    bootstrap_created: bool | None = None
    infrastructure_provisioned: bool | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    versions: tuple[tuple[str, int], ...] = ()
    """Kubelet versions and how many nodes have each."""
    node_refs: tuple[NodeRef, ...] = ()
    nodes: Counts = Counts()
    """Of v1beta1, and deprecated in v1beta2, where nothing else counts Nodes."""
    failure_reason: str = ""
    failure_message: str = ""
    phase: str = ""
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    old_conditions: tuple[Condition, ...] = ()

    @property
    def is_failed(self) -> bool:
        return bool(self.failure_reason or self.failure_message)


@dataclass(frozen=True, slots=True)
class Pool:
    """A MachinePool."""

    namespace: str
    name: str
    uid: str = ""
    api_version: str = "cluster.x-k8s.io/v1beta2"
    """That it was read in, and is written in."""
    resource_version: str = ""
    generation: int = 0
    created_s: float = 0.0
    deleted_s: float | None = None
    """When its deletion was asked for; None if it was not."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    cluster_name: str = ""
    replicas: int | None = None
    provider_ids: tuple[str, ...] = ()
    bootstrap_ref: Reference | None = None
    data_secret_name: str | None = None
    is_secret_copied: bool = False
    """The name was copied from the bootstrap config, and not set by a user: managedFields say so."""
    infrastructure_ref: Reference | None = None
    min_ready_s: int = 0
    node_deletion_timeout_s: float | None = None
    template_labels: Mapping[str, str] = field(default_factory=dict)
    template_annotations: Mapping[str, str] = field(default_factory=dict)
    status: Status = Status()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_deleting(self) -> bool:
        return self.deleted_s is not None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The Cluster of a pool."""

    name: str
    uid: str
    is_paused: bool = False
    is_deleting: bool = False


@dataclass(frozen=True, slots=True)
class External:
    """An object of a provider: bootstrap config or infrastructure pool."""

    reference: Reference
    api_version: str
    plural: str
    contract: str
    uid: str = ""
    resource_version: str = ""
    is_deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """A provider's object that cannot be had."""

    reference: Reference
    definition: str = ""
    """The name of the CustomResourceDefinition that is not there, or not labelled; empty if the object itself is."""
    unlabelled: bool = False


@dataclass(frozen=True, slots=True)
class InfraMachine:
    """A machine of an infrastructure pool."""

    reference: Reference
    api_version: str = ""
    provider_id: str = ""
    is_deleting: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A Machine of the pool."""

    name: str
    uid: str = ""
    generation: int = 0
    is_deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    infrastructure_name: str = ""
    version: str = ""
    is_ready: bool = False
    is_available: bool = False
    up_to_date: Condition | None = None
    applied: frozenset[tuple[str, str]] = frozenset()
    """("labels" or "annotations", key) of what this controller applied before."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Node, with every field it has."""

    key: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """A Node of the workload cluster."""

    name: str
    uid: str = ""
    resource_version: str = ""
    provider_id: str = ""
    is_ready: bool = False
    ready_since_s: float | None = None
    is_deleting: bool = False
    kubelet_version: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The workload cluster cannot be asked."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything, at one moment."""

    pool: Pool
    cluster: Cluster | None
    bootstrap: External | Missing | None
    """None: the pool refers to none."""
    infrastructure: External | Missing | None
    nodes: tuple[Node, ...] | Unreachable = ()
    """Those that the pool may have to do with: by provider ID, or because it refers to them."""
    infra_machines: tuple[InfraMachine, ...] = ()
    machines: tuple[Machine, ...] = ()
    rivals: Mapping[str, str] = field(default_factory=dict)
    """Keys of older pools of the same cluster, by the provider ID that this pool names, too."""
    claimed: Mapping[str, str] = field(default_factory=dict)
    """Keys of younger ones, likewise."""
