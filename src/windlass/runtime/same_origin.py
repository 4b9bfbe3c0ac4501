"""Same origin: keeps pages of other sites, open in the browser of a user, from reading what is served on loopback.

A name that an attacker points to 127.0.0.1 (DNS rebinding) makes such a page a neighbour. Its requests carry that name
in the Host header, which a request under a name of this machine does not.
"""

import ipaddress

from aiohttp import hdrs, web

_POLICY = "; ".join((
    "default-src 'none'",
    *(f"{what}-src 'self'" for what in ("connect", "img", "script", "style")),
    *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    "require-trusted-types-for 'script'",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""What the browser is told of every answer: nothing from elsewhere, and nothing to elsewhere."""


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


def check_host(request: web.Request) -> None:
    """HTTPMisdirectedRequest (421) unless the request names this machine as such. The port may be any: it is forwarded.

    A request without the header is refused as well: no browser sends one, and aiohttp would ask DNS for our own name.
    """
    if not is_loopback(_without_port(request.headers.get(hdrs.HOST, ""))):
        raise web.HTTPMisdirectedRequest(text="this is served to names of this machine only, as localhost\n")


def is_loopback(host: str) -> bool:
    """Is it a name of this machine's own, and nobody else's?"""
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
