"""Storage: objects as encoded bytes, one resourceVersion counter, a history for watches and pages, and selectors.

Stored objects are bytes, as in etcd: reading decodes a fresh object, so stored state cannot be mutated; responses,
lists and watch events are made by joining bytes. Label and field selectors are parsed as requests write them.
"""

import bisect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import selectors
from windlass.apiserver import status_errors
from windlass.apiserver.value_types import Json

_LABEL_KEY = r"(?:[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<without>{_LABEL_KEY})"
    rf"|(?P<key>{_LABEL_KEY})\s*(?:(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<equal>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    r"|(?P<compare>[<>])\s*(?P<number>-?\d+))?)\s*(?:,|$)"
)

_FIELD = re.compile(r"(?P<path>(?:[^=!\\,]|\\.)+?)(?P<operator>!=|==|=)(?P<value>(?:[^=!\\,]|\\.)*)(?:,|$)")

_OPERATORS = selectors.Operator


def parse_label_query(text: str) -> selectors.LabelSelector:
    """Parse a label selector. StatusError if it is invalid."""
    requirements = []
    at = 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise status_errors.bad_request(f"unable to parse requirement: found '{text[at:]}', expected: identifier")
        requirements.append(_parse_label_term(term))
        at = term.end()
    return selectors.LabelSelector.of(requirements) if requirements else selectors.EVERYTHING


