"""Base of the workload controllers: owned objects by controller, pods from templates, and a queue of due objects.

An object is due when it changes or one of its pods does, and is reconciled once for any number of changes.
`PodFactory` passes the first pod of a template through the API server's admission and copies it for all others.
"""

from typing import Any

from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import ApiClient, Change, GroupResource
from windlass.simulator.cluster.event_loop import EventLoop

Json = dict[str, Any]


class OwnedObjects:
    """Objects of one kind by the uid of their controller, if that is of the given kind."""

    def __init__(self, owner_kind: str, owned: GroupResource) -> None:
        self._owner_kind = owner_kind
        self._owned = owned
        self._by_owner: dict[str, dict[str, Json]] = {}

    def on_change(self, change: Change) -> str | None:
        """Note a change; returns the key of the owner."""
        if change.kind != self._owned:
            return None
        owner = api_client.controller_of(change.obj)
        if owner is None or owner["kind"] != self._owner_kind:
            return None
        uid = owner["uid"]
        if change.now is None:
            held = self._by_owner.get(uid, {})
            held.pop(change.key, None)
            if not held:
                self._by_owner.pop(uid, None)
        else:
            self._by_owner.setdefault(uid, {})[change.key] = change.now
        return f"{change.obj['metadata']['namespace']}/{owner['name']}"

    def of(self, owner: Json) -> list[Json]:
        """Objects of an owner, in order of creation."""
        return list(self._by_owner.get(owner["metadata"]["uid"], {}).values())


class OwnedPods(OwnedObjects):
    """Pods by the uid of their controller, with the active and the ready ones."""

    def __init__(self, owner_kind: str) -> None:
        super().__init__(owner_kind, api_client.PODS)
        self._active: dict[str, dict[str, Json]] = {}
        self._ready: dict[str, int] = {}

    def on_change(self, change: Change) -> str | None:
        key = super().on_change(change)
        owner = api_client.controller_of(change.obj)
        if key is not None and owner is not None:
            self._count(owner["uid"], change)
        return key

    def _count(self, uid: str, change: Change) -> None:
        active = self._active.setdefault(uid, {})
        before = active.pop(change.key, None)
        ready = self._ready.get(uid, 0) - (before is not None and api_client.is_ready(before))
        if change.now is not None and api_client.is_active(change.now):
            active[change.key] = change.now
            ready += api_client.is_ready(change.now)
        self._ready[uid] = ready
        if not active:
            del self._active[uid], self._ready[uid]

    def active(self, owner: Json) -> dict[str, Json]:
        """Active pods by key, in order of their last change."""
        return self._active.get(owner["metadata"]["uid"], {})

    def ready_count(self, owner: Json) -> int:
        """Number of active pods that are ready."""
        return self._ready.get(owner["metadata"]["uid"], 0)


class PodFactory:
    """Makes pods: admitted templates by owner and generation."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._known: dict[str, tuple[int, Json]] = {}

    def forget(self, owner_uid: str) -> None:
        self._known.pop(owner_uid, None)

    def make_pod(self, owner: Json, name: str = "", labels: dict[str, str] | None = None) -> Json:
        """A new pod of the owner's template, not yet created; its name is generated from the owner's unless given."""
        stamp = self._find(owner)
        metadata: Json = {**stamp["metadata"]}
        if name:
            metadata.pop("generateName", None)
            metadata["name"] = name
        if labels:
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
        return {**stamp, "metadata": metadata}

    def _find(self, owner: Json) -> Json:
        uid, generation = owner["metadata"]["uid"], owner["metadata"].get("generation", 0)
        known = self._known.get(uid)
        if known is None or known[0] != generation:
            known = self._known[uid] = (generation, self._admit(owner))
        return known[1]

    def _admit(self, owner: Json) -> Json:
        template = owner["spec"]["template"]
        said = template.get("metadata") or {}
        metadata = {
            "generateName": owner["metadata"]["name"] + "-",
            "namespace": owner["metadata"]["namespace"],
            "labels": said.get("labels") or {},
            "annotations": said.get("annotations") or {},
            "ownerReferences": [api_client.owned_by(owner)],
        }
        return self._api.admit(api_client.PODS, {"metadata": metadata, "spec": template["spec"]})


class PodController:
    """Base of a controller of one kind. `reconcile` handles an object that is due."""

    def __init__(self, event_loop: EventLoop, kind: GroupResource, pods: OwnedObjects) -> None:
        self.watched_kinds = (kind, api_client.PODS)
        self._event_loop, self._api = event_loop, event_loop.api
        self._pod_factory = PodFactory(event_loop.api)
        self._kind, self._owned = kind, pods
        self._due: dict[str, None] = {}

    def on_change(self, change: Change) -> None:
        key = self._owned.on_change(change)
        if change.kind == self._kind:
            key = change.key
            if change.now is None:
                self._pod_factory.forget(change.obj["metadata"]["uid"])
        if key is not None:
            self._due[key] = None

    def sync(self) -> bool:
        due, self._due = self._due, {}
        for key in due:
            owner = self._api.find(self._kind, key)
            if owner is not None and not api_client.is_deleting(owner):
                self.reconcile(key, owner)
        return bool(due)

    def reconcile(self, key: str, owner: Json) -> None:
        """Bring the object's pods and status to its spec."""
        raise NotImplementedError
