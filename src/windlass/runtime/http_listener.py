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
"""A listener may use at most one in this many of the process's file descriptors."""
_LOG_EVERY_S = 60.0
_ACCEPT_AGAIN_S = 0.5
_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MakeProtocol = Callable[[], asyncio.Protocol]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of client connections."""

    connections: int = 0
    """Maximum number of connections. 0: 256, or a quarter of the process's file descriptors if that is less."""
    request_s: float = 10.0
    """Deadline of the TLS handshake, of the request headers, and of the body."""
    idle_s: float = 75.0
    stalled_s: float = 30.0

    def count_connections(self) -> int:
        if self.connections > 0:
            return self.connections
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft // _SHARE
        return max(_FEWEST_CONNECTIONS, min(share, _MOST_CONNECTIONS))


class _Connection(asyncio.Protocol):
    """A connection: forwards to aiohttp's protocol and tracks its deadline."""

    def __init__(self, listener: "HttpListener", accepted: socket.socket, inner: asyncio.Protocol) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_handled = False
        self.since_s = _now_s()
        """When it was opened, or last completed a response."""
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
        if not self._is_reading and not self.is_handled:  # first bytes of another request
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
        """Context in which a handler processes the request."""
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
        """Start the protocol, after the TLS handshake if there is one."""
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
            if not opening.cancelled() and not isinstance(error, OSError):  # OSError: disconnected, or no TLS
                _log.error("failed to start connection", exc_info=error)


class HttpListener:
    """Accepts connections on bound sockets. `watch` must be the first middleware of the application."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits, self._most = limits, limits.count_connections()
        self.by_transport: dict[asyncio.BaseTransport | None, _Connection] = {}
        self._open: dict[_Connection, None] = {}
        self._logged_s: dict[str, float] = {}

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: read the request's body within its deadline, then mark the connection as handled."""
        connection = self.by_transport.get(request.transport)
        with contextlib.nullcontext() if connection is None else connection.handled():
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
        """Accept on these sockets until the context ends; sockets and connections without a protocol are closed.

        Established connections belong to the server that created the protocols.
        """
        tasks = [asyncio.create_task(self._accept(item, make_protocol, tls)) for item in bound]
        tasks.append(asyncio.create_task(self._end_overdue()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for entry in bound:
                entry.close()
            for connection in tuple(self._open):
                if connection.transport is None:
                    connection.end()

    async def _accept(self, bound: socket.socket, make_protocol: MakeProtocol, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(bound)
            except ConnectionError:
                continue  # the client disconnected already
            except OSError as error:  # out of file descriptors or memory
                self._log("failed to accept connection", f"error={error.strerror!r} open={len(self._open)}")
                self._end_oldest()
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            if len(self._open) >= self._most:
                self._log("too many connections, closed the oldest idle one", f"limit={self._most}")
                self._end_oldest()
            connection = _Connection(self, accepted, make_protocol())
            self._open[connection] = None
            connection.open(tls)
            # Pause: otherwise accept would spin, since closed connections free their descriptors later.
            await asyncio.sleep(0)

    def forget(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        self.by_transport.pop(connection.transport, None)

    def _end_oldest(self) -> None:
        """End the oldest connection that waits for its client, else the oldest that is being handled."""
        oldest = min(self._open, key=lambda connection: (connection.is_handled, connection.since_s), default=None)
        if oldest is not None:
            oldest.end()
            self.forget(oldest)

    async def _end_overdue(self) -> None:
        every_s = min(1.0, self.limits.request_s / 4.0)
        while True:
            await asyncio.sleep(every_s)
            now_s = _now_s()
            for connection in [connection for connection in self._open if connection.is_overdue(now_s)]:
                connection.end()

    def _log(self, message: str, fields: str) -> None:
        """Log each message at most once a minute."""
        now_s = _now_s()
        if now_s - self._logged_s.get(message, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_s[message] = now_s
            _log.warning("%s: %s", message, fields)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def bind_sockets(host: str | None, port: int) -> list[socket.socket]:
    """Listening sockets, one per address of the host; None binds every interface. OSError if an address is in use."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        bound = [item.dup() for item in server.sockets]
    finally:
        server.close()
    for entry in bound:
        entry.setblocking(False)
        entry.listen(_BACKLOG)
    return bound
