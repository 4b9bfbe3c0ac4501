"""Pod templates of CapacityBuffers: resolved from scalable workloads and completed with defaults.

A dry-run create lets the API server add defaults, priorities and what webhooks add; the answer is cached, as webhooks
change. Without it, requests default from limits. A workload's newest pod goes before its own template.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.capacity_apis.capacity_buffer import SamplePod, ScalableRef
from windlass.kube import client, discovery, errors, request_builders, resource_requests, resources
from windlass.kube.models import pods
from windlass.quantity import Quantity

Json = dict[str, Any]


def default_pod_spec(spec: Mapping[str, Any]) -> Json:
    """The spec with requests that follow from limits, as the API server would fill them in for a pod."""
    completed = copy.deepcopy(dict(spec))
    containers = (*completed.get("containers", ()), *completed.get("initContainers", ()))
    for container in containers:
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    _default_pod_level_requests(completed, {name for one in containers for name in one["resources"]["requests"]})
    return completed


def _default_pod_level_requests(spec: Json, requested: Collection[str]) -> None:
    """Set requests of the pod as a whole that follow from its limits, but for what its containers request."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    implied = {name: limits[name] for name in limits if resource_requests.is_pod_level(name) and name not in requested}
    if implied:
        spec["resources"] = {**resources, "requests": {**implied, **(resources.get("requests") or {})}}


def read_sample(spec: Mapping[str, Any]) -> SamplePod:
    """InvalidField if its amounts cannot be read."""
    amounts = resource_requests.pending_requests(pods.decode_spec(msgspec.json.encode(spec)))
    return SamplePod(
        {name: Quantity(nano) for name, nano in amounts.items()},
        spec.get("priorityClassName") or "",
        _crosses_namespaces(spec.get("affinity") or {}),
    )


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms = [*(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        preferred = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


CACHE_S = 300.0
"""How long an answer is believed."""

_TOKEN_VOLUME = "kube-api-access-"
"""Begins the name of the volume that every pod gets, each under a name of its own."""


class TemplateDefaulter:
    """The templates of buffers, completed."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[Json, float, Json]] = {}

    async def complete(self, api: client.Client, key: str, namespace: str, template: Json, now_s: float) -> Json:
        """As the API server would have it. `key`: whose template it is. KubeError if it would have no such pod."""
        asked, at_s, answer = self._answers.get(key, ({}, float("-inf"), {}))
        if asked != template or now_s >= at_s + CACHE_S:
            metadata = {**template_metadata(template.get("metadata") or {}), "generateName": "fake-pod-"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
            made: Json = await api.create(resources.PODS.untyped(), pod, namespace, dry_run=True)
            answer = template_of_pod(made)
            self._answers[key] = template, now_s, answer
        return answer


def default_template(template: Mapping[str, Any]) -> Json:
    """The template with requests that follow from limits, nobody being asked."""
    return {
        "metadata": template_metadata(template.get("metadata") or {}),
        "spec": default_pod_spec(template.get("spec") or {}),
    }


def template_of_pod(pod: Mapping[str, Any]) -> Json:
    """The template of a pod: without its node, and the volume that is its own."""
    spec = default_pod_spec(pod["spec"])
    spec.pop("nodeName", None)
    _drop_token_volume(spec, "volumes")
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _drop_token_volume(container, "volumeMounts")
    return {"metadata": template_metadata(pod["metadata"]), "spec": spec}


def _drop_token_volume(holder: Json, what: str) -> None:
    holder[what] = [one for one in holder.get(what, ()) if not one.get("name", "").startswith(_TOKEN_VOLUME)]


def template_metadata(metadata: Mapping[str, Any]) -> Json:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


_WITHOUT_SCALE = frozenset({("batch", "Job")})
"""Kinds of Kubernetes' own that have no scale: whoever asked for it would need a right to what there is not."""


@dataclass(frozen=True, slots=True)
class ScalableWorkload:
    """What a buffer keeps room for more of."""

    template: Json
    replicas: int | None
    is_of_pod: bool = False
    """Is the template that of a pod, which has all that its pods have?"""


async def resolve_workload(api: client.Client, namespace: str, wanted: ScalableRef) -> ScalableWorkload | str:
    """The workload, or why it cannot be had."""
    resource = await _find_resource(api, wanted)
    live_fault = ""
    try:
        live = await _find_live(api, namespace, wanted, resource)
        if live is not None:
            return live
    except errors.KubeError as error:
        live_fault = f"failed to get scale object: {error}"
    if resource is None or (wanted.group, wanted.kind) not in capacity_buffer.SUPPORTED_WORKLOADS:
        return capacity_buffer.unresolved_message(wanted, live_fault, "")
    try:
        spec = (await api.get(resource, wanted.name, namespace))["spec"]
    except errors.KubeError as error:
        return capacity_buffer.unresolved_message(wanted, live_fault, f"failed to get {wanted.kind}: {error}")
    return ScalableWorkload(spec["template"], spec.get("parallelism" if wanted.kind == "Job" else "replicas"))


async def _find_live(
    api: client.Client, namespace: str, wanted: ScalableRef, resource: resources.Resource[Json] | None
) -> ScalableWorkload | None:
    """What the newest of its pods is like; None if it has none."""
    if resource is None:
        raise errors.InvalidResponse("discovery", f'no matches for kind "{wanted.kind}" in group "{wanted.group}"')
    if (wanted.group, wanted.kind) in _WITHOUT_SCALE:
        raise errors.InvalidResponse("discovery", f"{resource.plural} have no scale")
    scale = (await api.get_scale(resource, wanted.name, namespace)).get("status") or {}
    newest = await _find_newest(api, namespace, scale.get("selector", ""))
    return (
        None if newest is None else ScalableWorkload(template_of_pod(newest), scale.get("replicas", 0), is_of_pod=True)
    )


async def _find_resource(api: client.Client, wanted: ScalableRef) -> resources.Resource[Json] | None:
    if wanted.group in ("", "core"):
        return await discovery.find_resource(api, "v1", wanted.kind)
    for version in await discovery.list_versions(api, wanted.group):
        found = await discovery.find_resource(api, version, wanted.kind)
        if found is not None:
            return found
    return None


async def _find_newest(api: client.Client, namespace: str, selector: str) -> Json | None:
    if not selector:
        return None
    found = await api.list(resources.PODS.untyped(), request_builders.ListOptions(namespace=namespace, labels=selector))
    return max(found.items, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)
