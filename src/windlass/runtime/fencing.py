"""Fencing: whoever does not lead changes nothing.

A plan may have begun while its process led, and the process may have stood still since then for longer than its lease.
Whether one leads is therefore asked once more for each change, right before it is sent: not only before credentials are
fetched and a connection is made, which may take longer than the lease, but also after (`Request.may_send`). What is on
its way then cannot be called back: `leader_election` leaves it the time between the leader's deadline and the end of
the lease.
"""

import dataclasses
from collections.abc import Callable

from windlass.kube import transport
from windlass.kube.errors import Withheld
from windlass.runtime import leader_election

_READS = ("GET", "HEAD")

__all__ = ["Fenced", "Withheld", "fence"]


class Fenced:
    """Carries reads always, and writes while one may act."""

    def __init__(self, inner: transport.Transport, may_act: Callable[[], bool]) -> None:
        self._inner, self._may_act = inner, may_act

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in _READS:
            request = dataclasses.replace(request, may_send=self._may_act)
            request.check_may_send()
        return await self._inner.send(request)


def fence(server: transport.Transport, election: leader_election.Election | None) -> transport.Transport:
    """A server to which one who stands for election writes only while leading; None: nobody else could write."""
    return server if election is None else Fenced(server, lambda: election.is_leader)
