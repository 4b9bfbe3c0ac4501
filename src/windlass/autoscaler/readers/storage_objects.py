"""Storage reader: volumes of pods, and PersistentVolumes, PersistentVolumeClaims, StorageClasses and CSI objects.

CSI migration: the CSI driver and volume handle of in-tree disks.

Only the plugins that NodeVolumeLimits counts under their CSI driver are listed.
"""

from collections.abc import Callable, Mapping

from windlass import quantity, selectors
from windlass.engine.model import facts
from windlass.kube import fields
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import core, meta, pods
from windlass.selectors import LabelSelector, Operator

CSI_DRIVERS = {
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "portworxVolume": "pxd.portworx.com",
}
"""CSI driver by the API's name of the source."""

_UNSPECIFIED = "UNSPECIFIED"
_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def find_volume_handle(source: str, disk: str, labels: Mapping[str, str] | None = None) -> str:
    """The volume handle of an in-tree disk; `labels` are those of its PersistentVolume. Empty if unknown."""
    if source == "awsElasticBlockStore":
        return _handle_aws(disk)
    if source == "gcePersistentDisk":
        return _handle_gce(disk, labels or {})
    return disk if source in CSI_DRIVERS else ""


def explain_missing_handle(
    source: str, disk: str, labels: Mapping[str, str] | None = None, azure_kind: str | None = None
) -> str:
    """Why a disk has no handle, in kube-scheduler's words; empty if that is unknown."""
    if source == "awsElasticBlockStore":
        return f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({disk})"
    if source == "azureDisk":
        return f"kind({azure_kind}) is not supported in csi migration"
    return _explain_gce(labels or {}) if source == "gcePersistentDisk" else ""


def _explain_gce(labels: Mapping[str, str]) -> str:
    zones = _find_gce_zones(labels)
    unlike = next((zone for zone in zones if zone.count("-") != 2), None)
    if unlike is not None:
        reason = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {unlike}"
    else:
        regions = " ".join(f"{region}:{{}}" for region in sorted({zone.rpartition("-")[0] for zone in zones}))
        reason = f"multiple or no regions gotten from zones, got: map[{regions}]"
    return f"failed to get region from zones: {reason}"


def is_managed_azure_disk(azure_kind: str | None) -> bool:
    """True for managed disks, the only ones migrated. kube-apiserver defaults the kind to `Shared`."""
    return azure_kind is None or azure_kind.lower() == "managed"


def _handle_aws(disk: str) -> str:
    """`vol-1`, or `aws://zone/vol-1` of older volumes."""
    if not disk.startswith("aws://"):
        return disk
    _, _, path = disk.removeprefix("aws://").partition("/")
    volume = path.strip("/")
    return volume if volume.startswith("vol-") and "/" not in volume else ""


def _handle_gce(disk: str, labels: Mapping[str, str]) -> str:
    """The handle contains the zone of a zonal disk, and the region of a regional one (`a__b` in the label)."""
    zones = _find_gce_zones(labels)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk}"
    regions = {tuple(zone.split("-")[:2]) for zone in zones if zone.count("-") == 2}
    if len(regions) != 1 or any(zone.count("-") != 2 for zone in zones):
        return ""
    return f"projects/{_UNSPECIFIED}/regions/{'-'.join(regions.pop())}/disks/{disk}"


def _find_gce_zones(labels: Mapping[str, str]) -> list[str]:
    return next((labels[label] for label in _ZONE_LABELS if labels.get(label)), "").split("__")


def read_pod_volumes(volumes: list[pods.Volume] | None) -> tuple[facts.Volume, ...]:
    """Read volumes in order; configuration volumes (configMap, secret, projected …) are left out.

    The claim name of an ephemeral volume depends on the pod: `resolve_ephemeral_claims` fills it in.
    """
    pod_volumes = (_read_pod_volume(volume, f"spec.volumes[{i}]") for i, volume in enumerate(volumes or ()))
    return tuple(volume for volume in pod_volumes if volume is not None)


def resolve_ephemeral_claims(
    volumes: tuple[facts.Volume, ...], pod_name: str, pod_uid: str
) -> tuple[facts.Volume, ...]:
    """Return the volumes with the pod's own claim for each ephemeral one."""
    return tuple(
        facts.Volume(volume.name, volume.source, claim=f"{pod_name}-{volume.name}", pod_uid=pod_uid)
        if volume.source == "ephemeral"
        else volume
        for volume in volumes
    )


