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
    """The rights of the autoscaler: in the whole cluster, and in its own namespace."""

    cluster: tuple[PolicyRule, ...] = ()
    own: tuple[PolicyRule, ...] = ()


API_VERSION = "lattice.io/v1alpha1"

MANAGER = "lattice-operator"
"""Who applies MachineDeployments, in managedFields, and who says so in events."""

REPLICAS_IGNORED = "ReplicasIgnored"

POOL_INVALID = "PoolInvalid"

RECONCILING = "Reconciling"

SYSTEM_NAMESPACE = "lattice-system"

AUTOSCALER = "cluster-autoscaler"


def machine_deployment_name(cluster: str, pool: str) -> str:
    return f"{cluster}-pool-{pool}"


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A pool, as a user wants it."""

    id: str
    replicas: int | None = None
    min: int | None = None
    max: int | None = None
    machine: MachineTemplate = field(default_factory=MachineTemplate)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> PoolSize:
        """Bounds are there when both are. Replicas that nobody asks for are none."""
        is_bounded = self.min is not None and self.max is not None
        return PoolSize(self.replicas or 0, ReplicaLimits(self.min or 0, self.max or 0) if is_bounded else None)


@dataclass(frozen=True, slots=True)
class WorkerPoolStatus:
    """What we say of a pool."""

    desired_replicas: int = 0
    current_replicas: int = 0
    ready_replicas: int = 0
    autoscaling_enabled: bool = False
    autoscaling_min: int | None = None
    autoscaling_max: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class LatticeClusterStatus:
    """What we say of a LatticeCluster."""

    observed_generation: int | None = None
    pools: Mapping[str, WorkerPoolStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LatticeCluster:
    """What a user wants."""

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
        """How many the pools ask for."""
        return sum(pool.size.replicas for pool in self.pools)

    @property
    def nodes(self) -> int:
        return self.control_plane_replicas + self.workers


@dataclass(frozen=True, slots=True)
class ObservedLatticeCluster:
    """All that a decision is made from."""

    cluster: LatticeCluster
    api_version: str
    """Of Cluster API."""
    machine_deployments: Mapping[str, MachineDeployment] = field(default_factory=dict)
    """By name."""


@dataclass(frozen=True, slots=True)
class LatticePlan:
    """What is to be done, and what is then said of it."""

    status: LatticeClusterStatus
    steps: tuple[machine_deployments.MachineDeploymentStep, ...] = ()
    events: tuple[Event, ...] = ()
    wants_autoscaler: bool = False


@dataclass(frozen=True, slots=True)
class LatticeSettings:
    """What may be done otherwise."""

    deploys_autoscaler: bool = True
    """Run an autoscaler in lattice-system as soon as a pool is autoscaled."""
    autoscaler_image: str = "windlass:latest"
    """What it is run from: an image whose PATH has `windlass`."""
    autoscaler_discovery: str = "capi-system"
    """The namespace in which it looks for pools: that of the LatticeClusters."""
    autoscaler_rights: AutoscalerRules = field(default_factory=AutoscalerRules)
    """What it may do: whoever puts the process together knows the autoscaler."""
    resync_s: float = 600.0
    """Every LatticeCluster is looked at this often, even if nothing seems to have changed."""


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
        status.get("observed_generation"), {name: _parse_pool_status(each) for name, each in pools.items()}
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
    """The merge patch from one status to the other; empty if they say the same."""
    changed: MergePatch = {}
    if after.observed_generation != before.observed_generation:
        changed["observed_generation"] = after.observed_generation
    pools: MergePatch = {name: None for name in before.pools if name not in after.pools}
    pools.update(
        {name: dataclasses.asdict(each) for name, each in after.pools.items() if before.pools.get(name) != each}
    )
    if pools:
        changed["worker_pools"] = pools
    return {"status": changed} if changed else {}
