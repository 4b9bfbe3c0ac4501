"""HTTP server: addresses, reloaded TLS certificates, same-origin checks.

A request to a loopback address must name this machine in its Host header: that stops DNS rebinding by pages of other
sites.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import prometheus_client
from aiohttp import hdrs, web
from prometheus_client import metrics_core
from prometheus_client.registry import Collector

from windlass import clock, errors, klog
from windlass.runtime import http_listener

_CLOSING_S = 1.0
"""Grace period of open requests at shutdown."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


@contextlib.asynccontextmanager
async def serve(
    address: str,
    app: web.Application,
    tls: ssl.SSLContext | None = None,
    limits: http_listener.ConnectionLimits | None = None,
) -> AsyncIterator[int]:
    """Serve at `host:port` (`:8085` is every interface), with TLS if `context` is given; yields the port."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise errors.InvalidInput(f"address: found {address!r}, expected host:port, such as :8085")
    accepting = http_listener.HttpListener(limits or http_listener.ConnectionLimits())
    app.middlewares.insert(0, accepting.watch)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING_S)
    await runner.setup()
    try:
        bound = await _bind_address(host.strip("[]") or None, int(port), address)
        async with accepting.running(bound, cast(http_listener.MakeProtocol, runner.server), tls):
            yield bound[0].getsockname()[1]
    finally:
        await runner.cleanup()


async def _bind_address(host: str | None, port: int, address: str) -> list[socket.socket]:
    try:
        return await http_listener.bind_sockets(host, port)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"found port {port}, expected at most 65535"
        raise errors.InvalidInput(f"address {address}: {reason}") from error


def is_loopback_request(request: web.Request) -> bool:
    """True if the request comes from this machine, such as through `kubectl port-forward`."""
    if not request.remote:
        return True  # a Unix socket
    try:
        address = ipaddress.ip_address(request.remote)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback if mapped is None else bool(mapped.is_loopback)


_POLICY = "; ".join((
    "default-src 'none'",
    *(f"{what}-src 'self'" for what in ("connect", "img", "script", "style")),
    *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    "require-trusted-types-for 'script'",
))  # fmt: skip

SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response: no content from or to other origins."""


async def add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Signal handler for `on_response_prepare`."""
    response.headers.update(SECURITY_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


def check_host(request: web.Request) -> None:
    """HTTPMisdirectedRequest (421) unless the Host header names this machine, with any port.

    A request without Host is rejected: browsers always send it, and aiohttp would look up the machine's own name in
    DNS.
    """
    if not is_loopback(_without_port(request.headers.get(hdrs.HOST, ""))):
        raise web.HTTPMisdirectedRequest(text="this is served to names of this machine only, as localhost\n")


def is_loopback(host: str) -> bool:
    """True for a loopback name or address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.rpartition(":")[0] if ":" in host else host


_CERTIFICATE_CHECK_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Paths of a certificate and its key, and the name of the setting for errors."""

    certificate: Path
    key: Path
    description: str


@contextlib.asynccontextmanager
async def reloading_ssl_context(
    files: CertificateFiles | None, time: clock.Clock
) -> AsyncIterator[ssl.SSLContext | None]:
    """A TLS context that reloads its certificate when the files change; None without files.

    InvalidInput if the files are unusable at the start.
    """
    if files is None:
        yield None
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, files)
    reloading = asyncio.ensure_future(_reload_changed(context, files, time))
    try:
        yield context
    finally:
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)


def _load_certificate(context: ssl.SSLContext, files: CertificateFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        expected = f"expected a certificate in {files.certificate} and its key in {files.key}"
        raise errors.InvalidInput(f"{files.description}: found {error}, {expected}") from error


async def _reload_changed(context: ssl.SSLContext, files: CertificateFiles, time: clock.Clock) -> None:
    seen = _modification_times(files)
    while True:
        await time.sleep(_CERTIFICATE_CHECK_S)
        modification_times = _modification_times(files)
        if modification_times == seen:
            continue
        try:
            _load_certificate(context, files)
        except errors.InvalidInput as error:  # partly written files: keep the old certificate until the next check
            _log.warning("failed to reload certificate: error=%s", error)
            continue
        seen = modification_times


def _modification_times(files: CertificateFiles) -> list[int]:
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in (files.certificate, files.key)]


UNEXPECTED_ERRORS_NAME = "windlass_unexpected_errors_total"

UNEXPECTED_ERRORS_HELP = (
    "Exceptions that no code foresaw, by place; each cost the object that it was met with. Any is a bug."
)

UNEXPECTED_ERRORS_LABELS = ("place",)


class _UnexpectedErrorsCollector(Collector):
    def collect(self) -> Iterator[metrics_core.Metric]:
        family = metrics_core.CounterMetricFamily(
            UNEXPECTED_ERRORS_NAME, UNEXPECTED_ERRORS_HELP, labels=UNEXPECTED_ERRORS_LABELS
        )
        for place, count in klog.UNEXPECTED_ERRORS.counts().items():
            family.add_metric((str(place),), float(count))
        yield family


def register_unexpected_errors(registry: prometheus_client.CollectorRegistry) -> None:
    """Register the counter of unexpected errors; every place starts at 0."""
    registry.register(_UnexpectedErrorsCollector())
