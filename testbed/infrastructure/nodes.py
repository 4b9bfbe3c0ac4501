"""The Node of a machine. KWOK keeps it Ready while it carries KWOK's annotation; without, nobody does."""

import time

from testbed.infrastructure import api
from testbed.infrastructure.world import Object, World

SYSTEM = {"architecture": "amd64", "operatingSystem": "linux"}
_SMALL = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_KWOK = {"kwok.x-k8s.io/node": "fake"}
_VERSION = "v1.36.3"
_SILENT = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}


def capacity(spec: Object) -> Object:
    found: Object = spec.get("capacity") or _SMALL
    return found


async def find(world: World, name: str) -> Object | None:
    try:
        return await world.api.call("GET", f"/api/v1/nodes/{name}")
    except api.ApiError as error:
        if error.code != 404:
            raise
        return None


async def register(world: World, machine: Object, provider_id: str, *, is_heard: bool) -> None:
    """Create the Node that a machine's kubelet would."""
    name, spec = machine["metadata"]["name"], machine.get("spec", {})
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    size = capacity(spec)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, **spec.get("labels", {})},
            "annotations": _KWOK if is_heard else {},
        },
        "spec": {"providerID": provider_id, "taints": spec.get("taints", [])},
        "status": {
            "capacity": size,
            "allocatable": spec.get("allocatable") or size,
            "nodeInfo": {**SYSTEM, "kubeletVersion": _VERSION},
        },
    }
    try:
        await world.api.call("POST", "/api/v1/nodes", node)
    except api.ApiError as error:
        if error.code != 409:
            raise


async def remove(world: World, name: str) -> None:
    try:
        await world.api.call("DELETE", f"/api/v1/nodes/{name}")
    except api.ApiError as error:
        if error.code != 404:
            raise


def is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_heard(node: Object) -> bool:
    """KWOK looks after it."""
    annotations: dict[str, str] = node["metadata"].get("annotations", {})
    return _KWOK.items() <= annotations.items()


async def be_heard(node: Object, world: World) -> None:
    """KWOK takes it over and makes it Ready."""
    await _annotate(world, node, dict(_KWOK))


async def fall_silent(node: Object, world: World) -> None:
    """No more news of it, as the node controller says after its grace period. KWOK may still get a word in."""
    await _annotate(world, node, dict.fromkeys(_KWOK))
    if not is_ready(node):
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    change = {"status": {"conditions": [{**_SILENT, "lastHeartbeatTime": now, "lastTransitionTime": now}]}}
    await world.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", change, api.STRATEGIC)


async def _annotate(world: World, node: Object, annotations: Object) -> None:
    change = {"metadata": {"annotations": annotations}}
    await world.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", change, api.MERGE)
