"""Serving webhooks over TLS, with a certificate that may be replaced meanwhile."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aiohttp import web

from windlass import clock, errors
from windlass.controllers.webhooks import reviewing
from windlass.runtime import serving

CERTIFICATE, KEY = "tls.crt", "tls.key"
_LOOK_S = 1.0
_log = logging.getLogger(__name__)


def make_app(hooks: Mapping[str, reviewing.Hook]) -> web.Application:
    app = web.Application()
    for path, hook in hooks.items():
        app.router.add_post(path, _answer_with(hook))
    return app


def _answer_with(hook: reviewing.Hook) -> serving.Handler:
    async def answer(request: web.Request) -> web.Response:
        try:
            made = reviewing.review(await request.read(), hook)
        except errors.InvalidInput as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=made, content_type="application/json")

    return answer


@contextlib.asynccontextmanager
async def serve(
    address: str, directory: Path, hooks: Mapping[str, reviewing.Hook], time: clock.Clock
) -> AsyncIterator[int]:
    """Serve hooks at `host:port` with the certificate (tls.crt) and key (tls.key) of a directory; gives the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, directory)
    reloading = asyncio.ensure_future(_keep_current(context, directory, time))
    try:
        async with serving.serve(address, make_app(hooks), context) as port:
            yield port
    finally:
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)


def _load(context: ssl.SSLContext, directory: Path) -> None:
    try:
        context.load_cert_chain(directory / CERTIFICATE, directory / KEY)
    except (OSError, ssl.SSLError) as error:
        raise errors.InvalidInput(
            f"webhook certificate: found {error} in {directory}, expected {CERTIFICATE} and {KEY}"
        ) from error


async def _keep_current(context: ssl.SSLContext, directory: Path, time: clock.Clock) -> None:
    """Whoever connects after a certificate was replaced is shown the new one."""
    seen = _stamp(directory)
    while True:
        await time.sleep(_LOOK_S)
        found = _stamp(directory)
        if found == seen:
            continue
        try:
            _load(context, directory)
        except errors.InvalidInput as error:  # half written: the old one is good until the next look
            _log.warning("%s", error)
            continue
        seen = found


def _stamp(directory: Path) -> list[int]:
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in (directory / CERTIFICATE, directory / KEY)]
