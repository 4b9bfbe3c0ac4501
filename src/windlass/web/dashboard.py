"""Dashboard server: the page and the read-only status API over HTTP or HTTPS. GET and HEAD; 405 for all else.

/                    the page and its files, served from memory with an ETag
/published           the status; /published/stream sends it whenever it changes
/explain/…           reasons for a pod, a node or a group
/session             a session cookie in exchange for the token, where one is required

Access control: loopback only, or a bearer token with a session cookie. On loopback every local user may read, as with
`kubectl port-forward`, but no other site through the user's browser: a name that resolves to 127.0.0.1 (DNS rebinding)
is not a loopback name. Elsewhere a token is required, as `Authorization: Bearer …` or by the cookie that the page gets
for it. The cookie is derived from the token, so that it survives a restart and is void once the token has changed.
"""

import contextlib
import hashlib
import hmac
import importlib.resources
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from windlass import errors
from windlass.observability import shared_page, status_routes
from windlass.observability.options import DashboardOptions
from windlass.observability.status_publisher import StatusPublisher
from windlass.runtime import http_server

COOKIE = "windlass-dashboard"
COOKIE_MAX_AGE_S = 12 * 3600
MIN_TOKEN_LENGTH = 16
"""Least number of characters of a token."""

_SCHEME = "bearer "
_CONTEXT = b"windlass dashboard "


@dataclass(frozen=True, slots=True)
class LoopbackAccess:
    """All users of this machine, and no others."""


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """Holders of the token in a file. The file is read for every request, because Secrets are updated in place."""

    file: Path | None = None
    given: str = ""
    """The token itself, instead of a file."""

    def read(self) -> str:
        """The token. InvalidInput if the file cannot be read, or the token is too short."""
        if self.file is None:
            return self.given
        try:
            found = self.file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidInput(f"--dashboard-token-file {self.file}: cannot be read: {error}") from error
        if len(found) < MIN_TOKEN_LENGTH:
            accepted = f"found {len(found)} characters, expected at least {MIN_TOKEN_LENGTH}"
            raise errors.InvalidInput(f"--dashboard-token-file {self.file}: {accepted}")
        return found

    def is_authorized(self, authorization: str, cookie: str, now_s: float) -> bool:
        """Does the header or the cookie prove knowledge of the token? Compared in constant time."""
        token = self.read()
        scheme, offered = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :]
        if scheme.lower() == _SCHEME and _equal(offered.strip(), token):
            return True
        until, _, proof = cookie.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) < 19):
            return False
        return _equal(proof, _sign(token, until)) and now_s < int(until)

    def make_cookie(self, now_s: float) -> str:
        """A signed cookie that proves knowledge of the token until it expires."""
        until = str(int(now_s) + COOKIE_MAX_AGE_S)
        return f"{until}.{_sign(self.read(), until)}"


AccessPolicy = LoopbackAccess | TokenAccess


def now_s() -> float:
    """The wall clock: cookies outlive the process."""
    return time.time()


def _sign(token: str, until: str) -> str:
    return hmac.new(token.encode(), _CONTEXT + until.encode(), hashlib.sha256).hexdigest()


def _equal(one: str, other: str) -> bool:
    """Compare in constant time. Bytes of a header that are no UTF-8 arrive as lone surrogates; no token has any."""
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))


