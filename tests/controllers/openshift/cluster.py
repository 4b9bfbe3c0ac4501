"""An OpenShift cluster on the embedded server, in virtual time, with some of its controllers in it.

Machine API and Cluster API are there as kinds; nobody runs machines. `Cluster.settle` lets everything happen that the
last change brings about.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import prometheus_client
import yaml

from tests.controllers.machine_pool.world import Counting, definition
from tests.controllers.worker_pools.world import DEFINITIONS, without_rules
from windlass import clock
from windlass.apiserver import inprocess, server
from windlass.controllers import controller
from windlass.controllers.metrics import Metrics
from windlass.controllers.openshift import apis, gates, names
from windlass.controllers.openshift.names import MACHINE_AUTOSCALERS
from windlass.kube import client, conditions, errors, prepare, resources, transport

Json = dict[str, Any]
Make = Callable[[controller.Site], controller.Controller]

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
GATE = "ClusterAPIMachineManagementAWS"
NOW_S = 1_800_000_000.0
SETTLED_S = 3.0


def in_virtual_time(test: Callable[["Cluster"], Awaitable[None]]) -> Callable[[], None]:
    """A test that is given a cluster whose gate for Cluster API is on."""

    @functools.wraps(test)
    def run() -> None:
        time = clock.Virtual(NOW_S)

        async def play() -> None:
            scene = Cluster(time)
            await scene.build()
            await test(scene)

        time.run(play())

    del run.__wrapped__  # pytest would ask for the arguments
    return run


def cluster_scoped(group: str, kind: str) -> Json:
    body = definition(group, kind, "v1")
    body["spec"]["scope"] = "Cluster"
    return body


def network_policies_definition() -> Json:
    """The embedded server has none of its own."""
    body = definition("networking.k8s.io", "NetworkPolicy", "v1")
    body["metadata"]["name"] = "networkpolicies.networking.k8s.io"
    body["spec"]["names"]["plural"] = "networkpolicies"
    return body


def machine_sets_definition(api: apis.Api) -> Json:
    body = definition(api.group, "MachineSet", api.versions[0])
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    body["spec"]["versions"][0]["subresources"]["scale"] = scale
    return body


class Cluster:
    """Objects, and what becomes of them."""

    def __init__(self, time: clock.Clock, served: server.Server | None = None) -> None:
        self.clock = time
        self.server = served or server.Server(time)
        self.carrier = inprocess.InProcess(self.server, time)
        self.api = self.as_manager("client")
        self.written = Counting(self.carrier)

    def as_manager(self, manager: str) -> client.Client:
        return client.Client(self.carrier, self.clock, client.Settings(qps=0, writer=prepare.Writer(manager)))

    async def build(self) -> None:
        for path in sorted(CRDS.glob("autoscaling.openshift.io_*.yaml")):
            await self.api.create(DEFINITIONS, without_rules(yaml.safe_load(path.read_text())))
        for kind in ("FeatureGate", "Infrastructure", "ClusterOperator"):
            await self.api.create(DEFINITIONS, cluster_scoped("config.openshift.io", kind))
        for kind in ("ServiceMonitor", "PrometheusRule"):
            await self.api.create(DEFINITIONS, definition("monitoring.coreos.com", kind, "v1"))
        await self.api.create(DEFINITIONS, network_policies_definition())
        for api in apis.BOTH:
            await self.api.create(DEFINITIONS, machine_sets_definition(api))
            await self.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": api.namespace}})
        await self.api.create(gates.INFRASTRUCTURES, {"metadata": {"name": gates.SINGLETON}})
        platform = {"status": {"platformStatus": {"type": "AWS"}}}
        await self.api.merge_patch(gates.INFRASTRUCTURES, gates.SINGLETON, platform, subresource="status")
        await self.api.create(gates.FEATURE_GATES, {"metadata": {"name": gates.SINGLETON}})
        await self.turn(on=True)

    async def turn(self, *, on: bool, version: str = "4.20.0") -> None:
        """The gate of Cluster API."""
        enabled = [{"name": GATE}] if on else []
        status = {"status": {"featureGates": [{"version": version, "enabled": enabled, "disabled": []}]}}
        await self.api.merge_patch(gates.FEATURE_GATES, gates.SINGLETON, status, subresource="status")
        await self.settle()

    @contextlib.asynccontextmanager
    async def controlled(
        self, *makes: Make, between: Callable[[transport.Transport], transport.Transport] = lambda carrier: carrier
    ) -> AsyncIterator[None]:
        """With controllers running; `between` stands between them and the server."""
        self.registry = prometheus_client.CollectorRegistry()
        self.written = Counting(between(self.carrier))
        settings = client.Settings(qps=0, writer=prepare.Writer("windlass"))
        site = controller.Site(client.Client(self.written, self.clock, settings), Metrics(self.registry), workers=2)
        running = [asyncio.ensure_future(make(site).run()) for make in makes]
        try:
            await self.settle()
            yield
            for each in running:
                assert not each.done(), each.exception()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def settle(self, seconds: float = SETTLED_S) -> None:
        await self.clock.sleep(seconds)

    async def is_quiet(self, seconds: float = 1500.0) -> bool:
        """Whether nothing is written for a while, in which everything is looked at again twice."""
        await self.settle(60.0)
        self.written.writes.clear()
        before = self.server.version
        await self.settle(seconds)
        return self.written.writes == [] and self.server.version == before

    # MachineSets

    async def add_set(self, api: apis.Api, name: str, authority: str = "") -> None:
        """A MachineSet; of Machine API with what it says of authority."""
        spec: Json = {"replicas": 1, "template": {}}
        if authority:
            spec["authoritativeAPI"] = "MachineAPI" if authority == "Migrating" else authority
        await self.api.create(api.machine_sets(), {"metadata": {"name": name}, "spec": spec}, api.namespace)
        if authority:
            await self.say_authority(name, authority)
        await self.settle()

    async def add_pair(self, name: str, authority: str) -> None:
        await self.add_set(apis.MACHINE_API, name, authority)
        await self.add_set(apis.CLUSTER_API, name)

    async def say_authority(self, name: str, authority: str) -> None:
        resource = apis.MACHINE_API.machine_sets()
        status = {"status": {"authoritativeAPI": authority}}
        await self.api.merge_patch(resource, name, status, apis.MACHINE_API.namespace, subresource="status")
        await self.settle()

    async def annotate(self, api: apis.Api, name: str, annotations: dict[str, str | None]) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.api.merge_patch(api.machine_sets(), name, body, api.namespace)
        await self.settle()

    async def annotations(self, api: apis.Api, name: str) -> dict[str, str]:
        found = await self.api.get(api.machine_sets(), name, api.namespace)
        return dict(found["metadata"].get("annotations") or {})

    # MachineAutoscalers

    async def autoscale(
        self,
        name: str,
        target: str,
        api_version: str = "machine.openshift.io/v1beta1",
        *,
        least: int = 1,
        most: int = 12,
    ) -> None:
        """Make a MachineAutoscaler, or change it."""
        reference = {"apiVersion": api_version, "kind": "MachineSet", "name": target}
        spec = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference}
        try:
            await self.api.merge_patch(MACHINE_AUTOSCALERS, name, {"spec": spec}, names.MACHINE_API_NAMESPACE)
        except errors.NotFound:
            body = {"metadata": {"name": name}, "spec": spec}
            await self.api.create(MACHINE_AUTOSCALERS, body, names.MACHINE_API_NAMESPACE)
        await self.settle()

    async def stop_autoscaling(self, name: str) -> None:
        await self.api.delete(MACHINE_AUTOSCALERS, name, names.MACHINE_API_NAMESPACE)
        await self.settle()

    async def find_autoscaler(self, name: str) -> Json | None:
        try:
            return await self.api.get(MACHINE_AUTOSCALERS, name, names.MACHINE_API_NAMESPACE)
        except errors.NotFound:
            return None

    async def ready(self, name: str) -> tuple[str, str, str]:
        """(status, reason, message) of the condition."""
        found = await self.find_autoscaler(name) or {}
        (condition,) = (found.get("status") or {}).get("conditions") or [{}]
        assert condition["type"] == "Ready"
        return condition["status"], condition["reason"], condition["message"]

    async def condition(self, resource: resources.Resource[Json], name: str, kind: str) -> Json:
        found = await self.api.get(resource, name)
        return dict(conditions.find((found.get("status") or {}).get("conditions"), kind) or {})

    async def events(self, reason: str, namespace: str = names.MACHINE_API_NAMESPACE) -> list[Json]:
        found = (await self.api.list(resources.EVENTS.untyped(), prepare.Selection(namespace))).items
        return [event for event in found if event["reason"] == reason]
