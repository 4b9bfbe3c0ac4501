"""Changes: which differences between two states of an object could make a difference to anyone.

Most of what happens to these objects are conditions and counters that nobody here reads; waking a loop for them would
only cost time.
"""

from windlass.kube.models import clusterapi, meta
from windlass.providers.clusterapi import pauses, topology


def matter(before: meta.Object, found: meta.Object) -> bool:
    """Is anything different that observing looks at? Of Machines, nothing else is kept: see `machines`."""
    return _view(before) != _view(found)


def _view(found: meta.Object) -> tuple[object, ...]:
    metadata = found.meta
    owners, spec = metadata.owner_references, getattr(found, "spec", None)
    identity = (metadata.uid, metadata.deletion_timestamp, metadata.labels, metadata.annotations, owners, spec)
    match found:
        case clusterapi.MachineSet(status=clusterapi.MachineGroupStatus() as counted):
            return (*identity, counted.replicas, counted.authoritative_api, pauses.find_condition(counted))
        case clusterapi.MachineDeployment(status=counted) | clusterapi.MachinePool(status=counted):
            return (*identity, pauses.find_condition(counted), topology.owns_replicas(found))
        case clusterapi.InfrastructureTemplate(status=told):
            return (*identity, told)
        case clusterapi.MirroredMachineSet(status=told_twin):
            return (*identity, told_twin)
    return identity
