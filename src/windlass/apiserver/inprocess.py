"""In process: the embedded server as a transport for the client. Nothing is copied and nothing goes over a wire."""

import asyncio
from collections.abc import AsyncGenerator

from windlass import clock
from windlass.apiserver import server, watch
from windlass.kube import transport


class InProcess:
    """Carries requests to an embedded server."""

    def __init__(self, served: server.Server, clock_: clock.Clock) -> None:
        self._server = served
        self._clock = clock_

    async def send(self, request: transport.Request) -> transport.Response:
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
    while (left_s := end_s - clock_.monotonic_s()) > 0:
        wait_s = min(left_s, settings.bookmark_every_s) if watched.sends_bookmarks else left_s
        await clock_.sleep(wait_s)
        if wait_s < left_s:
            served.bookmark(watched)
    watched.stop()
