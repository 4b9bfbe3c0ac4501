"""Two processes and one Lease: only its holder may change anything, whatever stood still in between."""

import random
from collections.abc import Sequence

import msgspec

from tests.chaos.faults import Pause
from tests.chaos.process_transport import READS, Standstill
from windlass import clock
from windlass.autoscaler import app
from windlass.autoscaler.autoscaler import DecisionRunner, run_inline
from windlass.autoscaler.options import flags
from windlass.engine.loop import Decision
from windlass.kube import transport
from windlass.providers.clusterapi import auto_discovery
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Simulation

_WIRED = {
    "leader-elect": ["true"],
    "leader-elect-lease-duration": ["10m"],
    "leader-elect-renew-deadline": ["7m"],
    "leader-elect-retry-period": ["2m"],
    "kube-client-qps": ["0"],
    "write-status-configmap": ["false"],
}
"""Forty times as slow as usual: renewals every two seconds would be most of what a day costs."""
_LEASES = "/leases"
_BESIDES = (_LEASES, "/events")
"""What one writes to come to lead, and to tell of what was done: neither acts on the cluster."""


async def take_part(
    scenario: model.Scenario,
    server: transport.Transport,
    time: clock.Clock,
    chance: random.Random,
    think: DecisionRunner[Decision] = run_inline,
) -> None:
    """One process that stands for election, until it has led and does not any more."""
    given = {name: [model.format_flag(value)] for name, value in scenario.flags.items()}
    settings, wiring = flags.parse_settings(given), flags.parse_process_options({**given, **_WIRED})
    servers = app.ApiServers(server, server)
    autoscaler_process = app.AutoscalerProcess(
        servers, settings, wiring, auto_discovery.read_config((), {}), time, think, chance
    )
    autoscaler_process.reporter.keeps_gauges = False
    await autoscaler_process.run_without_serving()


class Lease:
    """The Lease as the server has it."""

    def __init__(self, simulation: Simulation, complaints: list[str]) -> None:
        self._store, self._time, self.complaints = (
            simulation.cluster.api.server.core.store,
            simulation.clock,
            complaints,
        )

    @property
    def holder(self) -> str:
        leases = self._store.tables["coordination.k8s.io", "leases"].objects.values()
        return next((str(stored_object.decode()["spec"].get("holderIdentity") or "") for stored_object in leases), "")

    def find_problem(self, request: transport.Request, identity: str) -> None:
        self.complaints.append(
            f"{self._time.monotonic_s():g} s: {request.call} by {identity}, while {self.holder or 'nobody'} leads"
        )


class Rival:
    """One of the two, by all the names that it had."""

    def __init__(self, lease: Lease, standstill: Standstill) -> None:
        self._lease, self.standstill = lease, standstill
        self.identity = ""

    @property
    def leads(self) -> bool:
        return self.identity != "" and self._lease.holder == self.identity

    def through(self, inner: transport.Transport) -> transport.Transport:
        return _Door(inner, self)

    def check(self, request: transport.Request) -> None:
        """At the server's door: may this one do that?"""
        if _LEASES in request.path:
            self.identity = msgspec.json.decode(request.body)["spec"]["holderIdentity"] or self.identity
        if not any(part in request.path for part in _BESIDES) and not self.leads:
            self._lease.find_problem(request, self.identity)


class _Door:
    """Where requests of one process arrive."""

    def __init__(self, inner: transport.Transport, whose: Rival) -> None:
        self._inner, self._whose = inner, whose

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in READS:
            self._whose.check(request)
        return await self._inner.send(request)


def pause_leader(simulation: Simulation, pause: Pause, rivals: Sequence[Rival]) -> None:
    """Stop whoever leads at that time."""

    def stop() -> None:
        for rival in rivals:
            if rival.leads:
                rival.standstill.stop(pause.at_s + pause.lasts_s)

    simulation.cluster.event_loop.call_later(pause.at_s, stop)
