"""A gateway between the autoscaler and the API server: it writes every call down, and can have it die at one."""

import asyncio
import contextlib
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import aiohttp
from aiohttp import web

_HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"})

_CLOSING_S = 0.5
"""Connections with TLS are closed in the background."""


@dataclass(frozen=True, slots=True)
class Call:
    """One that was made."""

    at_s: float
    """By the monotonic clock."""
    method: str
    path: str
    query: str
    status: int
    """0 where nobody was asked."""

    @property
    def is_watch(self) -> bool:
        return "watch=true" in self.query or "watch=1" in self.query


@dataclass(slots=True)
class Trap:
    """What to do at the first call that matches: before it is passed on (and then it is not), or once it is taken."""

    method: str
    path: re.Pattern[str]
    then: Callable[[], None]
    before: bool
    body: re.Pattern[bytes]
    sprung: threading.Event

    def matches(self, method: str, path: str, body: bytes) -> bool:
        return (
            not self.sprung.is_set()
            and method == self.method
            and self.path.search(path) is not None
            and self.body.search(body) is not None
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Calls that are answered here, as an API server answers what it does not take, and not passed on."""

    method: str
    path: re.Pattern[str]
    code: int
    reason: str

    def matches(self, request: web.Request) -> bool:
        return request.method == self.method and self.path.search(request.path) is not None

    def answer(self) -> web.Response:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.code, "reason": self.reason}
        return web.json_response({**body, "message": "refused by the test"}, status=self.code)


class Gateway:
    """Passes calls on, in a thread of its own."""

    def __init__(self, server: str, ca: str) -> None:
        self.calls: list[Call] = []
        self.port = 0
        self._server, self._tls = server, ssl.create_default_context(cafile=ca)
        self._traps: list[Trap] = []
        self._refusals: list[Refusal] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._end = asyncio.Event()

    def __enter__(self) -> "Gateway":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    def trap(
        self, method: str, path: str, then: Callable[[], None], *, before: bool = False, body: str = ""
    ) -> threading.Event:
        """Do something at the first such call. `before`: instead of passing it on. Set when it has been done."""
        laid = Trap(method, re.compile(path), then, before, re.compile(body.encode()), threading.Event())
        self._traps.append(laid)
        return laid.sprung

    @contextlib.contextmanager
    def refusing(self, method: str, path: str, code: int, reason: str) -> Iterator[None]:
        """Have such calls refused meanwhile."""
        refusal = Refusal(method, re.compile(path), code, reason)
        self._refusals.append(refusal)
        try:
            yield
        finally:
            self._refusals.remove(refusal)

    def since(self, at_s: float) -> list[Call]:
        return [call for call in list(self.calls) if call.at_s >= at_s]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(asyncio.sleep(_CLOSING_S))
        left = asyncio.all_tasks(self._loop)  # watches that their callers did not close
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            app = web.Application(client_max_size=2**26)
            app.router.add_route("*", "/{path:.*}", self._pass_on)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._end.wait()
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        refused = next((refusal for refusal in self._refusals if refusal.matches(request)), None)
        if refused is not None:
            self._note(request, refused.code)
            return refused.answer()
        sprung = next((trap for trap in self._traps if trap.matches(request.method, request.path, body)), None)
        if sprung is not None and sprung.before:
            self._note(request, 0)
            self._spring(request, sprung)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = self._server + request.raw_path
        async with self._session.request(request.method, url, data=body or None, headers=headers) as found:
            self._note(request, found.status)
            # Refused, it comes again: someone else was faster. Another call may have been at it at the same time.
            if sprung is not None and found.status < 300 and not sprung.sprung.is_set():
                self._spring(request, sprung)
            answer = web.StreamResponse(status=found.status)
            for name, value in found.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    answer.headers[name] = value
            with contextlib.suppress(ConnectionError):  # it may be killed at any time
                await answer.prepare(request)
                async for chunk in found.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
            return answer

    def _spring(self, request: web.Request, trap: Trap) -> None:
        """Do it, and answer nothing."""
        trap.then()
        trap.sprung.set()
        if request.transport is not None:
            request.transport.abort()
        raise web.HTTPServiceUnavailable

    def _note(self, request: web.Request, status: int) -> None:
        self.calls.append(Call(time.monotonic(), request.method, request.path, request.query_string, status))
