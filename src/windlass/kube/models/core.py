"""Core objects without pods: nodes, namespaces, volumes and storage classes, ConfigMaps, Services, Events, Leases.

API groups: core, events, coordination.k8s.io, storage.k8s.io.
"""

from __future__ import annotations

import msgspec

from windlass.kube.models import meta
from windlass.kube.models.meta import Amounts, Model, Object, Time


class Taint(Model, frozen=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Model, frozen=True):
    taints: list[Taint] | None = None
    unschedulable: bool | None = None
    provider_id: str | None = msgspec.field(default=None, name="providerID")


class NodeStatus(Model, frozen=True):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    conditions: list[meta.Condition] | None = None
    declared_features: list[str] | None = None


class Node(Object, frozen=True):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Namespace(Object, frozen=True):
    """Only its labels are used."""


class NodeSelectorTerm(Model, frozen=True):
    match_expressions: list[meta.Requirement] | None = None
    match_fields: list[meta.Requirement] | None = None


class NodeSelector(Model, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class ResourceRequirements(Model, frozen=True):
    requests: Amounts | None = None
    limits: Amounts | None = None


class ObjectReference(Model, frozen=True):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class CSISource(Model, frozen=True):
    driver: str | None = None
    volume_handle: str | None = None


class GCEPersistentDisk(Model, frozen=True):
    pd_name: str | None = None
    read_only: bool | None = None


class AWSElasticBlockStore(Model, frozen=True):
    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    read_only: bool | None = None


class AzureDisk(Model, frozen=True):
    disk_uri: str | None = msgspec.field(default=None, name="diskURI")
    kind: str | None = None
    read_only: bool | None = None


class Cinder(Model, frozen=True):
    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    read_only: bool | None = None


class Portworx(Model, frozen=True):
    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    read_only: bool | None = None


class VolumeNodeAffinity(Model, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Model, frozen=True):
    capacity: Amounts | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    local: Model | None = None
    host_path: Model | None = None
    nfs: Model | None = None
    iscsi: Model | None = None
    rbd: Model | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: Model | None = None
    cinder: Cinder | None = None
    portworx_volume: Portworx | None = None
    vsphere_volume: Model | None = None


class PhaseStatus(Model, frozen=True):
    phase: str | None = None


class PersistentVolume(Object, frozen=True):
    spec: PersistentVolumeSpec | None = None
    status: PhaseStatus | None = None


class PersistentVolumeClaimSpec(Model, frozen=True):
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_name: str | None = None
    resources: ResourceRequirements | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    selector: meta.LabelSelector | None = None


class PersistentVolumeClaim(Object, frozen=True):
    spec: PersistentVolumeClaimSpec | None = None
    status: PhaseStatus | None = None


class Scale(Model, frozen=True):
    """Replicas of a Scale."""

    replicas: int | None = None


class ReplicationController(Object, frozen=True):
    spec: Scale | None = None
    status: Scale | None = None


class ConfigMap(Object, frozen=True):
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None
    immutable: bool | None = None


class Secret(Object, frozen=True):
    type: str | None = None
    data: dict[str, bytes] | None = None
    """Decoded from base64."""
    immutable: bool | None = None

    def __repr__(self) -> str:
        """Representation without secret data."""
        return f"Secret({self.meta.key}, {sorted(self.data or ())})"


class ServiceSpec(Model, frozen=True):
    type: str | None = None
    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec | None = None


class InvolvedObject(Model, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(Model, frozen=True):
    component: str | None = None
    host: str | None = None


class Event(Object, frozen=True):
    involved_object: InvolvedObject | None = None
    type: str | None = None
    """`Normal` or `Warning`."""
    reason: str | None = None
    message: str | None = None
    source: EventSource | None = None
    count: int | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    reporting_component: str | None = None


class LeaseSpec(Model, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec | None = None


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
