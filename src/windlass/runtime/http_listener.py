"""HTTP listener: accepts connections for an aiohttp server and enforces a deadline on each.

aiohttp limits neither the number of connections nor the time that a client takes. Here each connection has a deadline
for its request, while idle, and while it does not read the response.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

_BACKLOG = 128
_MOST_CONNECTIONS = 256
_FEWEST_CONNECTIONS = 8
_SHARE = 4
"""At most one in so many file descriptors is for the connections of one listener."""
_LOG_EVERY_S = 60.0
_ACCEPT_AGAIN_S = 0.5
_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MakeProtocol = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a listener allows its clients."""

    connections: int = 0
    """At most; 0: 256, or a quarter of the process's file descriptors if that is less."""
    request_s: float = 10.0
    """For the TLS handshake, for the headers of a request, and for its body."""
    idle_s: float = 75.0
    stalled_s: float = 30.0

    def count_connections(self) -> int:
        if self.connections > 0:
            return self.connections
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft // _SHARE
        return max(_FEWEST_CONNECTIONS, min(share, _MOST_CONNECTIONS))


class _Connection(asyncio.Protocol):
    """One connection: hands everything on to aiohttp's protocol, and knows how long it may wait."""

    def __init__(self, listener: "HttpListener", accepted: socket.socket, inner: asyncio.Protocol) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_handled = False
        self.since_s = _now_s()
        """When it was opened, or last answered."""
        self._opening: asyncio.Task[Any] | None = None
        self._listener, self._accepted, self._inner = listener, accepted, inner
        self._limits = listener.limits
        self._deadline_s = self.since_s + self._limits.request_s
        self._is_reading = True
        self._unsent, self._unsent_since_s = 0, self.since_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._listener.by_transport[transport] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._is_reading and not self.is_handled:  # the first bytes of another request
            self._is_reading = True
            self._deadline_s = _now_s() + self._limits.request_s
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.forget(self)
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """While a handler has the request."""
        self.is_handled, self._is_reading = True, False
        try:
            yield
        finally:
            self.is_handled = False
            self.since_s = _now_s()
            self._deadline_s = self.since_s + self._limits.idle_s

    def is_overdue(self, now_s: float) -> bool:
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._unsent_since_s = unsent, now_s
        if unsent > 0:
            return now_s - self._unsent_since_s > self._limits.stalled_s
        return not self.is_handled and now_s > self._deadline_s

    def open(self, tls: ssl.SSLContext | None) -> None:
        """Begin to talk, after the handshake of TLS if there is one."""
        limit_s = None if tls is None else self._limits.request_s
        opening = asyncio.get_running_loop().connect_accepted_socket(
            lambda: self, self._accepted, ssl=tls, ssl_handshake_timeout=limit_s
        )
        self._opening = asyncio.ensure_future(opening)
        self._opening.add_done_callback(self._drop_unless_open)

    def end(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def _drop_unless_open(self, opening: asyncio.Task[Any]) -> None:
        if opening.cancelled() or (error := opening.exception()) is not None:
            self._accepted.close()
            self._listener.forget(self)
            if not opening.cancelled() and not isinstance(error, OSError):  # OSError: it has gone, or speaks no TLS
                _log.error("cannot open a connection", exc_info=error)


class HttpListener:
    """Accepts connections on bound sockets. `watch` is to be the first of the application's middlewares."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits, self._most = limits, limits.count_connections()
        self.by_transport: dict[asyncio.BaseTransport | None, _Connection] = {}
        self._open: dict[_Connection, None] = {}
        self._logged_s: dict[str, float] = {}

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a handler is at work, and read the request's body before, as long as that may take."""
        found = self.by_transport.get(request.transport)
        with contextlib.nullcontext() if found is None else found.handled():
            if request.body_exists:
                try:
                    async with asyncio.timeout(self.limits.request_s):
                        await request.read()
                except TimeoutError:
                    raise web.HTTPRequestTimeout(text="the body did not come in time\n") from None
            return await handler(request)

    @contextlib.asynccontextmanager
    async def running(
        self, bound: Sequence[socket.socket], make_protocol: MakeProtocol, tls: ssl.SSLContext | None
    ) -> AsyncIterator[None]:
        """Accept on these sockets, which are closed in the end, and with them what is not a connection yet.

        Connections are left to whoever made the protocols.
        """
        tasks = [asyncio.create_task(self._accept(each, make_protocol, tls)) for each in bound]
        tasks.append(asyncio.create_task(self._end_overdue()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in bound:
                each.close()
            for connection in tuple(self._open):
                if connection.transport is None:
                    connection.end()

    async def _accept(self, bound: socket.socket, make_protocol: MakeProtocol, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(bound)
            except ConnectionError:
                continue  # the client has gone already
            except OSError as error:  # no more file descriptors, or no more memory
                self._log("cannot accept a connection", f"error={error.strerror!r} open={len(self._open)}")
                self._end_oldest()
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            if len(self._open) >= self._most:
                self._log("too many connections: closed the one that waited longest", f"limit={self._most}")
                self._end_oldest()
            connection = _Connection(self, accepted, make_protocol())
            self._open[connection] = None
            connection.open(tls)
            # Waiting connections are accepted without a pause otherwise, and those that were ended are not closed yet.
            await asyncio.sleep(0)

    def forget(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        self.by_transport.pop(connection.transport, None)

    def _end_oldest(self) -> None:
        """Of those that wait for their client; of those that are answered, only if all are."""
        oldest = min(self._open, key=lambda each: (each.is_handled, each.since_s), default=None)
        if oldest is not None:
            oldest.end()
            self.forget(oldest)

    async def _end_overdue(self) -> None:
        every_s = min(1.0, self.limits.request_s / 4.0)
        while True:
            await asyncio.sleep(every_s)
            now_s = _now_s()
            for connection in [each for each in self._open if each.is_overdue(now_s)]:
                connection.end()

    def _log(self, message: str, fields: str) -> None:
        """At most once a minute for each message."""
        now_s = _now_s()
        if now_s - self._logged_s.get(message, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_s[message] = now_s
            _log.warning("%s: %s", message, fields)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def bind_sockets(host: str | None, port: int) -> list[socket.socket]:
    """Sockets that listen, one for each address of the host; None: every interface. OSError if one is taken."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        bound = [each.dup() for each in server.sockets]
    finally:
        server.close()
    for each in bound:
        each.setblocking(False)
        each.listen(_BACKLOG)
    return bound
