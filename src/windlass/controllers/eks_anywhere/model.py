"""EKS Anywhere model: Cluster, worker node groups, control plane, plan and settings; conversion from and to JSON.

Condition types and reasons are EKS Anywhere's own. `status_patch` gives the merge patch between two statuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers import machine_deployments
from windlass.controllers.machine_deployments import MachineDeployment, MachineTemplate, PoolSize, ReplicaLimits

API_VERSION = "anywhere.eks.amazonaws.com/v1alpha1"

MANAGER = "eks-a-controller"
"""Field manager of MachineDeployments that are made here."""

ADOPTION_MANAGER = "windlass-eks-anywhere"
"""Field manager of MachineDeployments that EKS Anywhere's own controller makes."""

NAMESPACE = "eksa-system"
"""The namespace of MachineDeployments, for Clusters of all namespaces."""

PAUSED_ANNOTATION = "anywhere.eks.amazonaws.com/paused"

READY = "Ready"

CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized"

CONTROL_PLANE_READY = "ControlPlaneReady"

WORKERS_READY = "WorkersReady"

DEFAULT_CNI_CONFIGURED = "DefaultCNIConfigured"

INITIALIZATION_IN_PROGRESS = "ControlPlaneInitializationInProgress"

CONTROL_PLANE_NOT_INITIALIZED = "ControlPlaneNotInitialized"

CONTROL_PLANE_NOT_READY = "ControlPlaneNotReady"

CONTROL_PLANE_UNHEALTHY = "ControlPlaneComponentsUnhealthy"

KUBEADM_CONTROL_PLANE_NOT_READY = "KubeadmControlPlaneNotReady"

ETCD_NOT_AVAILABLE = "ExternalEtcdNotAvailable"

OUTDATED_INFORMATION = "OutdatedInformation"

ROLLING_UPGRADE = "RollingUpgradeInProgress"

IN_PLACE_UPGRADE = "InPlaceUpgradeInProgress"

SCALING_UP = "ScalingUp"

SCALING_DOWN = "ScalingDown"

NODES_NOT_READY = "NodesNotReady"

CONSTRAINT_NOT_MET = "AutoscalerConstraintNotMet"

MACHINE_DEPLOYMENT_NOT_READY = "MachineDeploymentNotReady"

SKIP_UPGRADES = "SkipUpgrades"

GROUPS_INVALID = "WorkerNodeGroupsInvalid"
"""Condition reason of windlass only: an invalid group keeps its MachineDeployment unchanged."""

CLUSTER_INVALID = "ClusterInvalid"

INFO = "Info"

WARNING = "Warning"

ERROR = "Error"

IN_PLACE = "InPlace"


def machine_deployment_name(cluster: str, group: str) -> str:
    """The name of a group's MachineDeployment."""
    return f"{cluster}-{group}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A Cluster API v1beta1 condition; severity is set if the status is False."""

    type: str
    status: str
    reason: str = ""
    severity: str = ""
    message: str = ""
    last_transition_time: str = ""


@dataclass(frozen=True, slots=True)
class WorkerNodeGroup:
    """A worker node group with defaults applied."""

    name: str
    machine_deployment: str
    """The name of its MachineDeployment."""
    size: PoolSize
    machine: MachineTemplate = field(default_factory=MachineTemplate)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_in_place: bool = False
    """True if its machines are upgraded in place."""

    @property
    def is_adopted(self) -> bool:
        """True if it names no templates: EKS Anywhere's own controller makes its MachineDeployments."""
        return not self.machine.is_named


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Status of a Cluster."""

    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    reconciled_generation: int | None = None
    """The last generation whose groups were all applied."""
    failure_reason: str = ""
    failure_message: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An EKS Anywhere Cluster."""

    namespace: str
    name: str
    generation: int = 0
    is_paused_or_deleting: bool = False
    """True if the Cluster is paused or being deleted."""
    control_plane_count: int = 1
    is_in_place: bool = False
    """True if its control plane is upgraded in place."""
    has_external_etcd: bool = False
    has_datacenter: bool = False
    """True if it refers to a datacenter configuration, as each Cluster of EKS Anywhere's own controller does."""
    groups: tuple[WorkerNodeGroup, ...] = ()
    status: ClusterStatus = field(default_factory=ClusterStatus)

    @property
    def is_adopted(self) -> bool:
        """True if EKS Anywhere's own controller reconciles it: of its status only the conditions are written here."""
        return self.has_datacenter or any(group.is_adopted for group in self.groups)


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
    """Message about unhealthy components, possibly empty; None if all are healthy."""


@dataclass(frozen=True, slots=True)
class Etcd:
    """An external etcd."""

    is_current: bool
    is_ready: bool


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """Facts for one reconcile of a Cluster."""

    cluster: Cluster
    api_version: str
    """API version of Cluster API."""
    namespace: str
    has_capi_cluster: bool = True
    control_plane: ControlPlane | None = None
    is_initialized_by_other: bool = False
    """True if Cluster API reports an initialized control plane that is no KubeadmControlPlane."""
    etcd: Etcd | None = None
    older_namesake: str = ""
    """Key of an older Cluster of the same name, which owns the MachineDeployments; empty if there is none."""
    foreign_owners: Mapping[str, str] = field(default_factory=dict)
    """MachineDeployment names of this Cluster's groups that another Cluster owns, with that Cluster."""
    machine_deployments: tuple[MachineDeployment, ...] = ()
    """All MachineDeployments of the Cluster."""
    settled_replicas: Mapping[str, int] = field(default_factory=dict)
    """The last replicas that an autoscaler decided, by MachineDeployment."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Steps of a Cluster, and its new status."""

    status: ClusterStatus
    steps: tuple[machine_deployments.MachineDeploymentStep, ...] = ()
    requeue_after_s: float | None = None
    """Requeue after this time even without a change."""


