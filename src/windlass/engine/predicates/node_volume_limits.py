"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

A volume counts once per node, however many pods use it. Volumes of in-tree plugins count for the CSI driver they
migrated to, claims that wait for a consumer for their provisioner. As in kube-scheduler, an attached volume that no pod
on the node uses counts there, and once more for the pod that wants it.

`AttachedVolumes` has the counts per driver and node; nodes where a claim or disk changed are recounted on the next
query, so that forks and reverts need nothing of their own.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import persistent_volumes
from windlass.engine.snapshot import volume_usage
from windlass.engine.snapshot.volume_usage import StorageTable

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

Attachable: TypeAlias = tuple[str, str, str]
"""(driver, handle, ""): a volume; (driver, "", claim): one that is still to be provisioned."""


class UnknownAttachment(Exception):
    """A pod's volume cannot be resolved; the scheduler then returns an error instead of counting."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def find_attachable(storage: StorageTable, thing: volume_usage.UsedVolume) -> Attachable | None:
    """What a claim or disk attaches to a node; None if nothing that is counted."""
    if isinstance(thing, facts.Volume):
        if thing.driver and not thing.handle:
            raise UnknownAttachment(
                Reason("converting volume from inline to csi: {} {}", (thing.source, thing.identity))
            )
        return (thing.driver, thing.handle, "") if thing.driver else None
    claim = storage.claims.get((thing.namespace, thing.name))
    if claim is None:
        return None
    if thing.volume and persistent_volumes.is_not_created_for_pod(claim, thing.pod_uid):
        raise UnknownAttachment(persistent_volumes.make_not_created_for_pod_reason(claim, thing.volume))
    volume = storage.volumes.get(claim.volume_name)
    if volume is not None:
        return (volume.driver, volume.handle, "") if volume.driver and volume.handle else None
    storage_class = storage.classes.get(claim.storage_class or "")
    driver = persistent_volumes.find_csi_driver(storage_class.provisioner) if storage_class is not None else ""
    return (driver, "", f"{claim.namespace}/{claim.name}") if driver else None


def is_in_tree(storage: StorageTable, thing: volume_usage.UsedVolume) -> bool:
    """Is what a claim or disk attaches spelled as an in-tree volume, which a CSI driver serves?"""
    if isinstance(thing, facts.Volume):
        return True
    claim = storage.claims.get((thing.namespace, thing.name))
    volume = None if claim is None else storage.volumes.get(claim.volume_name)
    if volume is not None:
        return volume.source != "csi"
    storage_class = None if claim is None else storage.classes.get(claim.storage_class or "")
    provisioner = "" if storage_class is None else storage_class.provisioner
    return persistent_volumes.find_csi_driver(provisioner) != provisioner


class AttachedVolumes:
    """How many volumes of each driver are attached to each node."""

    def __init__(self, snapshot: "Snapshot") -> None:
        self.broken: dict[int, Reason] = {}
        """Nodes with a pod whose volume cannot be resolved."""
        self._nodes = snapshot.nodes
        self._storage = snapshot.storage
        self._held = snapshot.topology_counts.held
        self._held.touched.update(self._held.nodes())
        self._counts: dict[str, arrays.Counts] = {}
        self._of_row: dict[int, tuple[set[Attachable], Counter[str]]] = {}
        self._rows: dict[Attachable, set[int]] = {}
        self._sets: arrays.Index[frozenset[Attachable]] = arrays.Index()
        self._seen: arrays.Ids = np.zeros(0, arrays.ID_DTYPE)

    def counts(self, driver: str) -> arrays.Counts:
        """Int32 (n_nodes): the driver's volumes on each node, as of the last `refresh`."""
        counts = self._counts.get(driver)
        if counts is None or len(counts) < self._nodes.count:
            missing = self._nodes.row_capacity() - (0 if counts is None else len(counts))
            counts = np.pad(np.zeros(0, arrays.COUNT_DTYPE) if counts is None else counts, (0, missing))
            self._counts[driver] = counts
        return counts[: self._nodes.count]

    def rows(self, volume: Attachable) -> Collection[int]:
        """The rows of nodes with a pod that uses the volume."""
        return self._rows.get(volume, ())

    def refresh(self) -> None:
        """Count anew where pods or attachments changed."""
        attachments = self._storage.column(self._nodes, "attachments", self._find_attachments)
        stale = self._held.touched
        if attachments is not self._seen:
            stale |= _differences(self._seen, attachments)
            self._seen = attachments
        for row in stale:
            self._recount(row)
        stale.clear()

    def _find_attachments(self, rows: slice) -> arrays.Ids:
        """Int32 (n_rows): position in `_sets` of what is attached to the node, -1 if nothing."""
        attachments = np.full(rows.stop - rows.start, arrays.ABSENT, arrays.ID_DTYPE)
        for i, name in enumerate(self._nodes.names[rows]):
            attached = frozenset(self._read_attachments(self._storage.attached_to(name)))
            if attached:
                attachments[i] = self._sets.intern(attached)
        return attachments

    def _read_attachments(self, attachments: list[facts.VolumeAttachment]) -> Iterable[Attachable]:
        for attachment in attachments:
            volume = self._storage.volumes.get(attachment.volume_name)
            if attachment.attacher and volume is not None and volume.source == "csi":
                yield attachment.attacher, volume.handle, ""

    def _recount(self, row: int) -> None:
        used, counts = self._of_row.pop(row, (set(), Counter()))
        for volume in used:
            self._rows[volume].discard(row)
        self._add(row, counts, -1)
        if row >= self._nodes.count:  # an appended row, truncated since
            self.broken.pop(row, None)
            return
        used = self._find_used(row)
        attached = self._sets[self._seen[row]] if self._seen[row] != arrays.ABSENT else frozenset()
        counts = Counter(driver for driver, _, _ in used | attached)
        if counts:
            self._of_row[row] = used, counts
            self._add(row, counts, 1)
        for volume in used:
            self._rows.setdefault(volume, set()).add(row)

    def _find_used(self, row: int) -> set[Attachable]:
        """The volumes that pods on a node use."""
        self.broken.pop(row, None)
        used: set[Attachable] = set()
        for thing in self._held.volumes_on(row):
            try:
                volume = find_attachable(self._storage, thing)
            except UnknownAttachment as error:
                self.broken.setdefault(row, error.reason)
            else:
                if volume is not None:
                    used.add(volume)
        return used

    def _add(self, row: int, counts: Counter[str], sign: int) -> None:
        for driver, count in counts.items():
            self.counts(driver)
            self._counts[driver][row] += sign * count