def _read_pod_volume(volume: pods.Volume, at: str) -> facts.Volume | None:
    for read_source in _POD_VOLUME_READERS:
        if (fact := read_source(volume, volume.name or "", at)) is not None:
            return fact
    return None


def _read_claim_volume(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    if (source := volume.persistent_volume_claim) is None:
        return None
    if not source.claim_name:
        raise fields.InvalidField(f"{at}.persistentVolumeClaim.claimName", source.claim_name, "the name of a claim")
    return facts.Volume(name, "persistentVolumeClaim", claim=source.claim_name, read_only=bool(source.read_only))


def _read_ephemeral(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    return None if volume.ephemeral is None else facts.Volume(name, "ephemeral")


def _read_local(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    if (empty := volume.empty_dir) is not None:
        return facts.Volume(name, "emptyDir", medium=empty.medium or "")
    return None if volume.host_path is None else facts.Volume(name, "hostPath")


def _read_cloud_disk(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    """Read an in-tree cloud disk, which a CSI driver has replaced."""
    if (gce := volume.gce_persistent_disk) is not None:
        return _make_disk(name, "gcePersistentDisk", gce.pd_name, gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        return _make_disk(name, "awsElasticBlockStore", aws.volume_id, aws.read_only)
    if (azure := volume.azure_disk) is not None:
        return _make_disk(
            name, "azureDisk", azure.disk_uri, azure.read_only, is_known=is_managed_azure_disk(azure.kind)
        )
    if (cinder := volume.cinder) is not None:
        return _make_disk(name, "cinder", cinder.volume_id, cinder.read_only)
    if (portworx := volume.portworx_volume) is not None:
        return _make_disk(name, "portworxVolume", portworx.volume_id, portworx.read_only)
    return None


def _make_disk(
    name: str, source: str, disk: str | None, read_only: bool | None, *, is_known: bool = True
) -> facts.Volume:
    return facts.Volume(
        name,
        source,
        read_only=bool(read_only),
        identity=(disk or "",),
        driver=CSI_DRIVERS[source],
        handle=find_volume_handle(source, disk or "") if is_known else "",
    )


def _read_network_disk(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    """Read iSCSI by qualified name, RBD by pool, image and monitors."""
    if (iscsi := volume.iscsi) is not None:
        return facts.Volume(name, "iscsi", read_only=bool(iscsi.read_only), identity=(iscsi.iqn or "",))
    if (rbd := volume.rbd) is not None:
        identity = (rbd.pool or "rbd", rbd.image or "", *(rbd.monitors or ()))
        return facts.Volume(name, "rbd", read_only=bool(rbd.read_only), identity=identity)
    return None


def _read_csi(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    if (csi := volume.csi) is None:
        return None
    return facts.Volume(name, "csi", read_only=bool(csi.read_only), driver=csi.driver or "")


_POD_VOLUME_READERS: tuple[Callable[[pods.Volume, str, str], facts.Volume | None], ...] = (
    _read_claim_volume,
    _read_ephemeral,
    _read_local,
    _read_cloud_disk,
    _read_network_disk,
    _read_csi,
)

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

_VOLUME_SOURCES = (
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
    source, driver, handle, reason = _read_source(spec, metadata)
    return facts.PersistentVolume(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NO_LABELS,
        annotations=metadata.annotations or facts.NO_LABELS,
        capacity_bytes=_read_bytes((spec.capacity or {}).get("storage"), "spec.capacity[storage]"),
        access_modes=tuple(spec.access_modes or ()),
        storage_class=_read_class_name(metadata, spec.storage_class_name) or "",
        volume_mode=spec.volume_mode or "Filesystem",
        node_affinity=kube_selectors.parse_node_affinity(affinity, "spec.nodeAffinity.required", []),
        phase=(volume.status.phase if volume.status else None) or "",
        claim_namespace=claim.namespace or "",
        claim_name=claim.name or "",
        claim_uid=claim.uid or "",
        terminating=metadata.deletion_timestamp is not None,
        source=source,
        driver=driver,
        handle=handle,
        untranslatable=reason,
        attributes_class=spec.volume_attributes_class_name or "",
    )


def _read_source(spec: core.PersistentVolumeSpec, metadata: meta.ObjectMeta) -> tuple[str, str, str, str]:
    """Return source, CSI driver, volume handle, and why there is no handle."""
    if spec.csi is not None:
        return "csi", spec.csi.driver or "", spec.csi.volume_handle or "", ""
    source = next((_api_name(name) for name in _VOLUME_SOURCES if getattr(spec, name) is not None), "")
    if source not in CSI_DRIVERS:
        return source, "", "", ""
    azure_kind = spec.azure_disk.kind if spec.azure_disk is not None else None
    disk = _read_disk(spec)
    handle = find_volume_handle(source, disk, metadata.labels) if is_managed_azure_disk(azure_kind) else ""
    reason = "" if handle else explain_missing_handle(source, disk, metadata.labels, azure_kind)
    return source, CSI_DRIVERS[source], handle, reason


def _read_disk(spec: core.PersistentVolumeSpec) -> str:
    """Return the disk name of an in-tree source."""
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
        annotations=metadata.annotations or facts.NO_LABELS,
        owner_uids=(owner.uid,) if owner is not None and owner.uid else (),
        storage_class=_read_class_name(metadata, spec.storage_class_name),
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
    """Read a claim's selector, or return kube-scheduler's message for one that cannot be parsed."""
    try:
        return kube_selectors.parse_label_selector(spec.selector, "spec.selector"), ""
    except kube_selectors.InvalidSelector as error:
        return None, error.message


def read_storage_class(storage_class: core.StorageClass) -> facts.StorageClass:
    topologies = tuple(_read_topology(term) for term in storage_class.allowed_topologies or ())
    return facts.StorageClass(
        name=storage_class.meta.name or "",
        provisioner=storage_class.provisioner or "",
        waits_for_consumer=storage_class.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=topologies,
    )


def _read_topology(term: core.TopologyTerm) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the (key, values) pairs of a term; none, which no node matches, if one cannot be parsed."""
    expressions = tuple(
        (topology_expression.key or "", tuple(topology_expression.values or ()))
        for topology_expression in term.match_label_expressions or ()
    )
    is_parsable = not any(selectors.validate_requirement(key, Operator.IN, values) for key, values in expressions)
    return expressions if is_parsable else ()


def read_csi_node(node: core.CSINode) -> facts.CSINode:
    drivers = (node.spec.drivers if node.spec else None) or ()
    migrated = (node.meta.annotations or {}).get(_MIGRATED, "")
    return facts.CSINode(
        name=node.meta.name or "",
        drivers=tuple((d.name or "", d.allocatable.count if d.allocatable is not None else None) for d in drivers),
        migrated_plugins=frozenset(plugin for plugin in migrated.split(",") if plugin),
    )


def read_csi_driver(driver: core.CSIDriver) -> facts.CSIDriver:
    spec = driver.spec or core.CSIDriverSpec()
    return facts.CSIDriver(
        driver.meta.name or "", bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing)
    )


def read_storage_capacity(capacity: core.CSIStorageCapacity) -> facts.CSIStorageCapacity:
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


def _read_node_topology(capacity: core.CSIStorageCapacity) -> LabelSelector | None:
    """Return from which nodes the storage is accessible: from none, if a term cannot be parsed."""
    try:
        return kube_selectors.parse_label_selector(capacity.node_topology, "nodeTopology")
    except kube_selectors.InvalidSelector:
        return None


def read_attachment(attachment: core.VolumeAttachment) -> facts.VolumeAttachment:
    spec = attachment.spec or core.VolumeAttachmentSpec()
    return facts.VolumeAttachment(
        name=attachment.meta.name or "",
        attacher=spec.attacher or "",
        node_name=spec.node_name or "",
        volume_name=(spec.source.persistent_volume_name if spec.source else None) or "",
    )


def _read_class_name(metadata: meta.ObjectMeta, name: str | None) -> str | None:
    """Return the StorageClass of a volume or claim: the beta annotation takes precedence over the field."""
    return (metadata.annotations or {}).get(_BETA_CLASS, name)


def _read_bytes(value: object, at: str) -> int:
    amount = fields.read_quantity(value, at)
    if amount < quantity.ZERO:
        raise fields.InvalidField(at, value, "a quantity of zero or more")
    return amount.value()


def _read_limit(value: object, at: str) -> int | None:
    return None if value is None else _read_bytes(value, at)
