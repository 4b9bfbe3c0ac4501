"""Storage: volumes, claims and classes by the keys that filters look them up with.

What follows from storage alone is kept until storage changes (`kept`), and so is what follows from storage and nodes
together (`column`): such a column is extended by rows that are appended and dropped when a node changes, too.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar

from windlass.engine import facts, nodes

Fact: TypeAlias = (
    facts.PersistentVolume
    | facts.PersistentVolumeClaim
    | facts.StorageClass
    | facts.CSINode
    | facts.CSIDriver
    | facts.CSIStorageCapacity
    | facts.VolumeAttachment
)
Value = TypeVar("Value")


class Storage:
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

    def put(self, fact: Fact) -> None:
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

    def put_all(self, found: Iterable[Fact]) -> None:
        for fact in found:
            self.put(fact)

    def remove(self, fact: Fact) -> None:
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

    def find_csi_node(self, table: nodes.NodeTable, row: int) -> facts.CSINode | None:
        """The CSINode of a node; of a copy of a template, the template's."""
        of_template = table.facts[row].csi_node
        return of_template if of_template is not None else self.csi_nodes.get(table.names[row])

    # What follows from it

    def kept(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """What `compute` gives, computed once and again after storage has changed."""
        if key not in self._kept:
            self._kept[key] = compute()
        value: Value = self._kept[key]
        return value

    def column(self, table: nodes.NodeTable, key: Hashable, compute: Callable[[slice], nodes.Column]) -> nodes.Column:
        """(n_nodes): `compute` for all rows of the table, kept while neither storage nor nodes change."""
        self.kept(("column", key), lambda: table.forget(key))
        return table.kept(key, compute)

    def volumes_of(self, storage_class: str) -> list[facts.PersistentVolume]:
        """The volumes of a class, smallest first, then by name."""
        return self.kept("volumes by class", self._group_volumes).get(storage_class, [])

    def _group_volumes(self) -> dict[str, list[facts.PersistentVolume]]:
        groups: dict[str, list[facts.PersistentVolume]] = {}
        for volume in sorted(self.volumes.values(), key=lambda volume: (volume.capacity_bytes, volume.name)):
            groups.setdefault(volume.storage_class, []).append(volume)
        return groups

    def capacities_of(self, storage_class: str) -> list[facts.CSIStorageCapacity]:
        """What drivers could still provision for a class."""
        return self.kept("capacities by class", self._group_capacities).get(storage_class, [])

    def _group_capacities(self) -> dict[str, list[facts.CSIStorageCapacity]]:
        groups: dict[str, list[facts.CSIStorageCapacity]] = {}
        for capacity in self.capacities.values():
            groups.setdefault(capacity.storage_class, []).append(capacity)
        return groups

    def attached_to(self, node: str) -> list[facts.VolumeAttachment]:
        """The volumes that are attached, or being attached, to a node."""
        return self.kept("attachments by node", self._group_attachments).get(node, [])

    def _group_attachments(self) -> dict[str, list[facts.VolumeAttachment]]:
        groups: dict[str, list[facts.VolumeAttachment]] = {}
        for attachment in self.attachments.values():
            groups.setdefault(attachment.node_name, []).append(attachment)
        return groups
