"""Serving webhooks over TLS, with a certificate that may be replaced meanwhile."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aiohttp import web

from windlass import clock, errors
from windlass.controllers.webhooks import reviewing
from windlass.runtime import serving, tls

CERTIFICATE, KEY = "tls.crt", "tls.key"


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
    async with (
        tls.current(find_files(directory, "webhook certificate"), time) as context,
        serving.serve(address, make_app(hooks), context) as port,
    ):
        yield port


def find_files(directory: Path, told: str) -> tls.Files:
    """As cert-manager and Kubernetes' Secrets of type kubernetes.io/tls name them."""
    return tls.Files(directory / CERTIFICATE, directory / KEY, told)
