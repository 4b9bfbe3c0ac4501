"""Storage: every object as encoded bytes, one counter of versions, and a history for watches and pages.

What is stored is bytes, as in etcd: reading decodes a fresh object, so nobody can change what is stored, and answers,
lists and watch events are made by joining bytes. Each write has one number, the resourceVersion, for all kinds.

The layout of the bytes is fixed at the front, `{"kind":…,"apiVersion":…,"metadata":{"resourceVersion":"…"`, so that
an item of a list can go without its type, and a deleted object can get its last version, without decoding.
"""

import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.apiserver import selecting
from windlass.apiserver.types.model import Json

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

_VERSION = b'"metadata":{"resourceVersion":"'
_NOTHING: Mapping[str, str] = {}

Extract = Callable[[Json], Mapping[str, str]]
"""The fields of an object that field selectors see."""


class Stored(selecting.Selectable):
    """One version of one object."""

    __slots__ = ("is_deleting", "key", "owners", "raw", "uid", "version")

    def __init__(self, key: str, version: int, raw: bytes, obj: Json, extract: Extract | None) -> None:
        metadata = obj["metadata"]
        super().__init__(
            metadata.get("namespace", ""),
            metadata["name"],
            metadata.get("labels") or _NOTHING,
            extract(obj) if extract is not None else _NOTHING,
        )
        self.key, self.version, self.raw = key, version, raw
        self.uid: str = metadata.get("uid", "")
        self.is_deleting = "deletionTimestamp" in metadata
        self.owners: tuple[str, ...] = tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ())

    def decode(self) -> Json:
        """The object, anew: the caller may change it."""
        obj: Json = decode(self.raw)
        return obj

    def successor(self, version: int, raw: bytes) -> "Stored":
        """The same object at a later version, with other bytes."""
        copy: Stored = Stored.__new__(Stored)
        for name in ("namespace", "name", "labels", "fields", "key", "uid", "is_deleting", "owners"):
            setattr(copy, name, getattr(self, name))
        copy.version, copy.raw = version, raw
        return copy


class Event:
    """One write, as watches and controllers see it."""

    __slots__ = ("_lines", "before", "now", "table", "type", "version")

    def __init__(self, type_: str, table: "Table", now: Stored, before: Stored | None) -> None:
        self.type, self.table, self.now, self.before = type_, table, now, before
        self.version = now.version
        self._lines: dict[str, bytes] = {}

    def line(self, type_: str, stored: Stored) -> bytes:
        """The event as a line of a watch, encoded once for all who watch."""
        found = self._lines.get(type_)
        if found is None:
            found = self._lines[type_] = make_line(type_, stored.raw)
        return found


def make_line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"


