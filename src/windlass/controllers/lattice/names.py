"""Names that Lattice gives."""

API_VERSION = "lattice.io/v1alpha1"
MANAGER = "lattice-operator"
"""Who applies MachineDeployments, in managedFields, and who says so in events."""

REPLICAS_IGNORED = "ReplicasIgnored"
POOL_INVALID = "PoolInvalid"
RECONCILING = "Reconciling"

SYSTEM_NAMESPACE = "lattice-system"
AUTOSCALER = "cluster-autoscaler"


def machine_deployment(cluster: str, pool: str) -> str:
    return f"{cluster}-pool-{pool}"
