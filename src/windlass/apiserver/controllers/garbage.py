"""Garbage collection: what belongs to something that is gone goes too, as the deletion asked for.

background    the owner goes, then its dependents
foreground    the dependents go first; those that block keep the owner until they are gone
orphan        the dependents forget the owner, then it goes
"""

from windlass.apiserver import meta, storage
from windlass.apiserver.controllers import acting
from windlass.apiserver.core import Core
from windlass.apiserver.registry import Resource
from windlass.apiserver.storage import Stored
from windlass.apiserver.types.model import Json
from windlass.apiserver.verbs import deleting


class Collector:
    """The garbage collector."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def react(self, event: storage.Event) -> None:
        now = event.now
        if event.type == storage.DELETED:
            for table, key in list(self._core.store.dependents.get(now.uid, ())):
                self._consider(table, key)
            if now.owners:
                self._tell_owners(now)
            return
        if now.is_deleting:
            self._finish_owner(event.table, now)
        if now.owners and (event.before is None or event.before.owners != now.owners):
            self._consider(event.table, now.key)

    # ── Dependents ───────────────────────────────────────────────────────────────────────────────────────────────

    def _consider(self, table: storage.Table, key: str) -> None:
        """Does anyone still own this object?"""
        stored, resource = table.objects.get(key), self._core.registry.find_table(table)
        if stored is None or resource is None:
            return
        obj = stored.decode()
        finalizers = obj["metadata"].get("finalizers") or ()
        if stored.is_deleting and meta.FOREGROUND not in finalizers:
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
        if (waiting and has_dependents) or meta.FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = "Orphan" if meta.ORPHAN in finalizers else "Background"
        acting.delete(self._core, resource, stored, deleting.Options(policy=policy))

    def _classify(self, obj: Json, owners: list[Json]) -> tuple[list[Json], list[Json], list[Json]] | None:
        """Owners that are there, that are gone, and that wait for their dependents; None if one cannot be judged."""
        solid, gone, waiting = [], [], []
        namespace = obj["metadata"].get("namespace", "")
        for owner in owners:
            resource = self._core.registry.find_kind(owner["apiVersion"], owner["kind"])
            if resource is None or (resource.is_namespaced and not namespace):
                return None
            found = self._core.find(resource, namespace if resource.is_namespaced else "", owner["name"])
            if found is None or found.uid != owner["uid"]:
                gone.append(owner)
            elif found.is_deleting and _holds(found, meta.FOREGROUND):
                waiting.append(owner)
            else:
                solid.append(owner)
        return solid, gone, waiting

    def _forget(self, resource: Resource, stored: Stored, uids: set[str]) -> None:
        def change(live: Json) -> Json:
            left = [owner for owner in live["metadata"]["ownerReferences"] if owner["uid"] not in uids]
            if left:
                live["metadata"]["ownerReferences"] = left
            else:
                del live["metadata"]["ownerReferences"]
            return live

        acting.update(self._core, resource, stored, change)

    # ── Owners ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _tell_owners(self, dependent: Stored) -> None:
        """An owner may have waited for this one to go."""
        obj = dependent.decode()
        for owner in obj["metadata"].get("ownerReferences") or ():
            resource = self._core.registry.find_kind(owner["apiVersion"], owner["kind"])
            if resource is None:
                continue
            found = self._core.find(resource, dependent.namespace if resource.is_namespaced else "", owner["name"])
            if found is not None and found.uid == owner["uid"] and found.is_deleting:
                self._finish_owner(self._core.table(resource), found)

    def _finish_owner(self, table: storage.Table, owner: Stored) -> None:
        resource = self._core.registry.find_table(table)
        if resource is None or table.objects.get(owner.key) is not owner:
            return
        finalizers = owner.decode()["metadata"].get("finalizers") or ()
        if meta.ORPHAN in finalizers:
            self._orphan(owner)
            self._drop_finalizer(resource, owner.key, meta.ORPHAN)
        elif meta.FOREGROUND in finalizers:
            for dependent_table, key in list(self._core.store.dependents.get(owner.uid, ())):
                self._consider(dependent_table, key)
            if not self._is_blocked(owner):
                self._drop_finalizer(resource, owner.key, meta.FOREGROUND)

    def _orphan(self, owner: Stored) -> None:
        for table, key in list(self._core.store.dependents.get(owner.uid, ())):
            stored, resource = table.objects.get(key), self._core.registry.find_table(table)
            if stored is not None and resource is not None:
                self._forget(resource, stored, {owner.uid})

    def _is_blocked(self, owner: Stored) -> bool:
        for table, key in self._core.store.dependents.get(owner.uid, ()):
            references = table.objects[key].decode()["metadata"]["ownerReferences"]
            if any(found["uid"] == owner.uid and found.get("blockOwnerDeletion") for found in references):
                return True
        return False

    def _drop_finalizer(self, resource: Resource, key: str, name: str) -> None:
        stored = self._core.table(resource).objects.get(key)
        if stored is None or not _holds(stored, name):
            return

        def change(live: Json) -> Json:
            left = [finalizer for finalizer in live["metadata"]["finalizers"] if finalizer != name]
            if left:
                live["metadata"]["finalizers"] = left
            else:
                del live["metadata"]["finalizers"]
            return live

        acting.update(self._core, resource, stored, change)


def _holds(stored: Stored, finalizer: str) -> bool:
    return finalizer in (stored.decode()["metadata"].get("finalizers") or ())
