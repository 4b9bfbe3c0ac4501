"""A cluster's facts as the engine's snapshot."""

from windlass.autoscaler.observe import cluster
from windlass.engine import snapshot, storage
from windlass.engine.devices import model


def build(found: cluster.Cluster) -> snapshot.Snapshot:
    """All that was read, as columns. What was set aside is not in it."""
    stored: tuple[storage.Fact, ...] = (
        *found.volumes, *found.claims, *found.storage_classes, *found.csi_nodes, *found.csi_drivers, *found.capacities,
        *found.attachments,
    )  # fmt: skip
    offered: tuple[model.Fact, ...] = (
        *found.slices, *found.device_classes, *found.device_claims, *found.device_taint_rules,
    )  # fmt: skip
    return snapshot.build(found.nodes, found.pods, found.namespaces, stored, offered, found.release)
