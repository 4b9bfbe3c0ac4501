"""450,000 pods of more than 4 kB and 15,000 nodes, listed over HTTP and kept current by watch: memory, rate and lag.

The server (`pod_server`) is a process of its own. This one is the client: an informer for nodes and one for pods, whose
sinks keep a snapshot. First everything is listed; then a million changes come at a steady rate, and every 50 ms the
version that the snapshot is at is compared with the one that the server is at.

`PODS`, `NODES`, `EVENTS` and `RATE` in the environment make it smaller: `PODS=20000 NODES=1000 EVENTS=40000`.
Eight pods of every node are of DaemonSets, as their controller writes them: see `daemon_pods`.
"""

import asyncio
import json
import os
import resource
import sys
import time

import msgspec

from benchmarks import pod_server
from windlass import clock
from windlass.autoscaler import informer_sinks
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import client, http_transport, informers, reflector, resources
from windlass.kube.models import pods
from windlass.kube.transport import Request

PODS = int(os.environ.get("PODS", "450000"))
NODES = int(os.environ.get("NODES", "15000"))
EVENTS = int(os.environ.get("EVENTS", "1000000"))
RATE = float(os.environ.get("RATE", "5500"))
"""Changes a second that the server makes; more than the bar, so that a second's hiccup does not decide."""

_SAMPLE_S = 0.05


async def measure(port: int) -> dict[str, float]:
    connections = http_transport.HttpTransport(f"http://127.0.0.1:{port}")
    api = client.Client(connections, clock.RealClock())
    kept, behind = cluster_snapshot.Snapshot(), informer_sinks.ChangeBuffer()
    # The server lists only once: whoever fell silent for long would not find out by asking again.
    patient = reflector.ReflectorSettings(silence_s=3600.0)
    nodes = informers.Informer(api, resources.NODES, informer_sinks.node_sink(kept, behind), settings=patient)
    pods = informers.Informer(api, resources.PODS, informer_sinks.pod_sink(kept, behind), settings=patient)
    results: dict[str, float] = {}
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(nodes.run())]
        await nodes.wait_synced()
        running.append(group.create_task(pods.run()))
        await pods.wait_synced()
        results["list_seconds"] = time.monotonic() - started_s
        assert len(kept.pods) == PODS
        assert int(kept.nodes.alive.sum()) == NODES
        results["list_cpu_seconds"] = time.process_time() - started_cpu_s
        results["rss_listed_mb"] = _resident_mb()
        results.update(await _follow(api, pods))
        for task in running:
            task.cancel()
    await connections.aclose()
    assert len(kept.pods) == PODS, "the last round was not whole, or something was lost or doubled"
    assert (pods.counts.lists, pods.counts.failures, pods.counts.malformed) == (1, 0, 0)
    results["rss_mb"] = _peak_mb()
    results["kinds"] = len(kept.pods.template_keys)
    results["shapes"] = len(kept.shapes)
    return results


async def _follow(api: client.Client, pods: informers.Informer[pods.Pod]) -> dict[str, float]:
    body = await api.call(Request("GET", "/start", (("rate", str(RATE)),)))
    started_s: float = msgspec.json.decode(body)["started_at_s"]
    lags_s: list[float] = []
    resident_mb: list[float] = []
    cpu_s = time.process_time()
    while True:
        await asyncio.sleep(_SAMPLE_S)
        applied = int(pods.resource_version) - pod_server.FIRST_VERSION
        lags_s.append(time.monotonic() - started_s - applied / RATE)
        if applied >= EVENTS * (len(resident_mb) + 1) // 4:
            resident_mb.append(_resident_mb())
        if applied >= EVENTS and applied % pod_server.STEPS in (0, 2, 3):
            break
    seconds = time.monotonic() - started_s
    lags_s.sort()
    return {
        "events_per_second": applied / seconds,
        "lag_max_s": lags_s[-1],
        "lag_p99_s": lags_s[int(0.99 * len(lags_s))],
        "cpu_percent": 100.0 * (time.process_time() - cpu_s) / seconds,
        # Once, tables that were full of living and dead rows are made anew, larger; after that nothing grows.
        "growth_mb": _resident_mb() - resident_mb[0],
        "growth_second_half_mb": _resident_mb() - resident_mb[1],
    }


async def _run() -> dict[str, float]:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.pod_server", str(PODS), str(NODES), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        return await measure(int(await server.stdout.readline()))
    finally:
        server.kill()
        await server.wait()


def run() -> dict[str, float]:
    return asyncio.run(_run())


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    print(json.dumps(run()))
