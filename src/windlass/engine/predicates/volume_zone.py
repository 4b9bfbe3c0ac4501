"""VolumeZone: a volume with a zone or region label binds its pod to nodes of that zone or region.

Only claims named by the pod, and only labels, are checked; VolumeBinding checks the volume's node affinity.
A node without any zone or region label passes: such a cluster has one zone. A beta label on the volume is compared
with the node's beta label or, where the node has none, with its successor.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import persistent_volumes
from windlass.selectors import Operator, Requirement

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot import node_table
    from windlass.engine.snapshot.cluster_snapshot import Snapshot
    from windlass.engine.snapshot.volume_usage import StorageTable

NAME = "VolumeZone"
OTHER_ZONE = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) had no available volume zone"),))
UNBOUND = Reason("PersistentVolume had no name")
NO_CLASS = Reason("PersistentVolumeClaim had no pv name and storageClass name")

_SUCCESSORS = {
    facts.ZONE_BETA: facts.ZONE,
    facts.REGION_BETA: facts.REGION,
    facts.ZONE: facts.ZONE,
    facts.REGION: facts.REGION,
}
_ZONES_SEPARATOR = "__"


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """Refuse a pod with an unbound claim whose class does not wait for the first consumer."""
    for volume, claim in persistent_volumes.list_claimed(snapshot.storage, shape):
        if persistent_volumes.is_named(volume):
            reason = (
                persistent_volumes.make_missing_claim_reason(volume)
                if claim is None
                else _unplaced(snapshot.storage, claim)
            )
            if reason is not None:
                return Refusal(NAME, StatusCode.UNRESOLVABLE, (reason,))
    return None


def _unplaced(storage: "StorageTable", claim: facts.PersistentVolumeClaim) -> Reason | None:
    if claim.volume_name:
        if claim.volume_name in storage.volumes:
            return None
        return persistent_volumes.make_missing_reason("persistentvolume", claim.volume_name)
    if not claim.storage_class:
        return NO_CLASS
    if claim.storage_class not in storage.classes:
        return persistent_volumes.make_missing_reason("storageclass.storage.k8s.io", claim.storage_class)
    return None if persistent_volumes.waits_for_consumer(storage, claim) else UNBOUND


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where every volume's zone is the node's; None if no volume has one."""
    if not shape.spec.volumes:
        return None
    desired = list(topologies(snapshot.storage, shape))
    if not desired:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    for key, values in desired:
        allowed &= _in_topology(snapshot.nodes, key, values)
    return allowed | _has_no_zone(snapshot.nodes)


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return OTHER_ZONE


def topologies(storage: "StorageTable", shape: facts.PodShape) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(label key, values any of which will do) of the volumes that the pod's claims are bound to."""
    for volume, claim in persistent_volumes.list_claimed(storage, shape):
        persistent_volume = storage.volumes.get(claim.volume_name) if claim is not None else None
        if persistent_volume is not None and persistent_volumes.is_named(volume):
            for key in _SUCCESSORS:
                zones = [zone.strip() for zone in persistent_volume.labels.get(key, "").split(_ZONES_SEPARATOR)]
                if all(zones):  # one empty zone makes the whole label invalid
                    yield key, tuple(sorted(set(zones)))


def _in_topology(table: "node_table.NodeTable", key: str, values: tuple[str, ...]) -> arrays.Mask:
    own = table.requirement_mask(Requirement(key, Operator.IN, values))
    successor = _SUCCESSORS[key]
    if successor == key:
        return own
    has_own = table.requirement_mask(Requirement(key, Operator.EXISTS))
    return own | (~has_own & table.requirement_mask(Requirement(successor, Operator.IN, values)))


def _has_no_zone(table: "node_table.NodeTable") -> arrays.Mask:
    """Bool (n_nodes): the node has no zone or region label."""
    none = np.ones(table.count, bool)
    for key in _SUCCESSORS:
        none &= table.label_ids(key) == arrays.ABSENT
    return none
