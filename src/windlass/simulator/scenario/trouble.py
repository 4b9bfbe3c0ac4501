"""API server trouble: a transport that fails some requests and keeps others waiting, while the story wants it."""

import random

from windlass import clock
from windlass.kube import errors, transport


class Troubled:
    """Carries requests like another transport, but not always, and not at once."""

    def __init__(self, inner: transport.Transport, clock_: clock.Clock, chance: random.Random) -> None:
        self._inner, self._clock, self._chance = inner, clock_, chance
        self.error_rate = 0.0
        self.delay_s = 0.0

    async def send(self, request: transport.Request) -> transport.Response:
        if self.delay_s:
            await self._clock.sleep(min(self.delay_s, request.timeout_s))
            if self.delay_s >= request.timeout_s:
                raise errors.CallTimedOut(request.call, f"no answer within {request.timeout_s:g} s")
        if self.error_rate and self._chance.random() < self.error_rate:
            raise errors.ConnectFailed(request.call, "the API server does not answer")
        return await self._inner.send(request)
