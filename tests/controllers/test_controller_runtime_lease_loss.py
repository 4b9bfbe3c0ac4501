"""An operator that stood still past its lease changes nothing when it goes on: another may have led meanwhile."""

import asyncio

import prometheus_client
import pytest

from tests.chaos.process_transport import READS, Lifeline, Own, Standstill
from tests.controllers.test_controller_runtime import Copier, labelled, make_site
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.controllers import controller_runtime, operator_process
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.kube import client, resources, transport
from windlass.runtime import leader_election

LEASE = controller_runtime.LeaseSettings("default")
THINKS_S = 5.0


class Thinker(Copier):
    """Takes its time between what it sees and what it does."""

    async def _reconcile(self, key: str) -> float | None:
        await self.site.api.clock.sleep(THINKS_S)
        return await super()._reconcile(key)


class Door:
    """Where requests of one process arrive: notes when something but the lease was written."""

    def __init__(self, inner: transport.Transport, time: clock.Clock) -> None:
        self._inner, self._time = inner, time
        self.writes: list[tuple[float, str]] = []

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method not in READS and "/leases" not in request.path:
            self.writes.append((self._time.monotonic_s(), request.call))
        return await self._inner.send(request)


class Process:
    """One of several operators: its own clock and way to the server, so that it can stand still."""

    def __init__(self, served: server.Server, time: clock.VirtualClock) -> None:
        self.standstill = Standstill(time)
        self.door = Door(embedded_server.InProcessTransport(served, time), time)
        own = Own(time, (), self.standstill)
        measures = ControllerMetrics(prometheus_client.CollectorRegistry())
        settings = client.ClientSettings(qps=0)
        site = controller_runtime.new_controller_context(Lifeline(self.door, own, None), own, settings, measures, LEASE)
        self.copier = Thinker(site)
        self.running = asyncio.ensure_future(operator_process.run([self.copier], site))


@pytest.mark.parametrize("stands_s", [11.0, 60.0, 600.0])
def test_an_operator_that_stood_still_past_its_lease_changes_nothing_when_it_goes_on(stands_s: float) -> None:
    time = clock.VirtualClock()

    async def play() -> None:
        served = server.Server(time)
        first = Process(served, time)
        await time.sleep(1.0)
        second = Process(served, time)
        people = make_site(time, served).api
        await people.create(resources.CONFIG_MAPS, labelled("a"))
        await time.sleep(1.0)
        stopped_s = time.monotonic_s()
        first.standstill.stop(stopped_s + stands_s)  # it has seen what is to be done, and has not begun
        await time.sleep(stands_s + 60.0)
        assert [write for write in first.door.writes if write[0] >= stopped_s] == []
        with pytest.raises(leader_election.LeadershipLost):
            await first.running
        ((copied, _),) = [write for write in second.door.writes if "/events" not in write[1]]
        assert copied >= stopped_s + LEASE.settings.lease_s - LEASE.settings.retry_s
        second.running.cancel()
        await asyncio.gather(second.running, return_exceptions=True)

    time.run(play())
