"""Built-in resources in one ordered list: strategy, printer columns and selectable fields of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.apiserver import (
    builtin_types,
    crd_strategy,
    pod_strategy,
    printer_columns,
    strategies,
    workload_strategies,
)
from windlass.apiserver.printer_columns import Column
from windlass.apiserver.storage import lookup_path
from windlass.apiserver.strategies import Strategy
from windlass.apiserver.value_types import Json


@dataclass(frozen=True, slots=True)
class SelectableFields:
    """Selectable fields of a kind, and their extraction from an object."""

    names: tuple[str, ...]
    extract: Callable[[Json], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class BuiltinKind:
    """One built-in kind."""

    group: str
    version: str
    plural: str
    kind: str
    table: str
    """Which table of types its struct is in."""
    is_namespaced: bool = True
    strategy: Callable[[builtin_types.StructPart], Strategy] = Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_scale: bool = False
    returns_deleted: bool = False
    selectable: SelectableFields | None = None
    columns: tuple[Column, ...] = printer_columns.DEFAULT_COLUMNS

    def find_struct(self) -> builtin_types.StructPart:
        return crd_strategy.CRD_STRUCT if self.table == "" else builtin_types.find_struct(self.table, self.kind)


def _text(value: Any, missing: str = "") -> str:
    if value is None:
        return missing
    return str(value).lower() if isinstance(value, bool) else str(value)


def _extract_pod(pod: Json) -> Mapping[str, str]:
    spec, status = pod["spec"], pod["status"]
    ips = status.get("podIPs")
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": ips[0].get("ip", "") if ips else "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def _fields(*paths: str, is_namespaced: bool = True, missing: str = "", also: tuple[str, ...] = ()) -> SelectableFields:
    """Selectable fields that are plain paths of the object."""
    split = [(path, tuple(path.split("."))) for path in paths]

    def extract(obj: Json) -> Mapping[str, str]:
        return {path: _text(lookup_path(obj, *steps), missing) for path, steps in split}

    names = ("metadata.name", *(("metadata.namespace",) if is_namespaced else ()), *paths, *also)
    return SelectableFields(names, extract)


def _extract_event(event: Json) -> Mapping[str, str]:
    involved = event.get("involvedObject") or {}
    found = {f"involvedObject.{name}": _text(involved.get(name)) for name in _INVOLVED}
    component = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    return found | {
        "reason": event.get("reason", ""),
        "reportingComponent": event.get("reportingComponent", ""),
        "source": component,
        "type": event.get("type", ""),
    }


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_POD_FIELDS = SelectableFields(
    (
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    _extract_pod,
)
_EVENT_FIELDS = SelectableFields(
    (
        "metadata.name",
        "metadata.namespace",
        *(f"involvedObject.{name}" for name in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    _extract_event,
)
_REPLICAS = _fields("status.replicas", missing="0")
_ALL = ("all",)

BUILTIN_KINDS: tuple[BuiltinKind, ...] = (
    BuiltinKind("", "v1", "namespaces", "Namespace", "core", False, strategies.NamespaceStrategy, ("ns",),
         has_status=True,
         returns_deleted=True, selectable=_fields("status.phase", is_namespaced=False),
         columns=printer_columns.NAMESPACES),
    BuiltinKind("", "v1", "nodes", "Node", "core", False, strategies.NodeStrategy, ("no",), has_status=True,
         selectable=_fields("spec.unschedulable", is_namespaced=False, missing="false"),
         columns=printer_columns.NODES),
    BuiltinKind("", "v1", "pods", "Pod", "core", True, pod_strategy.PodStrategy, ("po",), _ALL, has_status=True,
         returns_deleted=True, selectable=_POD_FIELDS, columns=printer_columns.PODS),
    BuiltinKind("", "v1", "configmaps", "ConfigMap", "core", True, strategies.ConfigMapStrategy, ("cm",),
         columns=printer_columns.CONFIG_MAPS),
    BuiltinKind("", "v1", "secrets", "Secret", "core", True, strategies.SecretStrategy,
         selectable=_fields("type"), columns=printer_columns.SECRETS),
    BuiltinKind("", "v1", "services", "Service", "core", True, strategies.ServiceStrategy, ("svc",), _ALL,
         has_status=True,
         returns_deleted=True, selectable=_fields("spec.clusterIP", "spec.type"), columns=printer_columns.SERVICES),
    BuiltinKind("", "v1", "serviceaccounts", "ServiceAccount", "core", True, Strategy, ("sa",), returns_deleted=True),
    BuiltinKind("", "v1", "events", "Event", "core", True, strategies.EventStrategy, ("ev",),
         selectable=_EVENT_FIELDS, columns=printer_columns.EVENTS),
    BuiltinKind("", "v1", "persistentvolumes", "PersistentVolume", "core", False, strategies.VolumeStrategy, ("pv",),
         has_status=True,
         returns_deleted=True, columns=printer_columns.PERSISTENT_VOLUMES),
    BuiltinKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "core", True, strategies.ClaimStrategy,
         ("pvc",),
         has_status=True, returns_deleted=True, columns=printer_columns.PERSISTENT_VOLUME_CLAIMS),
    BuiltinKind("", "v1", "podtemplates", "PodTemplate", "core", True, workload_strategies.PodTemplateStrategy,
         returns_deleted=True),
    BuiltinKind("", "v1", "resourcequotas", "ResourceQuota", "core", True, Strategy, ("quota",), has_status=True,
         returns_deleted=True),
    BuiltinKind("", "v1", "replicationcontrollers", "ReplicationController", "core", True,
         workload_strategies.ReplicationControllerStrategy, ("rc",), _ALL, has_status=True, has_scale=True,
         selectable=_REPLICAS, columns=printer_columns.REPLICA_SETS),
    BuiltinKind("apps", "v1", "deployments", "Deployment", "apps", True, workload_strategies.DeploymentStrategy,
         ("deploy",), _ALL,
         has_status=True, has_scale=True, columns=printer_columns.DEPLOYMENTS),
    BuiltinKind("apps", "v1", "replicasets", "ReplicaSet", "apps", True, workload_strategies.ReplicaSetStrategy,
         ("rs",), _ALL,
         has_status=True, has_scale=True, selectable=_REPLICAS, columns=printer_columns.REPLICA_SETS),
    BuiltinKind("apps", "v1", "statefulsets", "StatefulSet", "apps", True, workload_strategies.StatefulSetStrategy,
         ("sts",), _ALL,
         has_status=True, has_scale=True, columns=printer_columns.STATEFUL_SETS),
    BuiltinKind("apps", "v1", "daemonsets", "DaemonSet", "apps", True, workload_strategies.DaemonSetStrategy,
         ("ds",), _ALL,
         has_status=True, columns=printer_columns.DAEMON_SETS),
    BuiltinKind("batch", "v1", "jobs", "Job", "batch", True, workload_strategies.JobStrategy, (), _ALL,
         has_status=True,
         columns=printer_columns.JOBS),
    BuiltinKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "policy", True,
         workload_strategies.BudgetStrategy, ("pdb",),
         has_status=True, columns=printer_columns.POD_DISRUPTION_BUDGETS),
    BuiltinKind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "scheduling", False,
         strategies.PriorityClassStrategy, ("pc",), columns=printer_columns.PRIORITY_CLASSES),
    BuiltinKind("coordination.k8s.io", "v1", "leases", "Lease", "coordination", True, strategies.LeaseStrategy,
         columns=printer_columns.LEASES),
    BuiltinKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", "storage", False,
         strategies.StorageClassStrategy, ("sc",),
         returns_deleted=True, columns=printer_columns.STORAGE_CLASSES),
    BuiltinKind("storage.k8s.io", "v1", "csinodes", "CSINode", "storage", False, returns_deleted=True),
    BuiltinKind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "storage", False, strategies.CsiDriverStrategy,
         returns_deleted=True),
    BuiltinKind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", "storage"),
    BuiltinKind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", "storage", False, has_status=True,
         returns_deleted=True, columns=printer_columns.VOLUME_ATTACHMENTS),
    BuiltinKind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "resource", False,
         strategies.GenerationStrategy,
         returns_deleted=True),
    BuiltinKind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "resource", True,
         strategies.ResourceClaimStrategy,
         has_status=True, returns_deleted=True, columns=printer_columns.RESOURCE_CLAIMS),
    BuiltinKind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "resource", True,
         strategies.ResourceClaimTemplateStrategy, returns_deleted=True),
    BuiltinKind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "resource", False,
         strategies.GenerationStrategy,
         returns_deleted=True, selectable=_fields("spec.driver", "spec.nodeName", is_namespaced=False)),
    BuiltinKind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "", False,
         crd_strategy.CrdStrategy, ("crd", "crds"), ("api-extensions",), has_status=True,
         columns=printer_columns.CUSTOM_RESOURCE_DEFINITIONS),
)  # fmt: skip
"""Built-in kinds, in the order of discovery."""

EVENT_VIEWS: tuple[BuiltinKind, ...] = (
    BuiltinKind(
        "events.k8s.io", "v1", "events", "Event", "events", True, short_names=("ev",), columns=printer_columns.EVENTS
    ),
)
"""Views: kinds that are stored as another kind."""
