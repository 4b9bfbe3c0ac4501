"""Lattice model: LatticeCluster, worker pools, plan and settings; conversion from and to JSON.

`status_patch` gives the merge patch between two statuses.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers import machine_deployments
from windlass.controllers.controller_interface import Event
from windlass.controllers.machine_deployments import MachineDeployment, MachineTemplate, PoolSize, ReplicaLimits
from windlass.kube.rbac import PolicyRule


@dataclass(frozen=True, slots=True)
class AutoscalerRules:
    """RBAC rules of the deployed autoscaler: cluster-wide and in its own namespace."""

    cluster: tuple[PolicyRule, ...] = ()
    own: tuple[PolicyRule, ...] = ()


API_VERSION = "lattice.io/v1alpha1"

MANAGER = "lattice-operator"
"""Field manager of MachineDeployments, and source of events."""

REPLICAS_IGNORED = "ReplicasIgnored"

POOL_INVALID = "PoolInvalid"

RECONCILING = "Reconciling"

SYSTEM_NAMESPACE = "lattice-system"

AUTOSCALER = "cluster-autoscaler"


def machine_deployment_name(cluster: str, pool: str) -> str:
    return f"{cluster}-pool-{pool}"


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A worker pool of the spec."""

    id: str
    replicas: int | None = None
    min: int | None = None
    max: int | None = None
    machine: MachineTemplate = field(default_factory=MachineTemplate)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> PoolSize:
        """Size of the pool: autoscaled if both `min` and `max` are set; missing replicas are 0."""
        is_bounded = self.min is not None and self.max is not None
        return PoolSize(self.replicas or 0, ReplicaLimits(self.min or 0, self.max or 0) if is_bounded else None)


@dataclass(frozen=True, slots=True)
class WorkerPoolStatus:
    """Status of a pool."""

    desired_replicas: int = 0
    current_replicas: int = 0
    ready_replicas: int = 0
    autoscaling_enabled: bool = False
    autoscaling_min: int | None = None
    autoscaling_max: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class LatticeClusterStatus:
    """Status of a LatticeCluster."""

    observed_generation: int | None = None
    pools: Mapping[str, WorkerPoolStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LatticeCluster:
    """A LatticeCluster."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    is_deleting: bool = False
    control_plane_replicas: int = 1
    pools: tuple[WorkerPool, ...] = ()
    status: LatticeClusterStatus = field(default_factory=LatticeClusterStatus)

    @property
    def workers(self) -> int:
        """Sum of the desired replicas of all pools."""
        return sum(pool.size.replicas for pool in self.pools)

    @property
    def nodes(self) -> int:
        return self.control_plane_replicas + self.workers


@dataclass(frozen=True, slots=True)
class ObservedLatticeCluster:
    """Facts for one reconcile of a LatticeCluster."""

    cluster: LatticeCluster
    api_version: str
    """API version of Cluster API."""
    machine_deployments: Mapping[str, MachineDeployment] = field(default_factory=dict)
    """By name."""


@dataclass(frozen=True, slots=True)
class LatticePlan:
    """Steps of a LatticeCluster, and its new status and events."""

    status: LatticeClusterStatus
    steps: tuple[machine_deployments.MachineDeploymentStep, ...] = ()
    events: tuple[Event, ...] = ()
    wants_autoscaler: bool = False


@dataclass(frozen=True, slots=True)
class LatticeSettings:
    """Settings of the Lattice controller."""

    deploys_autoscaler: bool = True
    """Deploy an autoscaler in lattice-system as soon as a pool is autoscaled."""
    autoscaler_image: str = "windlass:latest"
    """Image of the autoscaler; `windlass` must be in its PATH."""
    autoscaler_discovery: str = "capi-system"
    """The namespace in which the autoscaler discovers node groups: that of the LatticeClusters."""
    autoscaler_rights: AutoscalerRules = field(default_factory=AutoscalerRules)
    """RBAC rules of the autoscaler, set by the process since controllers do not import the autoscaler."""
    resync_s: float = 600.0
    """Period after which each LatticeCluster is reconciled without a change."""


Json = Mapping[str, Any]


def parse_cluster(body: Json) -> LatticeCluster:
    metadata, spec = body["metadata"], body.get("spec") or {}
    nodes = spec.get("nodes") or {}
    control_plane = nodes.get("control_plane") or {}
    version = spec.get("kubernetes_version") or ""
    pools = nodes.get("worker_pools") or {}
    return LatticeCluster(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        is_deleting=bool(metadata.get("deletionTimestamp")),
        control_plane_replicas=1 if control_plane.get("replicas") is None else control_plane["replicas"],
        pools=tuple(parse_pool(name, given or {}, version) for name, given in sorted(pools.items())),
        status=parse_status(body.get("status") or {}),
    )


def parse_pool(name: str, given: Json, version: str = "") -> WorkerPool:
    return WorkerPool(
        name,
        given.get("replicas"),
        given.get("min"),
        given.get("max"),
        machine_deployments.parse_machine_template(given, given.get("version") or version),
        given.get("labels") or {},
    )


def parse_status(status: Json) -> LatticeClusterStatus:
    pools = status.get("worker_pools") or {}
    return LatticeClusterStatus(
        status.get("observed_generation"), {name: _parse_pool_status(item) for name, item in pools.items()}
    )


def _parse_pool_status(given: Json) -> WorkerPoolStatus:
    return WorkerPoolStatus(
        given.get("desired_replicas") or 0,
        given.get("current_replicas") or 0,
        given.get("ready_replicas") or 0,
        bool(given.get("autoscaling_enabled")),
        given.get("autoscaling_min"),
        given.get("autoscaling_max"),
        given.get("message"),
    )


MergePatch = dict[str, Any]


def status_patch(before: LatticeClusterStatus, after: LatticeClusterStatus) -> MergePatch:
    """The merge patch between two statuses; empty if they are equal."""
    changed: MergePatch = {}
    if after.observed_generation != before.observed_generation:
        changed["observed_generation"] = after.observed_generation
    pools: MergePatch = {name: None for name in before.pools if name not in after.pools}
    pools.update(
        {
            name: dataclasses.asdict(worker_pool_status)
            for name, worker_pool_status in after.pools.items()
            if before.pools.get(name) != worker_pool_status
        }
    )
    if pools:
        changed["worker_pools"] = pools
    return {"status": changed} if changed else {}