@dataclass(frozen=True, slots=True)
class EksAnywhereSettings:
    """Settings of the EKS Anywhere controller."""

    namespace: str = NAMESPACE
    """The namespace of MachineDeployments and of Cluster API's Clusters."""
    resync_s: float = 600.0
    """Period after which each Cluster is reconciled without a change."""


Json = Mapping[str, Any]


def parse_cluster(body: Json) -> Cluster:
    metadata, spec = body["metadata"], body.get("spec") or {}
    control_plane = spec.get("controlPlaneConfiguration") or {}
    annotations = metadata.get("annotations") or {}
    groups = spec.get("workerNodeGroupConfigurations") or ()
    version = spec.get("kubernetesVersion") or ""
    return Cluster(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        generation=metadata.get("generation") or 0,
        is_paused_or_deleting=bool(metadata.get("deletionTimestamp")) or PAUSED_ANNOTATION in annotations,
        control_plane_count=1 if control_plane.get("count") is None else control_plane["count"],
        is_in_place=_is_in_place(control_plane),
        has_external_etcd=spec.get("externalEtcdConfiguration") is not None,
        has_datacenter=bool(spec.get("datacenterRef")),
        groups=tuple(parse_group(metadata["name"], item, place, version) for place, item in enumerate(groups)),
        status=parse_status(body.get("status") or {}),
    )


def parse_group(cluster: str, given: Json, place: int = 0, version: str = "") -> WorkerNodeGroup:
    """A worker node group, with default name and count."""
    name = given.get("name") or f"md-{place}"
    return WorkerNodeGroup(
        name,
        machine_deployment_name(cluster, name),
        default_size(given.get("count"), parse_limits(given)),
        machine_deployments.parse_machine_template(given, given.get("kubernetesVersion") or version),
        given.get("labels") or {},
        _is_in_place(given),
    )


def parse_limits(group: Json) -> ReplicaLimits | None:
    """Limits of a group; None without autoscaling configuration. A missing bound is 0."""
    given = group.get("autoscalingConfiguration")
    return None if given is None else ReplicaLimits(given.get("minCount") or 0, given.get("maxCount") or 0)


def _is_in_place(given: Json) -> bool:
    return (given.get("upgradeRolloutStrategy") or {}).get("type") == IN_PLACE


def parse_status(status: Json) -> ClusterStatus:
    return ClusterStatus(
        tuple(parse_condition(item) for item in status.get("conditions") or ()),
        status.get("observedGeneration"),
        status.get("reconciledGeneration"),
        status.get("failureReason") or "",
        status.get("failureMessage") or "",
    )


def parse_condition(given: Json) -> Condition:
    return Condition(
        given.get("type") or "",
        given.get("status") or "",
        given.get("reason") or "",
        given.get("severity") or "",
        given.get("message") or "",
        given.get("lastTransitionTime") or "",
    )


def parse_control_plane(body: Json) -> ControlPlane:
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    health = conditions.get("ControlPlaneComponentsHealthy") or {}
    updated = status.get("upToDateReplicas")
    return ControlPlane(
        metadata.get("name") or "",
        metadata.get("generation") or 0,
        status.get("observedGeneration") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        (status.get("updatedReplicas") if updated is None else updated) or 0,
        (conditions.get("Available") or {}).get("status") == "True",
        health.get("message") or "" if health.get("status") == "False" else None,
    )


def parse_etcd(body: Json) -> Etcd:
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    is_current = (metadata.get("generation") or 0) == (status.get("observedGeneration") or 0)
    return Etcd(is_current, bool(status.get("ready")))


def is_initialized_by_other_provider(cluster: Json) -> bool:
    """True if a Cluster of Cluster API reports an initialized control plane of another provider."""
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    found = any(item.get("type") == "ControlPlaneInitialized" and item.get("status") == "True" for item in conditions)
    return found and not has_kubeadm_control_plane(cluster)


def has_kubeadm_control_plane(cluster: Json) -> bool:
    return ((cluster.get("spec") or {}).get("controlPlaneRef") or {}).get("kind") == "KubeadmControlPlane"


MergePatch = dict[str, Any]


def status_patch(before: ClusterStatus, after: ClusterStatus) -> MergePatch:
    """The merge patch between two statuses; empty if they are equal."""
    old, new = _encode_status(before), _encode_status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    return {"status": changed} if changed else {}


def _encode_status(status: ClusterStatus) -> MergePatch:
    return {
        "conditions": [_encode_condition(condition) for condition in status.conditions],
        "observedGeneration": status.observed_generation,
        "reconciledGeneration": status.reconciled_generation,
        "failureReason": status.failure_reason or None,
        "failureMessage": status.failure_message or None,
    }


def _encode_condition(condition: Condition) -> MergePatch:
    fields = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "severity": condition.severity,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {name: value for name, value in fields.items() if value}


def default_size(count: int | None, limits: ReplicaLimits | None) -> PoolSize:
    """Size of a group with the default count. For an autoscaled group the count has no effect."""
    if count is None:
        count = 1 if limits is None else limits.min
    return PoolSize(count, limits)
