"""Keys: the annotations and labels by which people and Cluster API talk to an autoscaler.

Those that begin with the API group follow it when it is renamed (CAPI_GROUP); all others are fixed.
"""

from dataclasses import dataclass

DEFAULT_GROUP = "cluster.x-k8s.io"

PAUSED = "cluster.x-k8s.io/paused"
"""Whoever carries it is left alone by Cluster API, whatever its value."""
REVISION = "machinedeployment.clusters.x-k8s.io/revision"

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
CPU = CAPACITY + "cpu"
MEMORY = CAPACITY + "memory"
EPHEMERAL_DISK = CAPACITY + "ephemeral-disk"
GPU_TYPE = CAPACITY + "gpu-type"
GPU_COUNT = CAPACITY + "gpu-count"
MAX_PODS = CAPACITY + "maxPods"
TAINTS = CAPACITY + "taints"
LABELS = CAPACITY + "labels"
DRA_DRIVER = CAPACITY + "dra-driver"
CSI_DRIVER = CAPACITY + "csi-driver"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that begin with the API group."""

    group: str = DEFAULT_GROUP

    @property
    def min_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-min-size"

    @property
    def max_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-max-size"

    @property
    def options(self) -> str:
        """What the keys of a group's own options begin with."""
        return f"{self.group}/autoscaling-options-"

    @property
    def delete_machine(self) -> str:
        """The mark: a Machine that carries it is the first to go when its group shrinks."""
        return f"{self.group}/delete-machine"

    @property
    def machine(self) -> str:
        """On a Node, the name of its Machine."""
        return f"{self.group}/machine"

    @property
    def cluster_namespace(self) -> str:
        """On a Node, the namespace of its Machine."""
        return f"{self.group}/cluster-namespace"

    @property
    def cluster_name(self) -> str:
        """A label: the cluster that an object belongs to."""
        return f"{self.group}/cluster-name"


def at(key: str) -> str:
    """The path of an annotation within its object."""
    return f"metadata.annotations[{key}]"
