"""The end of namespaces, the coming and going of custom kinds, and the expiry of events."""

from collections import deque

from windlass.apiserver import storage
from windlass.apiserver.controllers import acting
from windlass.apiserver.core import Core
from windlass.apiserver.kinds import custom
from windlass.apiserver.registry import Resource
from windlass.apiserver.storage import Stored
from windlass.apiserver.types.model import Json
from windlass.apiserver.verbs import deleting

EVENT_TTL_S = 3600.0
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Namespaces:
    """Empties a namespace that is being deleted, then lets it go."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._resource = core.resource("", "namespaces")
        self._terminating: set[str] = set()

    def react(self, event: storage.Event) -> None:
        if event.table is self._core.table(self._resource):
            if event.type == storage.DELETED:
                self._terminating.discard(event.now.name)
            elif event.now.is_deleting and event.now.name not in self._terminating:
                self._terminating.add(event.now.name)
                self._empty(event.now.name)
                self._let_go(event.now.name)
        elif self._terminating and event.type == storage.DELETED and event.now.namespace in self._terminating:
            self._let_go(event.now.namespace)

    def _empty(self, namespace: str) -> None:
        for resource in list(self._core.registry):
            if resource.is_namespaced:
                for stored in list(self._core.table(resource).within(namespace)):
                    acting.delete(self._core, resource, stored, deleting.Options(policy="Background"))

    def _let_go(self, namespace: str) -> None:
        for resource in self._core.registry:
            if resource.is_namespaced and namespace in self._core.table(resource).namespaces:
                return
        stored = self._core.table(self._resource).objects.get(namespace)
        if stored is not None:
            self._drop_finalizers(stored)

    def _drop_finalizers(self, stored: Stored) -> None:
        def change(live: Json) -> Json:
            live["spec"].pop("finalizers", None)
            return live

        acting.update(self._core, self._resource, stored, change, "finalize")


class Definitions:
    """Serves the kinds that are defined, and removes their objects before the definition goes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._resource = core.resource("apiextensions.k8s.io", "customresourcedefinitions")
        self._by_table: dict[storage.Table, str] = {}

    def react(self, event: storage.Event) -> None:
        if event.table is self._core.table(self._resource):
            if event.type == storage.DELETED:
                self._withdraw(event.now)
            elif event.now.is_deleting:
                self._clean_up(event.now)
            elif event.before is None or event.now.raw != event.before.raw:
                self._serve(event.now)
        elif event.type == storage.DELETED and event.table in self._by_table:
            definition = self._core.table(self._resource).objects.get(self._by_table[event.table])
            if definition is not None and definition.is_deleting:
                self._clean_up(definition)

    def _serve(self, stored: Stored) -> None:
        resource = custom.make_resource(stored.decode())
        for served in [found for found in self._core.registry if found.key == resource.key]:
            self._core.registry.remove(served)
        self._core.serve(resource)
        table = self._core.table(resource)
        table.extract = resource.extract
        table.prefix = resource.prefix
        self._by_table[table] = stored.key

    def _clean_up(self, stored: Stored) -> None:
        resource = self._find(stored)
        if resource is not None:
            for instance in list(self._core.table(resource).objects.values()):
                if not instance.is_deleting:
                    acting.delete(self._core, resource, instance, deleting.Options(policy="Background"))
            if self._core.table(resource).objects:
                return
        current = self._core.table(self._resource).objects.get(stored.key)
        if current is not None and CLEANUP in (current.decode()["metadata"].get("finalizers") or ()):
            acting.update(self._core, self._resource, current, _without_cleanup)

    def _withdraw(self, stored: Stored) -> None:
        resource = self._find(stored)
        if resource is not None:
            self._core.registry.remove(resource)
            table = self._core.store.tables.pop(resource.key)
            self._by_table.pop(table, None)
            for instance in list(table.objects):
                self._core.store.delete(table, instance)

    def _find(self, stored: Stored) -> Resource | None:
        spec = stored.decode()["spec"]
        return self._core.registry.find_group_resource(spec["group"], spec["names"]["plural"])


def _without_cleanup(live: Json) -> Json:
    left = [name for name in live["metadata"]["finalizers"] if name != CLEANUP]
    if left:
        live["metadata"]["finalizers"] = left
    else:
        del live["metadata"]["finalizers"]
    return live


class Expiry:
    """Events go an hour after they were last written."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._table = core.table(core.resource("", "events"))
        self._due: deque[tuple[float, str, int]] = deque()

    def react(self, event: storage.Event) -> None:
        if event.table is self._table and event.type != storage.DELETED:
            self._due.append((self._core.clock.now_s() + EVENT_TTL_S, event.now.key, event.version))

    def expire(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            _, key, version = self._due.popleft()
            stored = self._table.objects.get(key)
            if stored is not None and stored.version == version:
                self._core.store.delete(self._table, key)
