"""ClusterAutoscaler model: names, facts, plan and settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.controller_interface import Event
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import FeatureGates
from windlass.kube.resources import DEPLOYMENTS, SERVICES, Resource, Unstructured

API_VERSION = "autoscaling.openshift.io/v1"

KIND = "ClusterAutoscaler"

CLUSTER_AUTOSCALERS = Resource(API_VERSION, "clusterautoscalers", KIND, False, Unstructured)

CLUSTER_OPERATORS = Resource("config.openshift.io/v1", "clusteroperators", "ClusterOperator", False, Unstructured)

DEPLOYMENT = DEPLOYMENTS.untyped()

SERVICE = SERVICES.untyped()

SERVICE_MONITOR = Resource("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor", True, Unstructured)

PROMETHEUS_RULE = Resource("monitoring.coreos.com/v1", "prometheusrules", "PrometheusRule", True, Unstructured)

NETWORK_POLICY = Resource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", True, Unstructured)

OWNED = (SERVICE, SERVICE_MONITOR, PROMETHEUS_RULE, NETWORK_POLICY, DEPLOYMENT)
"""Kinds created for a ClusterAutoscaler."""

AUTOSCALER = "cluster-autoscaler"

MACHINE_API_OPERATOR = "machine-api"

VERSION_ANNOTATION = "release.openshift.io/version"

CRITICAL_ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"

WORKLOAD_ANNOTATION = "target.workload.openshift.io/management"

READY = "Ready"

IS_READY = "ClusterAutoscalerReady"

IS_READY_MESSAGE = "ClusterAutoscaler is run as its spec says"

INVALID = "ClusterAutoscalerInvalid"

FAILED = "ClusterAutoscalerFailed"

FAILED_VALIDATION = "FailedValidation"

FAILED_GET_DEPLOYMENT = "FailedGetDeployment"

FAILED_CREATE = "FailedCreate"

FAILED_UPDATE = "FailedUpdate"

SUCCESSFUL_CREATE = "SuccessfulCreate"

SUCCESSFUL_UPDATE = "SuccessfulUpdate"

AVAILABLE = "Available"

PROGRESSING = "Progressing"

DEGRADED = "Degraded"

UPGRADEABLE = "Upgradeable"

AS_EXPECTED = "AsExpected"

MISSING_DEPENDENCY = "MissingDependency"

SYNCING = "SyncingResources"

CHECK_FAILED = "UnableToCheckAutoscalers"


def deployment_name(name: str) -> str:
    """The name, or name prefix, of all objects of a ClusterAutoscaler."""
    return f"{AUTOSCALER}-{name}"


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterAutoscaler:
    """A ClusterAutoscaler."""

    name: str
    uid: str = ""
    resource_version: str = ""
    is_deleting: bool = False
    spec: Json = field(default_factory=dict)
    conditions: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedClusterAutoscaler:
    """Facts for one reconcile of a ClusterAutoscaler."""

    autoscaler: ClusterAutoscaler
    gates: FeatureGates = field(default_factory=FeatureGates)
    live: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    """Live objects by kind and name."""
    sync_error: str = ""
    """Why the Deployment may be outdated; empty if it is current."""


@dataclass(frozen=True, slots=True)
class ObservedClusterOperators:
    """Facts for the ClusterOperator."""

    own: Json | None = None
    """The ClusterOperator `cluster-autoscaler`."""
    machine_api: Json | None = None
    """The ClusterOperator `machine-api`."""
    has_autoscaler: bool = False
    deployment: Json | None = None
    targets: tuple[tuple[str, str, str], ...] = ()
    """(group, namespace, name) of the MachineSets that MachineAutoscalers target."""


@dataclass(frozen=True, slots=True)
class EnsureObject:
    """Create an object, or replace it if `live` is set."""

    resource: Resource[Any]
    body: dict[str, Any]
    live: Json | None = None

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object."""

    resource: Resource[Any]
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerPlan:
    """Ordered steps of a ClusterAutoscaler, and its new status; the first failed step stops the rest."""

    steps: tuple[EnsureObject | DeleteObject, ...] = ()
    conditions: tuple[Json, ...] = ()
    events: tuple[Event, ...] = ()
    """Events recorded after all steps succeeded."""
    failure: str = ""
    """Why the reconcile has to be retried; empty if it does not."""


FALLBACK_IMAGE = "windlass:latest"
"""The image of the autoscaler where none is set, and none of this process is known."""

SNAPSHOT_VERSION = "0.0.1-snapshot"
"""The version of an unreleased build."""


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerSettings:
    """Settings of the ClusterAutoscaler controller."""

    name: str = "default"
    """The name of the only ClusterAutoscaler that is reconciled."""
    namespace: str = machine_apis.MACHINE_API_NAMESPACE
    """The namespace of the autoscaler."""
    image: str = FALLBACK_IMAGE
    """Image of the autoscaler; `windlass` must be in its PATH. The process fills it in where it is empty."""
    replicas: int = 1
    cloud_provider: str = "clusterapi"
    verbosity: int = 1
    """Log verbosity if the spec has none."""
    extra_args: str = ""
    """An additional argument, appended to the command line."""
    architecture: str = "amd64"
    """Default architecture of nodes of an empty group."""
    release_version: str = ""
    """The version of OpenShift; empty for an unreleased build."""
    webhooks_port: int = 8443
    resync_s: float = 600.0

    @property
    def version(self) -> str:
        """The version to report."""
        return self.release_version or SNAPSHOT_VERSION


def parse_cluster_autoscaler(body: Json) -> ClusterAutoscaler:
    metadata = body["metadata"]
    return ClusterAutoscaler(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        spec=body.get("spec") or {},
        conditions=tuple((body.get("status") or {}).get("conditions") or ()),
    )
