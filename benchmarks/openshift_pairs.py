"""500 pairs of MachineSets on an embedded server, each of which the autoscaler gives another size every second.

The clock starts when one is scaled, and stops when Machine API's has that size or a later one: the watch, the decision,
marks and every write are in it, and the server's own work, too, for it runs in the same process. Half of the pairs are
held by Machine API, half by Cluster API. Counted is what the controller writes, and what it writes in quiet time.
"""

import asyncio
import contextlib
import resource
import statistics
import time
from collections.abc import AsyncIterator

import prometheus_client

from tests.controllers.machine_pool.world import Counting
from tests.controllers.openshift.machineset_sync import world
from tests.controllers.openshift.machineset_sync.world import CLUSTER, TEMPLATES, World
from windlass import clock
from windlass.controllers import controller
from windlass.controllers.metrics import Metrics
from windlass.controllers.openshift import machineset_sync, names
from windlass.controllers.openshift.apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync.settings import Settings
from windlass.kube import client, prepare

PAIRS, ROUNDS = 500, 20
EVERY_S, QUIET_S = 1.0, 10.0


class Fleet(World):
    """The objects, and the controller that looks after them."""

    def __init__(self) -> None:
        super().__init__(clock.Real())
        self.autoscaler = self.as_manager(names.AUTOSCALER_MANAGER)
        self.asked: dict[str, tuple[float, int]] = {}
        self.lags_s: list[float] = []

    async def fill(self) -> None:
        await self.build()
        await self.api.create(TEMPLATES, {"metadata": {"name": "shared"}, "spec": {}}, CLUSTER_API.namespace)
        for number in range(PAIRS):
            body = world.machine_api_set(f"set-{number:03d}", 1)
            holder = "MachineAPI" if number % 2 else "ClusterAPI"
            body["spec"]["authoritativeAPI"] = holder
            body["spec"]["template"]["spec"]["providerSpec"] = world.provider_spec(template="shared")
            await self.add(MACHINE_API, body, {"authoritativeAPI": holder})

    @contextlib.asynccontextmanager
    async def run_controller(self) -> AsyncIterator[None]:
        self.written = Counting(self.carrier)
        api = client.Client(self.written, self.clock, client.Settings(qps=0, writer=prepare.Writer("windlass")))
        site = controller.Site(api, Metrics(prometheus_client.CollectorRegistry()), workers=10)
        running = asyncio.ensure_future(machineset_sync.make(site, Settings(cluster=CLUSTER)).run())
        watching = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            for each in (running, watching):
                each.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Note when Machine API's has what was asked for."""
        sets = MACHINE_API.machine_sets()
        listed = await self.api.list(sets, prepare.Selection(MACHINE_API.namespace))
        version = listed.resource_version
        async for event in self.api.watch(sets, resource_version=version, timeout_s=100_000):
            body = getattr(event, "object", None)
            name = (body or {}).get("metadata", {}).get("name", "")
            asked = self.asked.get(name)
            if body and asked is not None and body["spec"].get("replicas", 0) >= asked[1]:
                self.lags_s.append(time.perf_counter() - asked[0])
                del self.asked[name]

    async def wait_made(self) -> None:
        """Every pair is there, and equal."""
        while True:
            found = (await self.api.list(MACHINE_API.machine_sets(), prepare.Selection(MACHINE_API.namespace))).items
            if all(each.get("status", {}).get("synchronizedGeneration") for each in found):
                return
            await asyncio.sleep(0.2)

    async def churn(self) -> float:
        """Rounds, one a second; how late the latest was. Sizes grow, so that a later one is told from an earlier."""
        late_s = 0.0
        for round_ in range(ROUNDS):
            begun_s = time.perf_counter()
            for number in range(PAIRS):
                name = f"set-{number:03d}"
                self.asked.setdefault(name, (time.perf_counter(), round_ + 2))
                await self.autoscaler.scale(CLUSTER_API.machine_sets(), name, round_ + 2, CLUSTER_API.namespace)
                await asyncio.sleep(0)
            took_s = time.perf_counter() - begun_s
            late_s = max(late_s, took_s - EVERY_S)
            await asyncio.sleep(max(0.0, EVERY_S - took_s))
        return late_s


async def _run() -> dict[str, float]:
    fleet = Fleet()
    await fleet.fill()
    async with fleet.run_controller():
        since = time.perf_counter()
        await fleet.wait_made()
        first_s = time.perf_counter() - since
        await asyncio.sleep(2.0)
        first = len(fleet.written.writes)
        since = time.perf_counter()
        late_s = await fleet.churn()
        churned_s = time.perf_counter() - since
        while fleet.asked:
            await asyncio.sleep(0.05)
        caught_up_s = time.perf_counter() - since - churned_s
        await asyncio.sleep(3.0)
        writes = len(fleet.written.writes) - first
        before = len(fleet.written.writes)
        await asyncio.sleep(QUIET_S)
        quiet = len(fleet.written.writes) - before
    lags_ms = sorted(1000.0 * each for each in fleet.lags_s)
    return {
        "lag_ms_median": round(statistics.median(lags_ms), 1),
        "lag_ms_p99": round(lags_ms[int(0.99 * len(lags_ms))], 1),
        "lag_ms_worst": round(lags_ms[-1], 1),
        "lags_seen": len(lags_ms),
        "first_pass_of_all_s": round(first_s, 1),
        "first_pass_writes": first,
        "scales": PAIRS * ROUNDS,
        "scales_per_s": round(PAIRS * ROUNDS / churned_s),
        "round_late_s_worst": round(max(late_s, 0.0), 2),
        "caught_up_after_s": round(caught_up_s, 2),
        "writes_under_churn": writes,
        "writes_per_scale": round(writes / (PAIRS * ROUNDS), 2),
        "writes_in_quiet_time": quiet,
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def run() -> dict[str, float]:
    return asyncio.run(_run())
