"""Storage: volumes, claims, classes and what CSI tells."""

from windlass import label_syntax
from windlass.engine import facts
from windlass.kube import fields, intree, quantity, selectors
from windlass.kube.models import core, meta, storage
from windlass.selectors import LabelSelector, Operator

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

_SOURCES = (
    "csi", "local", "host_path", "nfs", "iscsi", "rbd", "gce_persistent_disk", "aws_elastic_block_store",
    "azure_disk", "azure_file", "cinder", "portworx_volume", "vsphere_volume",
)  # fmt: skip


def read_volume(volume: core.PersistentVolume) -> facts.PersistentVolume:
    try:
        return _read_volume(volume)
    except fields.InvalidField as error:
        raise error.of("PersistentVolume", volume.meta.key) from error


def _read_volume(volume: core.PersistentVolume) -> facts.PersistentVolume:
    metadata, spec = volume.meta, volume.spec or core.PersistentVolumeSpec()
    claim = spec.claim_ref or core.ObjectReference()
    affinity = spec.node_affinity.required if spec.node_affinity else None
    source, driver, handle, why = _read_source(spec, metadata)
    return facts.PersistentVolume(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NOTHING,
        annotations=metadata.annotations or facts.NOTHING,
        capacity_bytes=_read_bytes((spec.capacity or {}).get("storage"), "spec.capacity[storage]"),
        access_modes=tuple(spec.access_modes or ()),
        storage_class=_read_class(metadata, spec.storage_class_name) or "",
        volume_mode=spec.volume_mode or "Filesystem",
        node_affinity=selectors.read_affinity(affinity, "spec.nodeAffinity.required", []),
        phase=(volume.status.phase if volume.status else None) or "",
        claim_namespace=claim.namespace or "",
        claim_name=claim.name or "",
        claim_uid=claim.uid or "",
        terminating=metadata.deletion_timestamp is not None,
        source=source,
        driver=driver,
        handle=handle,
        untranslatable=why,
        attributes_class=spec.volume_attributes_class_name or "",
    )


def _read_source(spec: core.PersistentVolumeSpec, metadata: meta.ObjectMeta) -> tuple[str, str, str, str]:
    """Source, CSI driver, handle, and why there is no handle."""
    if spec.csi is not None:
        return "csi", spec.csi.driver or "", spec.csi.volume_handle or "", ""
    source = next((_api_name(name) for name in _SOURCES if getattr(spec, name) is not None), "")
    if source not in intree.DRIVERS:
        return source, "", "", ""
    azure_kind = spec.azure_disk.kind if spec.azure_disk is not None else None
    disk = _read_disk(spec)
    handle = intree.handle(source, disk, metadata.labels) if intree.is_managed(azure_kind) else ""
    why = "" if handle else intree.complain(source, disk, metadata.labels, azure_kind)
    return source, intree.DRIVERS[source], handle, why


def _read_disk(spec: core.PersistentVolumeSpec) -> str:
    """What names the disk in its in-tree source."""
    if spec.gce_persistent_disk is not None:
        return spec.gce_persistent_disk.pd_name or ""
    if spec.azure_disk is not None:
        return spec.azure_disk.disk_uri or ""
    numbered = spec.aws_elastic_block_store or spec.cinder or spec.portworx_volume
    return (numbered.volume_id if numbered else None) or ""


def _api_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def read_claim(claim: core.PersistentVolumeClaim) -> facts.PersistentVolumeClaim:
    try:
        return _read_claim(claim)
    except fields.InvalidField as error:
        raise error.of("PersistentVolumeClaim", claim.meta.key) from error


def _read_claim(claim: core.PersistentVolumeClaim) -> facts.PersistentVolumeClaim:
    metadata, spec = claim.meta, claim.spec or core.PersistentVolumeClaimSpec()
    selector, selector_fault = _read_selector(spec)
    requests = (spec.resources.requests if spec.resources else None) or {}
    owner = metadata.controller
    return facts.PersistentVolumeClaim(
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        uid=metadata.uid or "",
        annotations=metadata.annotations or facts.NOTHING,
        owner_uids=(owner.uid,) if owner is not None and owner.uid else (),
        storage_class=_read_class(metadata, spec.storage_class_name),
        volume_name=spec.volume_name or "",
        request_bytes=_read_bytes(requests.get("storage"), "spec.resources.requests[storage]"),
        access_modes=tuple(spec.access_modes or ()),
        volume_mode=spec.volume_mode or "Filesystem",
        selector=selector,
        phase=(claim.status.phase if claim.status else None) or "Pending",
        terminating=metadata.deletion_timestamp is not None,
        attributes_class=spec.volume_attributes_class_name or "",
        selector_fault=selector_fault,
    )


