"""Workloads that buffers follow: the newest of their pods, or else their own template, and how many they are."""

from dataclasses import dataclass
from typing import Any

from windlass.autoscaler.batch import completing
from windlass.engine.buffers import reconciling
from windlass.engine.buffers.buffer import Scalable
from windlass.kube import client, discovery, errors, prepare, resources

Json = dict[str, Any]

_UNSCALED = frozenset({("batch", "Job")})
"""Kinds of Kubernetes' own that have no scale: whoever asked for it would need a right to what there is not."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a buffer keeps room for more of."""

    template: Json
    replicas: int | None
    is_of_pod: bool = False
    """Is the template that of a pod, which has all that its pods have?"""


async def resolve(api: client.Client, namespace: str, wanted: Scalable) -> Workload | str:
    """The workload, or why it cannot be had."""
    resource = await _find_resource(api, wanted)
    live_fault = ""
    try:
        live = await _find_live(api, namespace, wanted, resource)
        if live is not None:
            return live
    except errors.KubeError as error:
        live_fault = f"failed to get scale object: {error}"
    if resource is None or (wanted.group, wanted.kind) not in reconciling.KINDS:
        return reconciling.say_unresolved(wanted, live_fault, "")
    try:
        spec = (await api.get(resource, wanted.name, namespace))["spec"]
    except errors.KubeError as error:
        return reconciling.say_unresolved(wanted, live_fault, f"failed to get {wanted.kind}: {error}")
    return Workload(spec["template"], spec.get("parallelism" if wanted.kind == "Job" else "replicas"))


async def _find_live(
    api: client.Client, namespace: str, wanted: Scalable, resource: resources.Resource[Json] | None
) -> Workload | None:
    """What the newest of its pods is like; None if it has none."""
    if resource is None:
        raise errors.InvalidAnswer("discovery", f'no matches for kind "{wanted.kind}" in group "{wanted.group}"')
    if (wanted.group, wanted.kind) in _UNSCALED:
        raise errors.InvalidAnswer("discovery", f"{resource.plural} have no scale")
    scale = (await api.get_scale(resource, wanted.name, namespace)).get("status") or {}
    newest = await _find_newest(api, namespace, scale.get("selector", ""))
    return None if newest is None else Workload(completing.of_pod(newest), scale.get("replicas", 0), is_of_pod=True)


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
