"""storage.k8s.io: classes, CSI drivers and nodes, capacity, attachments."""

from __future__ import annotations

import msgspec

from windlass.kube.models import meta
from windlass.kube.models.meta import Model, Object


class TopologyExpression(Model, frozen=True):
    key: str | None = None
    values: list[str] | None = None


class TopologyTerm(Model, frozen=True):
    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(Object, frozen=True):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverLimits(Model, frozen=True):
    count: int | None = None


class NodeDriver(Model, frozen=True):
    name: str | None = None
    node_id: str | None = msgspec.field(default=None, name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: DriverLimits | None = None


class CSINodeSpec(Model, frozen=True):
    drivers: list[NodeDriver] | None = None


class CSINode(Object, frozen=True):
    spec: CSINodeSpec | None = None


class CSIDriverSpec(Model, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    spec: CSIDriverSpec | None = None


class CSIStorageCapacity(Object, frozen=True):
    storage_class_name: str | None = None
    node_topology: meta.LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSource(Model, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Model, frozen=True):
    attacher: str | None = None
    node_name: str | None = None
    source: AttachmentSource | None = None


class VolumeAttachment(Object, frozen=True):
    spec: VolumeAttachmentSpec | None = None
