"""API client of the simulated components: live objects to read, direct writes, and the queue of changes.

Writes of controllers and kubelets are valid by construction, so they go directly into the store, without decoding,
defaulting and field ownership; watchers see no difference except in `managedFields`. Templates pass the server's full
admission once (`admit`); every pod of a template is a copy of the result. Evictions, and all other requests that the
server must decide, go through `request`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.apiserver import object_meta, server, storage
from windlass.kube import time_formats, transport
from windlass.simulator.cluster import api_objects
from windlass.simulator.cluster.api_objects import GroupResource

Json = dict[str, Any]

_JSON = {"content-type": "application/json", "user-agent": "kube-controller-manager"}


class ApiRequestError(errors.WindlassError):
    """The API server refused a request of a simulated component."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Change:
    """One write of any client."""

    kind: GroupResource
    key: str
    now: Json | None
    """None: the object was deleted."""
    before: Json | None
    """None: the object is new."""

    @property
    def obj(self) -> Json:
        """The current or last version of the object."""
        found = self.now if self.now is not None else self.before
        assert found is not None
        return found


class ApiClient:
    """Current parsed objects of all watched kinds, and writes."""

    def __init__(self, served: server.Server) -> None:
        self.server = served
        self.changes: deque[Change] = deque()
        """Writes that have not been dispatched to components."""
        self.notify: Callable[[], None] = lambda: None
        """Called when a change is queued."""
        self._core = served.core
        self._objects: dict[GroupResource, dict[str, Json]] = {}
        self._writing: Json | None = None

    def watch(self, kind: GroupResource) -> None:
        """Keep parsed objects of a kind from now on."""
        table = self._core.store.tables[kind]
        self._objects[kind] = {key: stored.decode() for key, stored in table.objects.items()}
        table.watchers.append(lambda event: self._on_event(kind, event))

    def _on_event(self, kind: GroupResource, event: storage.StorageEvent) -> None:
        objects, key = self._objects[kind], event.now.key
        before = objects.get(key)
        now: Json | None = None
        if event.type == storage.DELETED:
            del objects[key]
        else:
            now = objects[key] = event.now.decode() if self._writing is None else self._writing
        self.changes.append(Change(kind, key, now, before))
        self.notify()

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> str:
        """The current time in the format of API objects."""
        return time_formats.format_time(self._core.clock.now_s())

    def list_objects(self, kind: GroupResource) -> dict[str, Json]:
        """Objects by key, in order of creation."""
        return self._objects[kind]

    def find(self, kind: GroupResource, key: str) -> Json | None:
        return self._objects[kind].get(key)

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, kind: GroupResource, obj: Json) -> Json:
        """Create an object; the server sets its uid, and its name from `generateName`."""
        metadata = dict(obj["metadata"])
        if "name" not in metadata:
            metadata["name"] = self._name(kind, metadata["generateName"], metadata.get("namespace", ""))
        object_meta.fill_object_meta(metadata, self.now(), self._core.rng)
        metadata.setdefault("generation", 1)
        made = {**self._head(kind), **obj, "metadata": metadata}
        self._write(kind, api_objects.key_of(made), made)
        return made

    def _name(self, kind: GroupResource, base: str, namespace: str) -> str:
        objects = self._core.store.tables[kind].objects
        while True:
            name = object_meta.generate_name(base, self._core.rng)
            if storage.storage_key(namespace, name) not in objects:
                return name

    def _head(self, kind: GroupResource) -> Json:
        resource = self._core.resource(*kind)
        return {"kind": resource.kind, "apiVersion": resource.api_version}

    def update(self, kind: GroupResource, obj: Json) -> None:
        """Replace an existing object."""
        self._write(kind, api_objects.key_of(obj), obj)

    def update_spec(self, kind: GroupResource, obj: Json, **changes: Any) -> None:
        """Change an object's spec, with a new generation."""
        changed = api_objects.with_part(obj, "spec", **changes)
        self.update(
            kind, api_objects.with_part(changed, "metadata", generation=obj["metadata"].get("generation", 0) + 1)
        )

    def _write(self, kind: GroupResource, key: str, obj: Json) -> None:
        self._writing = obj
        try:
            self._core.store.write(self._core.store.tables[kind], key, obj)
        finally:
            self._writing = None

    def remove(self, kind: GroupResource, key: str) -> None:
        """Remove an object at once, if it exists."""
        table = self._core.store.tables[kind]
        if key in table.objects:
            self._core.store.delete(table, key)

    def delete_pod(self, pod: Json) -> None:
        """Delete a pod as its controller would: with its grace period if it runs on a node, otherwise at once."""
        if api_objects.is_deleting(pod):
            return
        if not api_objects.node_of(pod) or api_objects.is_finished(pod):
            self.remove(api_objects.PODS, api_objects.key_of(pod))
            return
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        at = time_formats.format_time(self._core.clock.now_s() + grace_s)
        self.update(
            api_objects.PODS,
            api_objects.with_part(pod, "metadata", deletionTimestamp=at, deletionGracePeriodSeconds=grace_s),
        )

    # ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """A request like any client's. ApiRequestError with the server's code and message."""
        encoded = storage.encode_json(body) if body is not None else b""
        answer = self.server.handle(transport.Request(method, path, tuple(query.items()), _JSON, encoded))
        found: Json = storage.decode_json(answer.body)
        if answer.status >= 300:
            raise ApiRequestError(answer.status, found.get("message", ""))
        return found

    def path_of(self, kind: GroupResource, namespace: str) -> str:
        resource = self._core.resource(*kind)
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"

    def post(self, kind: GroupResource, obj: Json) -> Json:
        """Create an object through the API: decoded, defaulted, admitted, validated."""
        return self.request("POST", self.path_of(kind, obj["metadata"].get("namespace", "")), obj)

    def admit(self, kind: GroupResource, obj: Json) -> Json:
        """A new object as the server would store it: a template for any number of copies."""
        path = self.path_of(kind, obj["metadata"].get("namespace", ""))
        admitted = self.request("POST", path, obj, dryRun="All")
        admitted["metadata"] = {
            name: value for name, value in admitted["metadata"].items() if name not in _OF_ONE_OBJECT
        }
        return admitted


_OF_ONE_OBJECT = ("name", "uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink")