def _differences(old: arrays.Ids, new: arrays.Ids) -> set[int]:
    """Rows whose attachments are not the same as before."""
    both = min(len(old), len(new))
    rest = old[both:] if len(old) > both else new[both:]
    changed = set(np.flatnonzero(old[:both] != new[:both]).tolist())
    return changed | set((both + np.flatnonzero(rest != arrays.ABSENT)).tolist())


NAME = "NodeVolumeLimits"

TOO_MANY = Refusal(NAME, StatusCode.UNSCHEDULABLE, (Reason("node(s) exceed max volume count"),))

_UNLIMITED = np.iinfo(arrays.COUNT_DTYPE).max


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where every driver can attach what the pod adds; None if it adds nothing that counts."""
    if not shape.spec.volumes:
        return None
    desired = find_wanted(snapshot, shape)
    if isinstance(desired, Refusal):
        # Without a CSINode volumes are not resolved.
        return _lacks_drivers(snapshot) if desired.code is StatusCode.ERROR else np.zeros(snapshot.nodes.count, bool)
    if not desired:
        return None
    attached = _attached_volumes(snapshot)
    allowed = np.ones(snapshot.nodes.count, bool)
    for driver, in_tree in _find_required(snapshot, shape):
        allowed &= _is_served(snapshot, driver, in_tree)
    for driver in {driver for driver, _, _ in desired}:
        allowed &= _has_room(snapshot, attached, driver, {volume for volume in desired if volume[0] == driver})
    allowed[[row for row in attached.broken if _is_limited(snapshot, row)]] = False
    return allowed


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    desired = find_wanted(snapshot, shape)
    if isinstance(desired, Refusal):
        return desired
    for driver, in_tree in _find_required(snapshot, shape):
        if not _is_served(snapshot, driver, in_tree)[row]:
            reason = Reason("{} CSI driver is not installed on the node", (driver,))
            return Refusal(NAME, StatusCode.UNSCHEDULABLE, (reason,))
    broken = _attached_volumes(snapshot).broken.get(row)
    return TOO_MANY if broken is None else _refuse_everywhere(broken)


def find_wanted(snapshot: "Snapshot", shape: facts.PodShape) -> set[Attachable] | Refusal:
    """What a pod of the shape attaches to its node, or why that cannot be told."""
    for volume, claim in persistent_volumes.list_claimed(snapshot.storage, shape):
        if claim is None:
            reason = Reason(
                "looking up PVC {}/{}: {}",
                (shape.namespace, volume.claim, persistent_volumes.make_missing_claim_reason(volume)),
            )
            return Refusal(NAME, StatusCode.UNRESOLVABLE, (reason,))
    try:
        things = volume_usage.list_used_volumes(shape.namespace, shape.spec)
        return {attachable for thing in things if (attachable := find_attachable(snapshot.storage, thing)) is not None}
    except UnknownAttachment as error:
        return _refuse_everywhere(error.reason)


def _find_required(snapshot: "Snapshot", shape: facts.PodShape) -> list[tuple[str, bool]]:
    """(driver, is it for an in-tree volume?) of drivers that must be on the node, by name."""
    storage = snapshot.storage
    required = {name for name, driver in storage.drivers.items() if driver.prevents_scheduling_if_missing}
    if not required or not snapshot.release.requires_csi_drivers:
        return []
    things = [
        (find_attachable(storage, thing), thing)
        for thing in volume_usage.list_used_volumes(shape.namespace, shape.spec)
    ]
    return sorted({
        (driver[0], is_in_tree(storage, thing)) for driver, thing in things if driver and driver[0] in required
    })  # fmt: skip


def _is_served(snapshot: "Snapshot", driver: str, in_tree: bool) -> arrays.Mask:
    """Bool (n_nodes): the node's CSINode lists the driver. Without a CSINode in-tree volumes are not resolved."""

    def compute(rows: slice) -> arrays.Mask:
        csi_nodes = (snapshot.storage.find_csi_node(snapshot.nodes, row) for row in range(rows.start, rows.stop))
        return np.fromiter((in_tree if node is None else driver in dict(node.drivers) for node in csi_nodes), bool)

    return snapshot.storage.column(snapshot.nodes, ("CSI driver", driver, in_tree), compute)


