"""Volumes attached to nodes, counted by CSI driver: what pods there use, and what is attached without a pod.

One object per state of storage. Counts follow the pods: nodes on which a claim or disk came or went are counted anew
when someone next asks, so that forks and reverts need nothing of their own.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeAlias

import numpy as np

from windlass.engine import dtypes, facts, holdings, interning
from windlass.engine.predicates import volume_claims, volume_migration
from windlass.engine.snapshot import Snapshot
from windlass.engine.storage import Storage
from windlass.engine.verdict import Reason

Attachable: TypeAlias = tuple[str, str, str]
"""(driver, handle, ""): a volume; (driver, "", claim): one that is still to be provisioned."""


class Unattachable(Exception):
    """Nobody can tell what a pod's volume is; the scheduler counts nothing then and gives up."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def attachable(storage: Storage, thing: holdings.Thing) -> Attachable | None:
    """What a claim or disk attaches to a node; None if nothing that is counted."""
    if isinstance(thing, facts.Volume):
        if thing.driver and not thing.handle:
            raise Unattachable(Reason("converting volume from inline to csi: {} {}", (thing.source, thing.identity)))
        return (thing.driver, thing.handle, "") if thing.driver else None
    claim = storage.claims.get((thing.namespace, thing.name))
    if claim is None:
        return None
    if thing.volume and volume_claims.is_anothers(claim, thing.pod_uid):
        raise Unattachable(volume_claims.anothers(claim, thing.volume))
    volume = storage.volumes.get(claim.volume_name)
    if volume is not None:
        return (volume.driver, volume.handle, "") if volume.driver and volume.handle else None
    storage_class = storage.classes.get(claim.storage_class or "")
    driver = volume_migration.driver_of(storage_class.provisioner) if storage_class is not None else ""
    return (driver, "", f"{claim.namespace}/{claim.name}") if driver else None


def is_in_tree(storage: Storage, thing: holdings.Thing) -> bool:
    """Is what a claim or disk attaches spelled as an in-tree volume, which a CSI driver serves?"""
    if isinstance(thing, facts.Volume):
        return True
    claim = storage.claims.get((thing.namespace, thing.name))
    volume = None if claim is None else storage.volumes.get(claim.volume_name)
    if volume is not None:
        return volume.source != "csi"
    storage_class = None if claim is None else storage.classes.get(claim.storage_class or "")
    provisioner = "" if storage_class is None else storage_class.provisioner
    return volume_migration.driver_of(provisioner) != provisioner


class Attached:
    """How many volumes of each driver are attached to each node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.broken: dict[int, Reason] = {}
        """Nodes with a pod whose volume nobody can tell."""
        self._nodes = snapshot.nodes
        self._storage = snapshot.storage
        self._held = snapshot.tallies.held
        self._held.touched.update(self._held.nodes())
        self._counts: dict[str, dtypes.Counts] = {}
        self._of_row: dict[int, tuple[set[Attachable], Counter[str]]] = {}
        self._rows: dict[Attachable, set[int]] = {}
        self._sets: interning.Index[frozenset[Attachable]] = interning.Index()
        self._seen: dtypes.Ids = np.zeros(0, dtypes.ID)

    def counts(self, driver: str) -> dtypes.Counts:
        """Int32 (n_nodes): the driver's volumes on each node, as of the last `refresh`."""
        counts = self._counts.get(driver)
        if counts is None or len(counts) < self._nodes.count:
            missing = self._nodes.row_capacity() - (0 if counts is None else len(counts))
            counts = np.pad(np.zeros(0, dtypes.COUNT) if counts is None else counts, (0, missing))
            self._counts[driver] = counts
        return counts[: self._nodes.count]

    def rows(self, volume: Attachable) -> Collection[int]:
        """The nodes on which a pod uses the volume."""
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

    def _find_attachments(self, rows: slice) -> dtypes.Ids:
        """Int32 (n_rows): position in `_sets` of what is attached to the node, -1 if nothing."""
        found = np.full(rows.stop - rows.start, dtypes.ABSENT, dtypes.ID)
        for i, name in enumerate(self._nodes.names[rows]):
            attached = frozenset(self._read_attachments(self._storage.attached_to(name)))
            if attached:
                found[i] = self._sets.intern(attached)
        return found

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
        if row >= self._nodes.count:  # appended in a what-if, and cut off again
            self.broken.pop(row, None)
            return
        used = self._find_used(row)
        attached = self._sets[self._seen[row]] if self._seen[row] != dtypes.ABSENT else frozenset()
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
        for thing in self._held.things(row):
            try:
                volume = attachable(self._storage, thing)
            except Unattachable as error:
                self.broken.setdefault(row, error.reason)
            else:
                if volume is not None:
                    used.add(volume)
        return used

    def _add(self, row: int, counts: Counter[str], sign: int) -> None:
        for driver, count in counts.items():
            self.counts(driver)
            self._counts[driver][row] += sign * count


def _differences(old: dtypes.Ids, new: dtypes.Ids) -> set[int]:
    """Rows whose attachments are not the same as before."""
    both = min(len(old), len(new))
    rest = old[both:] if len(old) > both else new[both:]
    changed = set(np.flatnonzero(old[:both] != new[:both]).tolist())
    return changed | set((both + np.flatnonzero(rest != dtypes.ABSENT)).tolist())
