"""Server-sent events, out of bytes as they come."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """One of them."""

    kind: str
    data: bytes
    id: str = ""


@dataclass(slots=True)
class Reader:
    """Holds what is not whole yet."""

    _rest: bytes = b""
    _fields: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, chunk: bytes) -> Iterator[Event]:
        """The events that are whole with this chunk. Lines of `data` are joined; comments are passed over."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            if name:
                value = value.removeprefix(b" ")
                more = name == b"data" and name in self._fields
                self._fields[name] = self._fields[name] + b"\n" + value if more else value
            elif not line.strip():
                yield from self._end()

    def _end(self) -> Iterator[Event]:
        found, self._fields = self._fields, {}
        if b"data" in found:
            yield Event(found.get(b"event", b"message").decode(), found[b"data"], found.get(b"id", b"").decode())