def _refuse_everywhere(reason: Reason) -> Refusal:
    return Refusal(NAME, StatusCode.ERROR, (Reason('running "NodeVolumeLimits" filter plugin: {}', (reason,)),))


def _attached_volumes(snapshot: "Snapshot") -> AttachedVolumes:
    attached = snapshot.storage.cached("attached", lambda: AttachedVolumes(snapshot))
    attached.refresh()
    return attached


def _has_room(
    snapshot: "Snapshot", attached: AttachedVolumes, driver: str, attachables: set[Attachable]
) -> arrays.Mask:
    """Bool (n_nodes): the driver can attach these volumes, less those that pods there use already."""
    added = np.full(snapshot.nodes.count, len(attachables), arrays.COUNT_DTYPE)
    for volume in attachables:
        added[list(attached.rows(volume))] -= 1
    room: arrays.Mask = (added == 0) | (attached.counts(driver) + added <= _limits(snapshot, driver))
    return room


def _limits(snapshot: "Snapshot", driver: str) -> arrays.Counts:
    """Int32 (n_nodes): how many volumes the driver attaches to the node."""

    def compute(rows: slice) -> arrays.Counts:
        csi_nodes = (snapshot.storage.find_csi_node(snapshot.nodes, row) for row in range(rows.start, rows.stop))
        limits = (None if node is None else dict(node.drivers).get(driver) for node in csi_nodes)
        return np.fromiter((_UNLIMITED if limit is None else limit for limit in limits), arrays.COUNT_DTYPE)

    return snapshot.storage.column(snapshot.nodes, ("volume limit", driver), compute)


def _lacks_drivers(snapshot: "Snapshot") -> arrays.Mask:
    """Bool (n_nodes): the node has no CSINode."""
    table = snapshot.nodes
    csi_nodes = (snapshot.storage.find_csi_node(table, row) for row in range(table.count))
    return np.fromiter((node is None for node in csi_nodes), bool, table.count)


def _is_limited(snapshot: "Snapshot", row: int) -> bool:
    """Does any driver have a limit on the node? Only there are volumes counted."""
    node = snapshot.storage.find_csi_node(snapshot.nodes, row)
    return node is not None and any(limit is not None for _, limit in node.drivers)
