"""500 pairs of MachineSets and 500 MachineAutoscalers on an embedded server, replicas of all changing every second.

Meanwhile bounds of one MachineAutoscaler after another are changed. The clock starts when one is, and stops when its
MachineSet has them: the watch, the decision and every write are in it, and the server's own work, too. Counted is what
the controllers write, events left out, and what they write when nothing changes.
"""

import asyncio
import contextlib
import resource
import statistics
import time
from collections.abc import AsyncIterator

import prometheus_client

from benchmarks import openshift_pairs
from tests.controllers.machine_pool.world import Counting
from tests.controllers.openshift.cluster import Cluster
from windlass import clock
from windlass.controllers import controller, registry
from windlass.controllers.metrics import Metrics
from windlass.controllers.openshift import apis, names
from windlass.kube import client, errors, prepare

CONTROLLERS = "machine_autoscaler"
"""Whose work is measured, separated by commas."""
PAIRS, CHANGES = 500, 50
EVERY_S = 1.0
QUIET_S = 10.0


class Fleet(Cluster):
    """The objects, and the controllers that look after them."""

    def __init__(self) -> None:
        super().__init__(clock.Real())
        self.autoscaler = self.as_manager(names.AUTOSCALER_MANAGER)
        self.scaled = 0
        self.late_s = 0.0

    async def settle(self, seconds: float = 0.0) -> None:
        """Nobody is waited for."""

    async def fill(self) -> None:
        await self.build()
        for number in range(PAIRS):
            name = f"set-{number:03d}"
            await self.add_pair(name, "MachineAPI" if number % 2 else "ClusterAPI")
            await self.autoscale(name, name, most=100)

    @contextlib.asynccontextmanager
    async def run_controllers(self) -> AsyncIterator[None]:
        self.written = Counting(self.carrier)
        api = client.Client(self.written, self.clock, client.Settings(qps=0, writer=prepare.Writer("windlass")))
        site = controller.Site(api, Metrics(prometheus_client.CollectorRegistry()), workers=10)
        made = registry.make(CONTROLLERS, site, registry.Settings())
        running = [asyncio.ensure_future(each.run()) for each in made]
        try:
            yield
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def wait_bounds(self, number: int, most: int) -> None:
        api = apis.MACHINE_API if number % 2 else apis.CLUSTER_API
        while (await self.annotations(api, f"set-{number:03d}")).get(api.max_size) != str(most):
            await asyncio.sleep(0.001)

    async def churn(self) -> None:
        """Every MachineSet of Cluster API gets another size once a second, as the autoscaler gives it."""
        resource_, size = apis.CLUSTER_API.machine_sets(), 1
        while True:
            begun_s = time.perf_counter()
            size = size % 90 + 1
            for number in range(PAIRS):
                with contextlib.suppress(errors.Conflict):
                    await self.autoscaler.scale(resource_, f"set-{number:03d}", size, apis.CLUSTER_API.namespace)
                self.scaled += 1
                await asyncio.sleep(0)
            took_s = time.perf_counter() - begun_s
            self.late_s = max(self.late_s, took_s - EVERY_S)
            await asyncio.sleep(max(0.0, EVERY_S - took_s))

    def writes(self) -> int:
        return sum("/events" not in each for each in self.written.writes)


async def _change(fleet: Fleet, number: int, most: int) -> float:
    """Milliseconds until other bounds are on the MachineSet."""
    name = f"set-{number:03d}"
    since = time.perf_counter()
    await fleet.autoscale(name, name, most=most)
    await fleet.wait_bounds(number, most)
    return 1000.0 * (time.perf_counter() - since)


async def _run() -> dict[str, float]:
    fleet = Fleet()
    await fleet.fill()
    async with fleet.run_controllers():
        since = time.perf_counter()
        for number in range(PAIRS):
            await fleet.wait_bounds(number, 100)
        first_s = time.perf_counter() - since
        await asyncio.sleep(2.0)
        first_writes = fleet.writes()
        churning = asyncio.ensure_future(fleet.churn())
        begun_s = time.perf_counter()
        await asyncio.sleep(2.0)
        took_ms = []
        for number in range(CHANGES):
            took_ms.append(await _change(fleet, number, 101))
            await asyncio.sleep(0.2)
        churning.cancel()
        await asyncio.gather(churning, return_exceptions=True)
        churned_s = time.perf_counter() - begun_s
        await asyncio.sleep(3.0)
        churn_writes = fleet.writes() - first_writes
        before = len(fleet.written.writes)
        await asyncio.sleep(QUIET_S)
        quiet = len(fleet.written.writes) - before
    return {
        "seconds": statistics.median(took_ms) / 1000.0,
        "change_ms_median": round(statistics.median(took_ms), 1),
        "change_ms_worst": round(max(took_ms), 1),
        "first_pass_of_all_s": round(first_s, 1),
        "first_pass_writes": first_writes,
        "scales_per_s": round(fleet.scaled / churned_s),
        "round_late_s_worst": round(fleet.late_s, 2),
        "writes_under_churn": churn_writes,
        "writes_in_quiet_time": quiet,
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def run() -> dict[str, float]:
    """The operator's figures, and those of the mirroring of pairs."""
    return asyncio.run(_run()) | {f"sync_{name}": value for name, value in openshift_pairs.run().items()}
