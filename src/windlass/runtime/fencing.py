"""Fencing: whoever does not lead changes nothing.

A plan may have begun while its process led, and the process may have stood still since then for longer than its lease.
Whether one leads is therefore asked once more for each change, right before it is sent. What is on its way then cannot
be called back: `leader_election` leaves it the time between the leader's deadline and the end of the lease.
"""

from collections.abc import Callable

from windlass.kube import errors, transport
from windlass.runtime import leader_election

_READS = ("GET", "HEAD")


class Withheld(errors.KubeError):
    """Not sent: whoever asked for it does not lead any more."""


class Fenced:
    """Carries reads always, and writes while one may act."""

    def __init__(self, inner: transport.Transport, may_act: Callable[[], bool]) -> None:
        self._inner, self._may_act = inner, may_act

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in _READS and not self._may_act():
            raise Withheld(f"{request.call}: not sent: this process does not lead any more")
        return await self._inner.send(request)


def fence(server: transport.Transport, election: leader_election.Election | None) -> transport.Transport:
    """A server to which one who stands for election writes only while leading; None: nobody else could write."""
    return server if election is None else Fenced(server, lambda: election.is_leader)
