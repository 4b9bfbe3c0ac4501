"""Samples of pods: what CapacityBuffers and quotas ask of a pod template, read from the object as it is."""

import copy
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from windlass.engine.buffers.buffer import Sample
from windlass.kube import requests
from windlass.kube.models import pods
from windlass.quantity import Quantity

Json = dict[str, Any]


def complete(spec: Mapping[str, Any]) -> Json:
    """The spec with requests that follow from limits, as the API server would fill them in for a pod."""
    completed = copy.deepcopy(dict(spec))
    containers = (*completed.get("containers", ()), *completed.get("initContainers", ()))
    for container in containers:
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    _complete_pod_level(completed, {name for one in containers for name in one["resources"]["requests"]})
    return completed


def _complete_pod_level(spec: Json, requested: Collection[str]) -> None:
    """Set requests of the pod as a whole that follow from its limits, but for what its containers request."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    implied = {name: limits[name] for name in limits if requests.is_pod_level(name) and name not in requested}
    if implied:
        spec["resources"] = {**resources, "requests": {**implied, **(resources.get("requests") or {})}}


def read(spec: Mapping[str, Any]) -> Sample:
    """InvalidField if its amounts cannot be read."""
    amounts = requests.of_waiting(pods.decode_spec(msgspec.json.encode(spec)))
    return Sample(
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
