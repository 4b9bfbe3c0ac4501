"""The weather between a process and its API server: a transport that does what the spells of the moment say."""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable

import msgspec

from tests.chaos.faults import Spell, Weather
from windlass import clock
from windlass.kube import errors, transport

_READS = ("GET", "HEAD")
_FORGETFUL_S = 60.0
"""After a server came back: it cannot tell what happened before, to whoever asks within this time."""
_GONE = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}\n'
)


class Skies:
    """All spells of a day, and chance. Shared by all processes of the day."""

    def __init__(self, spells: Iterable[Spell], time: clock.Clock, chance: random.Random) -> None:
        self.time, self.chance = time, chance
        self._of: dict[Weather, list[Spell]] = {}
        for spell in spells:
            self._of.setdefault(spell.kind, []).append(spell)
        self.counts: dict[str, int] = {}
        """How often each kind has hit."""

    def hits(self, kind: Weather, path: str) -> bool:
        """Does it strike this time?"""
        now_s = self.time.monotonic_s()
        for spell in self._of.get(kind, ()):
            if spell.is_on(now_s) and spell.concerns(path) and self.chance.random() < spell.share:
                self._count(kind)
                return True
        return False

    def is_down(self, path: str) -> bool:
        """Is the server gone?"""
        now_s = self.time.monotonic_s()
        found = any(spell.is_on(now_s) and spell.concerns(path) for spell in self._of.get("down", ()))
        if found:
            self._count("down")
        return found

    def goes_down_s(self, path: str) -> float | None:
        """When it will be gone next."""
        now_s = self.time.monotonic_s()
        return min(
            (spell.at_s for spell in self._of.get("down", ()) if spell.at_s > now_s and spell.concerns(path)),
            default=None,
        )

    def has_forgotten(self, path: str) -> bool:
        """Has it come back only now?"""
        now_s = self.time.monotonic_s()
        back_s = [spell.at_s + spell.lasts_s for spell in self._of.get("down", ()) if spell.concerns(path)]
        return any(at_s <= now_s < at_s + _FORGETFUL_S for at_s in back_s)

    def _count(self, kind: Weather) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


class Outdoors:
    """Carries requests through the weather."""

    def __init__(self, inner: transport.Transport, skies: Skies) -> None:
        self._inner, self._skies = inner, skies

    async def send(self, request: transport.Request) -> transport.Response:
        skies, path = self._skies, request.path
        if skies.is_down(path):
            raise errors.ConnectFailed(request.call, "connection refused")
        if skies.hits("slow", path):
            await self._wait(request)
        if skies.hits("refused", path):
            raise errors.ConnectFailed(request.call, "connection refused")
        if skies.hits("overloaded", path):
            return _status(429, "TooManyRequests", "too many requests", {"retry-after": "1"})
        if request.method not in _READS and skies.hits("denied", path):
            return _status(403, "Forbidden", 'admission webhook "weather.example.com" denied the request')
        if skies.hits("failing", path):
            return await self._fail(request)
        goes_on = _continues(request)
        if goes_on and skies.hits("behind", path):
            return _status(504, "Timeout", "Too large resource version: 2, current: 1")
        if goes_on and skies.has_forgotten(path):
            return transport.Response(200, {"content-type": "application/json"}, _once(_GONE))
        answer = await self._inner.send(request)
        if skies.hits("unanswered", path):
            await answer.stream.aclose()
            raise errors.ConnectionLost(request.call, "connection reset by peer")
        if any(name == "watch" for name, _ in request.query):
            return transport.Response(answer.status, answer.headers, self._carry(request, answer.stream))
        return answer

    async def _wait(self, request: transport.Request) -> None:
        late_s = self._skies.chance.uniform(0.5, 40.0)
        await self._skies.time.sleep(min(late_s, request.timeout_s))
        if late_s >= request.timeout_s:
            raise errors.CallTimedOut(request.call, f"no answer within {request.timeout_s:g} s")

    async def _fail(self, request: transport.Request) -> transport.Response:
        """Whether the server has acted is not known: sometimes it has."""
        if self._skies.chance.random() < 0.5:
            answer = await self._inner.send(request)
            await answer.stream.aclose()
        code, reason = self._skies.chance.choice(
            ((500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))
        )
        return _status(code, reason, "etcdserver: request timed out")

    async def _carry(self, request: transport.Request, stream: transport.Stream) -> AsyncGenerator[bytes, None]:
        """A watch, until the weather breaks it."""
        skies, falls_s = self._skies, self._skies.goes_down_s(request.path)
        try:
            async for chunk in stream if falls_s is None else _until(falls_s, request, stream):
                if skies.hits("lagging", request.path):
                    await skies.time.sleep(skies.chance.uniform(1.0, 120.0))
                if skies.hits("expired", request.path):
                    yield _GONE
                    return
                if skies.hits("cut", request.path):
                    yield chunk[: skies.chance.randrange(len(chunk))]
                    raise errors.ConnectionLost(request.call, "connection reset by peer")
                yield chunk
        finally:
            await stream.aclose()


def _continues(request: transport.Request) -> bool:
    """A watch from where another one ended, or from a list."""
    return any(name == "resourceVersion" and value for name, value in request.query) and any(
        name == "watch" for name, _ in request.query
    )


async def _until(falls_s: float, request: transport.Request, stream: transport.Stream) -> AsyncGenerator[bytes, None]:
    """What a watch says until its server is gone."""
    chunks = aiter(stream)
    while True:
        try:
            async with asyncio.timeout_at(falls_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise errors.ConnectionLost(request.call, "connection reset by peer") from error
        yield chunk


def _status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> transport.Response:
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    body = msgspec.json.encode({**said, "message": message})
    return transport.Response(code, {"content-type": "application/json", **(headers or {})}, _once(body))


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
