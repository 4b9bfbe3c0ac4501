"""Volumes: storage objects by the keys that filters look them up with, and the claims and disks that pods on nodes use.

What follows from storage alone is cached until storage changes (`cached`), what follows from storage and nodes
(`column`) also until a node changes. Usage is sparse: a claim is used on one node or a few, so a row of counts over all
nodes for each would be mostly zeros.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from windlass.engine.model import facts

if TYPE_CHECKING:
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
    """Number of pods that use each volume, by node."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        """Rows of nodes whose usage changed; caches of per-node counts remove the rows they have updated."""
        self._by_volume: dict[UsedVolume, dict[int, int]] = {}
        self._by_row: dict[int, dict[UsedVolume, int]] = {}
        self._disks: dict[str, set[facts.Volume]] = {}

    def used_by(self, shape: facts.PodShape) -> tuple[UsedVolume, ...]:
        return list_used_volumes(shape.namespace, shape.spec)

    def add(self, used: UsedVolume, row: int, pods: int) -> None:
        """Add `pods` users of the volume on a node; negative: remove them."""
        rows = self._by_volume.setdefault(used, {})
        count = rows[row] = rows.get(row, 0) + pods
        held = self._by_row.setdefault(row, {})
        if count:
            held[used] = count
        else:
            del rows[row]
            held.pop(used, None)
        if isinstance(used, facts.Volume):
            self._list_disk(used)
        if not rows:
            del self._by_volume[used]
        self.touched.add(row)

    def clear(self, row: int) -> None:
        """Remove all usage on a truncated node."""
        for used, count in list(self._by_row.get(row, {}).items()):
            self.add(used, row, -count)

    def rows(self, used: UsedVolume) -> Collection[int]:
        """The rows of nodes with pods that use it."""
        return self._by_volume.get(used, {}).keys()

    def volumes_on(self, row: int) -> Collection[UsedVolume]:
        """The volumes used by pods on a node."""
        return self._by_row.get(row, {}).keys()

    def nodes(self) -> Collection[int]:
        """The rows of nodes that have, or had, usage."""
        return self._by_row.keys()

    def disks(self, source: str) -> Collection[facts.Volume]:
        """Inline disks of a source that a pod uses on any node."""
        return self._disks.get(source, set())

    def _list_disk(self, volume: facts.Volume) -> None:
        disks = self._disks.setdefault(volume.source, set())
        if self._by_volume[volume]:
            disks.add(volume)
        else:
            disks.discard(volume)


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
    """Storage objects. `version` rises with every change, so that derived results can be invalidated."""

    def __init__(self) -> None:
        self.version = 0
        self.volumes: dict[str, facts.PersistentVolume] = {}
        self.claims: dict[tuple[str, str], facts.PersistentVolumeClaim] = {}
        self.classes: dict[str, facts.StorageClass] = {}
        self.csi_nodes: dict[str, facts.CSINode] = {}
        self.drivers: dict[str, facts.CSIDriver] = {}
        self.capacities: dict[tuple[str, str], facts.CSIStorageCapacity] = {}
        self.attachments: dict[str, facts.VolumeAttachment] = {}
        self._cache: dict[Hashable, Any] = {}

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

    def put_all(self, storage_facts: Iterable[StorageFact]) -> None:
        for fact in storage_facts:
            self.put(fact)

    def remove(self, fact: StorageFact) -> None:
        """Remove an object; no effect if it does not exist."""
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
        self._cache.clear()

    def find_csi_node(self, table: "node_table.NodeTable", row: int) -> facts.CSINode | None:
        """The CSINode of a node; of a copy of a template, the template's."""
        of_template = table.facts[row].csi_node
        return of_template if of_template is not None else self.csi_nodes.get(table.names[row])

    # Derived values

    def cached(self, key: Hashable, compute: Callable[[], Cached]) -> Cached:
        """The result of `compute`, cached until storage changes."""
        if key not in self._cache:
            self._cache[key] = compute()
        value: Cached = self._cache[key]
        return value

    def column(
        self, table: "node_table.NodeTable", key: Hashable, compute: "Callable[[slice], node_table.ColumnDtype]"
    ) -> "node_table.ColumnDtype":
        """(n_nodes,): `compute` for all rows of the table, cached until storage or nodes change."""
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
        """CSIStorageCapacity objects of a class."""
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
