"""Serving webhooks over TLS, with a certificate that may be replaced meanwhile."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aiohttp import web

from windlass import clock, errors, unexpected
from windlass.controllers.webhooks import reviewing
from windlass.runtime import serving, tls

CERTIFICATE, KEY = "tls.crt", "tls.key"


LONGEST_REVIEW_BYTES = 8 * 2**20
"""An update has the object twice, and an API server takes up to 3 MiB of one."""
_LONGEST_READ_BYTES = 2 * LONGEST_REVIEW_BYTES
"""More than is judged is read, so that it can be denied; beyond this, which no API server sends, it is an error."""


def make_app(hooks: Mapping[str, reviewing.Hook]) -> web.Application:
    app = web.Application(client_max_size=_LONGEST_READ_BYTES)
    for path, hook in hooks.items():
        app.router.add_post(path, _answer_with(hook))
    return app


def _answer_with(hook: reviewing.Hook) -> serving.Handler:
    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            if len(body) > LONGEST_REVIEW_BYTES:
                raise errors.InvalidInput(f"the review has more than {LONGEST_REVIEW_BYTES} bytes")
            made = reviewing.review(body, hook)
        except errors.InvalidInput as error:
            return _refuse(body, str(error))
        except Exception as error:
            unexpected.report(unexpected.Place.WEBHOOK, request.path, "", error)
            return _refuse(body, "it cannot be judged: an unexpected error, see the operator's log")
        return web.Response(body=made, content_type="application/json")

    return answer


def _refuse(body: bytes, why: str) -> web.Response:
    made = reviewing.refuse(body, why)
    if made is None:
        return web.Response(status=400, text=why)
    return web.Response(body=made, content_type="application/json")


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
