"""A server of pods for `ingest`: half a million of them, each 4 kB of JSON, listed and then changed at a steady rate.

A process of its own: `python -m benchmarks.pod_server PODS NODES` prints its port. Pods are rendered as they are sent,
from 500 templates; nothing is kept. Each node has one pod of every DaemonSet (`daemon_pods`) among them. Changes come
in rounds of four: the oldest pod is deleted, a new one is added, bound to a node, and runs.

    GET /api/v1/pods?watch=true&sendInitialEvents=true    everything, then changes as they come
    GET /api/v1/nodes?watch=true&sendInitialEvents=true   everything
    GET /start?rate=R                                     changes begin, R a second; 0 is as fast as they are taken
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from benchmarks import daemon_pods
from benchmarks.pod_templates import CREATED, Template, pod_tree

TEMPLATES = 500
FIRST_VERSION = 1000
STATES = ("pending", "bound", "running")
STEPS = 4
"""Changes in a round."""

_BATCH = 64
_TICK_S = 0.01


def node_tree() -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": CREATED, "reason": "KubeletReady"}
    labels = {
        "kubernetes.io/hostname": "@NAME@",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": "zone-@ZONE@",
        "node.kubernetes.io/instance-type": "large",
    }
    metadata = {"name": "@NAME@", "uid": "node-@NAME@", "resourceVersion": "@VERSION@", "labels": labels}
    images = [{"names": [f"registry.example/image-{i}@sha256:{'0' * 64}"], "sizeBytes": 10**8} for i in range(20)]
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {**metadata, "creationTimestamp": CREATED},
        "spec": {"providerID": "cloud:///@NAME@"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready], "images": images},
    }


class Population:
    """All pods there are, and all there will be, by number."""

    def __init__(self, pods: int, nodes: int) -> None:
        self.pods, self.nodes = pods, nodes
        self._templates = {
            state: [Template(pod_tree(number, state)) for number in range(TEMPLATES)] for state in STATES
        }
        self._daemons = {
            state: [Template(daemon_pods.pod_tree(number, state)) for number in range(daemon_pods.COUNT)]
            for state in STATES
        }
        self._node = Template(node_tree())

    def pod(self, number: int, state: str, version: int) -> bytes:
        round_, node = divmod(number, self.nodes)
        # One place of a node after another, beginning elsewhere on each: changes meet pods of all kinds in turn.
        place = (round_ + node) % max(self.pods // self.nodes, 1)
        if place < daemon_pods.COUNT:
            template, name = self._daemons[state][place], b"daemon-%d-%07x" % (place, number)
        else:
            app = number % TEMPLATES
            template, name = self._templates[state][app], b"app-%d-%010x-%07x" % (app, app, number)
        return template.render(
            NAME=name,
            UID=b"00000000-0000-4000-8000-%012d" % number,
            VERSION=b"%d" % version,
            RANDOM=b"%05x" % (number % 2**20),
            NODE=b"node-%05d" % node,
        )

    def node(self, number: int) -> bytes:
        return self._node.render(NAME=b"node-%05d" % number, ZONE=b"%d" % (number % 3), VERSION=b"%d" % FIRST_VERSION)

    def change(self, count: int) -> bytes:
        """The line of one change, of which `count` came before."""
        turn, step = divmod(count, STEPS)
        number = turn if step == 0 else self.pods + turn
        kind = (b"DELETED", b"ADDED", b"MODIFIED", b"MODIFIED")[step]
        state = ("running", "pending", "bound", "running")[step]
        return _line(kind, self.pod(number, state, FIRST_VERSION + count + 1))


def _line(kind: bytes, found: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind, found)


def _end_of_list(kind: bytes) -> bytes:
    metadata = b'{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}' % FIRST_VERSION
    return _line(b"BOOKMARK", b'{"kind":"%s","apiVersion":"v1","metadata":%s}' % (kind, metadata))


class Server:
    """Answers the three requests that `ingest` makes."""

    def __init__(self, population: Population) -> None:
        self._population = population
        self._started = asyncio.Event()
        self._rate = 0.0
        self._started_at_s = 0.0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/api/v1/pods", self.watch_pods)
        app.router.add_get("/api/v1/nodes", self.watch_nodes)
        app.router.add_get("/start", self.start)
        return app

    async def start(self, request: web.Request) -> web.Response:
        self._rate = float(request.query["rate"])
        self._started_at_s = time.monotonic()
        self._started.set()
        return web.json_response({"started_at_s": self._started_at_s})

    async def watch_nodes(self, request: web.Request) -> web.StreamResponse:
        response = await _begin(request)
        population = self._population
        await _write_list(response, population.nodes, population.node)
        await response.write(_end_of_list(b"Node"))
        await asyncio.Event().wait()
        return response

    async def watch_pods(self, request: web.Request) -> web.StreamResponse:
        response = await _begin(request)
        population = self._population
        await _write_list(response, population.pods, lambda number: population.pod(number, "running", FIRST_VERSION))
        await response.write(_end_of_list(b"Pod"))
        await self._started.wait()
        with contextlib.suppress(ConnectionError):
            await self._write_changes(response)
        return response

    async def _write_changes(self, response: web.StreamResponse) -> None:
        sent = 0
        while True:
            due = sent + _BATCH
            if self._rate:
                due = int((time.monotonic() - self._started_at_s) * self._rate)
            while sent < due:
                last = min(sent + _BATCH, due)
                lines = (self._population.change(count) for count in range(sent, last))
                await response.write(b"".join(lines))
                sent = last
            if self._rate:
                await asyncio.sleep(_TICK_S)


async def _begin(request: web.Request) -> web.StreamResponse:
    assert request.query.get("sendInitialEvents") == "true", "this server lists by streaming only"
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


async def _write_list(response: web.StreamResponse, count: int, render: Callable[[int], bytes]) -> None:
    for start in range(0, count, _BATCH):
        lines = (_line(b"ADDED", render(number)) for number in range(start, min(start + _BATCH, count)))
        await response.write(b"".join(lines))


async def main(pods: int, nodes: int) -> None:
    runner = web.AppRunner(Server(Population(pods, nodes)).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
