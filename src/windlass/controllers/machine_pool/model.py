"""MachinePool model: facts of one reconcile, the plan, settings, and Cluster API's names.

Values are frozen and independent of the API version (v1beta1 or v1beta2) that the pool was read in. Plan steps are
idempotent and executed in order.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.controller_interface import Event

GROUP = "cluster.x-k8s.io"

V1BETA1 = f"{GROUP}/v1beta1"

V1BETA2 = f"{GROUP}/v1beta2"

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

POOL_NAME_LABEL = "cluster.x-k8s.io/pool-name"

FINALIZER = "machinepool.cluster.x-k8s.io"

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"

MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/replicas-managed-by"

CLUSTER_NAME_ANNOTATION = "cluster.x-k8s.io/cluster-name"

CLUSTER_NAMESPACE_ANNOTATION = "cluster.x-k8s.io/cluster-namespace"

OWNER_KIND_ANNOTATION = "cluster.x-k8s.io/owner-kind"

OWNER_NAME_ANNOTATION = "cluster.x-k8s.io/owner-name"

UNINITIALIZED_TAINT = "node.cluster.x-k8s.io/uninitialized"

MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

MACHINE_MANAGER = "machinepool-controller"
"""Who applies Machines, in managedFields, and who says so in events: Cluster API's own controller does it by this name,
so that either may take over from the other."""

PENDING = "Pending"

PROVISIONING = "Provisioning"

PROVISIONED = "Provisioned"

RUNNING = "Running"

SCALING_UP = "ScalingUp"

SCALING_DOWN = "ScalingDown"

SCALING = "Scaling"

FAILED = "Failed"

DELETING = "Deleting"

READY = "Ready"

BOOTSTRAP_READY = "BootstrapReady"

INFRASTRUCTURE_READY = "InfrastructureReady"

REPLICAS_READY = "ReplicasReady"

PAUSED = "Paused"

INPUTS_VALID = "InputsValid"
"""Ours, and there only while it is False: something that the pool was given cannot be used, and what."""

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)

_LABEL_VALUE_BYTES = 63

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def is_label_value(text: str) -> bool:
    return len(text.encode()) <= _LABEL_VALUE_BYTES and _LABEL_VALUE.fullmatch(text) is not None


def label_value(name: str) -> str:
    """A name as a label's value: itself if it may be one, otherwise a hash of it (FNV-1a, 32 bits)."""
    if is_label_value(name):
        return name
    digest = _FNV_OFFSET
    for byte in name.encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    text = base64.urlsafe_b64encode(digest.to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{text}_z"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object in the pool's own namespace."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class OwnerReference:
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

    def is_same_object(self, other: "OwnerReference") -> bool:
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
    last_transition_time: str = ""
    """When it last changed, as the API spells it."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """Nodes that are ready, that have been so for long enough, and replicas that are not."""

    ready: int = 0
    available: int = 0
    unavailable: int = 0


@dataclass(frozen=True, slots=True)
class MachinePoolStatus:
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
    nodes: NodeCounts = NodeCounts()
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
class MachinePool:
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
    owners: tuple[OwnerReference, ...] = ()
    cluster_name: str = ""
    replicas: int | None = None
    provider_ids: tuple[str, ...] = ()
    bootstrap_ref: ObjectReference | None = None
    data_secret_name: str | None = None
    is_secret_copied: bool = False
    """The name was copied from the bootstrap config, and not set by a user: managedFields say so."""
    infrastructure_ref: ObjectReference | None = None
    min_ready_s: int = 0
    node_deletion_timeout_s: float | None = None
    template_labels: Mapping[str, str] = field(default_factory=dict)
    template_annotations: Mapping[str, str] = field(default_factory=dict)
    status: MachinePoolStatus = MachinePoolStatus()

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
class ProviderObject:
    """An object of a provider: bootstrap config or infrastructure pool."""

    reference: ObjectReference
    api_version: str
    plural: str
    contract: str
    uid: str = ""
    resource_version: str = ""
    is_deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MissingObject:
    """A provider's object that cannot be had."""

    reference: ObjectReference
    definition: str = ""
    """The name of the CustomResourceDefinition that is not there, or not labelled; empty if the object itself is."""
    unlabelled: bool = False


@dataclass(frozen=True, slots=True)
class InfraMachine:
    """A machine of an infrastructure pool."""

    reference: ObjectReference
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
    owners: tuple[OwnerReference, ...] = ()
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
class UnreachableCluster:
    """The workload cluster cannot be asked."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedMachinePool:
    """Everything, at one moment."""

    pool: MachinePool
    cluster: Cluster | None
    bootstrap: ProviderObject | MissingObject | None
    """None: the pool refers to none."""
    infrastructure: ProviderObject | MissingObject | None
    nodes: tuple[Node, ...] | UnreachableCluster = ()
    """Those that the pool may have to do with: by provider ID, or because it refers to them."""
    infra_machines: tuple[InfraMachine, ...] = ()
    machines: tuple[Machine, ...] = ()
    older_pools: Mapping[str, str] = field(default_factory=dict)
    """Keys of older pools of the same cluster, by the provider ID that this pool names, too."""
    younger_pools: Mapping[str, str] = field(default_factory=dict)
    """Keys of younger ones, likewise."""


@dataclass(frozen=True, slots=True)
class AdoptProviderObject:
    """Make the pool the controller of a provider's object, and label it."""

    external: ProviderObject
    owners: tuple[OwnerReference, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteProviderObject:
    """Delete a provider's object."""

    external: ProviderObject


@dataclass(frozen=True, slots=True)
class ApplyMachine:
    """Make a Machine, or make it as it should be."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetMachineUpToDate:
    """Say on a Machine whether it is up to date."""

    name: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Say on a Node whose it is, and take the taint away that was to wait for that."""

    node: Node
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...] | None
    """None: they stay as they are."""


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a Node."""

    name: str
    uid: str


MachinePoolStep = (
    AdoptProviderObject | DeleteProviderObject | ApplyMachine | SetMachineUpToDate | PatchNode | DeleteNode
)


@dataclass(frozen=True, slots=True)
class MachinePoolPlan:
    """What is to be done, and what the pool should then be."""

    pool: MachinePool
    """As it should be. Written after the steps."""
    steps: tuple[MachinePoolStep, ...] = ()
    events: tuple[Event, ...] = ()
    failures: tuple[str, ...] = field(default=())
    """What stands in the way, in words: the pool is looked at again, and later each time."""
    requeue_after_s: float | None = None
    """When to look again in any case."""


@dataclass(frozen=True, slots=True)
class MachinePoolSettings:
    """What may be done otherwise."""

    rotate_bootstrap_secret: bool = False
    """Copy the bootstrap config's data secret name whenever it changes, over any that is there, as Cluster API's own
    controller does. By default it is copied into an empty field only: a name that a user set stays."""
    allow_insecure_kubeconfigs: bool = False
    """Let kubeconfigs in Secrets name servers without TLS, servers that are not verified, proxies, and loopback,
    link-local and metadata addresses."""
    resync_s: float = 600.0
    """Every pool is looked at this often, even if nothing seems to have changed."""
    grace_s: float = 10.0
    """A workload cluster that does not answer counts as unreachable after this long."""
