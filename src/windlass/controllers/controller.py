"""What a controller is to the operator that runs it, and what it gets to run with."""

from dataclasses import dataclass, field
from typing import Protocol

from windlass import clock, errors
from windlass.controllers import metrics
from windlass.kube import client, events, transport
from windlass.runtime import fencing, leader_election


@dataclass(frozen=True, slots=True)
class Lease:
    """Where the lease is, and how long it lasts."""

    namespace: str = "windlass-system"
    name: str = "windlass-operator"
    settings: leader_election.Settings = field(default_factory=leader_election.Settings)


@dataclass(frozen=True, slots=True)
class Site:
    """Where controllers work."""

    api: client.Client
    measures: metrics.Metrics
    namespace: str = ""
    """The one namespace they look at; empty is all of them."""
    workers: int = 1
    """Objects of one controller that are reconciled at the same time."""
    election: leader_election.Election | None = None
    """Decides which of several processes works here; None: there is but one."""
    event_window_s: float = events.WINDOW_S
    """How long controllers that say the same at every pass write it once."""

    def fence(self, server: transport.Transport) -> transport.Transport:
        """A server to which nothing is written by a process that does not lead. `api` writes to one like that."""
        return fencing.fence(server, self.election)


def open_site(
    server: transport.Transport,
    time: clock.Clock,
    settings: client.Settings,
    measures: metrics.Metrics,
    lease: Lease | None = None,
    *,
    namespace: str = "",
    workers: int = 1,
    event_window_s: float = events.WINDOW_S,
) -> Site:
    """A site on a server. With a lease nothing is written to it but by the lease's holder.

    The lease has a client of its own: its renewal never waits for others to write.
    """
    election = None
    if lease is not None:
        candidate, identity = client.Client(server, time, settings), leader_election.make_identity()
        election = leader_election.Election(candidate, lease.namespace, lease.name, identity, lease.settings)
    api = client.Client(fencing.fence(server, election), time, settings)
    return Site(api, measures, namespace, workers, election, event_window_s)


class Controller(Protocol):
    """Keeps one kind of object as it should be."""

    name: str
    """As it is spelled in `--controllers`."""

    async def run(self) -> None:
        """Until cancelled."""

    def complain(self) -> str:
        """Why it does not know what is the case; empty if it does."""


class NotYet(errors.WindlassError):
    """An object is not as it should be, and cannot be made so now: looked at again later, and later each time."""
