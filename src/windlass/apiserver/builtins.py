"""The built-in kinds, in one ordered list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.apiserver import printing
from windlass.apiserver.columns import Column
from windlass.apiserver.kinds import (
    budgets,
    definitions,
    leases,
    namespaces,
    nodes,
    plain,
    pods,
    volumes,
    workloads,
)
from windlass.apiserver.kinds.strategy import Strategy
from windlass.apiserver.storage import lookup
from windlass.apiserver.types import builtin, normalise
from windlass.apiserver.types.model import Json


@dataclass(frozen=True, slots=True)
class Selectable:
    """What field selectors may ask of a kind, and how an object answers."""

    names: tuple[str, ...]
    extract: Callable[[Json], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One built-in kind."""

    group: str
    version: str
    plural: str
    kind: str
    table: str
    """Which table of types its struct is in."""
    is_namespaced: bool = True
    strategy: Callable[[normalise.Struct], Strategy] = Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_scale: bool = False
    returns_deleted: bool = False
    selectable: Selectable | None = None
    columns: tuple[Column, ...] = printing.DEFAULT

    def find_struct(self) -> normalise.Struct:
        return definitions.STRUCT if self.table == "" else builtin.find(self.table, self.kind)


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


def _fields(*paths: str, is_namespaced: bool = True, missing: str = "", also: tuple[str, ...] = ()) -> Selectable:
    """Fields that selectors see as they stand in the object."""
    split = [(path, tuple(path.split("."))) for path in paths]

    def extract(obj: Json) -> Mapping[str, str]:
        return {path: _text(lookup(obj, *steps), missing) for path, steps in split}

    names = ("metadata.name", *(("metadata.namespace",) if is_namespaced else ()), *paths, *also)
    return Selectable(names, extract)


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

_POD_FIELDS = Selectable(
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
_EVENT_FIELDS = Selectable(
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

KINDS: tuple[Kind, ...] = (
    Kind("", "v1", "namespaces", "Namespace", "core", False, namespaces.Namespaces, ("ns",), has_status=True,
         returns_deleted=True, selectable=_fields("status.phase", is_namespaced=False), columns=printing.NAMESPACES),
    Kind("", "v1", "nodes", "Node", "core", False, nodes.Nodes, ("no",), has_status=True,
         selectable=_fields("spec.unschedulable", is_namespaced=False, missing="false"), columns=printing.NODES),
    Kind("", "v1", "pods", "Pod", "core", True, pods.Pods, ("po",), _ALL, has_status=True,
         returns_deleted=True, selectable=_POD_FIELDS, columns=printing.PODS),
    Kind("", "v1", "configmaps", "ConfigMap", "core", True, plain.ConfigMaps, ("cm",), columns=printing.CONFIG_MAPS),
    Kind("", "v1", "secrets", "Secret", "core", True, plain.Secrets,
         selectable=_fields("type"), columns=printing.SECRETS),
    Kind("", "v1", "services", "Service", "core", True, plain.Services, ("svc",), _ALL, has_status=True,
         returns_deleted=True, selectable=_fields("spec.clusterIP", "spec.type"), columns=printing.SERVICES),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", "core", True, Strategy, ("sa",), returns_deleted=True),
    Kind("", "v1", "events", "Event", "core", True, plain.Events, ("ev",),
         selectable=_EVENT_FIELDS, columns=printing.EVENTS),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", "core", False, volumes.Volumes, ("pv",), has_status=True,
         returns_deleted=True, columns=printing.VOLUMES),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "core", True, volumes.Claims, ("pvc",),
         has_status=True, returns_deleted=True, columns=printing.CLAIMS),
    Kind("", "v1", "podtemplates", "PodTemplate", "core", True, workloads.PodTemplates, returns_deleted=True),
    Kind("", "v1", "resourcequotas", "ResourceQuota", "core", True, Strategy, ("quota",), has_status=True,
         returns_deleted=True),
    Kind("", "v1", "replicationcontrollers", "ReplicationController", "core", True,
         workloads.ReplicationControllers, ("rc",), _ALL, has_status=True, has_scale=True,
         selectable=_REPLICAS, columns=printing.REPLICA_SETS),
    Kind("apps", "v1", "deployments", "Deployment", "apps", True, workloads.Deployments, ("deploy",), _ALL,
         has_status=True, has_scale=True, columns=printing.DEPLOYMENTS),
    Kind("apps", "v1", "replicasets", "ReplicaSet", "apps", True, workloads.ReplicaSets, ("rs",), _ALL,
         has_status=True, has_scale=True, selectable=_REPLICAS, columns=printing.REPLICA_SETS),
    Kind("apps", "v1", "statefulsets", "StatefulSet", "apps", True, workloads.StatefulSets, ("sts",), _ALL,
         has_status=True, has_scale=True, columns=printing.STATEFUL_SETS),
    Kind("apps", "v1", "daemonsets", "DaemonSet", "apps", True, workloads.DaemonSets, ("ds",), _ALL,
         has_status=True, columns=printing.DAEMON_SETS),
    Kind("batch", "v1", "jobs", "Job", "batch", True, workloads.Jobs, (), _ALL, has_status=True,
         columns=printing.JOBS),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "policy", True, budgets.Budgets, ("pdb",),
         has_status=True, columns=printing.BUDGETS),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "scheduling", False,
         plain.PriorityClasses, ("pc",), columns=printing.PRIORITY_CLASSES),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", "coordination", True, leases.Leases,
         columns=printing.LEASES),
    Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", "storage", False, volumes.StorageClasses, ("sc",),
         returns_deleted=True, columns=printing.STORAGE_CLASSES),
    Kind("storage.k8s.io", "v1", "csinodes", "CSINode", "storage", False, returns_deleted=True),
    Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "storage", False, volumes.Drivers, returns_deleted=True),
    Kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", "storage"),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", "storage", False, has_status=True,
         returns_deleted=True, columns=printing.ATTACHMENTS),
    Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "resource", False, plain.Counted,
         returns_deleted=True),
    Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "resource", True, plain.DeviceClaims,
         has_status=True, returns_deleted=True, columns=printing.DEVICE_CLAIMS),
    Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "resource", True,
         plain.DeviceClaimTemplates, returns_deleted=True),
    Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "resource", False, plain.Counted,
         returns_deleted=True, selectable=_fields("spec.driver", "spec.nodeName", is_namespaced=False)),
    Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "", False,
         definitions.Definitions, ("crd", "crds"), ("api-extensions",), has_status=True,
         columns=printing.DEFINITIONS),
)  # fmt: skip
"""What is served from the start. Discovery lists them in this order."""

VIEWS: tuple[Kind, ...] = (
    Kind("events.k8s.io", "v1", "events", "Event", "events", True, short_names=("ev",), columns=printing.EVENTS),
)
"""Other names for what is stored as another kind."""
