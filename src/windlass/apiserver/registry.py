"""Registry of served resources, and the state of one server: clock, store, registry and random numbers.

The built-in resources are one ordered list: strategy, printer columns and selectable fields of each.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import clock
from windlass.apiserver import (
    builtin_types,
    crd_strategy,
    field_sets,
    printer_columns,
    storage,
    strategies,
    value_types,
    workload_strategies,
)
from windlass.apiserver import field_manager as apiserver_field_manager
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
    extracted = {f"involvedObject.{name}": _text(involved.get(name)) for name in _INVOLVED}
    component = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    return extracted | {
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
    BuiltinKind("", "v1", "pods", "Pod", "core", True, workload_strategies.PodStrategy, ("po",), _ALL, has_status=True,
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


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths of the fields that a kind's /scale shows."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()
    """Path of a selector in string form; empty: derived from `spec.selector` if `derives_selector`."""
    derives_selector: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One served resource."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool
    type: value_types.ValueType
    strategy: Strategy
    zero: Json
    """The empty object of this kind."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    is_custom: bool = False
    has_status: bool = False
    scale: ScalePaths | None = None
    returns_deleted: bool = False
    """Does a deletion return the object instead of a Status?"""
    extract: storage.ExtractFields | None = None
    selectable: tuple[str, ...] = ("metadata.name",)
    """Fields that field selectors support."""
    columns: tuple[Column, ...] = ()
    uid: str = ""
    """Name of the CRD that defines it."""
    managers: dict[str, apiserver_field_manager.FieldManager] = field(default_factory=dict)
    """Field managers by subresource."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.plural

    @property
    def prefix(self) -> bytes:
        """The first bytes of every stored object: its kind and version."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @property
    def subresources(self) -> tuple[str, ...]:
        served = [*(("status",) if self.has_status else ()), *(("scale",) if self.scale else ())]
        if self.key == ("", "pods"):
            served += ["binding", "eviction"]
        return (*served, "finalize") if self.key == ("", "namespaces") else tuple(served)

    def field_manager(self, subresource: str = "") -> apiserver_field_manager.FieldManager:
        field_manager = self.managers.get(subresource)
        if field_manager is None:
            field_manager = apiserver_field_manager.FieldManager(
                self.type, self.api_version, subresource, self._ignored(subresource), self.zero
            )
            self.managers[subresource] = field_manager
        return field_manager

    def _ignored(self, subresource: str) -> field_sets.Fields:
        if subresource == "status":
            ignored: field_sets.Fields = {"f:spec": {}}
            if self.is_custom:
                ignored["f:metadata"] = {}
            elif self.kind == "Pod":
                ignored["f:metadata"] = {"f:deletionTimestamp": {}, "f:ownerReferences": {}}
            return ignored
        return {"f:status": {}} if self.has_status else {}


class Registry:
    """Resources by group, version and plural; built-in ones first, in their order, then custom ones."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._by_key: dict[tuple[str, str], Resource] = {}
        for spec in BUILTIN_KINDS:
            self.add(_make_resource(spec))
        self._views = [_make_resource(spec) for spec in EVENT_VIEWS]

    def add(self, resource: Resource) -> None:
        self._resources[resource.group, resource.version, resource.plural] = resource
        self._by_key.setdefault(resource.key, resource)

    def remove(self, resource: Resource) -> None:
        self._resources.pop((resource.group, resource.version, resource.plural), None)
        self._by_key.pop(resource.key, None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Resource | None:
        """A resource by apiVersion and kind."""
        for resource in self._resources.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def find_group_resource(self, group: str, plural: str) -> Resource | None:
        """The served version of a resource."""
        return self._by_key.get((group, plural))

    def find_table(self, table: storage.ResourceTable) -> Resource | None:
        """The resource whose objects a table holds."""
        return self._by_key.get(table.resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def versions(self) -> Mapping[tuple[str, str], list[Resource]]:
        """Resources by group and version, in order, views among them."""
        grouped: dict[tuple[str, str], list[Resource]] = {}
        for resource in [*self, *self._views]:
            grouped.setdefault((resource.group, resource.version), []).append(resource)
        return grouped


def _make_resource(spec: BuiltinKind) -> Resource:
    struct = spec.find_struct()
    strategy = spec.strategy(struct)
    singular = spec.kind.lower()
    fields: dict[str, Any] = {}
    if spec.selectable is not None:
        fields = {"extract": spec.selectable.extract, "selectable": spec.selectable.names}
    elif spec.is_namespaced:
        fields = {"selectable": ("metadata.name", "metadata.namespace")}
    return Resource(
        spec.group,
        spec.version,
        spec.plural,
        spec.kind,
        spec.is_namespaced,
        struct.type,
        strategy,
        {**struct.zero(), "apiVersion": f"{spec.group}/{spec.version}".lstrip("/"), "kind": spec.kind},
        singular=singular,
        short_names=spec.short_names,
        categories=spec.categories,
        list_kind=f"{spec.kind}List",
        has_status=spec.has_status,
        scale=ScalePaths(derives_selector=True) if spec.has_scale else None,
        returns_deleted=spec.returns_deleted,
        columns=spec.columns,
        **fields,
    )


ADMISSION = ("TaintNodesByCondition", "Priority", "DefaultTolerationSeconds")
"""Admission plugins of kube-apiserver that can be turned off; NamespaceLifecycle always runs."""

CONTROLLERS = ("garbage-collector", "disruption", "namespace")
"""Controllers of kube-controller-manager that run inside this server."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the server."""

    history: int = 10_000
    """Length of the watch history of each resource."""
    most_unread: int = 1_000_000
    """Buffered events after which a slow watch is ended."""
    bookmark_every_s: float = 60.0
    longest_watch_s: float = 3600.0
    """Default timeout of a watch."""
    disabled_admission: frozenset[str] = frozenset()
    """Names of `ADMISSION` plugins that do not run, as with kube-apiserver's --disable-admission-plugins."""
    disabled_controllers: frozenset[str] = frozenset()
    """Names of `CONTROLLERS` that do not run, as with kube-controller-manager's --controllers."""
    seed: int = 0
    """Seed of uids and generated names."""
    version: str = "v1.36.3"
    """The Kubernetes version that is emulated and returned by /version."""


@dataclass(slots=True)
class ServerState:
    """The state of one server."""

    clock: clock.Clock
    settings: ServerSettings
    store: storage.ObjectStore
    registry: Registry
    rng: random.Random

    def table(self, resource: Resource) -> storage.ResourceTable:
        return self.store.tables[resource.key]

    def find(self, resource: Resource, namespace: str, name: str) -> storage.StoredObject | None:
        return self.table(resource).objects.get(storage.storage_key(namespace, name))

    def add_resource(self, resource: Resource) -> None:
        """Start serving a resource."""
        self.registry.add(resource)
        if resource.key not in self.store.tables:
            self.store.make_table(resource.key, resource.prefix, resource.extract)

    def resource(self, group: str, plural: str) -> Resource:
        """A built-in resource."""
        resource = self.registry.find_group_resource(group, plural)
        assert resource is not None
        return resource


def make_server_state(clock_: clock.Clock, settings: ServerSettings) -> ServerState:
    """The state of an empty server."""
    core = ServerState(
        clock_, settings, storage.ObjectStore(settings.history, 1), Registry(), random.Random(settings.seed)
    )
    for resource in core.registry:
        core.store.make_table(resource.key, resource.prefix, resource.extract)
    return core
