"""How often sizes are written: whoever goes round in circles wears the server down, though each step may be right."""

from collections import deque

from tests.chaos.process_transport import READS
from windlass import clock
from windlass.kube import transport

_MOST_A_MINUTE = 30
"""Of one group, with every retry in it; a loop that begins anew as soon as it is over writes hundreds."""
_MINUTE_S = 60.0


class Paced:
    """The server's door, where what comes too often is noticed."""

    def __init__(self, inner: transport.Transport, time: clock.Clock, complaints: list[str]) -> None:
        self._inner, self._time, self._complaints = inner, time, complaints
        self._written_s: dict[str, deque[float]] = {}

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in READS and request.path.endswith("/scale"):
            self._note(request)
        return await self._inner.send(request)

    def _note(self, request: transport.Request) -> None:
        now_s, written_s = self._time.monotonic_s(), self._written_s.setdefault(request.path, deque())
        written_s.append(now_s)
        while written_s[0] < now_s - _MINUTE_S:
            written_s.popleft()
        if len(written_s) == _MOST_A_MINUTE:
            self._complaints.append(f"{now_s:g} s: {request.call} for the {len(written_s)}th time within a minute")
