"""Persistent volumes and claims of pods, and CSI migration of in-tree volumes.

Kubernetes moved the drivers of cloud disks out of its own tree; an object that still names the in-tree plugin is
translated: which CSI driver, which volume handle, and which topology label of the nodes its zone now means.
"""

import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from windlass import quantity
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, annotations_of, labels_of
from windlass.simulator.reference_scheduler.framework import FilterError

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Annotation that precedes the field and overrides it."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that is backed by a claim."""

    name: str
    """Of the claim."""
    is_ephemeral: bool
    """The claim is made for the pod from a template and must be the pod's own."""


def claims_used_by(pod: Json) -> Iterator[ClaimUse]:
    for volume in volumes_of(pod):
        use = claim_behind(pod, volume)
        if use is not None:
            yield use


def claim_behind(pod: Json, volume: Json) -> ClaimUse | None:
    """The claim that backs a volume of the pod, if one does."""
    if volume.get("persistentVolumeClaim"):
        return ClaimUse(volume["persistentVolumeClaim"]["claimName"], is_ephemeral=False)
    if volume.get("ephemeral"):
        return ClaimUse(f"{pod['metadata']['name']}-{volume['name']}", is_ephemeral=True)
    return None


def volumes_of(pod: Json) -> list[Json]:
    return pod["spec"].get("volumes") or []


def find_claim(cluster: ClusterView, pod: Json, name: str) -> Json | None:
    """A claim in the pod's namespace."""
    return cluster.find("PersistentVolumeClaim", f"{pod['metadata']['namespace']}/{name}")


def check_owner(pod: Json, claim: Json) -> None:
    """The claim of an ephemeral volume must have been made for this very pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    controller: Json = next((owner for owner in owners if owner.get("controller")), {})
    if controller.get("uid") != pod["metadata"].get("uid"):
        namespace = pod["metadata"]["namespace"]
        raise FilterError(
            f"PVC {namespace}/{claim['metadata']['name']} was not created for pod "
            f"{namespace}/{pod['metadata']['name']} (pod is not owner)"
        )


def storage_class_of(claim_or_volume: Json) -> str:
    """Name of the storage class, or nothing."""
    annotations = annotations_of(claim_or_volume)
    if CLASS_ANNOTATION in annotations:
        return annotations[CLASS_ANNOTATION]
    return claim_or_volume["spec"].get("storageClassName") or ""


def waits_for_consumer(storage_class: Json) -> bool:
    """Is the volume chosen only when a pod that uses it is placed?"""
    return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")


def requested_size(claim: Json) -> quantity.Quantity | None:
    requested = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity.read_quantity(requested["storage"]) if "storage" in requested else None


def claim_not_found(kind: str, name: str) -> str:
    """The NotFound message of an API server."""
    return f'{kind} "{name}" not found'


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

ZONE_BETA, REGION_BETA = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

ZONE_SEPARATOR = "__"
"""Separator of zones in a volume's label."""

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """A driver that lived in Kubernetes' own tree, and the one that took over."""

    source: str
    """The field of a volume that names it."""
    name: str
    driver: str
    topology_key: str = ""
    """The node label that stands for the zone with the new driver."""
    is_migrated: bool = True
    """Does the scheduler count its volumes as the CSI driver's?"""


