"""The page's files, as they were packaged: read once, served from memory, told apart by their content."""

import hashlib
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

_TYPES: Mapping[str, str] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file."""

    body: bytes
    content_type: str
    tag: str

    def answer(self, request: web.Request) -> web.Response:
        """The file, or that the browser has it already. It always asks: the next version may be another."""
        headers = {"ETag": f'"{self.tag}"', "Cache-Control": "no-cache"}
        if any(tag.value == self.tag for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, content_type=self.content_type, charset="utf-8", headers=headers)


def load() -> dict[str, File]:
    """By name."""
    found: dict[str, File] = {}
    for one in importlib.resources.files(__package__).joinpath("page").iterdir():
        kind = _TYPES.get("." + one.name.rpartition(".")[2])
        if kind is not None:
            body = one.read_bytes()
            found[one.name] = File(body, kind, hashlib.sha256(body).hexdigest()[:16])
    return found
