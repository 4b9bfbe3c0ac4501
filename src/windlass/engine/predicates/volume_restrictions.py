"""VolumeRestrictions: a disk that is in use on a node, and a claim that only one pod may use at a time.

Inline disks conflict by what names them: GCE and iSCSI disks and RBD images unless all who mount them only read, AWS
disks always. A ReadWriteOncePod claim that any pod anywhere uses refuses every node; removing that pod would help.
"""

import numpy as np

from windlass.engine import dtypes, facts, holdings, shapes
from windlass.engine.predicates import volume_claims
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "VolumeRestrictions"
DISK_IN_USE = Refusal(NAME, Code.UNSCHEDULABLE, (Reason("node(s) had no available disk"),))
CLAIM_IN_USE = Refusal(
    NAME, Code.UNSCHEDULABLE,
    (Reason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod"
    ),),
)  # fmt: skip

_RESTRICTED = frozenset(("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """A claim that the pod names must exist, or nobody knows how it may be used."""
    for volume, claim in volume_claims.claimed(snapshot.storage, shape):
        if claim is None and volume_claims.is_named(volume):
            return Refusal(NAME, Code.UNRESOLVABLE, (volume_claims.missing_claim(volume),))
    return None


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
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


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return DISK_IN_USE if row in conflicting_rows(snapshot, shape) else CLAIM_IN_USE


def is_claim_in_use(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Does some pod use a claim of the shape's that only one pod may use?"""
    alive = snapshot.nodes.alive
    return any(
        alive[row]
        for volume, claim in volume_claims.claimed(snapshot.storage, shape)
        if claim is not None
        and volume_claims.is_named(volume)
        and volume_claims.READ_WRITE_ONCE_POD in claim.access_modes
        for row in snapshot.tallies.held.rows(holdings.claim(shape.namespace, volume))
    )


def conflicting_rows(snapshot: Snapshot, shape: shapes.Shape) -> set[int]:
    """The nodes on which pods hold a disk that conflicts with one of the shape's."""
    held = snapshot.tallies.held
    return {
        row
        for volume in shape.spec.volumes
        if volume.source in _RESTRICTED
        for other in held.disks(volume.source)
        if conflict(volume, other)
        for row in held.rows(other)
    }


def conflict(disk: facts.Volume, other: facts.Volume) -> bool:
    """May two disks of one source not be mounted on one node?"""
    if disk.source != "awsElasticBlockStore" and disk.read_only and other.read_only:
        return False
    if disk.source != "rbd":
        return disk.identity == other.identity
    (pool, image, *monitors), (other_pool, other_image, *other_monitors) = disk.identity, other.identity
    return pool == other_pool and image == other_image and not set(monitors).isdisjoint(other_monitors)
