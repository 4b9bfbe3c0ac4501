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
"""Who applies MachineDeployments, in managedFields."""

NAMESPACE = "eksa-system"
"""Where they are, wherever the Cluster is."""

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
"""Ours: a group cannot be used, and stays as it was."""

CLUSTER_INVALID = "ClusterInvalid"

INFO = "Info"

WARNING = "Warning"

ERROR = "Error"

IN_PLACE = "InPlace"


def machine_deployment_name(cluster: str, group: str) -> str:
    """The one name of a group's MachineDeployment, to write it and to find it again."""
    return f"{cluster}-{group}"


@dataclass(frozen=True, slots=True)
class Condition:
    """As Cluster API v1beta1 had them: one that is False has a severity."""

    type: str
    status: str
    reason: str = ""
    severity: str = ""
    message: str = ""
    last_transition_time: str = ""


@dataclass(frozen=True, slots=True)
class WorkerNodeGroup:
    """A worker node group, complete."""

    name: str
    machine_deployment: str
    """What its MachineDeployment is called."""
    size: PoolSize
    machine: MachineTemplate = field(default_factory=MachineTemplate)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_in_place: bool = False
    """Are its machines upgraded in place?"""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
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
    is_paused_or_deleting: bool = False
    """On its way out, or paused."""
    control_plane_count: int = 1
    is_in_place: bool = False
    """Is its control plane upgraded in place?"""
    has_external_etcd: bool = False
    groups: tuple[WorkerNodeGroup, ...] = ()
    status: ClusterStatus = field(default_factory=ClusterStatus)


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
class ObservedCluster:
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
    older_namesake: str = ""
    """An older Cluster of the same name, elsewhere, whose the MachineDeployments are."""
    foreign_owners: Mapping[str, str] = field(default_factory=dict)
    """MachineDeployments that our groups' names stand for, and the other Clusters that they belong to."""
    machine_deployments: tuple[MachineDeployment, ...] = ()
    """All that carry the cluster's name."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What is to be done, and what is then said of it."""

    status: ClusterStatus
    steps: tuple[machine_deployments.MachineDeploymentStep, ...] = ()
    requeue_after_s: float | None = None
    """When to look again in any case."""


@dataclass(frozen=True, slots=True)
class EksAnywhereSettings:
    """What may be done otherwise."""

    namespace: str = NAMESPACE
    """Where MachineDeployments, and the Clusters of Cluster API that they belong to, are."""
    resync_s: float = 600.0
    """Every Cluster is looked at this often, even if nothing seems to have changed."""


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
        groups=tuple(parse_group(metadata["name"], each, place, version) for place, each in enumerate(groups)),
        status=parse_status(body.get("status") or {}),
    )


def parse_group(cluster: str, given: Json, place: int = 0, version: str = "") -> WorkerNodeGroup:
    """A group, complete with the name and the count that it has if none is given."""
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
    """Autoscaling is configured or it is not; a bound that is left out is zero."""
    given = group.get("autoscalingConfiguration")
    return None if given is None else ReplicaLimits(given.get("minCount") or 0, given.get("maxCount") or 0)


def _is_in_place(given: Json) -> bool:
    return (given.get("upgradeRolloutStrategy") or {}).get("type") == IN_PLACE


def parse_status(status: Json) -> ClusterStatus:
    return ClusterStatus(
        tuple(parse_condition(each) for each in status.get("conditions") or ()),
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
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
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
    """Whether a Cluster of Cluster API has a control plane, and which is none that we would look at ourselves."""
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    found = any(each.get("type") == "ControlPlaneInitialized" and each.get("status") == "True" for each in conditions)
    return found and not has_kubeadm_control_plane(cluster)


def has_kubeadm_control_plane(cluster: Json) -> bool:
    return ((cluster.get("spec") or {}).get("controlPlaneRef") or {}).get("kind") == "KubeadmControlPlane"


MergePatch = dict[str, Any]


def status_patch(before: ClusterStatus, after: ClusterStatus) -> MergePatch:
    """The merge patch from one status to the other; empty if they say the same."""
    old, new = _encode_status(before), _encode_status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    return {"status": changed} if changed else {}


def _encode_status(status: ClusterStatus) -> MergePatch:
    return {
        "conditions": [_encode_condition(each) for each in status.conditions],
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
    """A size with the count that it has if none is given. Of an autoscaled group nobody looks at it."""
    if count is None:
        count = 1 if limits is None else limits.min
    return PoolSize(count, limits)