class Table:
    """All objects of one resource, and what happened to them lately."""

    def __init__(
        self, resource: tuple[str, str], prefix: bytes, extract: Extract | None, history: int, floor: int
    ) -> None:
        self.resource = resource
        """Group and plural."""
        self.prefix = prefix
        """How every object's bytes begin: its kind and version."""
        self.extract = extract
        self.objects: dict[str, Stored] = {}
        self.watchers: list[Callable[[Event], None]] = []
        self.floor = floor
        """The oldest version whose aftermath is still known."""
        self.namespaces: dict[str, int] = {}
        """How many objects there are in each namespace that has any."""
        self._history: deque[Event] = deque()
        self._longest_history = history
        self._keys: list[str] = []
        self._came: set[str] = set()
        self._went: set[str] = set()
        """Keys that came and went since `_keys` was in order."""

    def encode(self, obj: Json, version: int) -> bytes:
        rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion", "metadata")}
        metadata = {"resourceVersion": str(version), **obj["metadata"]}
        metadata["resourceVersion"] = str(version)
        return self.prefix + encode({"metadata": metadata, **rest})[1:]

    def item(self, stored: Stored) -> bytes:
        """The object as an item of a typed list: without kind and version."""
        return b"{" + stored.raw[len(self.prefix) :]

    def reversioned(self, raw: bytes, version: int) -> bytes:
        """The same bytes at another version."""
        start = len(self.prefix) + len(_VERSION)
        return raw[:start] + str(version).encode() + raw[raw.index(b'"', start) :]

    def keys(self) -> list[str]:
        """Keys in order, as lists have them."""
        if self._came or self._went:
            # A new list, because pages hold on to the old one; mostly in order, which sorting makes use of.
            kept = [key for key in self._keys if key not in self._went] if self._went else list(self._keys)
            kept += sorted(self._came)
            kept.sort()
            self._keys, self._came, self._went = kept, set(), set()
        return self._keys

    def within(self, namespace: str) -> Iterator[Stored]:
        """Objects of a namespace; of all, if it is empty. In order."""
        keys = self.keys()
        start, end = 0, len(keys)
        if namespace:
            start, end = bisect.bisect_left(keys, namespace + "/"), bisect.bisect_left(keys, namespace + "0")
        return (self.objects[key] for key in keys[start:end])

    def put(self, event: Event) -> None:
        stored = event.now
        if event.type == MODIFIED:
            self.objects[stored.key] = stored
        elif event.type == ADDED:
            self.objects[stored.key] = stored
            self._note(stored, self._came, self._went, 1)
        else:
            del self.objects[stored.key]
            self._note(stored, self._went, self._came, -1)
        history = self._history
        history.append(event)
        if len(history) > self._longest_history:
            self.floor = history.popleft().version
        for watcher in self.watchers:
            watcher(event)

    def _note(self, stored: Stored, into: set[str], out_of: set[str], change: int) -> None:
        if stored.key in out_of:
            out_of.discard(stored.key)
        else:
            into.add(stored.key)
        if stored.namespace:
            count = self.namespaces.get(stored.namespace, 0) + change
            if count:
                self.namespaces[stored.namespace] = count
            else:
                del self.namespaces[stored.namespace]

    def since(self, version: int) -> list[Event]:
        """Events after a version, oldest first."""
        events = []
        for event in reversed(self._history):
            if event.version <= version:
                break
            events.append(event)
        events.reverse()
        return events

    def at(self, version: int) -> dict[str, Stored]:
        """The objects as they were at a version that is not older than the floor."""
        objects = dict(self.objects)
        for event in reversed(self.since(version)):
            if event.before is None:
                del objects[event.now.key]
            else:
                objects[event.now.key] = event.before
        return objects

    def compact(self, version: int) -> None:
        """Forget what led to this version."""
        while self._history and self._history[0].version <= version:
            self._history.popleft()
        self.floor = max(self.floor, version)


class Store:
    """All tables, and the one counter."""

    def __init__(self, history: int, first_version: int) -> None:
        self.version = first_version
        self.tables: dict[tuple[str, str], Table] = {}
        self.dependents: dict[str, dict[tuple[Table, str], None]] = {}
        """By owner's uid: which objects name it as their owner."""
        self.pending: deque[Event] = deque()
        """Writes that controllers have yet to look at."""
        self._history = history

    def make_table(self, resource: tuple[str, str], prefix: bytes, extract: Extract | None) -> Table:
        table = self.tables[resource] = Table(resource, prefix, extract, self._history, self.version)
        return table

    def write(self, table: Table, key: str, obj: Json) -> Stored:
        """Create or replace an object."""
        self.version += 1
        before = table.objects.get(key)
        stored = Stored(key, self.version, table.encode(obj, self.version), obj, table.extract)
        self._record(Event(ADDED if before is None else MODIFIED, table, stored, before))
        return stored

    def delete(self, table: Table, key: str) -> Stored:
        """Remove an object. Its last form carries the version of its end."""
        self.version += 1
        before = table.objects[key]
        stored = before.successor(self.version, table.reversioned(before.raw, self.version))
        self._record(Event(DELETED, table, stored, before))
        return stored

    def _record(self, event: Event) -> None:
        table, stored, before = event.table, event.now, event.before
        if stored.owners or (before is not None and before.owners):
            self._index_owners(table, event)
        table.put(event)
        self.pending.append(event)

    def _index_owners(self, table: Table, event: Event) -> None:
        entry = (table, event.now.key)
        before = event.before.owners if event.before is not None else ()
        now = () if event.type == DELETED else event.now.owners
        for owner in before:
            if owner not in now:
                held = self.dependents[owner]
                held.pop(entry, None)
                if not held:
                    del self.dependents[owner]
        for owner in now:
            self.dependents.setdefault(owner, {})[entry] = None

    def compact(self) -> None:
        """Forget all history: whoever asks for what happened before now has to list again."""
        for table in self.tables.values():
            table.compact(self.version)


def join_list(head: Json, items: list[bytes]) -> bytes:
    """A list object from its kind and metadata and the bytes of its items."""
    return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def lookup(obj: Any, *path: str) -> Any:
    """What is at a path of maps; None if nothing is."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj
