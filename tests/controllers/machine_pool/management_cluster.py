"""A management cluster and its workload cluster, on embedded servers and in virtual time, with the controller in it.

`World.settle` lets everything happen that the last change brings about. Nodes live in the management cluster unless a
cluster of their own is asked for, as on the test bed.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import prometheus_client

from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.controllers import controller_runtime
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.controllers.machine_pool import controller, model
from windlass.kube import client, errors, request_builders, resources, rest_config, transport

Json = dict[str, Any]

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
NOW_S = 1_800_000_000.0
SETTLED_S = 3.0


def definition(group: str, kind: str, version: str, labels: dict[str, str] | None = None) -> Json:
    """A kind whose objects may say anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": anything, "status": STATUS}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": labels or {}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }


_CONDITIONS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string"}},
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
STATUS = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {"conditions": _CONDITIONS},
}


def kubeconfig(server_url: str) -> bytes:
    return f"""
apiVersion: v1
kind: Config
current-context: work
contexts: [{{name: work, context: {{cluster: work, user: work}}}}]
clusters: [{{name: work, cluster: {{server: "{server_url}"}}}}]
users: [{{name: work, user: {{token: secret}}}}]
""".encode()


def secret(name: str, value: bytes, namespace: str = "default") -> Json:
    labels = {"cluster.x-k8s.io/cluster-name": name.removesuffix("-kubeconfig")}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {"value": base64.b64encode(value).decode()},
    }


def node(name: str, *, ready: bool = True, provider_id: str = "", version: str = "v1.36.3", since: str = "") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"providerID": provider_id or f"test:///{name}"},
        "status": {
            "nodeInfo": {"kubeletVersion": version},
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": since or "2026-01-01T00:00:00Z"}
            ],
        },
    }


class Objects:
    """What can be asked of a management cluster, and told to it."""

    api: client.Client
    version: str

    async def apply(self, body: Json) -> Json:
        """Create an object, or merge what is given into the one that is there; the status apart."""
        resource = find_resource(body)
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
        namespace = namespace or ("default" if resource.namespaced else "")
        try:
            await self.api.get(resource, name, namespace)
            found = await self.api.merge_patch(resource, name, without_status(body), namespace)
        except errors.NotFound:
            found = await self.api.create(resource, without_status(body), namespace)
        if body.get("status") is not None:
            status = {"status": body["status"]}
            found = await self.api.merge_patch(resource, name, status, namespace, subresource="status")
        return found

    async def get(self, kind: str, name: str, namespace: str = "default") -> Json | None:
        resource = find_resource({"kind": kind, "apiVersion": self._api_version(kind)})
        try:
            return await self.api.get(resource, name, namespace if resource.namespaced else "")
        except errors.NotFound:
            return None

    async def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        resource = find_resource({"kind": kind, "apiVersion": self._api_version(kind)})
        await self.api.delete(resource, name, namespace if resource.namespaced else "")

    async def pool(self, name: str) -> Json:
        found = await self.get("MachinePool", name)
        assert found is not None, f"MachinePool {name} is gone"
        return found

    async def events(self, name: str) -> list[Json]:
        objects = await self.api.list(resources.EVENTS.untyped(), request_builders.ListOptions("default"))
        return [item for item in objects.items if item["involvedObject"].get("name") == name]

    def _api_version(self, kind: str) -> str:
        if kind in ("MachinePool", "Machine", "Cluster"):
            return f"cluster.x-k8s.io/{self.version}"
        return "v1" if kind in ("Node", "Secret") else f"{INFRASTRUCTURE}/v1beta1"


class World(Objects):
    """Objects, and what becomes of them."""

    def __init__(self, time: clock.VirtualClock, version: str = "v1beta2") -> None:
        self.clock = time
        self.version = version
        self.management = server.Server(time)
        self.clusters: dict[str, server.Server] = {"https://work.example:6443": self.management}
        self.carriers: dict[str, transport.Transport] = {}
        """Ways to servers that are none of these."""
        self.down: set[str] = set()
        self.written = Counting(embedded_server.InProcessTransport(self.management, time))
        """What the controller has written, to the management cluster and to workload clusters."""
        self.api = self.client_of(self.management)
        self.registry = prometheus_client.CollectorRegistry()

    def client_of(self, served: server.Server) -> client.Client:
        return client.Client(
            embedded_server.InProcessTransport(served, self.clock),
            self.clock,
            client.ClientSettings(qps=0, writer=request_builders.WriteOptions("client")),
        )

    def add_cluster(self, name: str) -> client.Client:
        """A workload cluster of its own, reached by `https://NAME.example:6443`."""
        self.clusters[f"https://{name}.example:6443"] = served = server.Server(self.clock)
        return self.client_of(served)

    @contextlib.asynccontextmanager
    async def dial(self, config: rest_config.RestConfig) -> AsyncIterator[transport.Transport]:
        carrier = self.carriers.get(config.server) or embedded_server.InProcessTransport(
            self.clusters[config.server], self.clock
        )
        yield Flaky(self, config.server, Counting(carrier, self.written.writes))

    @contextlib.asynccontextmanager
    async def controlled(
        self,
        settings: model.MachinePoolSettings | None = None,
        between: Callable[[transport.Transport], transport.Transport] = lambda carrier: carrier,
        lease: controller_runtime.LeaseSettings | None = None,
    ) -> AsyncIterator[None]:
        """With the controller running; `between` stands between it and the management cluster.

        With a lease, it is that of another: nobody stands for election here.
        """
        self.registry = prometheus_client.CollectorRegistry()
        self.written = Counting(embedded_server.InProcessTransport(self.management, self.clock))
        settings_ = client.ClientSettings(qps=0, writer=request_builders.WriteOptions("windlass"))
        measures = ControllerMetrics(self.registry)
        site = controller_runtime.new_controller_context(
            between(self.written), self.clock, settings_, measures, lease, workers=2
        )
        made = controller.new_controller(site, settings or model.MachinePoolSettings(), self.dial)
        running = asyncio.ensure_future(made.run())
        try:
            await self.settle()
            yield
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def errors(self) -> float:
        """Passes of the controller that failed so far."""
        labels = {"controller": "machine_pool", "result": "error"}
        return self.registry.get_sample_value("windlass_controller_reconcile_total", labels) or 0.0

    async def settle(self, seconds: float = SETTLED_S) -> None:
        await self.clock.sleep(seconds)


class Counting:
    """Notes what is written."""

    def __init__(self, carrier: transport.Transport, writes: list[str] | None = None) -> None:
        self._carrier = carrier
        self.writes = [] if writes is None else writes

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        return await self._carrier.send(request)


class Flaky:
    """A cluster that cannot be reached while the world says so."""

    def __init__(self, world: World, url: str, carrier: transport.Transport) -> None:
        self._world = world
        self._url = url
        self._carrier = carrier

    async def send(self, request: transport.Request) -> transport.Response:
        if self._url in self._world.down:
            raise errors.ConnectFailed(request.call, "connection refused")
        response = await self._carrier.send(request)
        return transport.Response(response.status, response.headers, _Cut(self._world, self._url, response.stream))


class _Cut:
    """A stream that breaks when its cluster goes down."""

    def __init__(self, world: World, url: str, stream: transport.Stream) -> None:
        self._world, self._url, self._stream = world, url, stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._stream)
        while True:
            following = asyncio.ensure_future(anext(chunks))
            while not following.done():
                await asyncio.wait((following,), timeout=1.0)
                if self._url in self._world.down:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
                    raise errors.ConnectionLost(self._url, "connection reset")
            try:
                yield following.result()
            except StopAsyncIteration:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def find_resource(body: Json) -> resources.Resource[Json]:
    kind, version = body["kind"], body["apiVersion"]
    namespaced = kind not in ("Node", "CustomResourceDefinition")
    return resources.Resource(version, f"{kind.lower()}s", kind, namespaced, Json)


def without_status(body: Json) -> Json:
    return {name: value for name, value in body.items() if name != "status"}


def cluster_api_definitions(version: str = "v1beta2") -> list[Json]:
    return [definition("cluster.x-k8s.io", kind, version) for kind in ("Cluster", "MachinePool", "Machine")]


def provider_definitions() -> list[Json]:
    kinds = {
        "NewBoot": "v1beta2",
        "NewPool": "v1beta2",
        "NewMachine": "v1beta2",
        "OldBoot": "v1beta1",
        "OldPool": "v1beta1",
    }
    return [
        definition(INFRASTRUCTURE, kind, "v1beta1", {f"cluster.x-k8s.io/{contract}": "v1beta1"})
        for kind, contract in kinds.items()
    ]


class Stage:
    """A world with a cluster `work`, and the objects that tests are about."""

    def __init__(self, scene: World) -> None:
        self.scene = scene

    async def set(self, *, without: tuple[str, ...] = ()) -> None:
        for item in (*cluster_api_definitions(self.scene.version), *provider_definitions()):
            if item["spec"]["names"]["kind"] not in without:
                await self.scene.apply(item)
        await self.add_cluster("work")

    async def add_cluster(self, name: str, value: bytes | None = None) -> None:
        await self.scene.apply(
            {
                "apiVersion": f"cluster.x-k8s.io/{self.scene.version}",
                "kind": "Cluster",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {},
            }
        )
        config = kubeconfig(f"https://{name}.example:6443") if value is None else value
        await self.scene.apply(secret(f"{name}-kubeconfig", config))

    async def add_infrastructure(self, name: str, ids: list[str], kind: str = "NewPool", **status: object) -> None:
        await self.scene.apply(
            {
                "apiVersion": f"{INFRASTRUCTURE}/v1beta1",
                "kind": kind,
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"providerIDList": ids},
                "status": {"ready": True, "replicas": len(ids), **status},
            }
        )

    async def add_pool(
        self, name: str, replicas: int, *, cluster: str = "work", kind: str = "NewPool", **machine: object
    ) -> None:
        reference = {"apiGroup": INFRASTRUCTURE, "kind": kind, "name": name}
        spec: Json = {
            "clusterName": cluster,
            "bootstrap": {"dataSecretName": "own"},
            "infrastructureRef": reference,
            "deletion": {"nodeDeletionTimeoutSeconds": 10},
            **machine,
        }
        if self.scene.version == "v1beta1":
            spec["infrastructureRef"] = {
                "apiVersion": f"{INFRASTRUCTURE}/v1beta1",
                "kind": kind,
                "name": name,
                "namespace": "default",
            }
            del spec["deletion"]
            spec["nodeDeletionTimeout"] = "10s"
        await self.scene.apply(
            {
                "apiVersion": f"cluster.x-k8s.io/{self.scene.version}",
                "kind": "MachinePool",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterName": cluster, "replicas": replicas, "template": {"spec": spec}},
            }
        )

    async def add_nodes(self, *names: str, ready: bool = True) -> None:
        for name in names:
            await self.scene.apply(node(name, ready=ready))


def conditions(pool: Json) -> dict[str, Json]:
    """All conditions of a pool, of either kind, by type."""
    status = pool.get("status") or {}
    new = (status.get("v1beta2") or {}).get("conditions") or ()
    old = (status.get("deprecated") or {}).get("v1beta1", {}).get("conditions") or ()
    return {item["type"]: item for item in (*(status.get("conditions") or ()), *new, *old)}
