"""500 MachinePools of 100 instances each, 50,000 Nodes, on embedded servers: what one change costs, and a quiet time.

The clock starts when a provider's object changes and stops when the pool says so: the watch, the decision and every
write are in it, and the servers' own work, too. Memory is that of all together.
"""

import asyncio
import contextlib
import resource
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import prometheus_client

from tests.controllers.machine_pool import management_cluster
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.controllers import controller_runtime
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.controllers.machine_pool import controller, model
from windlass.kube import client, request_builders, resources, rest_config, transport

POOLS, INSTANCES, CHANGES = 500, 100, 50
QUIET_S = 10.0

_INFRASTRUCTURE = management_cluster.find_resource(
    {"apiVersion": f"{management_cluster.INFRASTRUCTURE}/v1beta1", "kind": "NewPool"}
)
_POOLS = management_cluster.find_resource({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool"})


def _name(pool: int, instance: int) -> str:
    return f"pool-{pool:03d}-{instance:03d}"


def _ids(pool: int, first: int = 0) -> list[str]:
    return [f"test:///{_name(pool, number)}" for number in range(first, first + INSTANCES)]


class Fleet:
    """The objects, and the controller that looks after them."""

    def __init__(self) -> None:
        self.clock = clock.RealClock()
        self.management, self.workload = server.Server(self.clock), server.Server(self.clock)
        self.api, self.nodes = self._client(self.management), self._client(self.workload)
        self.written = management_cluster.Counting(embedded_server.InProcessTransport(self.management, self.clock))
        self.patched = management_cluster.Counting(embedded_server.InProcessTransport(self.workload, self.clock))

    def _client(self, served: server.Server) -> client.Client:
        return client.Client(
            embedded_server.InProcessTransport(served, self.clock), self.clock, client.ClientSettings(qps=0)
        )

    async def build(self) -> None:
        for body in (*management_cluster.cluster_api_definitions(), *management_cluster.provider_definitions()):
            await self.api.create(management_cluster.find_resource(body), body)
        cluster = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "work"},
            "spec": {},
        }
        await self.api.create(management_cluster.find_resource(cluster), cluster, "default")
        secret = management_cluster.secret(
            "work-kubeconfig", management_cluster.kubeconfig("https://work.example:6443")
        )
        await self.api.create(resources.SECRETS, secret, "default")
        for pool in range(POOLS):
            for instance in range(INSTANCES):
                await self.add_node(_name(pool, instance))
            await self._add_pool(pool)

    async def add_node(self, name: str) -> None:
        body = management_cluster.node(name)
        body["metadata"]["labels"] = {f"example.com/label-{number}": "value" for number in range(8)}
        await self.nodes.create(resources.NODES, management_cluster.without_status(body))
        await self.nodes.merge_patch(resources.NODES, name, {"status": body["status"]}, subresource="status")

    async def _add_pool(self, pool: int) -> None:
        name = f"pool-{pool:03d}"
        reference = {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "NewPool", "name": name}
        machine = {"clusterName": "work", "bootstrap": {"dataSecretName": "own"}, "infrastructureRef": reference}
        spec = {"clusterName": "work", "replicas": INSTANCES, "template": {"spec": machine}}
        await self.api.create(_INFRASTRUCTURE, _with_kind("NewPool", name, {}), "default")
        await self.tell(pool, _ids(pool))
        await self.api.create(_POOLS, _with_kind("MachinePool", name, spec), "default")

    async def tell(self, pool: int, ids: list[str]) -> None:
        """What the provider says."""
        name = f"pool-{pool:03d}"
        status = {"status": {"ready": True, "replicas": len(ids)}}
        await self.api.merge_patch(_INFRASTRUCTURE, name, status, "default", subresource="status")
        await self.api.merge_patch(_INFRASTRUCTURE, name, {"spec": {"providerIDList": ids}}, "default")

    async def status(self, pool: int) -> dict[str, Any]:
        found = await self.api.get(_POOLS, f"pool-{pool:03d}", "default")
        return dict(found.get("status") or {})

    @contextlib.asynccontextmanager
    async def dial(self, config: rest_config.RestConfig) -> AsyncIterator[transport.Transport]:
        yield self.patched

    @contextlib.asynccontextmanager
    async def controlled(self) -> AsyncIterator[None]:
        api = client.Client(
            self.written, self.clock, client.ClientSettings(qps=0, writer=request_builders.WriteOptions("windlass"))
        )
        self.registry = prometheus_client.CollectorRegistry()
        site = controller_runtime.ControllerContext(api, ControllerMetrics(self.registry), workers=10)
        running = asyncio.ensure_future(controller.new_controller(site, model.MachinePoolSettings(), self.dial).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def passes(self) -> tuple[float, float]:
        """(seconds, number) of all passes so far."""
        name, labels = "windlass_controller_reconcile_time_seconds", {"controller": "machine_pool"}
        found = (self.registry.get_sample_value(f"{name}_{word}", labels) or 0.0 for word in ("sum", "count"))
        return next(found), next(found)

    async def wait_running(self) -> None:
        for pool in range(POOLS):
            while (await self.status(pool)).get("phase") != "Running":
                await asyncio.sleep(0.05)


def _with_kind(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = "cluster.x-k8s.io/v1beta2" if kind == "MachinePool" else f"{management_cluster.INFRASTRUCTURE}/v1beta1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _change(fleet: Fleet, pool: int) -> float:
    """One instance leaves, another one joins whose Node is there already; milliseconds until the pool says so."""
    await fleet.add_node(_name(pool, INSTANCES))
    await asyncio.sleep(0.05)
    wanted = _name(pool, INSTANCES)
    since = time.perf_counter()
    await fleet.tell(pool, _ids(pool, 1))
    while [ref["name"] for ref in (await fleet.status(pool))["nodeRefs"]][-1] != wanted:
        await asyncio.sleep(0)
    return 1000.0 * (time.perf_counter() - since)


async def _run() -> dict[str, float]:
    fleet = Fleet()
    await fleet.build()
    async with fleet.controlled():
        since = time.perf_counter()
        await fleet.wait_running()
        settled_s = time.perf_counter() - since
        await asyncio.sleep(6.0)
        begun = fleet.passes()
        took_ms = [await _change(fleet, pool) for pool in range(CHANGES)]
        ended = fleet.passes()
        await asyncio.sleep(6.0)
        before = (len(fleet.written.writes), len(fleet.patched.writes))
        await asyncio.sleep(QUIET_S)
        quiet = len(fleet.written.writes) - before[0] + len(fleet.patched.writes) - before[1]
    return {
        "seconds": statistics.median(took_ms) / 1000.0,
        "pass_ms_mean": round(1000.0 * (ended[0] - begun[0]) / (ended[1] - begun[1]), 1),
        "change_ms_median": round(statistics.median(took_ms), 1),
        "change_ms_worst": round(max(took_ms), 1),
        "first_pass_of_all_s": round(settled_s, 1),
        "writes_in_quiet_time": quiet,
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def run() -> dict[str, float]:
    return asyncio.run(_run())
