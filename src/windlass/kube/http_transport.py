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
"""Where clouds tell a machine who it is, outside of the link-local range: AWS, Alibaba, Azure, Oracle, Google."""

_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as networks without IPv4 reach them."""


def explain_blocked_address(text: str) -> str:
    """Why an address is not connected to; empty if it may be, or if it is a name."""
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
    """The IPv4 address that it stands for, if it does."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    without_zone = ipaddress.IPv6Address(int(address))
    return address.sixtofour or without_zone


def load_client_certificate(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """Have the context prove who we are. ssl.SSLError if certificate or key cannot be read, or do not match."""
    if hasattr(os, "memfd_create"):
        with _memory_file(certificate.certificate + b"\n" + certificate.key) as path:
            context.load_cert_chain(path)
    else:
        load_client_certificate_by_pipes(context, certificate)


def load_client_certificate_by_pipes(context: ssl.SSLContext, certificate: transport.Certificate) -> None:
    """For systems without anonymous files; each pipe can be read once, so certificate and key have one each."""
    with _pipe_file(certificate.certificate) as chain, _pipe_file(certificate.key) as key:
        context.load_cert_chain(chain, key)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """The path of a file that is in memory only, and gone in the end. Processes that are started do not inherit it."""
    with open(os.memfd_create("windlass-client-certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextlib.contextmanager
def _pipe_file(content: bytes) -> Iterator[str]:
    """The path of a pipe that is filled as it is read, since it holds less than a long chain of certificates."""
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
"""Certificates are replaced a few times a day; those before are of no use."""

_SPARE_FILES = 8
"""File descriptors that are left to others: whoever asks for health has to get an answer."""

_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A server that vanished without a word is noticed within a minute; a watch may be silent for longer than that."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How the server proves who it is."""

    ca: bytes | None = None
    """PEM; None trusts what the machine trusts."""
    server_name: str | None = None
    """The name in the certificate, where it is not the host's."""
    verify: bool = True


_sending: contextvars.ContextVar[transport.Request] = contextvars.ContextVar("request that is being sent")


class _Connector(aiohttp.TCPConnector):
    """Makes connections, which may take a while: afterwards it is asked whether the request may still be sent."""

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
    """Carries requests to one server, over connections that it keeps."""

    def __init__(
        self, server: str, tls: TlsConfig | None = None, proxy: str | None = None, *, is_guarded: bool = False
    ) -> None:
        """Guarded, it refuses addresses that a stranger may not choose; where a proxy connects, that is the proxy's."""
        self._server = server.rstrip("/")
        self._tls = tls or TlsConfig()
        self._proxy = proxy
        self._open_socket = _open_guarded_socket if is_guarded and proxy is None else _open_socket
        self._session: aiohttp.ClientSession | None = None
        self._is_exhausted = False
        """Did the last call fail for want of a file descriptor?"""
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
        except ValueError as error:  # an address, a proxy or a header that cannot be sent
            raise errors.ConnectFailed(request.call, f"the request cannot be sent: {error}") from error
        self._is_exhausted = False
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return transport.Response(answer.status, headers, _Body(request.call, answer))

    async def aclose(self) -> None:
        """Close all connections; calls under way fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _explain(self, error: Exception) -> str:
        """What went wrong. That no file descriptor is left is no fault of the server's, and logged as what it is."""
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
                # Compressed lists save a network that is fast and cost a processor that is not.
                headers={"accept-encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _url(self, request: transport.Request) -> str:
        query = parse.urlencode(request.query, quote_via=parse.quote)
        return f"{self._server}{request.path}{'?' if query else ''}{query}"

    def _context(self, certificate: transport.Certificate | None) -> ssl.SSLContext:
        """Made once for each certificate; connections are shared among requests of one context."""
        if certificate not in self._contexts:
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[certificate] = make_ssl_context(self._tls, certificate)
        return self._contexts[certificate]


class _Body:
    """The rest of an answer."""

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
    """TLS as told; ssl.SSLError if a certificate cannot be read."""
    context = ssl.create_default_context(cadata=None if tls.ca is None else tls.ca.decode())
    # Later Pythons refuse CAs without some extensions, which Kubernetes' own clients accept and installers make.
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
    """Looks at the very address that is connected to: a name may lead elsewhere each time it is resolved."""
    if refusal := explain_blocked_address(str(address[4][0])):
        raise OSError(refusal)
    return _open_socket(address)


def _find_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _explain(error: Exception) -> str:
    """The same text for the same fault: aiohttp's own names a TLS context by its address in memory."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {_explain(error.os_error)}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        # Names that are not found have numbers below zero, which the system has no words for.
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
