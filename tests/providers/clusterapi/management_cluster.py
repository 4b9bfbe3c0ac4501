"""A management cluster in process: the embedded API server with Cluster API's kinds, and a provider that follows it.

Nobody acts on the objects here: what Cluster API would do, a test does.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from windlass import clock
from windlass.apiserver import embedded_server, registry, server
from windlass.engine.model import facts, node_groups
from windlass.kube import client, request_builders, resources, transport
from windlass.kube.models import meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import auto_discovery, provider

Json = dict[str, Any]

GROUP = "cluster.x-k8s.io"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
MIN = f"{GROUP}/cluster-api-autoscaler-node-group-min-size"
MAX = f"{GROUP}/cluster-api-autoscaler-node-group-max-size"
MARK = f"{GROUP}/delete-machine"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
NOW_S = 1_700_000_000.0

_DEFINITIONS = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, resources.Unstructured
)
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALED = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}},
    "x-kubernetes-preserve-unknown-fields": True,
}
_KINDS = ("MachineDeployment", "MachineSet", "MachinePool", "Machine", "MachineDrainRule", "Cluster")


def define(group: str, kind: str, version: str) -> Json:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": _SCALED, "status": _SCALED}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"scale": scale},
                }
            ],
        },
    }


class Carrier:
    """Carries requests to the server, writes down each of them, and refuses those that a test wants refused."""

    def __init__(self, inner: transport.Transport) -> None:
        self.sent: list[transport.Request] = []
        self.refuse: Callable[[transport.Request], transport.Response | None] = lambda _: None
        self._inner = inner

    async def send(self, request: transport.Request) -> transport.Response:
        self.sent.append(request)
        return self.refuse(request) or await self._inner.send(request)

    @property
    def calls(self) -> list[str]:
        """What was sent, but for watches."""
        return [f"{request.method} {request.path}" for request in self.sent if ("watch", "true") not in request.query]

    def forbid(self, method: str, path: str, code: int = 403, reason: str = "Forbidden") -> None:
        """Answer requests of this method whose path holds this text with a refusal, from now on."""
        before = self.refuse
        self.refuse = lambda request: (
            refusal(code, reason) if request.method == method and path in request.path else before(request)
        )

    def allow(self) -> None:
        """Refuse nothing any more."""
        self.refuse = lambda _: None


def refusal(code: int, reason: str, message: str = "not today", kind: str | None = None) -> transport.Response:
    body = meta.Status(message=message, reason=reason, code=code, details=meta.StatusDetails(kind=kind))

    async def stream() -> AsyncIterator[bytes]:
        yield msgspec.json.encode(body)

    return transport.Response(code, {"content-type": "application/json"}, stream())  # type: ignore[arg-type]


class Bed:
    """The management cluster, a client for the test and a provider."""

    def __init__(self, virtual: clock.VirtualClock, version: str, config: auto_discovery.Config) -> None:
        self.clock = virtual
        self.version = version
        # Owners are named by hand here, and a collector would not find them.
        self.server = server.Server(
            virtual, registry.ServerSettings(disabled_controllers=frozenset({"garbage-collector"}))
        )
        self.carrier = Carrier(embedded_server.InProcessTransport(self.server, virtual))
        for kind in _KINDS:
            self.server.apply(define(GROUP, kind, version))
        for kind in ("FakeMachineTemplate", "FakeMachinePool", "OtherMachineTemplate"):
            self.server.apply(define(INFRASTRUCTURE, kind, "v1beta1"))
        for namespace in ("a", "b"):
            self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.told = 0
        settings = client.ClientSettings(qps=0)
        self.api = client.Client(
            embedded_server.InProcessTransport(self.server, virtual), virtual, settings, random.Random(1)
        )
        self._watching = client.Client(self.carrier, virtual, settings, random.Random(2))
        self._config = config
        self._running: asyncio.Task[None] | None = None

    def _on_event(self) -> None:
        self.told += 1

    async def start(self) -> None:
        """Follow, with a provider that knows nothing yet."""
        self.provider = provider.Provider(self._watching, self._config, self._on_event)
        self._running = asyncio.create_task(self.provider.run())
        await clock.run_with_timeout(self.clock, 120.0, self.provider.wait_synced())

    async def stop(self) -> None:
        assert self._running is not None, "stopped before it was started"
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def throttle(self, qps: float, burst: int) -> None:
        """Follow anew, with a client that sends no more than so many requests a second."""
        await self.stop()
        self._watching = client.Client(
            self.carrier, self.clock, client.ClientSettings(qps=qps, burst=burst), random.Random(3)
        )
        await self.start()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    # Objects

    def withdraw(self, kind: str) -> None:
        """The server serves the kind no more."""
        definition = f"{kind.lower()}s.{GROUP}"
        assert self.server.handle(request_builders.build_delete(_DEFINITIONS, definition)).status == 200

    def apply(self, kind: str, name: str, namespace: str = "default", **body: Any) -> Json:
        metadata = {"name": name, "namespace": namespace, **body.pop("metadata", {})}
        group = INFRASTRUCTURE if kind.startswith(("Fake", "Other")) else GROUP
        version = "v1beta1" if group == INFRASTRUCTURE else self.version
        return self.server.apply(
            {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, **body}, f"test-{kind}"
        )

    def group(
        self,
        name: str,
        replicas: int,
        bounds: tuple[Any, Any] | None = (0, 10),
        *,
        kind: str = "MachineDeployment",
        namespace: str = "default",
        annotations: Json | None = None,
        labels: Json | None = None,
        cluster: str = "work",
        refers_to: Any = "FakeMachineTemplate",
        **spec: Any,
    ) -> Json:
        """A scalable object; a MachineDeployment comes with its MachineSet."""
        limits = {} if bounds is None else {MIN: str(bounds[0]), MAX: str(bounds[1])}
        reference: Json = {"kind": refers_to, "name": name}
        if self.version == "v1beta2":
            reference["apiGroup"] = INFRASTRUCTURE
        else:
            reference["apiVersion"] = f"{INFRASTRUCTURE}/v1beta1"
        body = {
            "clusterName": cluster,
            "replicas": replicas,
            "template": {"spec": {"clusterName": cluster, "infrastructureRef": reference}},
            **spec,
        }
        metadata = {"annotations": {**limits, **(annotations or {})}, "labels": labels or {}}
        made = self.apply(kind, name, namespace, metadata=metadata, spec=body)
        if kind == "MachineDeployment":
            self.machine_set(f"{name}-1", name, replicas, namespace)
        return made

    def machine_set(
        self,
        name: str,
        deployment: str,
        replicas: int,
        namespace: str = "default",
        revision: str | None = "1",
        **more: Any,
    ) -> Json:
        """A MachineSet of a MachineDeployment, with or without a revision."""
        metadata = {
            "annotations": {} if revision is None else {"machinedeployment.clusters.x-k8s.io/revision": revision},
            "ownerReferences": [_own("MachineDeployment", deployment, self.version)],
        }
        return self.apply("MachineSet", name, namespace, metadata=metadata, spec={"replicas": replicas}, **more)

    def machine(
        self,
        name: str,
        owner: str,
        *,
        kind: str = "MachineSet",
        namespace: str = "default",
        node: bool = True,
        provider_id: bool = True,
        marked: bool = False,
        finalize: bool = False,
        labels: Json | None = None,
        cluster: str = "work",
        **status: Any,
    ) -> Json:
        """A Machine; with a node unless told otherwise. With a finalizer it stays while it is being deleted."""
        metadata: Json = {"finalizers": ["test/stay"]} if finalize else {}
        metadata |= {"ownerReferences": [_own(kind, owner, self.version)]}
        metadata["annotations"] = {MARK: "long ago"} if marked else {}
        metadata["labels"] = labels or {}
        told: Json = {"phase": "Running" if node else "Pending", **status}
        if node:
            told["nodeRef"] = {"name": name}
        spec = {"clusterName": cluster, **({"providerID": f"fake:///{name}"} if provider_id else {})}
        return self.apply("Machine", name, namespace, metadata=metadata, spec=spec, status=told)

    def members(self, group: str, count: int, **more: Any) -> list[facts.Node]:
        """So many Machines of a MachineDeployment, each with its node."""
        names = [f"{group}-{i}" for i in range(count)]
        for name in names:
            self.machine(name, f"{group}-1", **more)
        return [node(name) for name in names]

    async def replicas(self, id: str) -> int:
        kind, namespace, name = id.split("/")
        found = await self.api.get(self.resource(kind), name, namespace)
        return int(found["spec"]["replicas"])

    async def marked(self) -> set[str]:
        objects = await self.api.list(self.resource("Machine"))
        return {item["metadata"]["name"] for item in objects.items if MARK in item["metadata"].get("annotations", {})}

    def resource(self, kind: str) -> Resource[resources.Unstructured]:
        return Resource(f"{GROUP}/{self.version}", f"{kind.lower()}s", kind, True, resources.Unstructured)

    async def settle(self) -> None:
        """Let watches deliver what happened."""
        await self.clock.sleep(1.0)

    async def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        await self.api.delete(self.resource(kind), name, namespace)
        await self.settle()

    def recover_after(self, seconds: float) -> None:
        """Refuse nothing any more by then."""
        end_s = self.clock.monotonic_s() + seconds
        before = self.carrier.refuse
        self.carrier.refuse = lambda request: before(request) if self.clock.monotonic_s() < end_s else None

    async def begin_deleting(self, machine: str) -> None:
        """As Cluster API does; the Machine must have a finalizer."""
        await self.remove("Machine", machine)

    async def observe(self, nodes: list[facts.Node] | None = None) -> dict[str, node_groups.NodeGroup]:
        await self.settle()
        return {group.id: group for group in self.provider.observe(nodes or []).groups}


def node(name: str, provider_id: str | None = None, **more: Any) -> facts.Node:
    return facts.Node(name, provider_id=f"fake:///{name}" if provider_id is None else provider_id, **more)


def enough(cpu: str = "4", memory: str = "8Gi") -> Json:
    return {CAPACITY + "cpu": cpu, CAPACITY + "memory": memory}


def play(
    scenario: Callable[[Bed], Awaitable[None]],
    arrange: Callable[[Bed], object] = lambda _: None,
    *,
    version: str = "v1beta2",
    config: auto_discovery.Config | None = None,
) -> None:
    """Arrange objects, let the provider read them, then play a scenario in virtual time."""
    virtual = clock.VirtualClock(NOW_S)

    async def main() -> None:
        bed = Bed(virtual, version, config or auto_discovery.Config())
        arrange(bed)
        try:
            await bed.start()
            await scenario(bed)
        finally:
            await bed.stop()

    virtual.run(main())


def _own(kind: str, name: str, version: str) -> Json:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}
