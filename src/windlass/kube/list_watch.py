"""Decoding of list pages and watch streams. No I/O.

A malformed object does not affect others: it becomes a separate entry with its name. A watch stream is JSON lines in
arbitrary chunks; an ERROR event ends it, and a BOOKMARK only carries a resourceVersion.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec

from windlass import errors
from windlass.kube import errors as kube_errors
from windlass.kube import scheme
from windlass.kube.models import meta
from windlass.kube.models.meta import Model
from windlass.kube.resources import UNDECODABLE, Resource, Unreadable, decoder

T = TypeVar("T")


class ListMeta(Model, frozen=True):
    """resourceVersion and continue token of a list."""

    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


_NO_META = ListMeta()

# `items` is required: every server writes it, if only as `null`. A body without it must not count as an empty list,
# since the sink would then delete all objects.


class _FastList(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None
    metadata: ListMeta | None = None


class _SlowList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    metadata: ListMeta | None = None


class _ListHead(msgspec.Struct, frozen=True):
    metadata: ListMeta | None = None


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """Objects of one resource at one resourceVersion."""

    items: list[T] = field(default_factory=list)
    resource_version: str = ""
    unreadable: list[Unreadable[T]] = field(default_factory=list)
    """Malformed objects, which are not in `items`."""
    continue_token: str = ""
    """The token of the next page; empty on the last one."""

    @property
    def malformed(self) -> list[errors.InvalidObject]:
        """Errors of the malformed objects."""
        return [unreadable.error for unreadable in self.unreadable]

    def extend(self, page: "ObjectList[T]") -> None:
        """Append the next page."""
        self.items += page.items
        self.unreadable += page.unreadable
        self.resource_version = page.resource_version or self.resource_version
        self.continue_token = page.continue_token


_SLOW_LIST = msgspec.json.Decoder(_SlowList)

_LIST_HEAD = msgspec.json.Decoder(_ListHead)


def decode_page(resource: Resource[T], body: bytes) -> ObjectList[T]:
    """Decode a page. msgspec.MsgspecError only if it is no list."""
    if resource.is_untyped:
        return _decode_one_by_one(resource, body)
    try:
        page = decoder(_FastList[resource.model]).decode(body)  # type: ignore[name-defined]
    except UNDECODABLE:
        return _decode_one_by_one(resource, body)
    metadata = page.metadata or _NO_META
    return ObjectList(page.items or [], metadata.resource_version or "", [], metadata.continue_ or "")


def _decode_one_by_one(resource: Resource[T], body: bytes) -> ObjectList[T]:
    metadata, items = _split_list(body)
    listing: ObjectList[T] = ObjectList([], metadata.resource_version or "", [], metadata.continue_ or "")
    for raw in items:
        obj = resource.read(raw)
        if isinstance(obj, Unreadable):
            listing.unreadable.append(obj)
        else:
            listing.items.append(obj)
    return listing


def _split_list(body: bytes) -> tuple[ListMeta, list[msgspec.Raw] | list[bytes]]:
    """Metadata of the list, and the JSON of each item."""
    try:
        page = _SLOW_LIST.decode(body)
    except UNDECODABLE as error:
        try:
            rest, items = scheme.split_list(body)
            return _LIST_HEAD.decode(scheme.repair_json(rest)).metadata or _NO_META, items
        except (ValueError, RecursionError):
            raise msgspec.DecodeError(str(error)) from error
    return page.metadata or _NO_META, page.items or []


ADDED = "ADDED"

MODIFIED = "MODIFIED"

DELETED = "DELETED"

BOOKMARK = "BOOKMARK"

ERROR = "ERROR"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a streaming list."""

_LONGEST_LINE_BYTES = 64 * 2**20
"""Maximum line length. etcd limits objects to 1.5 MiB; a stream without line ends must not exhaust memory."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """A watch event: ADDED, MODIFIED, DELETED, or BOOKMARK with a resourceVersion only."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class MalformedEvent(Generic[T]):
    """An event of a malformed object."""

    type: str
    found: Unreadable[T]


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """An ERROR event, which ends the watch."""

    error: kube_errors.ApiError


