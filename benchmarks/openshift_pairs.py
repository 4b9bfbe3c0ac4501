"""500 pairs of MachineSets on an embedded server, each of which the autoscaler gives another size every second.

The operator is a process of its own (`openshift_operator`). The clock starts when a set is scaled, and stops when the
server has that size or a later one for Machine API's: the watch, the decision, marks and every write are in it, and the
server's own work. Half of the pairs are held by Machine API, half by Cluster API. Counted is what the operator writes,
and what it writes in quiet time.
"""

import asyncio
import contextlib
import statistics
import time

import msgspec

from benchmarks import openshift_operator
from tests.controllers.openshift.machineset_sync import machine_set_pairs
from tests.controllers.openshift.machineset_sync.machine_set_pairs import CLUSTER, TEMPLATES, World
from windlass import clock
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.kube import client, request_builders, transport

PAIRS, ROUNDS = 500, 20
EVERY_S, QUIET_S = 1.0, 10.0

_MACHINE_API_SETS = MACHINE_API.machine_sets().path(MACHINE_API.namespace) + "/"


class Fleet(World):
    """The objects, and the operator that looks after them."""

    def __init__(self) -> None:
        self.served = openshift_operator.Served(clock.RealClock())
        self.served.notice = self._note
        super().__init__(clock.RealClock(), self.served)
        self.autoscaler = self.as_manager(machine_apis.AUTOSCALER_MANAGER)
        self.asked: dict[str, tuple[float, int]] = {}
        self.lags_s: list[float] = []

    def as_manager(self, manager: str) -> client.Client:
        return self.served.connect(self.clock, manager)

    async def fill(self) -> None:
        await self.build()
        await self.api.create(TEMPLATES, {"metadata": {"name": "shared"}, "spec": {}}, CLUSTER_API.namespace)
        for number in range(PAIRS):
            body = machine_set_pairs.machine_api_set(f"set-{number:03d}", 1)
            holder = "MachineAPI" if number % 2 else "ClusterAPI"
            body["spec"]["authoritativeAPI"] = holder
            body["spec"]["template"]["spec"]["providerSpec"] = machine_set_pairs.provider_spec(template="shared")
            await self.add(MACHINE_API, body, {"authoritativeAPI": holder})

    def run_operator(self) -> contextlib.AbstractAsyncContextManager[int]:
        words = ("--controllers=machineset_sync", f"--machineset-sync-cluster={CLUSTER}")
        return openshift_operator.run_operator(self.served, self.clock, *words)

    def _note(self, request: transport.Request) -> None:
        """When Machine API's has what was asked for."""
        if not request.path.startswith(_MACHINE_API_SETS):
            return
        asked = self.asked.get(name := request.path.removeprefix(_MACHINE_API_SETS))
        if asked is not None and msgspec.json.decode(request.body)["spec"].get("replicas", 0) >= asked[1]:
            self.lags_s.append(time.perf_counter() - asked[0])
            del self.asked[name]

    async def wait_made(self) -> None:
        """Every pair is there, and equal."""
        while True:
            found = (
                await self.api.list(MACHINE_API.machine_sets(), request_builders.ListOptions(MACHINE_API.namespace))
            ).items
            if all(item.get("status", {}).get("synchronizedGeneration") for item in found):
                return
            await asyncio.sleep(0.2)

    async def rescale(self, number: int, replicas: int) -> None:
        """As the autoscaler does."""
        name = f"set-{number:03d}"
        self.asked.setdefault(name, (time.perf_counter(), replicas))
        await self.autoscaler.scale(CLUSTER_API.machine_sets(), name, replicas, CLUSTER_API.namespace)

    async def churn(self) -> float:
        """Every set gets another size once a second, one after the other; how late the latest was.

        Sizes grow, so that a later one is told from an earlier.
        """
        late_s, begun_s = 0.0, time.perf_counter()
        for count in range(ROUNDS * PAIRS):
            wait_s = begun_s + count * EVERY_S / PAIRS - time.perf_counter()
            late_s = max(late_s, -wait_s)
            await asyncio.sleep(max(wait_s, 0.0))
            round_, number = divmod(count, PAIRS)
            await self.rescale(number, round_ + 2)
        return late_s

    async def scale_at_once(self) -> float:
        """All of them, as fast as the server takes it: seconds until the last of them has followed."""
        since = time.perf_counter()
        for number in range(PAIRS):
            await self.rescale(number, ROUNDS + 2)
            await asyncio.sleep(0)
        await self.wait_followed()
        return time.perf_counter() - since

    async def wait_followed(self) -> None:
        while self.asked:
            await asyncio.sleep(0.01)


async def _run() -> dict[str, float]:
    fleet = Fleet()
    await fleet.fill()
    async with fleet.run_operator() as process:
        since = time.perf_counter()
        await fleet.wait_made()
        first_s = time.perf_counter() - since
        await asyncio.sleep(2.0)
        first = fleet.served.count_writes()
        before = openshift_operator.Cpu.read(process)
        late_s = await fleet.churn()
        after = openshift_operator.Cpu.read(process)
        await fleet.wait_followed()
        caught_up_s = time.perf_counter() - after.at_s
        await asyncio.sleep(3.0)
        writes = fleet.served.count_writes() - first
        lags_ms = sorted(1000.0 * item for item in fleet.lags_s)
        at_once_s = await fleet.scale_at_once()
        await asyncio.sleep(3.0)
        before_quiet = fleet.served.count_writes()
        await asyncio.sleep(QUIET_S)
        quiet = fleet.served.count_writes() - before_quiet
        peak_mb = openshift_operator.read_peak_mb(process)
    return {
        "lag_ms_median": round(statistics.median(lags_ms), 1),
        "lag_ms_p99": round(lags_ms[int(0.99 * len(lags_ms))], 1),
        "lag_ms_worst": round(lags_ms[-1], 1),
        "lags_seen": len(lags_ms),
        "first_pass_of_all_s": round(first_s, 1),
        "first_pass_writes": first,
        "scales": PAIRS * ROUNDS,
        "scales_per_s": round(PAIRS * ROUNDS / (after.at_s - before.at_s)),
        "late_s_worst": round(late_s, 2),
        "caught_up_after_s": round(caught_up_s, 2),
        **after.percent_since(before),
        "writes_under_churn": writes,
        "writes_per_scale": round(writes / (PAIRS * ROUNDS), 2),
        "all_at_once_s": round(at_once_s, 2),
        "writes_in_quiet_time": quiet,
        "operator_peak_mb": peak_mb,
    }


def run() -> dict[str, float]:
    return asyncio.run(_run())
