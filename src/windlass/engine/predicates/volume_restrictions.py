"""VolumeRestrictions: a disk that is in use on a node, and a claim that only one pod may use at a time.

Inline disks conflict by what names them: GCE and iSCSI disks and RBD images unless all who mount them only read, AWS
disks always. A ReadWriteOncePod claim that any pod anywhere uses refuses every node; removing that pod would help.
"""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import persistent_volumes
from windlass.engine.snapshot import volume_usage

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "VolumeRestrictions"
DISK_IN_USE = Refusal(NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) had no available disk"),))
CLAIM_IN_USE = Refusal(
    NAME, StatusCode.UNSCHEDULABLE,
    (Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod"
    ),),
)  # fmt: skip

_RESTRICTED = frozenset(("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """Refuse a pod that names a missing claim, because its access mode is unknown."""
    for volume, claim in persistent_volumes.list_claimed(snapshot.storage, shape):
        if claim is None and persistent_volumes.is_named(volume):
            return Refusal(NAME, StatusCode.UNRESOLVABLE, (persistent_volumes.make_missing_claim_reason(volume),))
    return None


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where no disk conflicts; False everywhere while a claim is in use; None without either."""
    if not shape.spec.volumes:
        return None
    if is_claim_in_use(snapshot, shape):
        return np.zeros(snapshot.nodes.count, bool)
    conflicts = conflicting_rows(snapshot, shape)
    if not conflicts:
        return None
    allowed = np.ones(snapshot.nodes.count, bool)
    allowed[list(conflicts)] = False
    return allowed


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return DISK_IN_USE if row in conflicting_rows(snapshot, shape) else CLAIM_IN_USE


def is_claim_in_use(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Whether a pod uses a ReadWriteOncePod claim of the shape."""
    alive = snapshot.nodes.alive
    return any(
        alive[row]
        for volume, claim in persistent_volumes.list_claimed(snapshot.storage, shape)
        if claim is not None
        and persistent_volumes.is_named(volume)
        and persistent_volumes.READ_WRITE_ONCE_POD in claim.access_modes
        for row in snapshot.topology_counts.held.rows(volume_usage.find_claim_reference(shape.namespace, volume))
    )


def conflicting_rows(snapshot: "Snapshot", shape: facts.PodShape) -> set[int]:
    """The nodes with a pod whose disk conflicts with one of the shape's."""
    held = snapshot.topology_counts.held
    return {
        row
        for volume in shape.spec.volumes
        if volume.source in _RESTRICTED
        for other in held.disks(volume.source)
        if conflict(volume, other)
        for row in held.rows(other)
    }


def conflict(disk: facts.Volume, other: facts.Volume) -> bool:
    """Whether two disks of one source cannot be mounted on one node."""
    if disk.source != "awsElasticBlockStore" and disk.read_only and other.read_only:
        return False
    if disk.source != "rbd":
        return disk.identity == other.identity
    (pool, image, *monitors), (other_pool, other_image, *other_monitors) = disk.identity, other.identity
    return pool == other_pool and image == other_image and not set(monitors).isdisjoint(other_monitors)
