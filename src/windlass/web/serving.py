"""Serving the dashboard at an address: who may read it there, over TLS or not."""

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from windlass import errors
from windlass.autoscaler import explaining
from windlass.autoscaler.published.publisher import Publisher
from windlass.autoscaler.wiring import Dashboard
from windlass.runtime import same_origin, serving
from windlass.web import access, dashboard

_log = logging.getLogger(__name__)


def check(chosen: Dashboard) -> None:
    """InvalidInput for flags with which no dashboard can be served, whatever the cluster."""
    if chosen.dashboard_address:
        choose_tls(chosen)
        choose_access(chosen)


def choose_access(chosen: Dashboard) -> access.Access:
    """InvalidInput for an address that others can reach, without a token to ask them for."""
    if chosen.dashboard_token_file:
        token = access.Token(Path(chosen.dashboard_token_file))
        token.read()
        return token
    if is_loopback(chosen.dashboard_address):
        return access.Loopback()
    raise errors.InvalidInput(
        f"--dashboard-address {chosen.dashboard_address}: others can reach it; expected --dashboard-token-file, "
        "or a loopback address such as 127.0.0.1:8086"
    )


def is_loopback(address: str) -> bool:
    """Can nobody but this machine reach it?"""
    return same_origin.is_loopback(address.rpartition(":")[0].strip("[]"))


def choose_tls(chosen: Dashboard) -> ssl.SSLContext | None:
    """InvalidInput if the certificate cannot be used."""
    certificate, key = chosen.dashboard_tls_cert_file, chosen.dashboard_tls_key_file
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise errors.InvalidInput(
            "--dashboard-tls-cert-file: found one of it and --dashboard-tls-key-file, expected both"
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise errors.InvalidInput(f"--dashboard-tls-cert-file {certificate}: cannot be used: {error}") from error
    return context


@contextlib.asynccontextmanager
async def serve(
    chosen: Dashboard, published: Publisher, asked: explaining.Answering, allowed: access.Access | None = None
) -> AsyncIterator[str]:
    """Give the page's address. `allowed`: who may read it, if not as the flags say. InvalidInput for wrong flags."""
    tls = choose_tls(chosen)
    allowed = choose_access(chosen) if allowed is None else allowed
    app = dashboard.make_app(published, asked, allowed, secure=tls is not None)
    if isinstance(allowed, access.Token) and tls is None and not is_loopback(chosen.dashboard_address):
        _log.warning("the dashboard's token crosses the network in the clear: --dashboard-tls-cert-file encrypts it")
    async with serving.serve(chosen.dashboard_address, app, tls) as port:
        host = chosen.dashboard_address.rpartition(":")[0] or "localhost"
        yield f"{'http' if tls is None else 'https'}://{host}:{port}/"


@contextlib.asynccontextmanager
async def beside(chosen: Dashboard, published: Publisher, asked: explaining.Answering) -> AsyncIterator[None]:
    """Beside an autoscaler, which goes on without where the address is taken: nodes matter more than a page."""
    if not chosen.dashboard_address:
        yield
        return
    check(chosen)  # wrong flags end the process; an address that is taken does not
    async with contextlib.AsyncExitStack() as stack:
        try:
            place = await stack.enter_async_context(serve(chosen, published, asked))
        except errors.InvalidInput as error:
            _log.warning("the dashboard is not served: %s", error)
        else:
            _log.info("serving the dashboard on %s", place)
        yield
