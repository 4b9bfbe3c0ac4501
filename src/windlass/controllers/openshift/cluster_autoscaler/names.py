"""Names around the ClusterAutoscaler: kinds, what its objects are called, conditions, events."""

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


def deployment(name: str) -> str:
    """What the objects of a ClusterAutoscaler are called, or begin with."""
    return f"{AUTOSCALER}-{name}"
