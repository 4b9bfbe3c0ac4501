"""Core objects: nodes, namespaces, persistent volumes and claims, replication controllers. Pods have their own file."""

from __future__ import annotations

import msgspec

from windlass.kube.models import meta
from windlass.kube.models.meta import Amounts, Model, Object


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
    """Its labels are all that anyone reads."""


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


class NodeAffinityOfVolume(Model, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Model, frozen=True):
    capacity: Amounts | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: NodeAffinityOfVolume | None = None
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


class Phase(Model, frozen=True):
    phase: str | None = None


class PersistentVolume(Object, frozen=True):
    spec: PersistentVolumeSpec | None = None
    status: Phase | None = None


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
    status: Phase | None = None


class Scale(Model, frozen=True):
    """The part of a workload's spec or status that says how many."""

    replicas: int | None = None


class ReplicationController(Object, frozen=True):
    spec: Scale | None = None
    status: Scale | None = None
