"""A management cluster on the embedded server, in virtual time, with one of the two operators in it.

There is no webhook of Cluster API: nothing fills in replicas that are left out. `World.settle` lets everything happen
that the last change brings about; `World.catch_up` has MachineDeployments become what they ask for.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import prometheus_client
import yaml

from tests.controllers.machine_pool.management_cluster import Counting, definition
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.controller_runtime import ControllerMetrics
from windlass.kube import client, errors, request_builders, resources, transport, unstructured

Json = dict[str, Any]
Make = Callable[[controller_runtime.ControllerContext], controller_interface.Controller]

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
EKS = resources.Resource("anywhere.eks.amazonaws.com/v1alpha1", "clusters", "Cluster", True, Json)
LATTICE = resources.Resource("lattice.io/v1alpha1", "latticeclusters", "LatticeCluster", True, Json)
DEFINITIONS = resources.Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, Json
)
TEMPLATES = {
    "bootstrap": {"dataSecretName": "secret"},
    "infrastructureRef": {"apiGroup": "g", "apiVersion": "g/v1", "kind": "Template", "name": "t"},
}
NOW_S = 1_800_000_000.0
SETTLED_S = 3.0


def in_virtual_time(test: Callable[["World"], Awaitable[None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        time = clock.VirtualClock(NOW_S)

        async def play() -> None:
            await test(World(time))

        time.run(play())

    del run.__wrapped__  # pytest would ask for the arguments
    return run


def without_rules(schema: Any) -> Any:
    """A schema but for its CEL rules, which the embedded server does not evaluate."""
    if isinstance(schema, dict):
        return {name: without_rules(part) for name, part in schema.items() if name != "x-kubernetes-validations"}
    return [without_rules(part) for part in schema] if isinstance(schema, list) else schema


class World:
    """Objects, and what becomes of them."""

    def __init__(self, time: clock.VirtualClock, version: str = "v1beta2") -> None:
        self.clock = time
        self.server = server.Server(time)
        self.deployments = resources.MACHINE_DEPLOYMENTS.at(f"cluster.x-k8s.io/{version}").untyped()
        self.clusters = resources.CLUSTERS.at(f"cluster.x-k8s.io/{version}").untyped()
        self.api = self.client("client")
        self.autoscaler = self.client("cluster-autoscaler")
        self.written = Counting(embedded_server.InProcessTransport(self.server, time))
        self._version = version

    def client(self, manager: str) -> client.Client:
        carrier = embedded_server.InProcessTransport(self.server, self.clock)
        return client.Client(
            carrier, self.clock, client.ClientSettings(qps=0, writer=request_builders.WriteOptions(manager))
        )

    async def set(self, namespace: str, cluster: str) -> None:
        """Definitions, a namespace, and a Cluster of Cluster API whose control plane is up."""
        for path in (*CRDS.glob("anywhere.eks.*.yaml"), *CRDS.glob("lattice.io_*.yaml")):
            await self.api.create(DEFINITIONS, without_rules(yaml.safe_load(path.read_text())))
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        for kind in ("Cluster", "MachineDeployment"):
            body = definition("cluster.x-k8s.io", kind, self._version)
            if kind == "MachineDeployment":
                body["spec"]["versions"][0]["subresources"]["scale"] = scale
            await self.api.create(DEFINITIONS, body)
        kubeadm = definition("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", self._version)
        await self.api.create(DEFINITIONS, kubeadm)
        if namespace != "default":
            await self.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": namespace}})
        await self.api.create(self.clusters, {"metadata": {"name": cluster, "namespace": namespace}, "spec": {}})
        status = {"status": {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]}}
        await self.api.merge_patch(self.clusters, cluster, status, namespace, subresource="status")

    @contextlib.asynccontextmanager
    async def controlled(
        self, make: Make, between: Callable[[transport.Transport], transport.Transport] = lambda carrier: carrier
    ) -> AsyncIterator[None]:
        """With the controller running; `between` stands between it and the server."""
        self.registry = prometheus_client.CollectorRegistry()
        self.written = Counting(embedded_server.InProcessTransport(self.server, self.clock))
        settings = client.ClientSettings(qps=0, writer=request_builders.WriteOptions("windlass"))
        api = client.Client(between(self.written), self.clock, settings)
        made = make(controller_runtime.ControllerContext(api, ControllerMetrics(self.registry), workers=2))
        running = asyncio.ensure_future(made.run())
        try:
            await self.settle()
            yield
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def settle(self, seconds: float = SETTLED_S) -> None:
        await self.clock.sleep(seconds)

    async def put(self, resource: resources.Resource[Json], name: str, namespace: str, spec: Json) -> None:
        """Make an object, or give it another spec."""
        metadata: Json = {"name": name, "namespace": namespace}
        try:
            found = await self.api.get(resource, name, namespace)
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
            await self.api.update(resource, {"metadata": metadata, "spec": spec})
        except errors.NotFound:
            await self.api.create(resource, {"metadata": metadata, "spec": spec}, namespace)
        await self.settle()

    async def deployment(self, name: str, namespace: str) -> Json | None:
        try:
            return await self.api.get(self.deployments, name, namespace)
        except errors.NotFound:
            return None

    async def size(self, name: str, namespace: str) -> tuple[int | None, bool]:
        """Its replicas, and whether it carries bounds."""
        found = await self.deployment(name, namespace) or {}
        return (found.get("spec") or {}).get("replicas"), "annotations" in found.get("metadata", {})

    async def scale(self, name: str, namespace: str, replicas: int) -> None:
        """As an autoscaler does."""
        await self.autoscaler.scale(self.deployments, name, replicas, namespace)
        await self.settle()

    async def catch_up(self) -> None:
        for found in (await self.api.list(self.deployments)).items:
            count = found["spec"].get("replicas") or 0
            updated = "upToDateReplicas" if self._version == "v1beta2" else "updatedReplicas"
            status: Json = {"replicas": count, "readyReplicas": count, updated: count}
            status["observedGeneration"] = found["metadata"].get("generation", 0)
            metadata = found["metadata"]
            await self.api.merge_patch(
                self.deployments, metadata["name"], {"status": status}, metadata["namespace"], subresource="status"
            )
        await self.settle()


def owners(found: Json | None, *path: str) -> set[str]:
    assert found is not None
    return {owner.manager for owner in unstructured.find_field_owners(found, path)}
