"""The weather between a process and its API server: a transport that does what the spells of the moment say."""

import random
from collections.abc import AsyncGenerator, Iterable

import msgspec

from tests.chaos.faults import Spell, Weather
from windlass import clock
from windlass.kube import errors, transport

_READS = ("GET", "HEAD")
_GONE = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}\n'
)


class Skies:
    """All spells of a day, and chance. Shared by all processes of the day."""

    def __init__(self, spells: Iterable[Spell], time: clock.Clock, chance: random.Random) -> None:
        self._spells, self.time, self.chance = tuple(spells), time, chance
        self.counts: dict[str, int] = {}
        """How often each kind has hit."""

    def hits(self, kind: Weather, path: str) -> bool:
        """Does it strike this time?"""
        now_s = self.time.monotonic_s()
        for spell in self._spells:
            is_on = spell.kind == kind and spell.at_s <= now_s < spell.at_s + spell.lasts_s and spell.only in path
            if is_on and self.chance.random() < spell.share:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                return True
        return False


class Outdoors:
    """Carries requests through the weather."""

    def __init__(self, inner: transport.Transport, skies: Skies) -> None:
        self._inner, self._skies = inner, skies

    async def send(self, request: transport.Request) -> transport.Response:
        skies, path = self._skies, request.path
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
        skies = self._skies
        try:
            async for chunk in stream:
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


def _status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> transport.Response:
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    body = msgspec.json.encode({**said, "message": message})
    return transport.Response(code, {"content-type": "application/json", **(headers or {})}, _once(body))


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
