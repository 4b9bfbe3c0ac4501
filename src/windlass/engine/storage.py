"""Storage: volumes, claims and classes by the keys that filters look them up with."""

from collections.abc import Iterable
from typing import TypeAlias

from windlass.engine import facts

Fact: TypeAlias = (
    facts.PersistentVolume
    | facts.PersistentVolumeClaim
    | facts.StorageClass
    | facts.CSINode
    | facts.CSIDriver
    | facts.CSIStorageCapacity
    | facts.VolumeAttachment
)


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

    def put(self, fact: Fact) -> None:
        """Add an object, or replace the one of the same name."""
        self.version += 1
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
        self.version += 1
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
