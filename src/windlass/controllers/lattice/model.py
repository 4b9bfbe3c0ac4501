"""Lattice model: LatticeCluster, worker pools, plan and settings; conversion from and to JSON.

There are two kinds of LatticeCluster. That of lattice.io is namespaced and in snake case, and its MachineDeployments
are made here. That of lattice.dev is cluster-scoped and in camel case; Lattice's own operator makes its
MachineDeployments in the namespace `capi-<cluster>`, and they are adopted. `status_patch` gives the merge patch between
two statuses.
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

ADOPTED_API_VERSION = "lattice.dev/v1alpha1"
"""The kind of Lattice's own operator."""

MANAGER = "lattice-operator"
"""Field manager of MachineDeployments that are made here, and source of events."""

ADOPTION_MANAGER = "windlass-lattice"
"""Field manager of what is written beside Lattice's own operator."""

REPLICAS_IGNORED = "ReplicasIgnored"

POOL_INVALID = "PoolInvalid"

CONTROL_PLANE_INVALID = "ControlPlaneInvalid"

POOLS_NOT_DISCOVERED = "PoolsNotDiscovered"
"""No autoscaler looks at the namespace of the pools."""

AUTOSCALER_NOT_DEPLOYED = "AutoscalerNotDeployed"

RECONCILING = "Reconciling"

SYSTEM_NAMESPACE = "lattice-system"

AUTOSCALER = "cluster-autoscaler"


def adopted_namespace(cluster: str) -> str:
    """The namespace in which Lattice's own operator makes the MachineDeployments of a cluster."""
    return f"capi-{cluster}"


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
    has_instance_type: bool = False
    is_capacity_known: bool = False
    """True if the capacity of a node follows from the pool: by `capacity`, or an instance type with its own cores."""

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
    is_adopted: bool = False
    """True if Lattice's own operator makes its MachineDeployments."""
    is_pivoted: bool = True
    """True if it manages itself: its Machines are in this cluster for good."""

    @property
    def api_version(self) -> str:
        return ADOPTED_API_VERSION if self.is_adopted else API_VERSION

    @property
    def deployments_namespace(self) -> str:
        """The namespace of its MachineDeployments."""
        return adopted_namespace(self.name) if self.is_adopted else self.namespace

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
    discovered: frozenset[str] | None = None
    """The namespaces in which the autoscaler discovers pools, `""` for all; None if unknown."""

    @property
    def undiscovered_warning(self) -> str:
        """A warning if the autoscaler does not look at the namespace of the pools."""
        namespace = self.cluster.deployments_namespace
        if self.discovered is None or self.discovered & {namespace, ""}:
            return ""
        if self.cluster.is_adopted and not self.cluster.is_pivoted:
            return (
                f"no autoscaler scales the pools in namespace {namespace} before the cluster manages itself"
                " (status.pivotComplete)"
            )
        where = ", ".join(sorted(self.discovered)) or "none"
        return (
            f"no autoscaler scales the pools in namespace {namespace}: Deployment {SYSTEM_NAMESPACE}/{AUTOSCALER}"
            f" discovers pools in {where}; set --node-group-auto-discovery=clusterapi:namespace={namespace}"
        )


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
    """Image of the autoscaler, with the program `/cluster-autoscaler`. The process fills it in where it is empty."""
    autoscaler_discovery: str = "capi-system"
    """The namespace in which the autoscaler discovers node groups: that of the LatticeClusters of lattice.io.
    For one of lattice.dev it is `capi-<cluster>`."""
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


def parse_adopted_cluster(body: Json) -> LatticeCluster:
    """A LatticeCluster of lattice.dev. Its status belongs to Lattice's own operator."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    nodes = spec.get("nodes") or {}
    control_plane = nodes.get("controlPlane") or {}
    pools = nodes.get("workerPools") or {}
    return LatticeCluster(
        namespace="",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        is_deleting=bool(metadata.get("deletionTimestamp")),
        control_plane_replicas=1 if control_plane.get("replicas") is None else control_plane["replicas"],
        pools=tuple(_parse_adopted_pool(name, given or {}) for name, given in sorted(pools.items())),
        is_adopted=True,
        is_pivoted=bool((body.get("status") or {}).get("pivotComplete")),
    )


def _parse_adopted_pool(name: str, given: Json) -> WorkerPool:
    instance = given.get("instanceType") or {}
    return WorkerPool(
        name,
        given.get("replicas"),
        given.get("min"),
        given.get("max"),
        has_instance_type=bool(instance),
        is_capacity_known=bool(given.get("capacity")) or (bool(instance) and not instance.get("name")),
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
