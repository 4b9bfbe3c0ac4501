"""In process: the embedded server as a transport for the client. Nothing is copied and nothing goes over a wire."""

import asyncio
from collections.abc import AsyncGenerator

from windlass import clock
from windlass.apiserver import server, watch
from windlass.kube import transport

_LAST_BOOKMARK_S = 2.0
"""Before its end a watch tells its client once more how far it has seen."""


_TURN = 16
"""Requests after which others get their turn: a client that never waits would keep watchers from ever reading."""


class InProcess:
    """Carries requests to an embedded server."""

    def __init__(self, served: server.Server, clock_: clock.Clock) -> None:
        self._server = served
        self._clock = clock_
        self._sent = 0

    async def send(self, request: transport.Request) -> transport.Response:
        self._sent += 1
        if self._sent % _TURN == 0:
            await asyncio.sleep(0)
        answer = self._server.handle(request)
        if answer.watch is not None:
            stream = follow(self._server, answer.watch, self._clock)
            return transport.Response(answer.status, answer.headers, stream)
        return transport.Response(answer.status, answer.headers, _Once(answer.body))


class _Once:
    """A body that is there already."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> "_Once":
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body

    async def aclose(self) -> None:
        self._body = b""


async def follow(served: server.Server, watched: watch.Watch, clock_: clock.Clock) -> AsyncGenerator[bytes, None]:
    """The bytes of a watch as they come, bookmarks among them, until its time is over."""
    is_there = asyncio.Event()
    watched.notify = is_there.set
    timer = asyncio.create_task(_keep_time(served, watched, clock_))
    try:
        while True:
            if chunk := watched.take():
                yield chunk
            elif watched.is_ended:
                return
            else:
                is_there.clear()
                await is_there.wait()
    finally:
        watched.stop()
        timer.cancel()


async def _keep_time(served: server.Server, watched: watch.Watch, clock_: clock.Clock) -> None:
    settings = served.settings
    end_s = clock_.monotonic_s() + (watched.timeout_s or settings.longest_watch_s)
    last_s = end_s - _LAST_BOOKMARK_S
    while watched.sends_bookmarks and (left_s := last_s - clock_.monotonic_s()) > 0:
        await clock_.sleep(min(left_s, settings.bookmark_every_s))
        served.bookmark(watched)
    await clock_.sleep(max(end_s - clock_.monotonic_s(), 0.0))
    watched.stop()
