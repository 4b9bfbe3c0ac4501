"""Embedded controllers: garbage collection, namespace deletion, CRD registration, event expiry.

Each receives every write after it happened and may write itself, as in kube-controller-manager.

    background    the owner is deleted, then its dependents
    foreground    the dependents are deleted first; blocking ones keep the owner
    orphan        the dependents lose the owner reference, then the owner is deleted
"""

from collections import deque
from dataclasses import replace

from windlass.apiserver import custom_resources, delete_handlers, object_meta, storage, write_handlers
from windlass.apiserver.registry import Resource, ServerState
from windlass.apiserver.storage import StoredObject
from windlass.apiserver.value_types import Json


def delete_object(
    core: ServerState, resource: Resource, stored: StoredObject, options: delete_handlers.DeleteOptions
) -> None:
    call = replace(write_handlers.make_controller_call(core, resource, stored), method="DELETE")
    delete_handlers.delete_stored(core, call, stored, options)


class GarbageCollector:
    """Deletes objects whose owners are gone, and handles propagation finalizers."""

    def __init__(self, core: ServerState) -> None:
        self._core = core

    def handle_event(self, event: storage.StorageEvent) -> None:
        now = event.now
        if event.type == storage.DELETED:
            for table, key in list(self._core.store.dependents.get(now.uid, ())):
                self._process_dependent(table, key)
            if now.owners:
                self._check_owners(now)
            return
        if now.is_deleting:
            self._finish_owner(event.table, now)
        if now.owners and (event.before is None or event.before.owners != now.owners):
            self._process_dependent(event.table, now.key)

    # ── Dependents ───────────────────────────────────────────────────────────────────────────────────────────────

    def _process_dependent(self, table: storage.ResourceTable, key: str) -> None:
        """Delete this object, or drop references, if owners are gone."""
        stored, resource = table.objects.get(key), self._core.registry.find_table(table)
        if stored is None or resource is None:
            return
        obj = stored.decode()
        finalizers = obj["metadata"].get("finalizers") or ()
        if stored.is_deleting and object_meta.FOREGROUND not in finalizers:
            return
        owners = obj["metadata"].get("ownerReferences") or []
        if not owners or (sorted_out := self._classify(obj, owners)) is None:
            return
        solid, gone, waiting = sorted_out
        if solid:
            if gone or waiting:
                self._forget(resource, stored, {owner["uid"] for owner in (*gone, *waiting)})
            return
        has_dependents = bool(self._core.store.dependents.get(stored.uid))
        if (waiting and has_dependents) or object_meta.FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Orphan" if object_meta.ORPHAN in finalizers else "Background"
        delete_object(self._core, resource, stored, delete_handlers.DeleteOptions(policy=policy))

    def _classify(self, obj: Json, owners: list[Json]) -> tuple[list[Json], list[Json], list[Json]] | None:
        """Owners that exist, that are absent, and that wait for dependents; None if one cannot be resolved."""
        solid, gone, waiting = [], [], []
        namespace = obj["metadata"].get("namespace", "")
        for owner in owners:
            resource = self._core.registry.find_kind(owner["apiVersion"], owner["kind"])
            if resource is None or (resource.is_namespaced and not namespace):
                return None
            stored_object = self._core.find(resource, namespace if resource.is_namespaced else "", owner["name"])
            if stored_object is None or stored_object.uid != owner["uid"]:
                gone.append(owner)
            elif stored_object.is_deleting and _has_finalizer(stored_object, object_meta.FOREGROUND):
                waiting.append(owner)
            else:
                solid.append(owner)
        return solid, gone, waiting

    def _forget(self, resource: Resource, stored: StoredObject, uids: set[str]) -> None:
        def change(live: Json) -> Json:
            remaining = [owner for owner in live["metadata"]["ownerReferences"] if owner["uid"] not in uids]
            if remaining:
                live["metadata"]["ownerReferences"] = remaining
            else:
                del live["metadata"]["ownerReferences"]
            return live

        write_handlers.update_as_controller(self._core, resource, stored, change)

    # ── Owners ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_owners(self, dependent: StoredObject) -> None:
        """Check owners that waited for this dependent's deletion."""
        obj = dependent.decode()
        for owner in obj["metadata"].get("ownerReferences") or ():
            resource = self._core.registry.find_kind(owner["apiVersion"], owner["kind"])
            if resource is None:
                continue
            stored_object = self._core.find(
                resource, dependent.namespace if resource.is_namespaced else "", owner["name"]
            )
            if stored_object is not None and stored_object.uid == owner["uid"] and stored_object.is_deleting:
                self._finish_owner(self._core.table(resource), stored_object)

    def _finish_owner(self, table: storage.ResourceTable, owner: StoredObject) -> None:
        resource = self._core.registry.find_table(table)
        if resource is None or table.objects.get(owner.key) is not owner:
            return
        finalizers = owner.decode()["metadata"].get("finalizers") or ()
        if object_meta.ORPHAN in finalizers:
            self._orphan(owner)
            self._drop_finalizer(resource, owner.key, object_meta.ORPHAN)
        elif object_meta.FOREGROUND in finalizers:
            for dependent_table, key in list(self._core.store.dependents.get(owner.uid, ())):
                self._process_dependent(dependent_table, key)
            if not self._is_blocked(owner):
                self._drop_finalizer(resource, owner.key, object_meta.FOREGROUND)

    def _orphan(self, owner: StoredObject) -> None:
        for table, key in list(self._core.store.dependents.get(owner.uid, ())):
            stored, resource = table.objects.get(key), self._core.registry.find_table(table)
            if stored is not None and resource is not None:
                self._forget(resource, stored, {owner.uid})

    def _is_blocked(self, owner: StoredObject) -> bool:
        for table, key in self._core.store.dependents.get(owner.uid, ()):
            references = table.objects[key].decode()["metadata"]["ownerReferences"]
            if any(reference["uid"] == owner.uid and reference.get("blockOwnerDeletion") for reference in references):
                return True
        return False

    def _drop_finalizer(self, resource: Resource, key: str, name: str) -> None:
        stored = self._core.table(resource).objects.get(key)
        if stored is None or not _has_finalizer(stored, name):
            return

        def change(live: Json) -> Json:
            remaining = [finalizer for finalizer in live["metadata"]["finalizers"] if finalizer != name]
            if remaining:
                live["metadata"]["finalizers"] = remaining
            else:
                del live["metadata"]["finalizers"]
            return live

        write_handlers.update_as_controller(self._core, resource, stored, change)


