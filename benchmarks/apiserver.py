"""100,000 pods created, bound and deleted through the embedded API server, in process, with three watchers."""

import asyncio
import contextlib
import time

import msgspec

from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import transport

PODS = 100_000
WATCHERS = 3
POD_EVENTS = 4
"""A pod is added, bound, marked for deletion and deleted."""

_PODS = "/api/v1/namespaces/default/pods"
_JSON = {"content-type": "application/json", "user-agent": "benchmark", "accept": "application/json"}


def _pod(number: int) -> bytes:
    app = f"app-{number % 500}"
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{app}-{number}", "labels": {"app": app, "pod": str(number)}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": f"registry.example/{app}:1",
                        "env": [{"name": "NUMBER", "value": "1"}],
                        "ports": [{"containerPort": 8080}],
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    }
                ]
            },
        }
    )


def _bind(name: str, node: str) -> transport.Request:
    body = msgspec.json.encode({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
    return transport.Request("POST", f"{_PODS}/{name}/binding", (), _JSON, body)


async def _watch(carrier: transport.Transport, seen: list[int]) -> None:
    query = (("watch", "true"), ("resourceVersion", "0"), ("timeoutSeconds", "36000"))
    answer = await carrier.send(transport.Request("GET", "/api/v1/pods", query, _JSON))
    async for chunk in answer.stream:
        seen[0] += chunk.count(b"\n")


async def _do(carrier: transport.Transport, requests: list[transport.Request]) -> None:
    for request in requests:
        answer = await carrier.send(request)
        if answer.status >= 300:
            raise SystemExit(f"apiserver: {request.call} was answered {answer.status}")


async def _run() -> dict[str, float]:
    real = clock.RealClock()
    served = server.Server(real)
    carrier = embedded_server.InProcessTransport(served, real)
    seen = [[0] for _ in range(WATCHERS)]
    watchers = [asyncio.create_task(_watch(carrier, count)) for count in seen]
    await asyncio.sleep(0)
    names = [f"app-{i % 500}-{i}" for i in range(PODS)]
    work = {
        "creates": [transport.Request("POST", _PODS, (), _JSON, _pod(i)) for i in range(PODS)],
        "binds": [_bind(name, f"node-{i % 1000}") for i, name in enumerate(names)],
        "deletes": [
            transport.Request("DELETE", f"{_PODS}/{name}", (("gracePeriodSeconds", "0"),), _JSON) for name in names
        ],
    }
    rates: dict[str, float] = {}
    started = time.perf_counter()
    for kind, requests in work.items():
        before = time.perf_counter()
        await _do(carrier, requests)
        rates[f"{kind}_per_second"] = round(PODS / (time.perf_counter() - before))
    while any(count[0] < POD_EVENTS * PODS for count in seen):
        await asyncio.sleep(0)
    seconds = time.perf_counter() - started
    for watcher in watchers:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
    events = sum(count[0] for count in seen)
    return {"operations_per_second": round(3 * PODS / seconds), **rates, "events_per_second": round(events / seconds)}


def run() -> dict[str, float]:
    return asyncio.run(_run())
