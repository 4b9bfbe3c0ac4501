"""The dashboard over HTTP. Everything is read, nothing is written: GET and HEAD, and 405 for all else.

/                    the page; its files beside it
/published           how everything stands; /published/stream as it changes (`autoscaler.published.routes`)
/explain/…           why, for a pod, a node or a group (`autoscaler.explaining`)
/session             a cookie for whoever sends the token, where one is asked for
"""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from windlass import errors
from windlass.autoscaler import explaining
from windlass.autoscaler.published import routes
from windlass.autoscaler.published.publisher import Publisher
from windlass.runtime import same_origin
from windlass.web import access, files

SESSION_PATH = "/session"

_METHODS = ("GET", "HEAD")
_log = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(
    published: Publisher, asked: explaining.Answering, allowed: access.Access, *, secure: bool = False
) -> web.Application:
    """`secure`: it is served over TLS."""
    page = files.load()
    app = web.Application(middlewares=[_guard(allowed, frozenset(f"/{name}" for name in page) | {"/"})])
    app.on_response_prepare.append(same_origin.add_headers)
    app.router.add_get("/", _serving(page["index.html"]))
    for name, file in page.items():
        app.router.add_get(f"/{name}", _serving(file))
    app.router.add_get(SESSION_PATH, _opening(allowed, secure))
    routes.add_routes(app, published, asked)
    explaining.add_routes(app, asked)
    return app


def _guard(allowed: access.Access, open_paths: frozenset[str]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """`open_paths` hold no secret: the page, which asks for the token."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        if isinstance(allowed, access.Loopback):
            same_origin.check_host(request)
        elif request.path not in open_paths and not _admits(allowed, request):
            raise web.HTTPUnauthorized(text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    return guard


def _admits(allowed: access.Token, request: web.Request) -> bool:
    authorization, cookie = request.headers.get("Authorization", ""), request.cookies.get(access.COOKIE, "")
    try:
        return allowed.admits(authorization, cookie, access.now_s())
    except errors.InvalidInput as error:
        _log.error("nobody is let in: %s", error)
        return False


def _serving(file: files.File) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        return file.answer(request)

    return serve


def _opening(allowed: access.Access, secure: bool) -> Handler:
    async def open_session(_: web.Request) -> web.StreamResponse:
        response = web.Response(status=204)
        if isinstance(allowed, access.Token):
            response.set_cookie(
                access.COOKIE,
                allowed.make_cookie(access.now_s()),
                max_age=access.COOKIE_S,
                httponly=True,
                samesite="Strict",
                secure=secure,
            )
        return response

    return open_session
