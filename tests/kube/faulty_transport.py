"""A transport that gets in the way: for tests of what survives it."""

import random
from collections.abc import AsyncIterator

from tests.kube.fake_api_server import refusal
from windlass.kube import errors, transport


class Faulty:
    """Carries requests to a server, or says that it could not; streams break in the middle of a line."""

    def __init__(self, inner: transport.Transport, rng: random.Random) -> None:
        self.mischief = 0.0
        """How likely a request, and each chunk of a stream, is to come to harm."""
        self.down = False
        self.harmed = 0
        self.cuts = 0
        """Streams that were broken on purpose while they were open."""
        self._inner = inner
        self._rng = rng
        self._streams: set[_Stream] = set()

    @property
    def has_streams(self) -> bool:
        """Is there one to be cut?"""
        return any(not stream.is_cut for stream in self._streams)

    def cut(self) -> None:
        """Break all streams that are open."""
        self.cuts += sum(not stream.is_cut for stream in self._streams)
        for stream in self._streams:
            stream.is_cut = True

    async def send(self, request: transport.Request) -> transport.Response:
        if self.down:
            raise errors.ConnectFailed(request.call, "down")
        if self.strikes():
            kind = self._rng.choice(("refuse", "lose", "fail", "throttle"))
            if kind == "refuse":
                raise errors.ConnectFailed(request.call, "mischief")
            if kind == "fail":
                return refusal(500, "InternalError", "mischief")
            if kind == "throttle":
                return refusal(429, "TooManyRequests", "mischief", retry_after="1")
            response = await self._inner.send(request)
            await response.stream.aclose()
            raise errors.ConnectionLost(request.call, "mischief")
        response = await self._inner.send(request)
        stream = _Stream(self, request.call, response.stream)
        self._streams.add(stream)
        return transport.Response(response.status, response.headers, stream)

    def strikes(self) -> bool:
        struck = self._rng.random() < self.mischief
        self.harmed += struck
        return struck

    def forget(self, stream: "_Stream") -> None:
        self._streams.discard(stream)


class _Stream:
    def __init__(self, owner: Faulty, call: str, inner: transport.Stream) -> None:
        self.is_cut = False
        self._owner = owner
        self._call = call
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if self.is_cut or self._owner.down or self._owner.strikes():
                yield chunk[: len(chunk) // 2]
                raise errors.ConnectionLost(self._call, "cut")
            yield chunk

    async def aclose(self) -> None:
        self._owner.forget(self)
        await self._inner.aclose()
