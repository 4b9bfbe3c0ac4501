"""Samples of pods: what CapacityBuffers and quotas ask of a pod template, read from the object as it is."""

import copy
from collections.abc import Mapping
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
    for container in (*completed.get("containers", ()), *completed.get("initContainers", ())):
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    return completed


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
