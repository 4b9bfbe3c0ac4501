"""Facts: a LatticeCluster, its pools, and what is there of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.controllers.worker_pools.machine_deployments import MachineDeployment
from windlass.controllers.worker_pools.manifest import Machine
from windlass.controllers.worker_pools.sizes import Limits, Size


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool, as a user wants it."""

    id: str
    replicas: int | None = None
    min: int | None = None
    max: int | None = None
    machine: Machine = field(default_factory=Machine)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        """Bounds are there when both are. Replicas that nobody asks for are none."""
        is_bounded = self.min is not None and self.max is not None
        return Size(self.replicas or 0, Limits(self.min or 0, self.max or 0) if is_bounded else None)


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """What we say of a pool."""

    desired_replicas: int = 0
    current_replicas: int = 0
    ready_replicas: int = 0
    autoscaling_enabled: bool = False
    autoscaling_min: int | None = None
    autoscaling_max: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What we say of a LatticeCluster."""

    observed_generation: int | None = None
    pools: Mapping[str, PoolStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a user wants."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    is_deleting: bool = False
    control_plane_replicas: int = 1
    pools: tuple[Pool, ...] = ()
    status: Status = field(default_factory=Status)

    @property
    def workers(self) -> int:
        """How many the pools ask for."""
        return sum(pool.size.replicas for pool in self.pools)

    @property
    def nodes(self) -> int:
        return self.control_plane_replicas + self.workers


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision is made from."""

    cluster: Cluster
    api_version: str
    """Of Cluster API."""
    machine_deployments: Mapping[str, MachineDeployment] = field(default_factory=dict)
    """By name."""
