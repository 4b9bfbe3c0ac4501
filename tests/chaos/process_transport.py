"""What ties one process to the world: its clock, and its way to the API server."""

import asyncio
from collections.abc import AsyncGenerator

from tests.chaos.faults import Jump, Kill
from windlass import clock
from windlass.kube import errors, transport

READS = ("GET", "HEAD")


class Standstill:
    """Whether a process stands still, as by SIGSTOP."""

    def __init__(self, time: clock.Clock) -> None:
        self._time = time
        self._until_s = 0.0

    def stop(self, until_s: float) -> None:
        self._until_s = max(self._until_s, until_s)

    @property
    def is_on(self) -> bool:
        return self._time.monotonic_s() < self._until_s

    async def wait(self) -> None:
        """Until it goes on."""
        while self.is_on:
            await self._time.sleep(self._until_s - self._time.monotonic_s())


class Own:
    """A process's own idea of the time: the wall clock may be wrong, what lasts is not."""

    def __init__(self, inner: clock.Clock, jumps: tuple[Jump, ...], standstill: Standstill) -> None:
        self._inner, self._jumps, self.standstill = inner, jumps, standstill

    def now_s(self) -> float:
        at_s = self._inner.monotonic_s()
        off_s = sum(jump.by_s for jump in self._jumps if jump.at_s <= at_s < jump.at_s + jump.lasts_s)
        return self._inner.now_s() + off_s

    def monotonic_s(self) -> float:
        return self._inner.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
        await self.standstill.wait()


class Lifeline:
    """Once it is cut, nothing that the process still does gets out."""

    def __init__(self, inner: transport.Transport, time: Own, kill: Kill | None) -> None:
        self._inner, self._time, self._kill, self._standstill = inner, time, kill, time.standstill
        self._writes = 0
        self.cut = asyncio.Event()

    async def send(self, request: transport.Request) -> transport.Response:
        if self._standstill.is_on:
            # A process that stands still begins nothing: it is our event loop that goes on.
            await self._standstill.wait()
            raise errors.ConnectFailed(request.call, "this process stood still")
        if self.cut.is_set():
            raise errors.ConnectFailed(request.call, "this process is dead")
        if request.method in READS or not self._is_last():
            return await self._on_event(await self._inner.send(request))
        if self._kill is not None and self._kill.has_acted:
            answer = await self._inner.send(request)
            await answer.stream.aclose()
        self.cut.set()
        await asyncio.Event().wait()  # the process goes before it hears of it
        raise AssertionError

    async def _on_event(self, answer: transport.Response) -> transport.Response:
        await self._standstill.wait()
        return transport.Response(answer.status, answer.headers, self._carry(answer.stream))

    async def _carry(self, stream: transport.Stream) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in stream:
                await self._standstill.wait()
                yield chunk
        finally:
            await stream.aclose()

    def _is_last(self) -> bool:
        kill = self._kill
        if kill is None or not kill.writes or self._time.monotonic_s() < kill.at_s:
            return False
        self._writes += 1
        return self._writes == kill.writes
