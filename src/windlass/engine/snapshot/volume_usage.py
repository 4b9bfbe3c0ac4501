"""Volumes: storage objects by the keys that filters look them up with, and the claims and disks that pods on nodes use.

What follows from storage alone is cached until storage changes (`cached`), what follows from storage and nodes
(`column`) also until a node changes. Usage is sparse: a claim is used on one node or a few, so a row of counts over all
nodes for each would be mostly zeros.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from windlass.engine.model import facts
from windlass.engine.snapshot import node_table


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """A claim that a pod uses, named by the pod or made for it."""

    namespace: str
    name: str
    volume: str = ""
    """Ephemeral: the pod's name of the volume that the claim was made for; empty where the pod names the claim."""
    pod_uid: str = ""
    """Ephemeral: the pod whose own the claim must be."""


UsedVolume: TypeAlias = ClaimReference | facts.Volume
"""A claim, or an inline disk as `disk` gives it."""


def make_disk_key(volume: facts.Volume) -> facts.Volume:
    """The volume without the name that its pod gives it: two pods that hold the same disk hold equal values."""
    return facts.Volume(
        "", volume.source, read_only=volume.read_only, identity=volume.identity, driver=volume.driver,
        handle=volume.handle,
    )  # fmt: skip


def find_claim_reference(namespace: str, volume: facts.Volume) -> ClaimReference:
    """The claim that a pod of this namespace uses by this volume."""
    if volume.source == "ephemeral":
        return ClaimReference(namespace, volume.claim, volume.name, volume.pod_uid)
    return ClaimReference(namespace, volume.claim)


def list_used_volumes(namespace: str, spec: facts.PodSpec) -> tuple[UsedVolume, ...]:
    """What a pod holds by its own spec; something that it names twice is listed twice."""
    return tuple(
        find_claim_reference(namespace, volume) if volume.claim else make_disk_key(volume)
        for volume in spec.volumes
        if volume.claim or volume.identity
    )


