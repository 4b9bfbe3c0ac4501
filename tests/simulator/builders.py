"""Small API objects. What a test does not name is left out, as in an object without it."""

from typing import Any

Json = dict[str, Any]


def node(name: str, *, labels: Json | None = None, taints: list[Json] | None = None, **allocatable: str) -> Json:
    """A node; resources by keyword, `_` for `-`."""
    given = {key.replace("_", "-"): value for key, value in allocatable.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", **given}},
    }


def pod(
    name: str,
    *,
    on: str = "",
    cpu: str = "1",
    priority: int = 0,
    labels: Json | None = None,
    started: str = "",
    nominated: str = "",
    **spec: Any,
) -> Json:
    """A pod in namespace `default`, with one container that asks for CPU alone."""
    status: Json = {"phase": "Running" if on else "Pending"}
    if started:
        status["startTime"] = started
    if nominated:
        status["nominatedNodeName"] = nominated
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels or {}},
        "spec": {"containers": containers, "priority": priority, **({"nodeName": on} if on else {}), **spec},
        "status": status,
    }


def terminating(pod: Json, **status: Any) -> Json:
    metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T12:00:00Z"}
    return {**pod, "metadata": metadata, "status": {**pod["status"], **status}}


def budget(name: str, labels: Json, allowed: int) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def anti_affinity(labels: Json, topology_key: str) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology_key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def named(pods: tuple[Json, ...]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
