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
"""What is made of a ClusterAutoscaler."""

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
    """What the objects of a ClusterAutoscaler are called, or begin with."""
    return f"{AUTOSCALER}-{name}"


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterAutoscaler:
    """What a user wants."""

    name: str
    uid: str = ""
    resource_version: str = ""
    is_deleting: bool = False
    spec: Json = field(default_factory=dict)
    conditions: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedClusterAutoscaler:
    """All that a decision is made from."""

    autoscaler: ClusterAutoscaler
    gates: FeatureGates = field(default_factory=FeatureGates)
    live: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    """What is there, by kind and name."""
    sync_error: str = ""
    """Why what is there is not known; empty if it is."""


@dataclass(frozen=True, slots=True)
class ObservedClusterOperators:
    """What the operator says of itself, and what that depends on."""

    own: Json | None = None
    """The ClusterOperator `cluster-autoscaler`."""
    machine_api: Json | None = None
    """The ClusterOperator `machine-api`."""
    has_autoscaler: bool = False
    deployment: Json | None = None
    targets: tuple[tuple[str, str, str], ...] = ()
    """MachineSets that MachineAutoscalers name: (group, namespace, name)."""


@dataclass(frozen=True, slots=True)
class EnsureObject:
    """An object that is to be made, or, if `live` is there, to be replaced."""

    resource: Resource[Any]
    body: dict[str, Any]
    live: Json | None = None

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """An object that is to go."""

    resource: Resource[Any]
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerPlan:
    """What is to be done, in this order, and what is then said of it. What fails keeps the rest from being done."""

    steps: tuple[EnsureObject | DeleteObject, ...] = ()
    conditions: tuple[Json, ...] = ()
    events: tuple[Event, ...] = ()
    """What is told when all is done."""
    failure: str = ""
    """Why nothing can be done now, and must be later; empty if there is no such thing."""


SNAPSHOT_VERSION = "0.0.1-snapshot"
"""What a version is called that nobody released."""


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerSettings:
    """What may be done otherwise."""

    name: str = "default"
    """The one ClusterAutoscaler that counts."""
    namespace: str = machine_apis.MACHINE_API_NAMESPACE
    """Where the autoscaler runs."""
    image: str = "windlass:latest"
    """What it is run from: an image whose PATH has `windlass`."""
    replicas: int = 1
    cloud_provider: str = "clusterapi"
    verbosity: int = 1
    """What it logs if the ClusterAutoscaler does not say."""
    extra_args: str = ""
    """One more word for its command line, behind all others."""
    architecture: str = "amd64"
    """Of nodes of an empty group, if nothing else is known."""
    release_version: str = ""
    """The version of OpenShift that is run; empty if nobody released it."""
    webhooks_port: int = 8443
    resync_s: float = 600.0

    @property
    def version(self) -> str:
        """As it is told."""
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
