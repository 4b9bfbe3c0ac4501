"""VolumeRestrictions: disks that bear no second user on the same node, and claims that bear none at all.

ReadWriteOncePod claims are for one pod in the cluster. Disks named in the pod itself (GCE, EBS, iSCSI, RBD) are for
one pod on a node, unless all of them only read.
"""

from dataclasses import dataclass, field

from windlass.simulator.scheduler import storage
from windlass.simulator.scheduler.check import Check, Code, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView

PLUGIN = "VolumeRestrictions"


@dataclass(slots=True)
class VolumeRestrictions(Check):
    """Compares disks with those on the node; counts the other users of the pod's own exclusive claims."""

    plugin = PLUGIN
    disks: list[Json]
    exclusive_claims: set[str] = field(default_factory=set)
    users: int = 0

    def refuse(self, node: NodeView) -> Refusal | None:
        others = [other for seated in node.pods.values() for other in storage.volumes_of(seated.pod)]
        if any(_conflict(disk, other) for disk in self.disks for other in others):
            return self.unschedulable("node(s) had no available disk")
        if self.users > 0:
            return self.unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
                "already in-use by another pod"
            )
        return None

    def add(self, pod: Json, node: NodeView) -> None:
        self.users += self._uses_by(pod)

    def remove(self, pod: Json, node: NodeView) -> None:
        self.users -= self._uses_by(pod)

    def _uses_by(self, pod: Json) -> int:
        # Upstream does not look at the namespace here.
        used = [use.name for use in storage.claims_used_by(pod) if not use.is_ephemeral]
        return sum(1 for name in used if name in self.exclusive_claims)

    def copy(self) -> "VolumeRestrictions":
        return VolumeRestrictions(self.disks, self.exclusive_claims, self.users)


def prepare(pod: Json, cluster: ClusterView) -> Check | Refusal | None:
    check = VolumeRestrictions([volume for volume in storage.volumes_of(pod) if _is_disk(volume)])
    for use in storage.claims_used_by(pod):
        if use.is_ephemeral:
            continue
        claim = storage.find_claim(cluster, pod, use.name)
        if claim is None:
            return Refusal(PLUGIN, Code.UNRESOLVABLE, (storage.not_found("persistentvolumeclaim", use.name),))
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
        for use in storage.claims_used_by(seated.pod)
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
