"""VolumeRestrictions, VolumeZone and NodeVolumeLimits.

ReadWriteOncePod claims are for one pod in the cluster; disks named in the pod itself (GCE, EBS, iSCSI, RBD) for one pod
on a node, unless all of them only read. A volume with zone or region labels is used from nodes with the same labels; a
node without any such label counts as in a cluster without zones. A CSI driver attaches a limited number of volumes.
"""

from collections import Counter
from dataclasses import dataclass, field

from windlass.simulator.reference_scheduler import volumes
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, Json, NodeView, key_of, labels_of
from windlass.simulator.reference_scheduler.framework import FilterError, FilterPlugin, Rejection, StatusCode
from windlass.simulator.reference_scheduler.volumes import REGION, REGION_BETA, ZONE, ZONE_BETA, ZONE_SEPARATOR

VOLUME_RESTRICTIONS = "VolumeRestrictions"


@dataclass(slots=True)
class VolumeRestrictions(FilterPlugin):
    """Compares disks with those on the node; counts the other users of the pod's own exclusive claims."""

    plugin = VOLUME_RESTRICTIONS
    disks: list[Json]
    exclusive_claims: set[str] = field(default_factory=set)
    users: int = 0

    def filter(self, node: NodeView) -> Rejection | None:
        others = [other for seated in node.pods.values() for other in volumes.volumes_of(seated.pod)]
        if any(_conflict(disk, other) for disk in self.disks for other in others):
            return self.unschedulable("node(s) had no available disk")
        if self.users > 0:
            return self.unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
                "already in-use by another pod"
            )
        return None

    def add_pod(self, pod: Json, node: NodeView) -> None:
        self.users += self._uses_by(pod)

    def remove_pod(self, pod: Json, node: NodeView) -> None:
        self.users -= self._uses_by(pod)

    def _uses_by(self, pod: Json) -> int:
        # Upstream ignores the namespace here.
        used = [use.name for use in volumes.claims_used_by(pod) if not use.is_ephemeral]
        return sum(1 for name in used if name in self.exclusive_claims)

    def copy(self) -> "VolumeRestrictions":
        return VolumeRestrictions(self.disks, self.exclusive_claims, self.users)


def pre_filter_volume_restrictions(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    check = VolumeRestrictions([volume for volume in volumes.volumes_of(pod) if _is_disk(volume)])
    for use in volumes.claims_used_by(pod):
        if use.is_ephemeral:
            continue
        claim = volumes.find_claim(cluster, pod, use.name)
        if claim is None:
            return Rejection(
                VOLUME_RESTRICTIONS,
                StatusCode.UNRESOLVABLE,
                (volumes.claim_not_found("persistentvolumeclaim", use.name),),
            )
        if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            check.exclusive_claims.add(use.name)
    in_use = _claims_in_use(cluster, pod["metadata"]["namespace"]) if check.exclusive_claims else set()
    check.users = len(check.exclusive_claims & in_use)
    return check if check.disks or check.users else None


def _claims_in_use(cluster: ClusterView, namespace: str) -> set[str]:
    """Claims of a namespace that pods on existing nodes name. Claims of ephemeral volumes are not among them."""
    return {
        use.name
        for node in cluster.nodes.values()
        for seated in node.pods.values()
        if seated.pod["metadata"]["namespace"] == namespace
        for use in volumes.claims_used_by(seated.pod)
        if not use.is_ephemeral
    }


def _is_disk(volume: Json) -> bool:
    return any(volume.get(source) for source in ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))


def _conflict(one: Json, other: Json) -> bool:
    """Are these the same disk, and does one of the two write (for EBS: even if neither does)?"""
    if _both(one, other, "gcePersistentDisk"):
        a, b = one["gcePersistentDisk"], other["gcePersistentDisk"]
        return a["pdName"] == b["pdName"] and _one_writes(a, b)
    if _both(one, other, "awsElasticBlockStore"):
        return bool(one["awsElasticBlockStore"]["volumeID"] == other["awsElasticBlockStore"]["volumeID"])
    if _both(one, other, "iscsi"):
        a, b = one["iscsi"], other["iscsi"]
        return a["iqn"] == b["iqn"] and _one_writes(a, b)
    if _both(one, other, "rbd"):
        a, b = one["rbd"], other["rbd"]
        is_same = a.get("pool") == b.get("pool") and a["image"] == b["image"]
        return is_same and not set(a["monitors"]).isdisjoint(b["monitors"]) and _one_writes(a, b)
    return False


