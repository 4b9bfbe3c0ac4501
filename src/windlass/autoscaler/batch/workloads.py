"""Workloads that buffers follow: the newest of their pods, or else their own template, and how many they are."""

from dataclasses import dataclass
from typing import Any

from windlass.autoscaler.batch import completing
from windlass.engine.buffers import reconciling
from windlass.engine.buffers.buffer import Scalable
from windlass.kube import client, discovery, errors, prepare, resources

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """What a buffer keeps room for more of."""

    template: Json
    replicas: int | None
    is_of_pod: bool = False
    """Is the template that of a pod, which has all that its pods have?"""


async def resolve(api: client.Client, namespace: str, wanted: Scalable) -> Workload | str:
    """The workload, or why it cannot be had."""
    live_fault = ""
    resource = await _find_resource(api, wanted)
    try:
        if resource is None:
            raise errors.InvalidAnswer("discovery", f'no matches for kind "{wanted.kind}" in group "{wanted.group}"')
        scale = (await api.get_scale(resource, wanted.name, namespace)).get("status") or {}
        newest = await _find_newest(api, namespace, scale.get("selector", ""))
        if newest is not None:
            return Workload(completing.of_pod(newest), scale.get("replicas", 0), is_of_pod=True)
    except errors.KubeError as error:
        live_fault = f"failed to get scale object: {error}"
    if resource is None or (wanted.group, wanted.kind) not in reconciling.KINDS:
        return reconciling.say_unresolved(wanted, live_fault, "")
    try:
        spec = (await api.get(resource, wanted.name, namespace))["spec"]
    except errors.KubeError as error:
        return reconciling.say_unresolved(wanted, live_fault, f"failed to get {wanted.kind}: {error}")
    return Workload(spec["template"], spec.get("parallelism" if wanted.kind == "Job" else "replicas"))


async def _find_resource(api: client.Client, wanted: Scalable) -> resources.Resource[Json] | None:
    if wanted.group in ("", "core"):
        return await discovery.find(api, "v1", wanted.kind)
    for version in await discovery.list_versions(api, wanted.group):
        found = await discovery.find(api, version, wanted.kind)
        if found is not None:
            return found
    return None


async def _find_newest(api: client.Client, namespace: str, selector: str) -> Json | None:
    if not selector:
        return None
    found = await api.list(resources.PODS.untyped(), prepare.Selection(namespace=namespace, labels=selector))
    return max(found.items, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)
