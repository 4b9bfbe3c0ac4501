"""MachinePool model: facts of one reconcile, the plan, settings, and Cluster API's names.

Values are frozen and independent of the API version (v1beta1 or v1beta2) that the pool was read in. Plan steps are
idempotent and executed in order.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import product, selectors
from windlass.controllers.controller_interface import Event

GROUP = "cluster.x-k8s.io"

V1BETA1 = f"{GROUP}/v1beta1"

V1BETA2 = f"{GROUP}/v1beta2"

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

POOL_NAME_LABEL = "cluster.x-k8s.io/pool-name"

FINALIZER = "machinepool.cluster.x-k8s.io"

CLUSTER_FINALIZER = product.CLUSTER_FINALIZER
"""Finalizer of Clusters: a Cluster stays until its pools are gone. Without its gate MachinePool, Cluster API's Cluster
controller neither deletes pools nor waits for them, and providers do not delete instances of a Cluster that is gone."""

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"

OK_TO_DELETE_ANNOTATION = "runtime.cluster.x-k8s.io/ok-to-delete"
"""Set on a Cluster with a topology once its BeforeClusterDelete hooks have passed."""

MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/replicas-managed-by"

CLUSTER_NAME_ANNOTATION = "cluster.x-k8s.io/cluster-name"

CLUSTER_NAMESPACE_ANNOTATION = "cluster.x-k8s.io/cluster-namespace"

OWNER_KIND_ANNOTATION = "cluster.x-k8s.io/owner-kind"

OWNER_NAME_ANNOTATION = "cluster.x-k8s.io/owner-name"

UNINITIALIZED_TAINT = "node.cluster.x-k8s.io/uninitialized"

MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

MACHINE_MANAGER = "machinepool-controller"
"""Field manager of Machines and source of events: the name of Cluster API's own controller, so that either may take
over from the other."""

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
"""Condition of windlass only, present while False: an input of the pool is invalid."""

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def label_value(name: str) -> str:
    """The label value for a name: the name itself if it is valid, otherwise its hash (FNV-1a, 32 bits)."""
    if not selectors.check_label_value(name):
        return name
    digest = _FNV_OFFSET
    for byte in name.encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    text = base64.urlsafe_b64encode(digest.to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{text}_z"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A reference to an object in the pool's namespace."""

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
        """True if both name the same object. The uid is ignored: a recreated object counts as the same."""
        return (self.group, self.kind, self.name) == (other.group, other.kind, other.name)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A Node of the pool."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: v1beta1 with severity, or v1beta2 with observed generation."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    severity: str = ""
    observed_generation: int | None = None
    last_transition_time: str = ""
    """Last transition time in RFC 3339."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """Counts of ready Nodes, available Nodes and unavailable replicas."""

    ready: int = 0
    available: int = 0
    unavailable: int = 0


@dataclass(frozen=True, slots=True)
class MachinePoolStatus:
    """Status of a MachinePool."""

    bootstrap_created: bool | None = None
    infrastructure_provisioned: bool | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    versions: tuple[tuple[str, int], ...] = ()
    """Counts by kubelet version."""
    node_refs: tuple[NodeRef, ...] = ()
    nodes: NodeCounts = NodeCounts()
    """`nodeRefs` of v1beta1; deprecated in v1beta2, which has no other list of Nodes."""
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
    """The API version in which it is read and written."""
    resource_version: str = ""
    generation: int = 0
    created_s: float = 0.0
    deleted_s: float | None = None
    """Deletion timestamp; None if it is not being deleted."""
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
    """True if managedFields show that the secret name was copied from the bootstrap config, not set by a user."""
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
    may_delete_workers: bool = True
    """False while Cluster API waits for BeforeClusterDelete hooks."""
    finalizers: tuple[str, ...] = ()
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ClusterPool:
    """A pool of a Cluster, as far as deleting the Cluster concerns it."""

    name: str
    uid: str
    is_deleting: bool = False
    has_finalizer: bool = False


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Changes to a Cluster and its pools."""

    finalizers: tuple[str, ...] | None = None
    """The Cluster's new finalizers; None leaves them unchanged."""
    deleted_pools: tuple[ClusterPool, ...] = ()
    """Pools to delete with their Cluster."""


@dataclass(frozen=True, slots=True)
class ProviderObject:
    """A provider's object: bootstrap config or infrastructure pool."""

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
    """A provider's object that does not exist or cannot be read."""

    reference: ObjectReference
    definition: str = ""
    """The name of the missing or unlabelled CustomResourceDefinition; empty if only the object is missing."""
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
    """("labels" or "annotations", key) of metadata that this controller applied."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a Node, with all its fields."""

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
    """A workload cluster without connection."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedMachinePool:
    """Facts for one reconcile of a MachinePool."""

    pool: MachinePool
    cluster: Cluster | None
    bootstrap: ProviderObject | MissingObject | None
    """None if the pool has no bootstrap reference."""
    infrastructure: ProviderObject | MissingObject | None
    nodes: tuple[Node, ...] | UnreachableCluster = ()
    """Nodes with one of the pool's provider IDs or in its nodeRefs."""
    infra_machines: tuple[InfraMachine, ...] = ()
    machines: tuple[Machine, ...] = ()
    older_pools: Mapping[str, str] = field(default_factory=dict)
    """Older pools of the same cluster that list the same provider ID, by provider ID."""
    younger_pools: Mapping[str, str] = field(default_factory=dict)
    """Younger pools, likewise."""


@dataclass(frozen=True, slots=True)
class AdoptProviderObject:
    """Make the pool the controller owner of a provider's object, and label the object."""

    external: ProviderObject
    owners: tuple[OwnerReference, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteProviderObject:
    """Delete a provider's object."""

    external: ProviderObject


@dataclass(frozen=True, slots=True)
class ApplyMachine:
    """Create or update a Machine by server-side apply."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SetMachineUpToDate:
    """Set the condition UpToDate of a Machine."""

    name: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Annotate a Node with its owner, and remove the uninitialized taint."""

    node: Node
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...] | None
    """New taints; None leaves them unchanged."""


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
    """Steps for one MachinePool, and its desired state."""

    pool: MachinePool
    """The desired pool, written after the steps."""
    steps: tuple[MachinePoolStep, ...] = ()
    events: tuple[Event, ...] = ()
    failures: tuple[str, ...] = field(default=())
    """Failures that are retried with backoff."""
    requeue_after_s: float | None = None
    """Requeue after this time even without a change."""


@dataclass(frozen=True, slots=True)
class MachinePoolSettings:
    """Settings of the MachinePool controller."""

    rotate_bootstrap_secret: bool = False
    """Copy the bootstrap config's data secret name whenever it changes, also over a name set by a user, as Cluster
    API's own controller does. By default it is copied into an empty field only."""
    allow_insecure_kubeconfigs: bool = False
    """Accept kubeconfigs without TLS or verification, with proxies, or with loopback, link-local or metadata
    addresses."""
    resync_s: float = 600.0
    """Period after which each pool is reconciled without a change."""
    grace_s: float = 10.0
    """Time without response after which a workload cluster is unreachable."""