_CONTENT_TYPES: Mapping[str, str] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file."""

    body: bytes
    content_type: str
    tag: str

    def respond(self, request: web.Request) -> web.Response:
        """The file, or 304. Browsers always revalidate, because another version may be deployed."""
        headers = {"ETag": f'"{self.tag}"', "Cache-Control": "no-cache"}
        if any(tag.value == self.tag for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, content_type=self.content_type, charset="utf-8", headers=headers)


def load_static_files() -> dict[str, StaticFile]:
    """By name."""
    static_files: dict[str, StaticFile] = {}
    for item in (*importlib.resources.files(__package__).joinpath("page").iterdir(), *shared_page.list_files()):
        kind = _CONTENT_TYPES.get("." + item.name.rpartition(".")[2])
        if kind is not None:
            body = item.read_bytes()
            static_files[item.name] = StaticFile(body, kind, hashlib.sha256(body).hexdigest()[:16])
    return static_files


SESSION_PATH = "/session"

_METHODS = ("GET", "HEAD")

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(
    published: StatusPublisher,
    asked: status_routes.ExplainSource,
    allowed: AccessPolicy,
    *,
    secure: bool = False,
) -> web.Application:
    """`secure`: served over TLS."""
    page = load_static_files()
    app = web.Application(middlewares=[_require_access(allowed, frozenset(f"/{name}" for name in page) | {"/"})])
    app.on_response_prepare.append(http_server.add_security_headers)
    app.router.add_get("/", _serve_file(page["index.html"]))
    for name, file in page.items():
        app.router.add_get(f"/{name}", _serve_file(file))
    app.router.add_get(SESSION_PATH, _open_session(allowed, secure))
    status_routes.add_status_routes(app, published, asked)
    status_routes.add_explain_routes(app, asked)
    return app


def _require_access(allowed: AccessPolicy, open_paths: frozenset[str]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """`open_paths` need no token: the page itself, which asks the user for it."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _METHODS:
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        if isinstance(allowed, LoopbackAccess):
            http_server.check_host(request)
        elif request.path not in open_paths and not _is_authorized(allowed, request):
            raise web.HTTPUnauthorized(text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    return guard


def _is_authorized(allowed: TokenAccess, request: web.Request) -> bool:
    authorization, cookie = request.headers.get("Authorization", ""), request.cookies.get(COOKIE, "")
    try:
        return allowed.is_authorized(authorization, cookie, now_s())
    except errors.InvalidInput as error:
        _log.error("dashboard authentication failed: error=%s", error)
        return False


def _serve_file(file: StaticFile) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        return file.respond(request)

    return serve


def _open_session(allowed: AccessPolicy, secure: bool) -> Handler:
    async def open_session(_: web.Request) -> web.StreamResponse:
        response = web.Response(status=204)
        if isinstance(allowed, TokenAccess):
            response.set_cookie(
                COOKIE,
                allowed.make_cookie(now_s()),
                max_age=COOKIE_MAX_AGE_S,
                httponly=True,
                samesite="Strict",
                secure=secure,
            )
        return response

    return open_session


def validate_options(dashboard_options: DashboardOptions) -> None:
    """InvalidInput for unusable dashboard flags, before a cluster is connected."""
    if dashboard_options.dashboard_address:
        choose_tls(dashboard_options)
        choose_access(dashboard_options)


def choose_access(dashboard_options: DashboardOptions) -> AccessPolicy:
    """InvalidInput for an address that other machines can reach, without a token."""
    if dashboard_options.dashboard_token_file:
        token = TokenAccess(Path(dashboard_options.dashboard_token_file))
        token.read()
        return token
    if is_loopback(dashboard_options.dashboard_address):
        return LoopbackAccess()
    raise errors.InvalidInput(
        f"--dashboard-address {dashboard_options.dashboard_address}: other machines can reach it; "
        "expected --dashboard-token-file, or a loopback address such as 127.0.0.1:8086"
    )


def is_loopback(address: str) -> bool:
    """Is the address reachable from this machine only?"""
    return http_server.is_loopback(address.rpartition(":")[0].strip("[]"))


def choose_tls(dashboard_options: DashboardOptions) -> ssl.SSLContext | None:
    """InvalidInput if the certificate cannot be used."""
    certificate, key = dashboard_options.dashboard_tls_cert_file, dashboard_options.dashboard_tls_key_file
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
async def serve_dashboard(
    dashboard_options: DashboardOptions,
    published: StatusPublisher,
    asked: status_routes.ExplainSource,
    allowed: AccessPolicy | None = None,
) -> AsyncIterator[str]:
    """Serve the page and return its URL. `allowed` overrides the access of the flags. InvalidInput for wrong flags."""
    tls = choose_tls(dashboard_options)
    allowed = choose_access(dashboard_options) if allowed is None else allowed
    app = make_app(published, asked, allowed, secure=tls is not None)
    if isinstance(allowed, TokenAccess) and tls is None and not is_loopback(dashboard_options.dashboard_address):
        _log.warning("the dashboard's token crosses the network in the clear: --dashboard-tls-cert-file encrypts it")
    async with http_server.serve(dashboard_options.dashboard_address, app, tls) as port:
        host = dashboard_options.dashboard_address.rpartition(":")[0] or "localhost"
        yield f"{'http' if tls is None else 'https'}://{host}:{port}/"


@contextlib.asynccontextmanager
async def serve_beside_autoscaler(
    dashboard_options: DashboardOptions, published: StatusPublisher, asked: status_routes.ExplainSource
) -> AsyncIterator[None]:
    """Serve next to an autoscaler, which continues without a dashboard if the address is taken."""
    if not dashboard_options.dashboard_address:
        yield
        return
    validate_options(dashboard_options)  # wrong flags end the process; an address in use does not
    async with contextlib.AsyncExitStack() as stack:
        try:
            place = await stack.enter_async_context(serve_dashboard(dashboard_options, published, asked))
        except errors.InvalidInput as error:
            _log.warning("the dashboard is not served: %s", error)
        else:
            _log.info("serving the dashboard on %s", place)
        yield
