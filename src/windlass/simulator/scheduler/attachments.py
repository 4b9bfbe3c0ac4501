"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node."""

from collections import Counter
from dataclasses import dataclass

from windlass.simulator.scheduler import migration, storage
from windlass.simulator.scheduler.check import CannotTell, Check, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, key_of, labels_of

Attachable = tuple[str, str]
"""A driver and the handle by which it knows the volume."""


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits(Check):
    """Counts different volumes per driver: what the pods on the node use, what else is attached, what is new."""

    plugin = "NodeVolumeLimits"
    pod: Json
    cluster: ClusterView

    def refuse(self, node: NodeView) -> Refusal | None:
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
        found = set()
        for volume in storage.volumes_of(pod):
            use = storage.claim_behind(pod, volume)
            found.add(self._claimed(pod, use, csi_node) if use else _inline(volume, csi_node))
        return {one for one in found if one is not None}

    def _claimed(self, pod: Json, use: storage.ClaimUse, csi_node: Json | None) -> Attachable | None:
        """What stands behind a claim, if it exists; that of an ephemeral volume must belong to the pod."""
        claim = storage.find_claim(self.cluster, pod, use.name)
        if claim is None:
            return None
        if use.is_ephemeral:
            storage.check_owner(pod, claim)
        return self._volume_of(claim, csi_node)

    def _volume_of(self, claim: Json, csi_node: Json | None) -> Attachable | None:
        volume = self.cluster.find("PersistentVolume", claim["spec"].get("volumeName") or "")
        if volume is None:
            return self._yet_to_be_made(claim, csi_node)
        source = volume["spec"].get("csi")
        if source:
            return (source["driver"], source["volumeHandle"]) if source["volumeHandle"] else None
        try:
            return _translate(volume["spec"], labels_of(volume), csi_node)
        except CannotTell:
            return None

    def _yet_to_be_made(self, claim: Json, csi_node: Json | None) -> Attachable | None:
        """A claim without a volume counts for the driver that will make one."""
        storage_class = self.cluster.find("StorageClass", storage.class_of(claim))
        if storage_class is None:
            return None
        handle = f"claim {key_of(claim)}"
        plugin = migration.plugin_named(storage_class["provisioner"])
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


def prepare(pod: Json, cluster: ClusterView) -> Check | None:
    has_disk = any(migration.plugin_of(volume) for volume in storage.volumes_of(pod))
    has_claim = any(True for _ in storage.claims_used_by(pod))
    return NodeVolumeLimits(pod, cluster) if has_disk or has_claim else None


def _inline(volume: Json, csi_node: Json | None) -> Attachable | None:
    try:
        return _translate(volume, {}, csi_node)
    except CannotTell as error:
        raise CannotTell(f"converting volume({volume['name']}) from inline to csi: {error}") from error


def _translate(volume: Json, labels: dict[str, str], csi_node: Json | None) -> Attachable | None:
    """An in-tree volume as its driver would count it; nothing on a node without CSI."""
    plugin = migration.plugin_of(volume)
    if plugin is None or not plugin.is_migrated or csi_node is None:
        return None
    return plugin.driver, migration.volume_handle(plugin, volume[plugin.source], labels)


def _limits(csi_node: Json | None) -> dict[str, int]:
    """Volumes per driver. A driver that gives no number takes any number."""
    drivers = (csi_node or {"spec": {}})["spec"].get("drivers") or ()
    given = {driver["name"]: (driver.get("allocatable") or {}).get("count") for driver in drivers}
    return {name: count for name, count in given.items() if count is not None}