def _read_selector(spec: core.PersistentVolumeClaimSpec) -> tuple[LabelSelector | None, str]:
    """The selector of a claim, or kube-scheduler's words for why it cannot be parsed."""
    try:
        return selectors.read_labels(spec.selector, "spec.selector"), ""
    except selectors.InvalidSelector as error:
        return None, error.message


def read_class(storage_class: storage.StorageClass) -> facts.StorageClass:
    topologies = tuple(_read_topology(term) for term in storage_class.allowed_topologies or ())
    return facts.StorageClass(
        name=storage_class.meta.name or "",
        provisioner=storage_class.provisioner or "",
        waits_for_consumer=storage_class.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=topologies,
    )


def _read_topology(term: storage.TopologyTerm) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The (key, values) of a term; none, which no node matches, if kube-scheduler cannot parse one of them."""
    found = tuple((one.key or "", tuple(one.values or ())) for one in term.match_label_expressions or ())
    is_parsable = not any(label_syntax.find_faults(key, Operator.IN, values) for key, values in found)
    return found if is_parsable else ()


def read_csi_node(node: storage.CSINode) -> facts.CSINode:
    drivers = (node.spec.drivers if node.spec else None) or ()
    migrated = (node.meta.annotations or {}).get(_MIGRATED, "")
    return facts.CSINode(
        name=node.meta.name or "",
        drivers=tuple((d.name or "", d.allocatable.count if d.allocatable is not None else None) for d in drivers),
        migrated_plugins=frozenset(plugin for plugin in migrated.split(",") if plugin),
    )


def read_csi_driver(driver: storage.CSIDriver) -> facts.CSIDriver:
    spec = driver.spec or storage.CSIDriverSpec()
    return facts.CSIDriver(
        driver.meta.name or "", bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing)
    )


def read_capacity(capacity: storage.CSIStorageCapacity) -> facts.CSIStorageCapacity:
    try:
        return facts.CSIStorageCapacity(
            namespace=capacity.meta.namespace or "",
            name=capacity.meta.name or "",
            storage_class=capacity.storage_class_name or "",
            node_topology=_read_node_topology(capacity),
            capacity_bytes=_read_limit(capacity.capacity, "capacity"),
            maximum_volume_bytes=_read_limit(capacity.maximum_volume_size, "maximumVolumeSize"),
        )
    except fields.InvalidField as error:
        raise error.of("CSIStorageCapacity", capacity.meta.key) from error


def _read_node_topology(capacity: storage.CSIStorageCapacity) -> LabelSelector | None:
    """From where the storage can be reached: from nowhere, if kube-scheduler cannot parse it."""
    try:
        return selectors.read_labels(capacity.node_topology, "nodeTopology")
    except selectors.InvalidSelector:
        return None


def read_attachment(attachment: storage.VolumeAttachment) -> facts.VolumeAttachment:
    spec = attachment.spec or storage.VolumeAttachmentSpec()
    return facts.VolumeAttachment(
        name=attachment.meta.name or "",
        attacher=spec.attacher or "",
        node_name=spec.node_name or "",
        volume_name=(spec.source.persistent_volume_name if spec.source else None) or "",
    )


def _read_class(metadata: meta.ObjectMeta, name: str | None) -> str | None:
    """The class of a volume or claim: the beta annotation still goes before the field."""
    return (metadata.annotations or {}).get(_BETA_CLASS, name)


def _read_bytes(value: object, at: str) -> int:
    amount = fields.read_quantity(value, at)
    if amount < quantity.ZERO:
        raise fields.InvalidField(at, value, "a quantity of zero or more")
    return amount.value()


def _read_limit(value: object, at: str) -> int | None:
    return None if value is None else _read_bytes(value, at)