class VolumeUsage:
    """How many pods hold what, and where."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        """Nodes on which something changed; whoever keeps counts per node takes them out."""
        self._rows: dict[UsedVolume, dict[int, int]] = {}
        self._things: dict[int, dict[UsedVolume, int]] = {}
        self._disks: dict[str, set[facts.Volume]] = {}

    def add(self, thing: UsedVolume, row: int, pods: int) -> None:
        """`pods` more pods (fewer, if negative) hold it on a node."""
        rows = self._rows.setdefault(thing, {})
        count = rows[row] = rows.get(row, 0) + pods
        things = self._things.setdefault(row, {})
        if count:
            things[thing] = count
        else:
            del rows[row]
            things.pop(thing, None)
        if isinstance(thing, facts.Volume):
            self._list_disk(thing)
        if not rows:
            del self._rows[thing]
        self.touched.add(row)

    def clear(self, row: int) -> None:
        """The node is cut off, whatever pods held on it."""
        for thing, count in list(self._things.get(row, {}).items()):
            self.add(thing, row, -count)

    def rows(self, thing: UsedVolume) -> Collection[int]:
        """The nodes on which pods hold it."""
        return self._rows.get(thing, {}).keys()

    def volumes_on(self, row: int) -> Collection[UsedVolume]:
        """What pods on a node hold."""
        return self._things.get(row, {}).keys()

    def nodes(self) -> Collection[int]:
        """The nodes on which something is held, or was."""
        return self._things.keys()

    def disks(self, source: str) -> Collection[facts.Volume]:
        """Inline disks of a source that some pod holds somewhere."""
        return self._disks.get(source, set())

    def _list_disk(self, found: facts.Volume) -> None:
        disks = self._disks.setdefault(found.source, set())
        if self._rows[found]:
            disks.add(found)
        else:
            disks.discard(found)


StorageFact: TypeAlias = (
    facts.PersistentVolume
    | facts.PersistentVolumeClaim
    | facts.StorageClass
    | facts.CSINode
    | facts.CSIDriver
    | facts.CSIStorageCapacity
    | facts.VolumeAttachment
)

Cached = TypeVar("Cached")


class StorageTable:
    """What is known of storage. `version` changes with every change, so that whoever keeps a result can tell."""

    def __init__(self) -> None:
        self.version = 0
        self.volumes: dict[str, facts.PersistentVolume] = {}
        self.claims: dict[tuple[str, str], facts.PersistentVolumeClaim] = {}
        self.classes: dict[str, facts.StorageClass] = {}
        self.csi_nodes: dict[str, facts.CSINode] = {}
        self.drivers: dict[str, facts.CSIDriver] = {}
        self.capacities: dict[tuple[str, str], facts.CSIStorageCapacity] = {}
        self.attachments: dict[str, facts.VolumeAttachment] = {}
        self._kept: dict[Hashable, Any] = {}

    def put(self, fact: StorageFact) -> None:
        """Add an object, or replace the one of the same name."""
        self._change()
        match fact:
            case facts.PersistentVolume():
                self.volumes[fact.name] = fact
            case facts.PersistentVolumeClaim():
                self.claims[fact.namespace, fact.name] = fact
            case facts.StorageClass():
                self.classes[fact.name] = fact
            case facts.CSINode():
                self.csi_nodes[fact.name] = fact
            case facts.CSIDriver():
                self.drivers[fact.name] = fact
            case facts.CSIStorageCapacity():
                self.capacities[fact.namespace, fact.name] = fact
            case facts.VolumeAttachment():
                self.attachments[fact.name] = fact

    def put_all(self, found: Iterable[StorageFact]) -> None:
        for fact in found:
            self.put(fact)

    def remove(self, fact: StorageFact) -> None:
        """Take an object out; nothing happens if it is not there."""
        self._change()
        match fact:
            case facts.PersistentVolume():
                self.volumes.pop(fact.name, None)
            case facts.PersistentVolumeClaim():
                self.claims.pop((fact.namespace, fact.name), None)
            case facts.StorageClass():
                self.classes.pop(fact.name, None)
            case facts.CSINode():
                self.csi_nodes.pop(fact.name, None)
            case facts.CSIDriver():
                self.drivers.pop(fact.name, None)
            case facts.CSIStorageCapacity():
                self.capacities.pop((fact.namespace, fact.name), None)
            case facts.VolumeAttachment():
                self.attachments.pop(fact.name, None)

    def _change(self) -> None:
        self.version += 1
        self._kept.clear()

    def find_csi_node(self, table: node_table.NodeTable, row: int) -> facts.CSINode | None:
        """The CSINode of a node; of a copy of a template, the template's."""
        of_template = table.facts[row].csi_node
        return of_template if of_template is not None else self.csi_nodes.get(table.names[row])

    # What follows from it

    def cached(self, key: Hashable, compute: Callable[[], Cached]) -> Cached:
        """What `compute` gives, computed once and again after storage has changed."""
        if key not in self._kept:
            self._kept[key] = compute()
        value: Cached = self._kept[key]
        return value

    def column(
        self, table: node_table.NodeTable, key: Hashable, compute: Callable[[slice], node_table.ColumnDtype]
    ) -> node_table.ColumnDtype:
        """(n_nodes): `compute` for all rows of the table, kept while neither storage nor nodes change."""
        self.cached(("column", key), lambda: table.forget(key))
        return table.cached(key, compute)

    def volumes_of(self, storage_class: str) -> list[facts.PersistentVolume]:
        """The volumes of a class, smallest first, then by name."""
        return self.cached("volumes by class", self._group_volumes).get(storage_class, [])

    def _group_volumes(self) -> dict[str, list[facts.PersistentVolume]]:
        groups: dict[str, list[facts.PersistentVolume]] = {}
        for volume in sorted(self.volumes.values(), key=lambda volume: (volume.capacity_bytes, volume.name)):
            groups.setdefault(volume.storage_class, []).append(volume)
        return groups

    def capacities_of(self, storage_class: str) -> list[facts.CSIStorageCapacity]:
        """What drivers could still provision for a class."""
        return self.cached("capacities by class", self._group_capacities).get(storage_class, [])

    def _group_capacities(self) -> dict[str, list[facts.CSIStorageCapacity]]:
        groups: dict[str, list[facts.CSIStorageCapacity]] = {}
        for capacity in self.capacities.values():
            groups.setdefault(capacity.storage_class, []).append(capacity)
        return groups

    def attached_to(self, node: str) -> list[facts.VolumeAttachment]:
        """The volumes that are attached, or being attached, to a node."""
        return self.cached("attachments by node", self._group_attachments).get(node, [])

    def _group_attachments(self) -> dict[str, list[facts.VolumeAttachment]]:
        groups: dict[str, list[facts.VolumeAttachment]] = {}
        for attachment in self.attachments.values():
            groups.setdefault(attachment.node_name, []).append(attachment)
        return groups
