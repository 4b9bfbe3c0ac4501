"""An OpenShift cluster on the embedded server, in virtual time, with some of its controllers in it.

Machine API and Cluster API are there as kinds; nobody runs machines. `Cluster.settle` lets everything happen that the
last change brings about.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from tests.controllers.machine_pool.management_cluster import definition
from tests.controllers.openshift import controller_harness
from tests.controllers.openshift.controller_harness import Between, Make, machine_sets_definition, nothing
from tests.controllers.worker_pool_cluster import DEFINITIONS, without_rules
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MACHINE_AUTOSCALERS
from windlass.kube import errors, request_builders, resources, unstructured

Json = dict[str, Any]

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
GATE = "ClusterAPIMachineManagementAWS"


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


def without_least(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_least(part) for name, part in schema.items() if name != "minimum"}
    return [without_least(part) for part in schema] if isinstance(schema, list) else schema


class Cluster(controller_harness.Scene):
    """A cluster whose gate for Cluster API is on."""

    async def build(self) -> None:
        for path in sorted(CRDS.glob("autoscaling.openshift.io_*.yaml")):
            await self.api.create(DEFINITIONS, without_rules(yaml.safe_load(path.read_text())))
        for kind in ("FeatureGate", "Infrastructure", "ClusterOperator", "ClusterVersion"):
            await self.api.create(DEFINITIONS, cluster_scoped("config.openshift.io", kind))
        for kind in ("ServiceMonitor", "PrometheusRule"):
            await self.api.create(DEFINITIONS, definition("monitoring.coreos.com", kind, "v1"))
        await self.api.create(DEFINITIONS, network_policies_definition())
        for api in machine_apis.MACHINE_APIS:
            await self.api.create(DEFINITIONS, machine_sets_definition(api))
            await self.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": api.namespace}})
        await self.api.create(machine_apis.INFRASTRUCTURES, {"metadata": {"name": machine_apis.CLUSTER_SINGLETON}})
        platform = {"status": {"platformStatus": {"type": "AWS"}}}
        await self.api.merge_patch(
            machine_apis.INFRASTRUCTURES, machine_apis.CLUSTER_SINGLETON, platform, subresource="status"
        )
        await self.api.create(machine_apis.FEATURE_GATES, {"metadata": {"name": machine_apis.CLUSTER_SINGLETON}})
        await self.turn(on=True)

    async def turn(self, *, on: bool, version: str = "4.20.0") -> None:
        """The gate of Cluster API."""
        enabled = [{"name": GATE}] if on else []
        status = {"status": {"featureGates": [{"version": version, "enabled": enabled, "disabled": []}]}}
        await self.api.merge_patch(
            machine_apis.FEATURE_GATES, machine_apis.CLUSTER_SINGLETON, status, subresource="status"
        )
        await self.settle()

    async def loosen(self, definition: str) -> None:
        """A definition that refuses no number: the controller has to."""
        found = await self.api.get(DEFINITIONS, definition)
        await self.api.update(DEFINITIONS, without_least(found))
        await self.settle()

    @contextlib.asynccontextmanager
    async def controlled(self, *makes: Make, between: Between = nothing) -> AsyncIterator[None]:
        """With controllers running; `between` stands between them and the server."""
        async with self.running(*makes, between=between):
            yield

    async def is_quiet(self, seconds: float = 1500.0) -> bool:
        """Whether nothing is written for a while, in which everything is looked at again twice."""
        await self.settle(60.0)
        return await super().is_quiet(seconds)

    # MachineSets

    async def add_set(self, api: machine_apis.MachineApi, name: str, authority: str = "") -> None:
        """A MachineSet; of Machine API with what it says of authority."""
        spec: Json = {"replicas": 1, "template": {}}
        if authority:
            spec["authoritativeAPI"] = "MachineAPI" if authority == "Migrating" else authority
        await self.api.create(api.machine_sets(), {"metadata": {"name": name}, "spec": spec}, api.namespace)
        if authority:
            await self.say_authority(name, authority)
        await self.settle()

    async def add_pair(self, name: str, authority: str) -> None:
        await self.add_set(machine_apis.MACHINE_API, name, authority)
        await self.add_set(machine_apis.CLUSTER_API, name)

    async def say_authority(self, name: str, authority: str) -> None:
        resource = machine_apis.MACHINE_API.machine_sets()
        status = {"status": {"authoritativeAPI": authority}}
        await self.api.merge_patch(resource, name, status, machine_apis.MACHINE_API.namespace, subresource="status")
        await self.settle()

    async def annotate(self, api: machine_apis.MachineApi, name: str, annotations: dict[str, str | None]) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.api.merge_patch(api.machine_sets(), name, body, api.namespace)
        await self.settle()

    async def annotations(self, api: machine_apis.MachineApi, name: str) -> dict[str, str]:
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
        kind: str = "MachineSet",
    ) -> None:
        """Make a MachineAutoscaler, or change it."""
        reference = {"apiVersion": api_version, "kind": kind, "name": target}
        spec = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference}
        try:
            await self.api.merge_patch(MACHINE_AUTOSCALERS, name, {"spec": spec}, machine_apis.MACHINE_API_NAMESPACE)
        except errors.NotFound:
            body = {"metadata": {"name": name}, "spec": spec}
            await self.api.create(MACHINE_AUTOSCALERS, body, machine_apis.MACHINE_API_NAMESPACE)
        await self.settle()

    async def stop_autoscaling(self, name: str) -> None:
        await self.api.delete(MACHINE_AUTOSCALERS, name, machine_apis.MACHINE_API_NAMESPACE)
        await self.settle()

    async def find_autoscaler(self, name: str) -> Json | None:
        try:
            return await self.api.get(MACHINE_AUTOSCALERS, name, machine_apis.MACHINE_API_NAMESPACE)
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
        return dict(unstructured.find_condition((found.get("status") or {}).get("conditions"), kind) or {})

    async def events(self, reason: str, namespace: str = machine_apis.MACHINE_API_NAMESPACE) -> list[Json]:
        found = (await self.api.list(resources.EVENTS.untyped(), request_builders.ListOptions(namespace))).items
        return [event for event in found if event["reason"] == reason]


in_virtual_time = controller_harness.of(Cluster)
"""A test that is given a cluster."""
