"""A server of pods for `ingest`: half a million of them, each 4 kB of JSON, listed and then changed at a steady rate.

A process of its own: `python -m benchmarks.pod_server PODS NODES` prints its port. Pods are rendered as they are sent,
from 500 templates; nothing is kept. Changes come in rounds of four: the oldest pod is deleted, a new one is added,
bound to a node, and runs.

    GET /api/v1/pods?watch=true&sendInitialEvents=true    everything, then changes as they come
    GET /api/v1/nodes?watch=true&sendInitialEvents=true   everything
    GET /start?rate=R                                     changes begin, R a second; 0 is as fast as they are taken
"""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

TEMPLATES = 500
FIRST_VERSION = 1000
STEPS = 4
"""Changes in a round."""

_BATCH = 64
_TICK_S = 0.01
_TOKEN = re.compile(rb"@([A-Z]+)@")
_CREATED = "2026-11-15T08:00:00Z"


class Template:
    """JSON with places in it that differ from object to object."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._parts = _TOKEN.split(msgspec.json.encode(tree))
        self._names = [name.decode() for name in self._parts[1::2]]

    def render(self, **values: bytes) -> bytes:
        parts = self._parts.copy()
        parts[1::2] = [values[name] for name in self._names]
        return b"".join(parts)


def pod_tree(number: int, state: str) -> dict[str, Any]:
    """A pod as the API server sends them, written by a Deployment, the scheduler and a kubelet."""
    app = f"app-{number}"
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/part-of": f"suite-{number % 40}",
        "pod-template-hash": f"{number:010x}",
        "pod-name": "@NAME@",
    }
    token = {"name": "kube-api-access-@RANDOM@", "readOnly": True}
    spec = {
        "volumes": [
            {"name": token["name"], "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ], "defaultMode": 420}},
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
        ],
        "containers": [_container("main", number, token), _container("proxy", number, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        **({} if state == "pending" else {"nodeName": "@NODE@"}),
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
        "priority": number % 3,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "generateName": f"{app}-{number:010x}-",
            "namespace": f"team-{number % 20}",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": _CREATED,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{number:010x}",
                "uid": f"00000000-0000-4000-9000-{number:012d}", "controller": True, "blockOwnerDeletion": True,
            }],
            "managedFields": _managed_fields(labels),
        },
        "spec": spec,
        "status": _status(state),
    }  # fmt: skip


def _container(name: str, number: int, token: dict[str, Any]) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    return {
        "name": name,
        "image": f"registry.example/{name}/app-{number}:1.27.{number % 9}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}-of-app-{number}"} for i in range(6)],
        "resources": {
            "limits": {"memory": "256Mi"},
            "requests": {"cpu": f"{10 + number}m", "memory": f"{64 + number % 64}Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {**token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _managed_fields(labels: dict[str, str]) -> list[dict[str, Any]]:
    fields = {
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, **{f"f:{key}": {} for key in labels}}},
        "f:spec": {"f:containers": {'k:{"name":"main"}': {
            ".": {}, "f:env": {f'k:{{"name":"SETTING_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(6)},
            "f:image": {}, "f:name": {}, "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}},
        }}},
    }  # fmt: skip
    return [
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": _CREATED,
         "fieldsType": "FieldsV1", "fieldsV1": fields},
    ]  # fmt: skip


def _status(state: str) -> dict[str, Any]:
    if state == "pending":
        return {"phase": "Pending", "qosClass": "Burstable"}
    conditions = [
        {"type": what, "status": "True" if state == "running" else "False", "lastProbeTime": None,
         "lastTransitionTime": _CREATED}
        for what in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]  # fmt: skip
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": _CREATED})
    if state == "bound":
        return {"phase": "Pending", "conditions": conditions, "qosClass": "Burstable"}
    started = [
        {"name": name, "state": {"running": {"startedAt": _CREATED}}, "lastState": {}, "ready": True, "restartCount": 0,
         "image": f"registry.example/{name}", "imageID": "sha256:" + "0" * 64, "containerID": "cri://@UID@"}
        for name in ("main", "proxy")
    ]  # fmt: skip
    return {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.2.3",
            "startTime": _CREATED, "containerStatuses": started, "qosClass": "Burstable"}  # fmt: skip


def node_tree() -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _CREATED, "reason": "KubeletReady"}
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
        "metadata": {**metadata, "creationTimestamp": _CREATED},
        "spec": {"providerID": "cloud:///@NAME@"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready], "images": images},
    }


class Population:
    """All pods there are, and all there will be, by number."""

    def __init__(self, pods: int, nodes: int) -> None:
        self.pods, self.nodes = pods, nodes
        self._templates = {
            state: [Template(pod_tree(number, state)) for number in range(TEMPLATES)]
            for state in ("pending", "bound", "running")
        }
        self._node = Template(node_tree())

    def pod(self, number: int, state: str, version: int) -> bytes:
        template = number % TEMPLATES
        name = b"app-%d-%010x-%07x" % (template, template, number)
        return self._templates[state][template].render(
            NAME=name,
            UID=b"00000000-0000-4000-8000-%012d" % number,
            VERSION=b"%d" % version,
            RANDOM=b"%05x" % (number % 2**20),
            NODE=b"node-%05d" % (number % self.nodes),
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
