"""Cluster topologies: groups whose `spec.replicas` the topology controller of a ClusterClass applies.

A Cluster with `replicas` in an entry of `spec.topology.workers` has its topology controller apply `spec.replicas` of
the MachineDeployment or MachinePool by server-side apply, and again whenever the value differs. Where the entry has no
`replicas`, the webhooks of Cluster API default the field, and the topology controller does not own it.
"""

from typing import TypeAlias

from windlass.engine import facts
from windlass.kube.models import clusterapi

MANAGER = "capi-topology"
"""The field manager of the topology controller."""
_DEPLOYMENT_NAME = "topology.cluster.x-k8s.io/deployment-name"
_POOL_NAME = "topology.cluster.x-k8s.io/pool-name"

MachineGroup: TypeAlias = clusterapi.MachineDeployment | clusterapi.MachineSet | clusterapi.MachinePool


def owns_replicas(group: MachineGroup) -> bool:
    """Does the topology controller apply the size? Never that of a MachineSet."""
    metadata = group.metadata
    return isinstance(metadata, clusterapi.MachineGroupMeta) and metadata.applies_replicas(MANAGER)


def find_owner(group: MachineGroup, api_version: str) -> facts.ReplicasOwner | None:
    """The topology as the owner of the size, and how to end that; None where the autoscaler may own it."""
    if not owns_replicas(group):
        return None
    return facts.ReplicasOwner(MANAGER, _describe_remedy(group), api_version, group.meta.uid or "")


def _describe_remedy(group: MachineGroup) -> str:
    is_pool = isinstance(group, clusterapi.MachinePool)
    field, label = ("machinePools", _POOL_NAME) if is_pool else ("machineDeployments", _DEPLOYMENT_NAME)
    name = (group.meta.labels or {}).get(label)
    entry = f"the entry {name} of {field}" if name else f"its entry of {field}"
    cluster_name = group.spec.cluster_name if group.spec else None
    cluster = f"Cluster {group.meta.namespace}/{cluster_name}" if cluster_name else "its Cluster"
    return f"remove replicas from {entry} in spec.topology.workers of {cluster}"
