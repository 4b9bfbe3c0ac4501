"""observe: facts, read from JSON. Nothing here waits."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers.lattice import facts
from windlass.controllers.worker_pools import manifest

Json = Mapping[str, Any]


def read_cluster(body: Json) -> facts.Cluster:
    metadata, spec = body["metadata"], body.get("spec") or {}
    nodes = spec.get("nodes") or {}
    control_plane = nodes.get("control_plane") or {}
    version = spec.get("kubernetes_version") or ""
    pools = nodes.get("worker_pools") or {}
    return facts.Cluster(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        is_deleting=bool(metadata.get("deletionTimestamp")),
        control_plane_replicas=1 if control_plane.get("replicas") is None else control_plane["replicas"],
        pools=tuple(read_pool(name, given or {}, version) for name, given in sorted(pools.items())),
        status=read_status(body.get("status") or {}),
    )


def read_pool(name: str, given: Json, version: str = "") -> facts.Pool:
    return facts.Pool(
        name,
        given.get("replicas"),
        given.get("min"),
        given.get("max"),
        manifest.read_machine(given, given.get("version") or version),
        given.get("labels") or {},
    )


def read_status(status: Json) -> facts.Status:
    pools = status.get("worker_pools") or {}
    return facts.Status(status.get("observed_generation"), {name: _read_pool(each) for name, each in pools.items()})


def _read_pool(given: Json) -> facts.PoolStatus:
    return facts.PoolStatus(
        given.get("desired_replicas") or 0,
        given.get("current_replicas") or 0,
        given.get("ready_replicas") or 0,
        bool(given.get("autoscaling_enabled")),
        given.get("autoscaling_min"),
        given.get("autoscaling_max"),
        given.get("message"),
    )
