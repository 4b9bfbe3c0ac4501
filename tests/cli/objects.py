"""Objects as a file would hold them."""

from typing import Any

Json = dict[str, Any]


def node(name: str, cpu: str = "4", **spec: Any) -> Json:
    labels = {"kubernetes.io/hostname": name, "zone": name[-1]}
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def pod(name: str, cpu: str = "1", *, owner: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"namespace": "ns", "name": name, "labels": labels or {}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}
