"""Pod templates of CapacityBuffers: resolved from scalable workloads and completed with defaults.

A dry-run create lets the API server add defaults, priorities and the changes of admission webhooks; the answer is
cached and expires, because webhooks change. Without it, requests default from limits. A workload's newest pod takes
precedence over its pod template.
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
    """Return the spec with requests defaulted from limits, as the API server does for a pod."""
    completed = copy.deepcopy(dict(spec))
    containers = (*completed.get("containers", ()), *completed.get("initContainers", ()))
    for container in containers:
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    _default_pod_level_requests(completed, {name for item in containers for name in item["resources"]["requests"]})
    return completed


def _default_pod_level_requests(spec: Json, requested: Collection[str]) -> None:
    """Default pod-level requests from pod-level limits, except those that containers request."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    implied = {name: limits[name] for name in limits if resource_requests.is_pod_level(name) and name not in requested}
    if implied:
        spec["resources"] = {**resources, "requests": {**implied, **(resources.get("requests") or {})}}


def read_sample(spec: Mapping[str, Any]) -> SamplePod:
    """Read a pod template as a sample pod. InvalidField for unreadable amounts."""
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
        terms += [item.get("podAffinityTerm") or {} for item in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


CACHE_S = 300.0
"""Time for which a dry-run answer is cached."""

_TOKEN_VOLUME = "kube-api-access-"
"""Name prefix of the projected token volume that the API server adds to every pod."""


class TemplateDefaulter:
    """Completes pod templates of buffers with dry-run creates."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[Json, float, Json]] = {}

    async def complete(self, api: client.Client, key: str, namespace: str, template: Json, now_s: float) -> Json:
        """Return the template as the API server would complete it. `key`: cache key. KubeError if the API server
        rejects the pod.
        """
        asked, at_s, answer = self._answers.get(key, ({}, float("-inf"), {}))
        if asked != template or now_s >= at_s + CACHE_S:
            metadata = {**template_metadata(template.get("metadata") or {}), "generateName": "fake-pod-"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
            made: Json = await api.create(resources.PODS.untyped(), pod, namespace, dry_run=True)
            answer = template_of_pod(made)
            self._answers[key] = template, now_s, answer
        return answer


def default_template(template: Mapping[str, Any]) -> Json:
    """Return the template with requests defaulted from limits, without an API request."""
    return {
        "metadata": template_metadata(template.get("metadata") or {}),
        "spec": default_pod_spec(template.get("spec") or {}),
    }


def template_of_pod(pod: Mapping[str, Any]) -> Json:
    """Return the template of a pod: without its node name and its own token volume."""
    spec = default_pod_spec(pod["spec"])
    spec.pop("nodeName", None)
    _drop_token_volume(spec, "volumes")
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _drop_token_volume(container, "volumeMounts")
    return {"metadata": template_metadata(pod["metadata"]), "spec": spec}


def _drop_token_volume(holder: Json, what: str) -> None:
    holder[what] = [item for item in holder.get(what, ()) if not item.get("name", "").startswith(_TOKEN_VOLUME)]


def template_metadata(metadata: Mapping[str, Any]) -> Json:
    return {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}


_WITHOUT_SCALE = frozenset({("batch", "Job")})
"""Built-in kinds without a scale subresource; requesting one would need a permission that cannot exist."""


@dataclass(frozen=True, slots=True)
class ScalableWorkload:
    """A workload that a buffer refers to, with its pod template."""

    template: Json
    replicas: int | None
    is_of_pod: bool = False
    """Whether the template comes from a live pod, which is already completed."""


async def resolve_workload(api: client.Client, namespace: str, ref: ScalableRef) -> ScalableWorkload | str:
    """Return the workload, or the reason why it cannot be resolved."""
    resource = await _find_resource(api, ref)
    live_fault = ""
    try:
        live = await _find_live(api, namespace, ref, resource)
        if live is not None:
            return live
    except errors.KubeError as error:
        live_fault = f"failed to get scale object: {error}"
    if resource is None or (ref.group, ref.kind) not in capacity_buffer.SUPPORTED_WORKLOADS:
        return capacity_buffer.unresolved_message(ref, live_fault, "")
    try:
        spec = (await api.get(resource, ref.name, namespace))["spec"]
    except errors.KubeError as error:
        return capacity_buffer.unresolved_message(ref, live_fault, f"failed to get {ref.kind}: {error}")
    return ScalableWorkload(spec["template"], spec.get("parallelism" if ref.kind == "Job" else "replicas"))


async def _find_live(
    api: client.Client, namespace: str, ref: ScalableRef, resource: resources.Resource[Json] | None
) -> ScalableWorkload | None:
    """Return the newest pod of the workload as a template; None if it has no pods."""
    if resource is None:
        raise errors.InvalidResponse("discovery", f'no matches for kind "{ref.kind}" in group "{ref.group}"')
    if (ref.group, ref.kind) in _WITHOUT_SCALE:
        raise errors.InvalidResponse("discovery", f"{resource.plural} have no scale")
    scale = (await api.get_scale(resource, ref.name, namespace)).get("status") or {}
    newest = await _find_newest(api, namespace, scale.get("selector", ""))
    return (
        None if newest is None else ScalableWorkload(template_of_pod(newest), scale.get("replicas", 0), is_of_pod=True)
    )


async def _find_resource(api: client.Client, ref: ScalableRef) -> resources.Resource[Json] | None:
    if ref.group in ("", "core"):
        return await discovery.find_resource(api, "v1", ref.kind)
    for version in await discovery.list_versions(api, ref.group):
        resource = await discovery.find_resource(api, version, ref.kind)
        if resource is not None:
            return resource
    return None


async def _find_newest(api: client.Client, namespace: str, selector: str) -> Json | None:
    if not selector:
        return None
    objects = await api.list(
        resources.PODS.untyped(), request_builders.ListOptions(namespace=namespace, labels=selector)
    )
    return max(objects.items, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)