def _has_finalizer(stored: StoredObject, finalizer: str) -> bool:
    return finalizer in (stored.decode()["metadata"].get("finalizers") or ())


EVENT_TTL_S = 3600.0

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class NamespaceController:
    """Deletes all objects of a terminating namespace, then removes its finalizer."""

    def __init__(self, core: ServerState) -> None:
        self._core = core
        self._resource = core.resource("", "namespaces")
        self._terminating: set[str] = set()

    def handle_event(self, event: storage.StorageEvent) -> None:
        if event.table is self._core.table(self._resource):
            if event.type == storage.DELETED:
                self._terminating.discard(event.now.name)
            elif event.now.is_deleting and event.now.name not in self._terminating:
                self._terminating.add(event.now.name)
                self._empty(event.now.name)
                self._remove_finalizer(event.now.name)
        elif self._terminating and event.type == storage.DELETED and event.now.namespace in self._terminating:
            self._remove_finalizer(event.now.namespace)

    def _empty(self, namespace: str) -> None:
        for resource in list(self._core.registry):
            if resource.is_namespaced:
                for stored in list(self._core.table(resource).list_namespace(namespace)):
                    delete_object(self._core, resource, stored, delete_handlers.DeleteOptions(policy="Background"))

    def _remove_finalizer(self, namespace: str) -> None:
        for resource in self._core.registry:
            if resource.is_namespaced and namespace in self._core.table(resource).namespaces:
                return
        stored = self._core.table(self._resource).objects.get(namespace)
        if stored is not None:
            self._drop_finalizers(stored)

    def _drop_finalizers(self, stored: StoredObject) -> None:
        def change(live: Json) -> Json:
            live["spec"].pop("finalizers", None)
            return live

        write_handlers.update_as_controller(self._core, self._resource, stored, change, "finalize")


class CrdController:
    """Serves the kinds of CRDs, and deletes their objects before a CRD is removed."""

    def __init__(self, core: ServerState) -> None:
        self._core = core
        self._resource = core.resource("apiextensions.k8s.io", "customresourcedefinitions")
        self._by_table: dict[storage.ResourceTable, str] = {}

    def handle_event(self, event: storage.StorageEvent) -> None:
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

    def _serve(self, stored: StoredObject) -> None:
        resource = custom_resources.make_custom_resource(stored.decode())
        for served in [served for served in self._core.registry if served.key == resource.key]:
            self._core.registry.remove(served)
        self._core.add_resource(resource)
        table = self._core.table(resource)
        table.extract = resource.extract
        table.prefix = resource.prefix
        self._by_table[table] = stored.key

    def _clean_up(self, stored: StoredObject) -> None:
        resource = self._find(stored)
        if resource is not None:
            for instance in list(self._core.table(resource).objects.values()):
                if not instance.is_deleting:
                    delete_object(self._core, resource, instance, delete_handlers.DeleteOptions(policy="Background"))
            if self._core.table(resource).objects:
                return
        current = self._core.table(self._resource).objects.get(stored.key)
        if current is not None and CLEANUP in (current.decode()["metadata"].get("finalizers") or ()):
            write_handlers.update_as_controller(self._core, self._resource, current, _without_cleanup)

    def _withdraw(self, stored: StoredObject) -> None:
        resource = self._find(stored)
        if resource is not None:
            self._core.registry.remove(resource)
            table = self._core.store.tables.pop(resource.key)
            self._by_table.pop(table, None)
            for instance in list(table.objects):
                self._core.store.delete(table, instance)

    def _find(self, stored: StoredObject) -> Resource | None:
        spec = stored.decode()["spec"]
        return self._core.registry.find_group_resource(spec["group"], spec["names"]["plural"])


def _without_cleanup(live: Json) -> Json:
    remaining = [name for name in live["metadata"]["finalizers"] if name != CLEANUP]
    if remaining:
        live["metadata"]["finalizers"] = remaining
    else:
        del live["metadata"]["finalizers"]
    return live


class EventExpiry:
    """Deletes events one hour after their last write."""

    def __init__(self, core: ServerState) -> None:
        self._core = core
        self._table = core.table(core.resource("", "events"))
        self._due: deque[tuple[float, str, int]] = deque()

    def handle_event(self, event: storage.StorageEvent) -> None:
        if event.table is self._table and event.type != storage.DELETED:
            self._due.append((self._core.clock.now_s() + EVENT_TTL_S, event.now.key, event.version))

    def expire(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            _, key, version = self._due.popleft()
            stored = self._table.objects.get(key)
            if stored is not None and stored.version == version:
                self._core.store.delete(self._table, key)
