"""The stage for batch: definitions as they are shipped, objects that users write, and what is said of these."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.autoscaler.in_process_cluster import Cluster, play
from windlass.apiserver.server import Server
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model.settings import Settings
from windlass.kube import resources

Json = dict[str, Any]
CRDS = Path(__file__).parents[3] / "deploy" / "crds"
KINDS = ("provisioningrequests", "capacitybuffers", "capacityquotas")
ACTIVE = "buffer.x-k8s.io/active-capacity"


class Served(Protocol):
    """Whatever has an API server."""

    server: Server


def played(settings: Settings) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[], None]]:
    """Makes a test of a scenario: it is played in virtual time, where all kinds of batch are served."""

    def make(scenario: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
        async def staged(cluster: Cluster) -> None:
            for kind in KINDS:
                install(cluster, kind)
            await scenario(cluster)

        return lambda: play(staged, settings)

    return make


def install(cluster: Served, kind: str) -> None:
    """The definition as it is shipped, but for what is left to a real server: CEL rules, and a second version."""
    definition = yaml.safe_load((CRDS / f"autoscaling.x-k8s.io_{kind}.yaml").read_text())
    definition["spec"]["versions"] = [_without_rules(definition["spec"]["versions"][0])]
    cluster.server.apply(definition, "test")


def _without_rules(schema: Any) -> Any:
    match schema:
        case dict():
            return {key: _without_rules(item) for key, item in schema.items() if key != "x-kubernetes-validations"}
        case list():
            return [_without_rules(entry) for entry in schema]
    return schema


@contextlib.asynccontextmanager
async def serving(cluster: Cluster, nodes: int = 1) -> AsyncIterator[Autoscaler]:
    """An autoscaler with a group of so many nodes of 4 cores, and a template of pods of one core."""
    cluster.add_group("a", nodes)
    cluster.register_nodes()
    add_template(cluster)
    async with cluster.autoscaling() as running:
        yield running


def add_template(cluster: Served, name: str = "t", cpu: str = "1", **spec: Any) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default"}
    template = {"spec": {"containers": [container], **spec}}
    cluster.server.apply({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template})


# What users write


def ask(
    cluster: Served,
    name: str,
    count: int = 1,
    kind: str = provisioning_request_queue.CHECK_CAPACITY_CLASS,
    template: str = "t",
) -> None:
    pods = {"count": count, "podTemplateRef": {"name": template}}
    _add(cluster, "v1", "ProvisioningRequest", name, {"provisioningClassName": kind, "podSets": [pods]})


def add_buffer(cluster: Served, name: str, **spec: Any) -> None:
    _add(cluster, "v1beta1", "CapacityBuffer", name, {"provisioningStrategy": ACTIVE, **spec})


def add_quota(cluster: Served, name: str, limits: dict[str, str], **spec: Any) -> None:
    _add(cluster, "v1beta1", "CapacityQuota", name, {"limits": {"resources": limits}, **spec}, namespace=None)


def _add(cluster: Served, version: str, kind: str, name: str, spec: Json, namespace: str | None = "default") -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    body = {"apiVersion": f"autoscaling.x-k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}
    cluster.server.apply(body, "test")


# What is said of it


async def status(cluster: Cluster, resource: resources.Resource[Any], name: str) -> Json:
    namespace = "default" if resource.namespaced else ""
    found: Json = (await cluster.api.get(resource.untyped(), name, namespace)).get("status", {})
    return found


async def said(cluster: Cluster, name: str) -> dict[str, str]:
    """Of a request: the reason of each condition."""
    return reasons(await status(cluster, resources.PROVISIONING_REQUESTS, name))


async def until_said(cluster: Cluster, name: str, expected: dict[str, str], within_s: float = 60.0) -> None:
    since_s = cluster.clock.monotonic_s()
    while (found := await said(cluster, name)) != expected:
        assert cluster.clock.monotonic_s() < since_s + within_s, found
        cluster.register_nodes()
        await cluster.clock.sleep(0.2)


def reasons(status: Json) -> dict[str, str]:
    return {item["type"]: item["reason"] for item in status.get("conditions", ())}


def message(status: Json, about: str) -> str:
    """Of a condition; empty if there is no such."""
    return "".join(item["message"] for item in status.get("conditions", ()) if item["type"] == about)
