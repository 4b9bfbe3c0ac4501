"""HTTP transport to API servers, on aiohttp: TLS, client certificates, blocked addresses.

TLS is verified against the cluster's CA unless that is switched off explicitly. Client certificates are loaded without
writing the private key to disk. Call timeouts are the sender's; only connecting is limited here. A guarded transport
does not connect to loopback, link-local or metadata addresses.
"""

import contextlib
import contextvars
import errno
import ipaddress
import logging
import os
import resource
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib import parse

import aiohttp
import yarl

from windlass.kube import errors, transport

_METADATA_ADDRESSES = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254"))
)
"""Metadata services outside the link-local range: AWS, Alibaba, Azure, Oracle, Google."""

_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64 prefixes: IPv4 addresses as IPv6-only networks reach them."""


def explain_blocked_address(text: str) -> str:
    """Why an address is blocked; empty if it is allowed or a host name."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        address = _unwrap(address)
    for kind, is_it in (
        ("a metadata address", address in _METADATA_ADDRESSES),
        ("a loopback address", address.is_loopback),
        ("a link-local address", address.is_link_local),
        ("an unspecified address", address.is_unspecified or address in _THIS_NETWORK),
        ("a multicast address", address.is_multicast),
    ):
        if is_it:
            return f"{text} is {kind}, which a kubeconfig in a Secret may not lead to"
    return ""


def _unwrap(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The embedded IPv4 address, if there is one."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    without_zone = ipaddress.IPv6Address(int(address))
    return address.sixtofour or without_zone


def load_client_certificate(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """Load a client certificate into a TLS context. ssl.SSLError if they are malformed or do not match."""
    if hasattr(os, "memfd_create"):
        with _memory_file(certificate.certificate + b"\n" + certificate.key) as path:
            context.load_cert_chain(path)
    else:
        load_client_certificate_by_pipes(context, certificate)


def load_client_certificate_by_pipes(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """The same by pipes, for systems without memfd. A pipe can be read once, so certificate and key have one each."""
    with _pipe_file(certificate.certificate) as chain, _pipe_file(certificate.key) as key:
        context.load_cert_chain(chain, key)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """Path of a file in memory, removed at the end of the context and not inherited by child processes."""
    with open(os.memfd_create("windlass-client-certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextlib.contextmanager
def _pipe_file(content: bytes) -> Iterator[str]:
    """Path of a pipe that a thread fills, since a chain of certificates may exceed the pipe's buffer."""
    reading, writing = os.pipe()
    writer = threading.Thread(target=_write_pipe, args=(writing, content), daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def _write_pipe(writing: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(writing, "wb") as file:
        file.write(content)


_log = logging.getLogger(__name__)

_CONNECT_S = 10.0

_READ_BUFFER_BYTES = 2**18

_MOST_CONTEXTS = 4
"""Maximum number of cached TLS contexts; certificates change a few times a day."""

_SPARE_FILES = 8
"""File descriptors kept free, so that health checks are still answered."""

_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""TCP keepalive: detects a vanished server within a minute. A watch may be silent for longer."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS configuration of a server."""

    ca: bytes | None = None
    """CA certificates in PEM; None uses the system's."""
    server_name: str | None = None
    """Server name of the certificate, if it differs from the host."""
    verify: bool = True


_sending: contextvars.ContextVar[transport.Request] = contextvars.ContextVar("request that is being sent")


class _Connector(aiohttp.TCPConnector):
    """Connector that checks `may_send` again after a connection was made, which may take long."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        try:
            _sending.get().check_may_send()
        except errors.WriteFenced:
            connection.release()
            raise
        return connection


class HttpTransport:
    """Transport to one server, with a connection pool."""

    def __init__(
        self, server: str, tls: TlsConfig | None = None, proxy: str | None = None, *, is_guarded: bool = False
    ) -> None:
        """With `guard`, addresses are checked when connecting; with a proxy, the proxy's address."""
        self._server = server.rstrip("/")
        self._tls = tls or TlsConfig()
        self._proxy = proxy
        self._open_socket = _open_guarded_socket if is_guarded and proxy is None else _open_socket
        self._session: aiohttp.ClientSession | None = None
        self._is_exhausted = False
        """True if the last call failed because no file descriptor was left."""
        self._contexts: dict[transport.Certificate | None, ssl.SSLContext] = {}

    async def send(self, request: transport.Request) -> transport.Response:
        _sending.set(request)
        try:
            context = self._context(request.certificate)
        except (OSError, ValueError) as error:
            raise errors.ConnectFailed(request.call, f"TLS cannot be set up: {self._explain(error)}") from error
        try:
            answer = await self._connect().request(
                request.method,
                yarl.URL(self._url(request), encoded=True),
                headers=request.headers,
                data=request.body or None,
                ssl=context,
                server_hostname=self._tls.server_name,
                proxy=self._proxy,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise errors.ConnectFailed(request.call, self._explain(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.ConnectionLost(request.call, self._explain(error)) from error
        except ValueError as error:  # invalid address, proxy or header
            raise errors.ConnectFailed(request.call, f"the request cannot be sent: {error}") from error
        self._is_exhausted = False
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return transport.Response(answer.status, headers, _Body(request.call, answer))

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _explain(self, error: Exception) -> str:
        """Describe an error. Exhausted file descriptors are logged, since the server is not at fault."""
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE) and not self._is_exhausted:
            self._is_exhausted = True
            _log.error("no file descriptor is left, API calls fail: server=%s limit=%s", self._server, _find_limit())
        return _explain(error)

    def _connect(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, socket_factory=self._open_socket),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                read_bufsize=_READ_BUFFER_BYTES,
                # No compression: it costs more CPU time than it saves on a fast network.
                headers={"accept-encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _url(self, request: transport.Request) -> str:
        query = parse.urlencode(request.query, quote_via=parse.quote)
        return f"{self._server}{request.path}{'?' if query else ''}{query}"

    def _context(self, certificate: transport.Certificate | None) -> ssl.SSLContext:
        """The TLS context of a certificate, cached: requests with equal contexts share connections."""
        if certificate not in self._contexts:
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[certificate] = make_ssl_context(self._tls, certificate)
        return self._contexts[certificate]


class _Body:
    """The body of a response."""

    def __init__(self, call: str, answer: aiohttp.ClientResponse) -> None:
        self._call = call
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise errors.ConnectionLost(self._call, _explain(error)) from error

    async def aclose(self) -> None:
        self._answer.close()


def make_ssl_context(tls: TlsConfig, certificate: transport.Certificate | None = None) -> ssl.SSLContext:
    """Build a TLS context; ssl.SSLError if a certificate cannot be read."""
    context = ssl.create_default_context(cadata=None if tls.ca is None else tls.ca.decode())
    # Python 3.13 rejects CAs without some extensions, which client-go accepts and some installers create.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        load_client_certificate(context, certificate)
    return context


def _open_socket(address: aiohttp.connector.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    limit = _find_limit()
    if limit != resource.RLIM_INFINITY and opened.fileno() >= limit - _SPARE_FILES:
        opened.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        with contextlib.suppress(OSError):
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def _open_guarded_socket(address: aiohttp.connector.AddrInfoType) -> socket.socket:
    """Check the resolved address that is connected to: a name may resolve differently each time."""
    if refusal := explain_blocked_address(str(address[4][0])):
        raise OSError(refusal)
    return _open_socket(address)


def _find_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _explain(error: Exception) -> str:
    """Describe an error with stable text: aiohttp's own contains the TLS context's memory address."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {_explain(error.os_error)}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        # name resolution errors have negative numbers, which strerror does not know
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
