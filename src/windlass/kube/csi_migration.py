"""CSI migration: the CSI driver and volume handle of in-tree disks.

Only the plugins that NodeVolumeLimits counts under their CSI driver are listed.
"""

from collections.abc import Mapping

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
