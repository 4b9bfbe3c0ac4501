"""A pod's volumes, as far as a filter or a drain rule looks at them."""

from collections.abc import Callable

from windlass.engine import facts
from windlass.kube import fields, intree
from windlass.kube.models import pods


def read(volumes: list[pods.Volume] | None) -> tuple[facts.Volume, ...]:
    """Volumes in their order; configuration (configMap, secret, projected …) is left out.

    The claim of an ephemeral volume is named after its pod: `claim_ephemeral` fills it in.
    """
    found = (_read(volume, f"spec.volumes[{i}]") for i, volume in enumerate(volumes or ()))
    return tuple(volume for volume in found if volume is not None)


def claim_ephemeral(volumes: tuple[facts.Volume, ...], pod_name: str, pod_uid: str) -> tuple[facts.Volume, ...]:
    """The same volumes, ephemeral ones with the claim that belongs to this pod."""
    return tuple(
        facts.Volume(volume.name, volume.source, claim=f"{pod_name}-{volume.name}", pod_uid=pod_uid)
        if volume.source == "ephemeral"
        else volume
        for volume in volumes
    )


def _read(volume: pods.Volume, at: str) -> facts.Volume | None:
    for read_source in _SOURCES:
        if (fact := read_source(volume, volume.name or "", at)) is not None:
            return fact
    return None


def _read_claim(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
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


def _read_disk(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    """Disks of clouds, which a CSI driver has taken over."""
    if (gce := volume.gce_persistent_disk) is not None:
        return _disk(name, "gcePersistentDisk", gce.pd_name, gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        return _disk(name, "awsElasticBlockStore", aws.volume_id, aws.read_only)
    if (azure := volume.azure_disk) is not None:
        return _disk(name, "azureDisk", azure.disk_uri, azure.read_only, is_known=intree.is_managed(azure.kind))
    if (cinder := volume.cinder) is not None:
        return _disk(name, "cinder", cinder.volume_id, cinder.read_only)
    if (portworx := volume.portworx_volume) is not None:
        return _disk(name, "portworxVolume", portworx.volume_id, portworx.read_only)
    return None


def _disk(name: str, source: str, disk: str | None, read_only: bool | None, *, is_known: bool = True) -> facts.Volume:
    return facts.Volume(
        name,
        source,
        read_only=bool(read_only),
        identity=(disk or "",),
        driver=intree.DRIVERS[source],
        handle=intree.handle(source, disk or "") if is_known else "",
    )


def _read_network_disk(volume: pods.Volume, name: str, at: str) -> facts.Volume | None:
    """ISCSI by its qualified name; RBD by pool, image and (any of) its monitors, in this order."""
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


_SOURCES: tuple[Callable[[pods.Volume, str, str], facts.Volume | None], ...] = (
    _read_claim,
    _read_ephemeral,
    _read_local,
    _read_disk,
    _read_network_disk,
    _read_csi,
)
