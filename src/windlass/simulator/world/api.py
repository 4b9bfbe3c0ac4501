"""The world's door to the embedded API server: live objects to read, short ways to write, and word of every change.

What controllers and kubelets write is whole and right by construction, so it goes straight into the store, past
decoding, defaulting and ownership of fields; watchers cannot tell the difference but for `managedFields`. Templates
pass the server's full admission once (`admit`), and every pod made from one is a stamp of it. Evictions, and whatever
else the server must judge, go through `request`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass import errors
from windlass.apiserver import meta, server, storage, times
from windlass.kube import transport
from windlass.simulator.world import edit, kinds
from windlass.simulator.world.kinds import Kind

Json = dict[str, Any]

_JSON = {"content-type": "application/json", "user-agent": "kube-controller-manager"}


class Refused(errors.WindlassError):
    """The server did not do what the world asked of it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Change:
    """One write, whoever made it."""

    kind: Kind
    key: str
    now: Json | None
    """None: the object is gone."""
    before: Json | None
    """None: the object is new."""

    @property
    def obj(self) -> Json:
        """The object as it is, or as it was last."""
        found = self.now if self.now is not None else self.before
        assert found is not None
        return found


class Api:
    """Objects of all watched kinds, parsed and current, and the ways to change them."""

    def __init__(self, served: server.Server) -> None:
        self.server = served
        self.changes: deque[Change] = deque()
        """Writes that the parts have yet to hear of."""
        self.notify: Callable[[], None] = lambda: None
        """Called when there is a change to hear of."""
        self._core = served.core
        self._objects: dict[Kind, dict[str, Json]] = {}
        self._writing: Json | None = None

    def watch(self, kind: Kind) -> None:
        """Keep a kind's objects at hand from now on."""
        table = self._core.store.tables[kind]
        self._objects[kind] = {key: stored.decode() for key, stored in table.objects.items()}
        table.watchers.append(lambda event: self._hear(kind, event))

    def _hear(self, kind: Kind, event: storage.Event) -> None:
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
        """The time, as objects spell it."""
        return times.spell(self._core.clock.now_s())

    def all(self, kind: Kind) -> dict[str, Json]:
        """By key, in the order in which they were made."""
        return self._objects[kind]

    def find(self, kind: Kind, key: str) -> Json | None:
        return self._objects[kind].get(key)

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, kind: Kind, obj: Json) -> Json:
        """A new object; the server gives it its uid, and its name if it only begins one."""
        metadata = dict(obj["metadata"])
        if "name" not in metadata:
            metadata["name"] = self._name(kind, metadata["generateName"], metadata.get("namespace", ""))
        meta.fill(metadata, self.now(), self._core.chance)
        metadata.setdefault("generation", 1)
        made = {**self._head(kind), **obj, "metadata": metadata}
        self._write(kind, edit.key_of(made), made)
        return made

    def _name(self, kind: Kind, base: str, namespace: str) -> str:
        objects = self._core.store.tables[kind].objects
        while True:
            name = meta.generate_name(base, self._core.chance)
            if storage.key_of(namespace, name) not in objects:
                return name

    def _head(self, kind: Kind) -> Json:
        resource = self._core.resource(*kind)
        return {"kind": resource.kind, "apiVersion": resource.api_version}

    def update(self, kind: Kind, obj: Json) -> None:
        """Replace an object that is there."""
        self._write(kind, edit.key_of(obj), obj)

    def respec(self, kind: Kind, obj: Json, **changes: Any) -> None:
        """Change an object's spec: a new generation."""
        changed = edit.with_part(obj, "spec", **changes)
        self.update(kind, edit.with_part(changed, "metadata", generation=obj["metadata"].get("generation", 0) + 1))

    def _write(self, kind: Kind, key: str, obj: Json) -> None:
        self._writing = obj
        try:
            self._core.store.write(self._core.store.tables[kind], key, obj)
        finally:
            self._writing = None

    def remove(self, kind: Kind, key: str) -> None:
        """Take an object away at once; nothing happens if it is gone already."""
        table = self._core.store.tables[kind]
        if key in table.objects:
            self._core.store.delete(table, key)

    def delete_pod(self, pod: Json) -> None:
        """Delete a pod as its controller would: it gets its grace where it runs, and goes at once where it does not."""
        if edit.is_deleting(pod):
            return
        if not edit.node_of(pod) or edit.is_finished(pod):
            self.remove(kinds.PODS, edit.key_of(pod))
            return
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        at = times.spell(self._core.clock.now_s() + grace_s)
        self.update(
            kinds.PODS, edit.with_part(pod, "metadata", deletionTimestamp=at, deletionGracePeriodSeconds=grace_s)
        )

    # ── Asking the server ────────────────────────────────────────────────────────────────────────────────────────

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """A request like any client's. Refused with the server's code and words."""
        encoded = storage.encode(body) if body is not None else b""
        answer = self.server.handle(transport.Request(method, path, tuple(query.items()), _JSON, encoded))
        found: Json = storage.decode(answer.body)
        if answer.status >= 300:
            raise Refused(answer.status, found.get("message", ""))
        return found

    def path_of(self, kind: Kind, namespace: str) -> str:
        resource = self._core.resource(*kind)
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"

    def post(self, kind: Kind, obj: Json) -> Json:
        """Create an object the long way: decoded, defaulted, admitted, validated."""
        return self.request("POST", self.path_of(kind, obj["metadata"].get("namespace", "")), obj)

    def admit(self, kind: Kind, obj: Json) -> Json:
        """What the server would make of a new object: a stamp for as many as are wanted."""
        path = self.path_of(kind, obj["metadata"].get("namespace", ""))
        admitted = self.request("POST", path, obj, dryRun="All")
        admitted["metadata"] = {
            name: value for name, value in admitted["metadata"].items() if name not in _OF_ONE_OBJECT
        }
        return admitted


_OF_ONE_OBJECT = ("name", "uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink")