def _both(one: Json, other: Json, source: str) -> bool:
    return bool(one.get(source)) and bool(other.get(source))


def _one_writes(one: Json, other: Json) -> bool:
    return not (one.get("readOnly") and other.get("readOnly"))


VOLUME_ZONE = "VolumeZone"

STABLE_LABELS = {ZONE: ZONE, ZONE_BETA: ZONE, REGION: REGION, REGION_BETA: REGION}
"""Deprecated topology labels and their successors."""


@dataclass(frozen=True, slots=True)
class VolumeZone(FilterPlugin):
    """Every volume with zone labels must be in the node's zone."""

    plugin = VOLUME_ZONE
    places: list[tuple[str, set[str]]]
    """A label of a volume, and the accepted values."""

    def filter(self, node: NodeView) -> Rejection | None:
        if not any(label in node.labels for label in STABLE_LABELS):
            return None
        for label, values in self.places:
            if node.labels.get(label, node.labels.get(STABLE_LABELS[label])) not in values:
                return self.unresolvable("node(s) had no available volume zone")
        return None


def pre_filter_volume_zone(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    places: list[tuple[str, set[str]]] = []
    for use in volumes.claims_used_by(pod):
        if use.is_ephemeral:
            continue
        claim = volumes.find_claim(cluster, pod, use.name)
        if claim is None:
            return _unresolvable(volumes.claim_not_found("persistentvolumeclaim", use.name))
        volume_name = claim["spec"].get("volumeName")
        if not volume_name:
            reason = _unbound_reason(claim, cluster)
            if reason:
                return _unresolvable(reason)
            continue
        volume = cluster.find("PersistentVolume", volume_name)
        if volume is None:
            return _unresolvable(volumes.claim_not_found("persistentvolume", volume_name))
        places += _topology_of(volume)
    return VolumeZone(places) if places else None


def _unresolvable(reason: str) -> Rejection:
    return Rejection(VOLUME_ZONE, StatusCode.UNRESOLVABLE, (reason,))


def _unbound_reason(claim: Json, cluster: ClusterView) -> str | None:
    """A claim may be unbound only if its class has WaitForFirstConsumer."""
    name = volumes.storage_class_of(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = cluster.find("StorageClass", name)
    if storage_class is None:
        return volumes.claim_not_found("storageclass.storage.k8s.io", name)
    return None if volumes.waits_for_consumer(storage_class) else "PersistentVolume had no name"


def _topology_of(volume: Json) -> list[tuple[str, set[str]]]:
    places = []
    for label in STABLE_LABELS:
        if label in labels_of(volume):
            values = [value.strip() for value in labels_of(volume)[label].split(ZONE_SEPARATOR)]
            if all(values):
                places.append((label, set(values)))
    return places


Attachable = tuple[str, str]
"""A driver and the handle by which it knows the volume."""


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits(FilterPlugin):
    """Counts distinct volumes per driver: used by pods on the node, otherwise attached, and new."""

    plugin = "NodeVolumeLimits"
    pod: Json
    cluster: ClusterView

    def filter(self, node: NodeView) -> Rejection | None:
        csi_node = self.cluster.find("CSINode", node.name)
        new = self._volumes_of(self.pod, csi_node)
        limits = _limits(csi_node)
        if not new or not limits:
            return None
        used: set[Attachable] = set()
        for seated in node.pods.values():
            used |= self._volumes_of(seated.pod, csi_node)
        # A new volume that is attached already, but used by no pod here, is counted both as attached and as new.
        attached = used | self._attached_to(node.name)
        count = Counter(driver for driver, _ in [*attached, *(new - used)])
        if any(driver in limits and count[driver] > limits[driver] for driver, _ in new - used):
            return self.unschedulable("node(s) exceed max volume count")
        return None

    def _volumes_of(self, pod: Json, csi_node: Json | None) -> set[Attachable]:
        attached = set()
        for volume in volumes.volumes_of(pod):
            use = volumes.claim_behind(pod, volume)
            attached.add(self._claimed(pod, use, csi_node) if use else _inline_volume(volume, csi_node))
        return {item for item in attached if item is not None}

    def _claimed(self, pod: Json, use: volumes.ClaimUse, csi_node: Json | None) -> Attachable | None:
        """The volume of a claim, if it exists; the claim of an ephemeral volume must belong to the pod."""
        claim = volumes.find_claim(self.cluster, pod, use.name)
        if claim is None:
            return None
        if use.is_ephemeral:
            volumes.check_owner(pod, claim)
        return self._volume_of(claim, csi_node)

    def _volume_of(self, claim: Json, csi_node: Json | None) -> Attachable | None:
        volume = self.cluster.find("PersistentVolume", claim["spec"].get("volumeName") or "")
        if volume is None:
            return self._unprovisioned_volume(claim, csi_node)
        source = volume["spec"].get("csi")
        if source:
            return (source["driver"], source["volumeHandle"]) if source["volumeHandle"] else None
        try:
            return _translate(volume["spec"], labels_of(volume), csi_node)
        except FilterError:
            return None

    def _unprovisioned_volume(self, claim: Json, csi_node: Json | None) -> Attachable | None:
        """A claim without a volume counts for the driver that will make one."""
        storage_class = self.cluster.find("StorageClass", volumes.storage_class_of(claim))
        if storage_class is None:
            return None
        handle = f"claim {key_of(claim)}"
        plugin = volumes.in_tree_plugin_named(storage_class["provisioner"])
        if plugin is None:
            return storage_class["provisioner"], handle
        return (plugin.driver, handle) if plugin.is_migrated and csi_node is not None else None

    def _attached_to(self, node_name: str) -> set[Attachable]:
        attached = set()
        for attachment in self.cluster.all_of("VolumeAttachment").values():
            spec = attachment["spec"]
            if spec["nodeName"] != node_name or not spec.get("attacher"):
                continue
            volume = self.cluster.find("PersistentVolume", spec["source"].get("persistentVolumeName") or "")
            if volume is not None and volume["spec"].get("csi"):
                attached.add((spec["attacher"], volume["spec"]["csi"]["volumeHandle"]))
        return attached


def pre_filter_volume_limits(pod: Json, cluster: ClusterView) -> FilterPlugin | None:
    has_disk = any(volumes.in_tree_plugin_of(volume) for volume in volumes.volumes_of(pod))
    has_claim = any(True for _ in volumes.claims_used_by(pod))
    return NodeVolumeLimits(pod, cluster) if has_disk or has_claim else None


def _inline_volume(volume: Json, csi_node: Json | None) -> Attachable | None:
    try:
        return _translate(volume, {}, csi_node)
    except FilterError as error:
        raise FilterError(f"converting volume({volume['name']}) from inline to csi: {error}") from error


def _translate(volume: Json, labels: dict[str, str], csi_node: Json | None) -> Attachable | None:
    """An in-tree volume as its driver would count it; nothing on a node without CSI."""
    plugin = volumes.in_tree_plugin_of(volume)
    if plugin is None or not plugin.is_migrated or csi_node is None:
        return None
    return plugin.driver, volumes.volume_handle(plugin, volume[plugin.source], labels)


def _limits(csi_node: Json | None) -> dict[str, int]:
    """Volumes per driver. A driver that gives no number takes any number."""
    drivers = (csi_node or {"spec": {}})["spec"].get("drivers") or ()
    given = {driver["name"]: (driver.get("allocatable") or {}).get("count") for driver in drivers}
    return {name: count for name, count in given.items() if count is not None}
