"""A cluster behind a real socket, in which there is always something to decide and to do; every write is noted."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass import clock
from windlass.apiserver import embedded_server, registry, server
from windlass.apiserver.responses import ApiResponse
from windlass.kube import transport
from windlass.providers.clusterapi import group_annotations
from windlass.simulator.cluster import api_client

Json = dict[str, Any]
GROUP, VERSION = "cluster.x-k8s.io", "v1beta2"
LEASE = "/leases/cluster-autoscaler"

_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"}
_HAS = {"cpu": "4", "memory": "16Gi", "pods": "110"}


@dataclass(frozen=True)
class Write:
    """What a client changed, or tried to."""

    at_s: float
    method: str
    path: str
    status: int
    holder: str | None = None
    """Of a lease: who holds it now."""

    @property
    def is_release(self) -> bool:
        return self.path.endswith(LEASE) and self.holder == "" and self.status < 400

    @property
    def is_report(self) -> bool:
        """Does it tell what was done, rather than do anything?"""
        return "/events" in self.path or self.path.endswith(("/cluster-autoscaler-status", LEASE, "/leases"))


class Noted:
    """A server, and who wrote what to it."""

    def __init__(self, nodes: int, waiting: int) -> None:
        settings = registry.ServerSettings(disabled_admission=frozenset({"TaintNodesByCondition"}))
        self.served = server.Server(clock.RealClock(), settings)
        self.writes: list[Write] = []
        self.requests = 0
        embedded_server.restore_objects(self.served, api_client.list_crds())
        embedded_server.restore_objects(self.served, _objects(nodes, waiting))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.served, name)

    def handle(self, request: transport.Request) -> ApiResponse:
        self.requests += 1
        answer = self.served.handle(request)
        if request.method != "GET":
            holder = None
            if "/leases" in request.path:
                holder = str((msgspec.json.decode(request.body).get("spec") or {}).get("holderIdentity"))
            self.writes.append(Write(time.monotonic(), request.method, request.path, answer.status, holder))
        return answer

    def holder(self) -> str | None:
        """Who holds the lease; None: there is none."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system{LEASE}"
        answer = self.served.handle(transport.Request("GET", path))
        if answer.status != 200:
            return None
        return str(msgspec.json.decode(answer.body)["spec"].get("holderIdentity") or "")


def _objects(nodes: int, waiting: int) -> Iterator[Json]:
    """One group with idle nodes, one that is empty, and pods that fit nowhere yet."""
    for namespace in ("default", "kube-system"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    yield from _group("idle", nodes)
    yield from _group("empty", 0)
    for number in range(nodes):
        yield from _member(f"idle-{number:05d}")
    for number in range(waiting):
        yield _pod(f"waiting-{number}")


def _group(name: str, replicas: int) -> Iterator[Json]:
    annotations = {
        f"{GROUP}/cluster-api-autoscaler-node-group-min-size": "0",
        f"{GROUP}/cluster-api-autoscaler-node-group-max-size": str(replicas + 1000),
        group_annotations.CPU: "8",
        group_annotations.MEMORY: "16Gi",
    }
    spec = {"clusterName": "work", "replicas": replicas, "template": {"spec": {"clusterName": "work"}}}
    yield _custom("MachineDeployment", name, spec, annotations=annotations)
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "MachineDeployment", "name": name, "uid": f"uid-of-{name}"}
    revision = {"machinedeployment.clusters.x-k8s.io/revision": "1"}
    owners = [{**owner, "controller": True}]
    yield _custom("MachineSet", f"{name}-1", {"replicas": replicas}, annotations=revision, ownerReferences=owners)


def _custom(kind: str, name: str, spec: Json, status: Json | None = None, **more: Any) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", **more}
    found = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}
    return found | ({"status": status} if status else {})


def _member(name: str) -> Iterator[Json]:
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "MachineSet", "name": "idle-1", "uid": "uid-of-idle-1"}
    provider_id = f"fake:///{name}"
    spec = {"clusterName": "work", "providerID": provider_id}
    status = {"phase": "Running", "nodeRef": {"name": name}}
    yield _custom("Machine", name, spec, status, ownerReferences=[{**owner, "controller": True}])
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [_READY], "capacity": _HAS, "allocatable": _HAS},
    }


def _pod(name: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    requests = {"requests": {"cpu": "6"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": requests}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
