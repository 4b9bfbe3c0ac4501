"""Registry of served resources, and the state of one server: clock, store, registry and random numbers."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass import clock
from windlass.apiserver import builtin_resources, field_sets, storage, value_types
from windlass.apiserver import field_manager as apiserver_field_manager
from windlass.apiserver.printer_columns import Column
from windlass.apiserver.strategies import Strategy
from windlass.apiserver.value_types import Json

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
        for spec in builtin_resources.BUILTIN_KINDS:
            self.add(_make_resource(spec))
        self._views = [_make_resource(spec) for spec in builtin_resources.EVENT_VIEWS]

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


def _make_resource(spec: builtin_resources.BuiltinKind) -> Resource:
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