def _parse_label_term(term: re.Match[str]) -> selectors.Requirement:
    if term["absent"]:
        return selectors.Requirement(term["without"], _OPERATORS.DOES_NOT_EXIST)
    if term["set"]:
        values = tuple(sorted({value.strip() for value in term["values"].split(",")}))
        return selectors.Requirement(term["key"], _OPERATORS.IN if term["set"] == "in" else _OPERATORS.NOT_IN, values)
    if term["equal"]:
        operator = _OPERATORS.NOT_IN if term["equal"] == "!=" else _OPERATORS.IN
        return selectors.Requirement(term["key"], operator, (term["value"],))
    if term["compare"]:
        return selectors.Requirement(
            term["key"], _OPERATORS.GT if term["compare"] == ">" else _OPERATORS.LT, (term["number"],)
        )
    return selectors.Requirement(term["key"], _OPERATORS.EXISTS)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One requirement of a field selector."""

    path: str
    value: str
    wants_equal: bool

    def accepts(self, value: str) -> bool:
        return (value == self.value) is self.wants_equal


def parse_field_query(text: str, supported: Sequence[str]) -> tuple[FieldRequirement, ...]:
    """Parse a field selector on supported fields; `metadata.name` is always supported."""
    requirements = []
    at = 0
    while at < len(text):
        term = _FIELD.match(text, at)
        if term is None:
            raise status_errors.bad_request(
                f'invalid field selector: invalid selector: "{text}"; can\'t understand "{text}"'
            )
        if term["path"] not in supported:
            raise status_errors.bad_request(f"field label not supported: {term['path']}")
        value = re.sub(r"\\(.)", r"\1", term["value"])
        requirements.append(FieldRequirement(term["path"], value, term["operator"] != "!="))
        at = term.end()
    return tuple(requirements)


class SelectableObject:
    """Labels and fields of an object, for selectors."""

    __slots__ = ("fields", "labels", "name", "namespace")

    def __init__(self, namespace: str, name: str, labels: Mapping[str, str], fields: Mapping[str, str]) -> None:
        self.namespace, self.name, self.labels, self.fields = namespace, name, labels, fields


ObjectFilter = Callable[[SelectableObject], bool]


def make_object_filter(
    namespace: str, labels: selectors.LabelSelector, fields: tuple[FieldRequirement, ...]
) -> ObjectFilter | None:
    """A filter of objects; None if every object matches."""
    if not namespace and not labels.requirements and not fields:
        return None

    def accepts(selectable_object: SelectableObject) -> bool:
        if namespace and selectable_object.namespace != namespace:
            return False
        if labels.requirements and not labels.matches(selectable_object.labels):
            return False
        return all(field.accepts(_field_value(selectable_object, field.path)) for field in fields)

    return accepts


def _field_value(selectable_object: SelectableObject, path: str) -> str:
    if path == "metadata.name":
        return selectable_object.name
    return selectable_object.namespace if path == "metadata.namespace" else selectable_object.fields.get(path, "")


ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

encode_json = msgspec.json.Encoder().encode

decode_json = msgspec.json.Decoder().decode

_VERSION = b'"metadata":{"resourceVersion":"'

_NOTHING: Mapping[str, str] = {}

ExtractFields = Callable[[Json], Mapping[str, str]]
"""Extracts the selectable fields of an object."""


class StoredObject(SelectableObject):
    """One version of one object."""

    __slots__ = ("is_deleting", "key", "owners", "raw", "uid", "version")

    def __init__(self, key: str, version: int, raw: bytes, obj: Json, extract: ExtractFields | None) -> None:
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
        """Decode a new copy, which the caller may change."""
        obj: Json = decode_json(self.raw)
        return obj

    def successor(self, version: int, raw: bytes) -> "StoredObject":
        """The same object at a later version, with other bytes."""
        copy: StoredObject = StoredObject.__new__(StoredObject)
        for name in ("namespace", "name", "labels", "fields", "key", "uid", "is_deleting", "owners"):
            setattr(copy, name, getattr(self, name))
        copy.version, copy.raw = version, raw
        return copy


class StorageEvent:
    """One write, for watches and controllers."""

    __slots__ = ("_lines", "before", "now", "table", "type", "version")

    def __init__(self, type_: str, table: "ResourceTable", now: StoredObject, before: StoredObject | None) -> None:
        self.type, self.table, self.now, self.before = type_, table, now, before
        self.version = now.version
        self._lines: dict[str, bytes] = {}

    def line(self, type_: str, stored: StoredObject) -> bytes:
        """The event as a line of a watch, encoded once for all watches."""
        watch_line = self._lines.get(type_)
        if watch_line is None:
            watch_line = self._lines[type_] = make_watch_line(type_, stored.raw)
        return watch_line


def make_watch_line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"


class ResourceTable:
    """All objects of one resource, and their recent history."""

    def __init__(
        self, resource: tuple[str, str], prefix: bytes, extract: ExtractFields | None, history: int, floor: int
    ) -> None:
        self.resource = resource
        """Group and plural."""
        self.prefix = prefix
        """The first bytes of every object: its kind and version."""
        self.extract = extract
        self.objects: dict[str, StoredObject] = {}
        self.watchers: list[Callable[[StorageEvent], None]] = []
        self.floor = floor
        """The oldest version from which the history is complete."""
        self.namespaces: dict[str, int] = {}
        """Number of objects by namespace."""
        self._history: deque[StorageEvent] = deque()
        self._longest_history = history
        self._keys: list[str] = []
        self._came: set[str] = set()
        self._went: set[str] = set()
        """Keys added and removed since `_keys` was sorted."""

    def encode(self, obj: Json, version: int) -> bytes:
        rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion", "metadata")}
        metadata = {"resourceVersion": str(version), **obj["metadata"]}
        metadata["resourceVersion"] = str(version)
        return self.prefix + encode_json({"metadata": metadata, **rest})[1:]

    def item(self, stored: StoredObject) -> bytes:
        """The object as an item of a typed list: without kind and version."""
        return b"{" + stored.raw[len(self.prefix) :]

    def reversioned(self, raw: bytes, version: int) -> bytes:
        """The same bytes at another version."""
        start = len(self.prefix) + len(_VERSION)
        return raw[:start] + str(version).encode() + raw[raw.index(b'"', start) :]

    def keys(self) -> list[str]:
        """Keys in order, as lists have them."""
        if self._came or self._went:
            # A new list, because pages refer to the old one; it is nearly sorted, which is fast to sort.
            kept = [key for key in self._keys if key not in self._went] if self._went else list(self._keys)
            kept += sorted(self._came)
            kept.sort()
            self._keys, self._came, self._went = kept, set(), set()
        return self._keys

    def list_namespace(self, namespace: str) -> Iterator[StoredObject]:
        """Objects of a namespace, or of all namespaces if it is empty, sorted by key."""
        keys = self.keys()
        start, end = 0, len(keys)
        if namespace:
            start, end = bisect.bisect_left(keys, namespace + "/"), bisect.bisect_left(keys, namespace + "0")
        return (self.objects[key] for key in keys[start:end])

    def put(self, event: StorageEvent) -> None:
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

    def _note(self, stored: StoredObject, into: set[str], out_of: set[str], change: int) -> None:
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

    def since(self, version: int) -> list[StorageEvent]:
        """Events after a version, oldest first."""
        events = []
        for event in reversed(self._history):
            if event.version <= version:
                break
            events.append(event)
        events.reverse()
        return events

    def at(self, version: int) -> dict[str, StoredObject]:
        """The objects at a version that is not older than the floor."""
        objects = dict(self.objects)
        for event in reversed(self.since(version)):
            if event.before is None:
                del objects[event.now.key]
            else:
                objects[event.now.key] = event.before
        return objects

    def compact(self, version: int) -> None:
        """Drop the history up to this version."""
        while self._history and self._history[0].version <= version:
            self._history.popleft()
        self.floor = max(self.floor, version)


class ObjectStore:
    """All tables, and the resourceVersion counter."""

    def __init__(self, history: int, first_version: int) -> None:
        self.version = first_version
        self.tables: dict[tuple[str, str], ResourceTable] = {}
        self.dependents: dict[str, dict[tuple[ResourceTable, str], None]] = {}
        """Dependents by uid of their owner."""
        self.pending: deque[StorageEvent] = deque()
        """Writes that controllers have not processed."""
        self._history = history

    def make_table(self, resource: tuple[str, str], prefix: bytes, extract: ExtractFields | None) -> ResourceTable:
        table = self.tables[resource] = ResourceTable(resource, prefix, extract, self._history, self.version)
        return table

    def write(self, table: ResourceTable, key: str, obj: Json) -> StoredObject:
        """Create or replace an object."""
        self.version += 1
        before = table.objects.get(key)
        stored = StoredObject(key, self.version, table.encode(obj, self.version), obj, table.extract)
        self._record(StorageEvent(ADDED if before is None else MODIFIED, table, stored, before))
        return stored

    def delete(self, table: ResourceTable, key: str) -> StoredObject:
        """Remove an object. Its last state has the version of the deletion."""
        self.version += 1
        before = table.objects[key]
        stored = before.successor(self.version, table.reversioned(before.raw, self.version))
        self._record(StorageEvent(DELETED, table, stored, before))
        return stored

    def _record(self, event: StorageEvent) -> None:
        table, stored, before = event.table, event.now, event.before
        if stored.owners or (before is not None and before.owners):
            self._index_owners(table, event)
        table.put(event)
        self.pending.append(event)

    def _index_owners(self, table: ResourceTable, event: StorageEvent) -> None:
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
        """Drop all history: watches from older versions have to list again."""
        for table in self.tables.values():
            table.compact(self.version)


def join_list_body(head: Json, items: list[bytes]) -> bytes:
    """A list object from its kind and metadata and the bytes of its items."""
    return encode_json(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def storage_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def lookup_path(obj: Any, *path: str) -> Any:
    """The value at a path of maps; None if absent."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj
