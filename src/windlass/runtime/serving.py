"""Serving: health and metrics over HTTP, for the kubelet and for Prometheus."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import prometheus_client
from aiohttp import web

from windlass import errors
from windlass.runtime import health, listener

LIVE_PATHS = ("/healthz", "/livez")
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"

_CLOSING_S = 1.0
"""For requests under way when the process ends."""

Handler = Callable[[web.Request], Awaitable[web.Response]]
Write = Callable[[prometheus_client.CollectorRegistry], bytes]


def make_app(
    state: health.Health,
    registry: prometheus_client.CollectorRegistry,
    write: Write = prometheus_client.generate_latest,
) -> web.Application:
    """`write` makes the text of /metrics."""
    app = web.Application()

    async def answer_live(_: web.Request) -> web.Response:
        return _answer(state.complaints(ready=False))

    async def answer_ready(_: web.Request) -> web.Response:
        return _answer(state.complaints(ready=True))

    async def answer_metrics(_: web.Request) -> web.Response:
        # Thousands of series take a while to write down: not in the way of a lease that is to be renewed.
        text = await asyncio.to_thread(write, registry)
        return web.Response(body=text, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    app.router.add_get(READY_PATH, answer_ready)
    app.router.add_get(METRICS_PATH, answer_metrics)
    for path in LIVE_PATHS:
        app.router.add_get(path, answer_live)
    return app


@contextlib.asynccontextmanager
async def serve(
    address: str, app: web.Application, tls: ssl.SSLContext | None = None, limits: listener.Limits | None = None
) -> AsyncIterator[int]:
    """Serve at `host:port` (`:8085` is every interface), over TLS if there is a context for it, and give the port."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise errors.InvalidInput(f"address: found {address!r}, expected host:port, such as :8085")
    accepting = listener.Listener(limits or listener.Limits())
    app.middlewares.insert(0, accepting.watch)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING_S)
    await runner.setup()
    try:
        bound = await _bind(host.strip("[]") or None, int(port), address)
        async with accepting.running(bound, cast(listener.MakeProtocol, runner.server), tls):
            yield bound[0].getsockname()[1]
    finally:
        await runner.cleanup()


async def _bind(host: str | None, port: int, address: str) -> list[socket.socket]:
    try:
        return await listener.bind(host, port)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else f"found port {port}, expected at most 65535"
        raise errors.InvalidInput(f"address {address}: {why}") from error


def is_near(request: web.Request) -> bool:
    """Does it come from this machine? From a pod's own loopback comes what `kubectl port-forward` carries."""
    if not request.remote:
        return True  # a socket in the file system
    try:
        found = ipaddress.ip_address(request.remote)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback if mapped is None else bool(mapped.is_loopback)


def _answer(complaints: dict[str, str]) -> web.Response:
    if not complaints:
        return web.Response(text="ok")
    return web.Response(status=500, text="".join(f"{name}: {why}\n" for name, why in complaints.items()))
