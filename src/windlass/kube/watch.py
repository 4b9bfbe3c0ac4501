"""Watch streams: bytes in, events out. No I/O.

A stream is lines of JSON, cut into chunks anywhere. An object that cannot be read is an event of its own, with its
name; an ERROR ends the stream. What is left of a line when the stream ends is not an event.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from windlass.kube import errors as kube_errors
from windlass.kube import salvage
from windlass.kube.models import status
from windlass.kube.resources import UNDECODABLE, Resource, Unreadable, decoder

T = TypeVar("T")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a streaming list."""

_LONGEST_LINE_BYTES = 64 * 2**20
"""No object is that long: etcd takes 1.5 MiB. A stream without line ends must not fill the memory."""


class Event(msgspec.Struct, Generic[T], frozen=True):
    """A change of one object: ADDED, MODIFIED or DELETED. Or a BOOKMARK, whose object is but a resourceVersion."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Malformed(Generic[T]):
    """A change of an object that cannot be read."""

    type: str
    found: Unreadable[T]


@dataclass(frozen=True, slots=True)
class Failed:
    """The server ended the watch with an error."""

    error: kube_errors.ApiError


Found = Event[T] | Malformed[T] | Failed


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Lines:
    """Puts lines together that were cut into chunks."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.pending_bytes = 0
        """Of a line whose end has not come yet."""

    def feed(self, chunk: bytes) -> bytes:
        """Whole lines, as many as there are now."""
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


class Decoder(Generic[T]):
    """Decodes one stream of one resource."""

    def __init__(self, resource: Resource[T], call: str) -> None:
        self._resource = resource
        self._call = call
        self._lines = Lines()
        self._fast = decoder(Event[resource.model])  # type: ignore[name-defined]

    def feed(self, chunk: bytes) -> list[Found[T]]:
        """The events that are complete now. InvalidAnswer if this is no watch stream."""
        block = self._lines.feed(chunk)
        if self._lines.pending_bytes > _LONGEST_LINE_BYTES:
            raise kube_errors.InvalidAnswer(self._call, f"a line of more than {_LONGEST_LINE_BYTES} bytes")
        if not block:
            return []
        if self._resource.is_untyped:
            return self._decode_one_by_one(block)
        try:
            events: list[Event[T]] = self._fast.decode_lines(block)
        except UNDECODABLE:
            return self._decode_one_by_one(block)
        if any(event.type == ERROR for event in events):
            return self._decode_one_by_one(block)
        return cast(list[Found[T]], events)

    def _decode_one_by_one(self, block: bytes) -> list[Found[T]]:
        return [self._decode(line) for line in block.split(b"\n") if line.strip()]

    def _decode(self, line: bytes) -> Found[T]:
        """One line, with care."""
        try:
            outer = decoder(_Line).decode(line)
        except UNDECODABLE as error:
            return self._make_out(line, error)
        if outer.type == ERROR:
            return Failed(self._read_error(outer.object))
        found = self._resource.read(outer.object)
        if isinstance(found, Unreadable):
            return Malformed(outer.type, found)
        return Event(outer.type, found)

    def _make_out(self, line: bytes, error: Exception) -> Found[T]:
        """A line that is nested too deep, or holds no valid text: it costs its object, and not the stream."""
        try:
            outer = decoder(_Line).decode(salvage.mend(line))
        except UNDECODABLE:
            kind, metadata = salvage.find_type(line), salvage.identify(line, (b'"object"',))
            if kind not in (ADDED, MODIFIED, DELETED) or not metadata.name:
                raise kube_errors.InvalidAnswer(self._call, f"{error}: {line[:80]!r}") from error
            return Malformed(kind, Unreadable(metadata, self._resource.complain_of_text(metadata, error)))
        if outer.type == ERROR:
            return Failed(self._read_error(outer.object))
        found = self._resource.read(outer.object)
        if not isinstance(found, Unreadable):
            complaint = self._resource.complain_of_text(self._resource.metadata(found), error)
            found = self._resource.distrust(found, complaint)
        return Malformed(outer.type, found)

    def _read_error(self, raw: msgspec.Raw) -> kube_errors.ApiError:
        try:
            said = decoder(status.Status).decode(raw)
        except UNDECODABLE:
            said = status.Status(message=bytes(raw)[:500].decode(errors="replace"))
        return kube_errors.from_status(self._call, said)
