"""500 pairs of MachineSets and 500 MachineAutoscalers on an embedded server, replicas of all changing every second.

Meanwhile bounds of one MachineAutoscaler after another are changed. The clock starts when one is, and stops when its
MachineSet has them: the watch, the decision and every write are in it, and the server's own work, too. Counted is what
the operator writes, events left out, and what it writes when nothing changes. The operator is a process of its own
(`openshift_operator`); so it is for the mirroring of pairs (`openshift_pairs`), which comes second.
"""

import asyncio
import contextlib
import gc
import statistics
import time

from benchmarks import openshift_operator, openshift_pairs
from benchmarks.openshift_operator import Cpu
from tests.controllers.openshift.openshift_cluster import Cluster
from windlass import clock
from windlass.controllers.openshift import machine_apis
from windlass.kube import client, errors

CONTROLLERS = "machine_autoscaler"
"""Whose work is measured, separated by commas."""
PAIRS, CHANGES = 500, 50
EVERY_S = 1.0
QUIET_S = 10.0


class Fleet(Cluster):
    """The objects, and whoever changes them."""

    def __init__(self) -> None:
        self.served = openshift_operator.Served(clock.RealClock())
        super().__init__(clock.RealClock(), self.served)
        self.autoscaler = self.as_manager(machine_apis.AUTOSCALER_MANAGER)
        self.scaled = 0
        self.late_s = 0.0

    def as_manager(self, manager: str) -> client.Client:
        return self.served.connect(self.clock, manager)

    async def settle(self, seconds: float = 0.0) -> None:
        """Nobody is waited for."""

    async def fill(self) -> None:
        await self.build()
        for number in range(PAIRS):
            name = f"set-{number:03d}"
            await self.add_pair(name, "MachineAPI" if number % 2 else "ClusterAPI")
            await self.autoscale(name, name, most=100)

    async def wait_bounds(self, number: int, most: int) -> None:
        api = machine_apis.MACHINE_API if number % 2 else machine_apis.CLUSTER_API
        while (await self.annotations(api, f"set-{number:03d}")).get(api.max_size) != str(most):
            await asyncio.sleep(0.001)

    async def change(self, number: int, most: int) -> float:
        """Milliseconds until other bounds are on the MachineSet."""
        name = f"set-{number:03d}"
        since = time.perf_counter()
        await self.autoscale(name, name, most=most)
        await self.wait_bounds(number, most)
        return 1000.0 * (time.perf_counter() - since)

    async def churn(self) -> None:
        """Every MachineSet of Cluster API gets another size once a second, as the autoscaler gives it."""
        sets, begun_s = machine_apis.CLUSTER_API.machine_sets(), time.perf_counter()
        while True:
            wait_s = begun_s + self.scaled * EVERY_S / PAIRS - time.perf_counter()
            self.late_s = max(self.late_s, -wait_s)
            await asyncio.sleep(max(wait_s, 0.0))
            round_, number = divmod(self.scaled, PAIRS)
            with contextlib.suppress(errors.Conflict):
                size = round_ % 90 + 2
                await self.autoscaler.scale(sets, f"set-{number:03d}", size, machine_apis.CLUSTER_API.namespace)
            self.scaled += 1


async def _run() -> dict[str, float]:
    fleet = Fleet()
    await fleet.fill()
    count = fleet.served.count_writes
    since = time.perf_counter()
    async with openshift_operator.run_operator(fleet.served, fleet.clock, f"--controllers={CONTROLLERS}") as process:
        for number in range(PAIRS):
            await fleet.wait_bounds(number, 100)
        first_s = time.perf_counter() - since
        await asyncio.sleep(2.0)
        first = count()
        churning = asyncio.ensure_future(fleet.churn())
        before = Cpu.read(process)
        await asyncio.sleep(2.0)
        took_ms = []
        for number in range(CHANGES):
            took_ms.append(await fleet.change(number, 101))
            await asyncio.sleep(0.2)
        after = Cpu.read(process)
        churning.cancel()
        await asyncio.gather(churning, return_exceptions=True)
        await asyncio.sleep(3.0)
        churn = count() - first
        await asyncio.sleep(QUIET_S)
        quiet = count() - first - churn
        peak_mb = openshift_operator.read_peak_mb(process)
    return {
        "seconds": statistics.median(took_ms) / 1000.0,
        "change_ms_median": round(statistics.median(took_ms), 1),
        "change_ms_worst": round(max(took_ms), 1),
        "first_pass_of_all_s": round(first_s, 1),
        "first_pass_writes": first,
        "scales_per_s": round(fleet.scaled / (after.at_s - before.at_s)),
        "late_s_worst": round(fleet.late_s, 2),
        **after.percent_since(before),
        "writes_under_churn": churn,
        "writes_in_quiet_time": quiet,
        "operator_peak_mb": peak_mb,
    }


def run() -> dict[str, float]:
    """The operator's figures, and those of the mirroring of pairs."""
    gc.set_threshold(20_000, *gc.get_threshold()[1:])  # of the server's process; the operator does the same
    return asyncio.run(_run()) | {f"sync_{name}": value for name, value in openshift_pairs.run().items()}