WatchItem = WatchEvent[T] | MalformedEvent[T] | WatchFailed


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class LineSplitter:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.pending_bytes = 0
        """Size of the incomplete last line."""

    def feed(self, chunk: bytes) -> bytes:
        """Add a chunk; returns the complete lines."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return b""
        self._pieces.append(chunk[:end])
        whole = b"".join(self._pieces)
        self._pieces, self.pending_bytes = [], 0
        self._keep(chunk[end:])
        return whole

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self.pending_bytes += len(piece)


class WatchDecoder(Generic[T]):
    """Decodes the stream of one watch."""

    def __init__(self, resource: Resource[T], call: str) -> None:
        self._resource = resource
        self._call = call
        self._lines = LineSplitter()
        self._fast = decoder(WatchEvent[resource.model])  # type: ignore[name-defined]

    def feed(self, chunk: bytes) -> list[WatchItem[T]]:
        """The complete events. InvalidResponse if this is no watch stream."""
        block = self._lines.feed(chunk)
        if self._lines.pending_bytes > _LONGEST_LINE_BYTES:
            raise kube_errors.InvalidResponse(self._call, f"a line of more than {_LONGEST_LINE_BYTES} bytes")
        if not block:
            return []
        if self._resource.is_untyped:
            return self._decode_one_by_one(block)
        try:
            events: list[WatchEvent[T]] = self._fast.decode_lines(block)
        except UNDECODABLE:
            return self._decode_one_by_one(block)
        if any(event.type == ERROR for event in events):
            return self._decode_one_by_one(block)
        return cast(list[WatchItem[T]], events)

    def _decode_one_by_one(self, block: bytes) -> list[WatchItem[T]]:
        return [self._decode(line) for line in block.split(b"\n") if line.strip()]

    def _decode(self, line: bytes) -> WatchItem[T]:
        """Decode one line; a malformed object becomes a MalformedEvent."""
        try:
            outer = decoder(_Line).decode(line)
        except UNDECODABLE as error:
            return self._decode_identity(line, error)
        if outer.type == ERROR:
            return WatchFailed(self._read_error(outer.object))
        obj = self._resource.read(outer.object)
        if isinstance(obj, Unreadable):
            return MalformedEvent(outer.type, obj)
        return WatchEvent(outer.type, obj)

    def _decode_identity(self, line: bytes, error: Exception) -> WatchItem[T]:
        """Decode the identity of an object that is nested too deep or has invalid UTF-8; the stream goes on."""
        try:
            outer = decoder(_Line).decode(scheme.repair_json(line))
        except UNDECODABLE:
            kind, metadata = scheme.read_event_type(line), scheme.read_identity(line, (b'"object"',))
            if kind not in (ADDED, MODIFIED, DELETED) or not metadata.name:
                raise kube_errors.InvalidResponse(self._call, f"{error}: {line[:80]!r}") from error
            return MalformedEvent(kind, Unreadable(metadata, self._resource.to_invalid_text(metadata, error)))
        if outer.type == ERROR:
            return WatchFailed(self._read_error(outer.object))
        obj = self._resource.read(outer.object)
        if not isinstance(obj, Unreadable):
            complaint = self._resource.to_invalid_text(self._resource.metadata(obj), error)
            obj = self._resource.to_unreadable(obj, complaint)
        return MalformedEvent(outer.type, obj)

    def _read_error(self, raw: msgspec.Raw) -> kube_errors.ApiError:
        try:
            status = decoder(meta.Status).decode(raw)
        except UNDECODABLE:
            status = meta.Status(message=bytes(raw)[:500].decode(errors="replace"))
        return kube_errors.from_status(self._call, status)
