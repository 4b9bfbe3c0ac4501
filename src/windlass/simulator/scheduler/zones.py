"""VolumeZone: a volume that carries zone or region labels is used from nodes with the same labels.

A node without any such label is taken for one in a cluster that knows no zones.
"""

from dataclasses import dataclass

from windlass.simulator.scheduler import storage
from windlass.simulator.scheduler.check import Check, Code, Refusal
from windlass.simulator.scheduler.cluster import ClusterView, Json, NodeView, labels_of
from windlass.simulator.scheduler.migration import REGION, REGION_BETA, ZONE, ZONE_BETA, ZONE_SEPARATOR

PLUGIN = "VolumeZone"
NOWADAYS = {ZONE: ZONE, ZONE_BETA: ZONE, REGION: REGION, REGION_BETA: REGION}
"""Topology labels, and what each is called now."""


@dataclass(frozen=True, slots=True)
class VolumeZone(Check):
    """Every labelled volume must be reachable."""

    plugin = PLUGIN
    places: list[tuple[str, set[str]]]
    """A label of a volume, and the values that would do."""

    def refuse(self, node: NodeView) -> Refusal | None:
        if not any(label in node.labels for label in NOWADAYS):
            return None
        for label, values in self.places:
            if node.labels.get(label, node.labels.get(NOWADAYS[label])) not in values:
                return self.unresolvable("node(s) had no available volume zone")
        return None


def prepare(pod: Json, cluster: ClusterView) -> Check | Refusal | None:
    places: list[tuple[str, set[str]]] = []
    for use in storage.claims_used_by(pod):
        if use.is_ephemeral:
            continue
        claim = storage.find_claim(cluster, pod, use.name)
        if claim is None:
            return _unresolvable(storage.not_found("persistentvolumeclaim", use.name))
        volume_name = claim["spec"].get("volumeName")
        if not volume_name:
            reason = _why_not_bound(claim, cluster)
            if reason:
                return _unresolvable(reason)
            continue
        volume = cluster.find("PersistentVolume", volume_name)
        if volume is None:
            return _unresolvable(storage.not_found("persistentvolume", volume_name))
        places += _places_of(volume)
    return VolumeZone(places) if places else None


def _unresolvable(reason: str) -> Refusal:
    return Refusal(PLUGIN, Code.UNRESOLVABLE, (reason,))


def _why_not_bound(claim: Json, cluster: ClusterView) -> str | None:
    """A claim may lack a volume only if its class waits for the pod to be placed."""
    name = storage.class_of(claim)
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = cluster.find("StorageClass", name)
    if storage_class is None:
        return storage.not_found("storageclass.storage.k8s.io", name)
    return None if storage.waits_for_consumer(storage_class) else "PersistentVolume had no name"


def _places_of(volume: Json) -> list[tuple[str, set[str]]]:
    places = []
    for label in NOWADAYS:
        if label in labels_of(volume):
            values = [value.strip() for value in labels_of(volume)[label].split(ZONE_SEPARATOR)]
            if all(values):
                places.append((label, set(values)))
    return places
