"""Status stream of a running autoscaler or a served simulation: server-sent events, with reconnects."""

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import aiohttp
import msgspec

from windlass.observability import status_model, status_routes
from windlass.observability.status_model import PublishedStatus, StatusChange


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event."""

    kind: str
    data: bytes
    id: str = ""


@dataclass(slots=True)
class EventStreamParser:
    """Parses chunks of a stream; incomplete events are buffered."""

    _rest: bytes = b""
    _fields: dict[bytes, bytes] = field(default_factory=dict)

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events completed by this chunk. Lines of `data` are joined; comments are ignored."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            if name:
                value = value.removeprefix(b" ")
                more = name == b"data" and name in self._fields
                self._fields[name] = self._fields[name] + b"\n" + value if more else value
            elif not line.strip():
                yield from self._end()

    def _end(self) -> Iterator[ServerSentEvent]:
        found, self._fields = self._fields, {}
        if b"data" in found:
            yield ServerSentEvent(
                found.get(b"event", b"message").decode(), found[b"data"], found.get(b"id", b"").decode()
            )


_CONNECT_TIMEOUT_S = 5.0

_READ_TIMEOUT_S = 3 * status_routes.HEARTBEAT_S
"""Silence after which a connection counts as dead; the server sends heartbeats."""

_RECONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The last status if any, the server's time, and the connection error; empty while connected."""

    status: PublishedStatus | None = None
    now_s: float = 0.0
    trouble: str = ""


class _Heartbeat(msgspec.Struct):
    now_s: float = 0.0
    trouble: str = ""


StatusCallback = Callable[[StatusUpdate], None]


async def follow_status(
    server: str,
    on_update: StatusCallback,
    headers: Mapping[str, str] = MappingProxyType({}),
    tls: ssl.SSLContext | None = None,
) -> None:
    """Follow until cancelled. A lost connection is re-established and continues after the last event.

    `headers` carry the token. `tls` overrides the system's trusted certificates.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S)
    heard, last_id = StatusUpdate(), ""
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            trouble = "the connection ended"
            try:
                asked = {**headers, "Last-Event-ID": last_id} if last_id else headers
                url = f"{server}{status_routes.PUBLISHED_STREAM_PATH}"
                async with session.get(url, headers=asked, ssl=True if tls is None else tls) as answer:
                    if answer.status != 200:
                        trouble = f"{answer.status}: {(await answer.text()).strip()}"
                    reader = EventStreamParser()
                    async for chunk in answer.content.iter_any():
                        for event in reader.feed(chunk):
                            heard, last_id = apply_event(heard, event), event.id or last_id
                            on_update(heard)
            except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
                trouble = str(error) or type(error).__name__
                last_id = "" if isinstance(error, msgspec.DecodeError) else last_id
            heard = replace(heard, trouble=trouble)
            on_update(heard)
            await asyncio.sleep(_RECONNECT_S)


def apply_event(heard: StatusUpdate, event: ServerSentEvent) -> StatusUpdate:
    """The update after an event. Unknown kinds of events change nothing."""
    match event.kind:
        case "status":
            status = msgspec.json.decode(event.data, type=PublishedStatus)
            return StatusUpdate(status, status.cluster.at_s)
        case "change" if heard.status is not None:
            status = status_model.apply_change(heard.status, msgspec.json.decode(event.data, type=StatusChange))
            return StatusUpdate(status, status.cluster.at_s)
        case "beat":
            beat = msgspec.json.decode(event.data, type=_Heartbeat)
            return replace(heard, now_s=beat.now_s, trouble=beat.trouble)
    return heard
