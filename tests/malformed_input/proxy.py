"""A proxy between the autoscaler and the API server: injects objects into watches, and records what is written."""

import asyncio
import collections
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

_HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"})
_EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
_NOT_KNOWN = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422,
    "message": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList "
    "feature gate is enabled",
}  # fmt: skip

Listener = Callable[["Write"], None]


@dataclass(frozen=True, slots=True)
class Write:
    """A request of the autoscaler that changes something, and how it was answered."""

    method: str
    path: str
    body: bytes
    status: int


@dataclass(slots=True, eq=False)
class _Stream:
    """One open watch."""

    lines: "asyncio.Queue[bytes]" = field(default_factory=asyncio.Queue)


class Proxy:
    """Serves on a free port of loopback, within the caller's event loop."""

    def __init__(self, server: str, listen: Listener) -> None:
        self.injected: dict[str, dict[str, bytes]] = {}
        """Objects that exist for the autoscaler alone: by path of the watch and key, as JSON text."""
        self.streams_lists = True
        """False: streaming lists are refused, as servers do that do not know them, and lists are read in pages."""
        self.url = ""
        self._server, self._listen = server, listen
        self._streams: dict[str, set[_Stream]] = {}
        self._deleted: dict[str, collections.deque[bytes]] = {}
        """Lines of late: a watch that broke may have missed them."""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "Proxy":
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=timeout, auto_decompress=False, read_bufsize=2**20
        )
        app = web.Application(client_max_size=2**27)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        await self._session.close()

    # Injecting

    def is_watched(self, path: str) -> bool:
        return bool(self._streams.get(path))

    @property
    def watched(self) -> set[str]:
        return {path for path, streams in self._streams.items() if streams}

    def add(self, path: str, key: str, raw: bytes) -> None:
        """An object comes into being."""
        self.injected.setdefault(path, {})[key] = raw
        self._send(path, b'{"type":"ADDED","object":' + raw + b"}\n")

    def change(self, path: str, key: str, raw: bytes) -> None:
        self.injected.setdefault(path, {})[key] = raw
        self._send(path, b'{"type":"MODIFIED","object":' + raw + b"}\n")

    def remove(self, path: str, key: str, clean: bytes) -> None:
        """It is deleted: told as it was, and once more with metadata that can be read."""
        raw = self.injected.get(path, {}).pop(key, None)
        if raw is not None:
            self._send(path, b'{"type":"DELETED","object":' + raw + b"}\n")
        line = b'{"type":"DELETED","object":' + clean + b"}\n"
        self._deleted.setdefault(path, collections.deque(maxlen=200)).append(line)
        self._send(path, line)

    def send_line(self, path: str, line: bytes) -> None:
        """Anything, as a line of the watch."""
        self._send(path, line + b"\n")

    def forget(self) -> None:
        """The server forgets what happened: all that is watched is listed anew."""
        gone = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
        line = json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
        for path in self.watched:
            self._send(path, line)

    def _send(self, path: str, line: bytes) -> None:
        for stream in self._streams.get(path, ()):
            stream.lines.put_nowait(line)

    # Serving

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method == "GET" and "watch" in request.query:
            if "sendInitialEvents" in request.query and not self.streams_lists:
                return web.json_response(_NOT_KNOWN, status=422)
            return await self._stream(request)
        if evicted := await self._evict(request, body):
            return evicted
        async with self._ask(request, body) as found:
            whole = await found.read()
            if request.method == "GET" and found.status == 200 and "continue" not in request.query:
                whole = self._put_in(whole, self.injected.get(request.path, {}).values())
            answer = web.Response(status=found.status, body=whole, headers=_keep(found.headers))
        if request.method != "GET":
            self._listen(Write(request.method, request.path, body, found.status))
        return answer

    def _put_in(self, page: bytes, raws: Collection[bytes]) -> bytes:
        """A page of a list, with these in it too."""
        begin, items, rest = page.partition(b'"items":[')
        if not items or not raws:
            return page
        return begin + items + b",".join(raws) + (b"" if rest.startswith(b"]") else b",") + rest

    def _ask(self, request: web.Request, body: bytes) -> "aiohttp.client._RequestContextManager":
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        return self._session.request(
            request.method, self._server + request.raw_path, data=body or None, headers=headers
        )

    async def _evict(self, request: web.Request, body: bytes) -> web.Response | None:
        """An eviction of a pod that exists here alone: granted, and gone soon."""
        match = _EVICTION.fullmatch(request.path)
        path = "/api/v1/pods"
        key = f"{match[1]}/{match[2]}" if match else ""
        if key not in self.injected.get(path, {}):
            return None
        assert match is not None
        self._listen(Write(request.method, request.path, body, 201))
        clean = b'{"metadata":{"namespace":"%b","name":"%b"}}' % (match[1].encode(), match[2].encode())
        asyncio.get_running_loop().call_later(0.2, self.remove, path, key, clean)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"}, status=201)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        async with self._ask(request, b"") as found:
            answer = web.StreamResponse(status=found.status, headers=_keep(found.headers))
            await answer.prepare(request)
            stream = _Stream()
            if found.status == 200:
                # Also to one that goes on: what was sent to a watch that broke may be lost.
                for line in self._deleted.get(request.path, ()) if "sendInitialEvents" not in request.query else ():
                    stream.lines.put_nowait(line)
                for raw in self.injected.get(request.path, {}).values():
                    stream.lines.put_nowait(b'{"type":"ADDED","object":' + raw + b"}\n")
                self._streams.setdefault(request.path, set()).add(stream)
            try:
                await self._pump(found.content, stream, answer)
            except (ConnectionError, aiohttp.ClientError):
                pass  # one of the two has gone
            finally:
                self._streams.get(request.path, set()).discard(stream)
            return answer

    async def _pump(self, upstream: aiohttp.StreamReader, stream: _Stream, answer: web.StreamResponse) -> None:
        """Whole lines of both sources, as they come."""
        rest = b""
        own, theirs = asyncio.ensure_future(stream.lines.get()), asyncio.ensure_future(upstream.readany())
        try:
            while True:
                await asyncio.wait((own, theirs), return_when=asyncio.FIRST_COMPLETED)
                if own.done():
                    lines = [own.result()]
                    while not stream.lines.empty():
                        lines.append(stream.lines.get_nowait())
                    await answer.write(b"".join(lines))
                    own = asyncio.ensure_future(stream.lines.get())
                if theirs.done():
                    chunk = theirs.result()
                    if not chunk:
                        return
                    whole, newline, rest = (rest + chunk).rpartition(b"\n")
                    if newline:
                        await answer.write(whole + newline)
                    theirs = asyncio.ensure_future(upstream.readany())
        finally:
            own.cancel()
            theirs.cancel()


def _keep(headers: "aiohttp.typedefs.LooseHeaders") -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in ("content-type", "retry-after")}  # type: ignore[union-attr]
