"""The Node of a machine, as its kubelet would register it.

One that is heard of is Ready as it registers, and KWOK keeps it so. One that is annotated as silent is not, until
somebody takes that away: then KWOK makes it Ready.
"""

import time

from testbed.infrastructure import api
from testbed.infrastructure.world import Object, World

SYSTEM = {"architecture": "amd64", "operatingSystem": "linux"}
_SMALL = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_KWOK = {"kwok.x-k8s.io/node": "fake"}
_SILENT = "fake.infrastructure/silent"
"""KWOK's stages look for it, see `manifests.write_stages`."""
_VERSION = "v1.36.3"
_UNKNOWN = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}


def capacity(spec: Object) -> Object:
    found: Object = spec.get("capacity") or _SMALL
    return found


_STARTING = {
    "type": "Ready",
    "status": "False",
    "reason": "KubeletNotReady",
    "message": "container runtime network not ready",
}
"""Kubelets say so when they register. The scheduler takes a node that says nothing for one that is ready."""

_WELL = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)
"""Of a Node that is well: type, status, reason and message. Cluster API looks at the pressures as well."""


async def find(world: World, name: str) -> Object | None:
    try:
        return await world.api.call("GET", f"/api/v1/nodes/{name}")
    except api.ApiError as error:
        if error.code != 404:
            raise
        return None


async def register(world: World, machine: Object, provider_id: str, *, is_heard: bool) -> bool:
    """Create the Node that a machine's kubelet would. False if there is one of that name that is another machine's."""
    name, spec = machine["metadata"]["name"], machine.get("spec", {})
    size = capacity(spec)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_labels(name), **spec.get("labels", {})},
            "annotations": _KWOK if is_heard else {**_KWOK, _SILENT: "yes"},
        },
        "spec": {"providerID": provider_id, "taints": spec.get("taints", [])},
        "status": {
            "capacity": size,
            "allocatable": spec.get("allocatable") or size,
            "nodeInfo": {**SYSTEM, "kubeletVersion": _VERSION},
            "conditions": _well() if is_heard else [_STARTING],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "phase": "Running",  # without it KWOK would not keep up its heartbeat
        },
    }
    try:
        found = await world.api.call("POST", "/api/v1/nodes", node)
    except api.ApiError as error:
        if error.code != 409:
            raise
        found = await find(world, name) or {"spec": {}}
    return bool(found["spec"].get("providerID") == provider_id)


def _labels(name: str) -> Object:
    """The old names too: where a kubelet left them out the node controller would write them, a Node at a time."""
    system = {"os": SYSTEM["operatingSystem"], "arch": SYSTEM["architecture"]}
    both = {f"{prefix}kubernetes.io/{key}": value for prefix in ("", "beta.") for key, value in system.items()}
    return {"kubernetes.io/hostname": name, **both}


def _well() -> list[Object]:
    now = _now()
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return [dict(zip(("type", "status", "reason", "message"), item, strict=True)) | times for item in _WELL]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


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
    return _SILENT not in node["metadata"].get("annotations", {})


async def be_heard(node: Object, world: World) -> None:
    """KWOK takes it over and makes it Ready."""
    await _annotate(world, node, {_SILENT: None})


async def fall_silent(node: Object, world: World) -> None:
    """No more news of it, which the node controller would notice after its grace period: here it is said at once.

    KWOK may have been about to say that it is Ready: look again.
    """
    await _annotate(world, node, {_SILENT: "yes"})
    if not is_ready(node):
        return
    now = _now()
    change = {"status": {"conditions": [{**_UNKNOWN, "lastHeartbeatTime": now, "lastTransitionTime": now}]}}
    await world.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status", change, api.STRATEGIC)


async def _annotate(world: World, node: Object, annotations: Object) -> None:
    change = {"metadata": {"annotations": annotations}}
    await world.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", change, api.MERGE)