IN_TREE_PLUGINS = (
    InTreePlugin("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    InTreePlugin("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    InTreePlugin(
        "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
    ),
    InTreePlugin("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTreePlugin("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    InTreePlugin("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com", is_migrated=False),
    InTreePlugin("vsphereVolume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", is_migrated=False),
)


def in_tree_plugin_of(volume: Json) -> InTreePlugin | None:
    """The in-tree plugin of an inline volume, or of a persistent volume's spec."""
    return next((plugin for plugin in IN_TREE_PLUGINS if volume.get(plugin.source)), None)


def in_tree_plugin_named(provisioner: str) -> InTreePlugin | None:
    return next((plugin for plugin in IN_TREE_PLUGINS if plugin.name == provisioner), None)


def volume_handle(plugin: InTreePlugin, source: Json, volume_labels: dict[str, str]) -> str:
    """The volume handle of the disk for the CSI driver. The labels are those of a persistent volume, if it is one."""
    match plugin.source:
        case "gcePersistentDisk":
            return f"projects/UNSPECIFIED/{_gce_location(volume_labels)}/disks/{source['pdName']}"
        case "awsElasticBlockStore":
            return _ebs_id(source["volumeID"])
        case "azureDisk":
            kind = source.get("kind") or "Managed"
            if kind.lower() != "managed":
                raise FilterError(f"kind({kind}) is not supported in csi migration")
            return str(source["diskURI"])
        case _:
            return str(source["volumeID"])


def _gce_location(labels: dict[str, str]) -> str:
    zones = (labels.get(ZONE_BETA) or labels.get(ZONE) or "").split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"zones/{zones[0] or 'UNSPECIFIED'}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise FilterError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        location = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise FilterError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{location}]"
        )
    return f"regions/{regions.pop()}"


def _ebs_id(volume_id: str) -> str:
    """`vol-…` from its notations: bare, `aws://zone/vol-…`, `aws:///vol-…`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    bare = urllib.parse.urlsplit(volume_id).path.strip("/")
    if not re.fullmatch("vol-[^/]*", bare):
        raise FilterError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return bare


def translated_node_affinity(volume: Json, csi_node: Json | None) -> Json | None:
    """A persistent volume's required node affinity, translated where its plugin has been migrated on that node."""
    required: Json | None = (volume["spec"].get("nodeAffinity") or {}).get("required")
    plugin = in_tree_plugin_of(volume["spec"])
    if plugin is None or not plugin.is_migrated or csi_node is None:
        return required
    migrated = (annotations_of(csi_node).get(MIGRATED_PLUGINS) or "").split(",")
    if plugin.name not in migrated:
        return required
    try:
        volume_handle(plugin, volume["spec"][plugin.source], labels_of(volume))
    except FilterError as error:
        raise FilterError(f"could not translate pv: {error}") from error
    return _translate_topology(required, labels_of(volume), plugin.topology_key) if plugin.topology_key else required


def _translate_topology(required: Json | None, labels: dict[str, str], topology_key: str) -> Json | None:
    """Zones in the affinity, or else in the volume's labels, become requirements on the driver's own label."""
    zone, region = _labels_in_use(required, labels)
    if _values_of(required, zone):
        required = _rename_key(required, zone, topology_key)
    elif zone in labels:
        zones = sorted({part.strip() for part in labels[zone].split(ZONE_SEPARATOR)} - {""})
        required = _add_requirement(required, {"key": topology_key, "operator": "In", "values": zones})
    if region == REGION_BETA and _values_of(required, REGION_BETA):
        required = _rename_key(required, REGION_BETA, REGION)
    return required


def _labels_in_use(required: Json | None, labels: dict[str, str]) -> tuple[str, str]:
    """The zone and region labels that this volume uses."""
    keys = {expression["key"] for term in _terms_of(required) for expression in _expressions_of(term)}
    for known in (keys, labels):
        if ZONE in known:
            return ZONE, REGION
        if ZONE_BETA in known:
            return ZONE_BETA, REGION_BETA
    return ZONE, REGION


def _terms_of(required: Json | None) -> list[Json]:
    return (required or {}).get("nodeSelectorTerms") or []


def _expressions_of(term: Json) -> list[Json]:
    return term.get("matchExpressions") or []


def _values_of(required: Json | None, key: str) -> list[str]:
    expressions = [expression for term in _terms_of(required) for expression in _expressions_of(term)]
    return [value for item in expressions if item["key"] == key for value in item.get("values") or ()]


def _rename_key(required: Json | None, old: str, new: str) -> Json:
    def renamed(expression: Json) -> Json:
        return {**expression, "key": new} if expression["key"] == old else expression

    terms = [
        {**term, "matchExpressions": [renamed(item) for item in _expressions_of(term)]} for term in _terms_of(required)
    ]
    return {"nodeSelectorTerms": terms}


def _add_requirement(required: Json | None, requirement: Json) -> Json | None:
    if not requirement["values"]:
        return required
    terms = _terms_of(required) or [{}]
    return {
        "nodeSelectorTerms": [{**term, "matchExpressions": [*_expressions_of(term), requirement]} for term in terms]
    }
