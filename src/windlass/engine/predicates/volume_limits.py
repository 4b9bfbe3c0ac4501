"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

A volume counts once per node, however many pods use it. Volumes of in-tree plugins count for the CSI driver that took
over, claims that wait for a consumer for their provisioner. A volume that is attached but that no pod on the node uses
counts there, and once more for the pod that wants it: so says the scheduler.
"""

import numpy as np

from windlass.engine import dtypes, holdings, shapes
from windlass.engine.predicates import volume_claims
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.predicates.volume_attached import Attachable, Attached, Unattachable, attachable, is_in_tree
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "NodeVolumeLimits"
TOO_MANY = Refusal(NAME, Code.UNSCHEDULABLE, (Reason("node(s) exceed max volume count"),))

_UNLIMITED = np.iinfo(dtypes.COUNT).max


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where every driver can attach what the pod adds; None if it adds nothing that counts."""
    if not shape.spec.volumes:
        return None
    wanted = find_wanted(snapshot, shape)
    if isinstance(wanted, Refusal):
        # Without a CSINode nobody asks what a disk is.
        return _lacks_drivers(snapshot) if wanted.code is Code.ERROR else np.zeros(snapshot.nodes.count, bool)
    if not wanted:
        return None
    attached = _attached(snapshot)
    allowed = np.ones(snapshot.nodes.count, bool)
    for driver, in_tree in _find_required(snapshot, shape):
        allowed &= _is_served(snapshot, driver, in_tree)
    for driver in {driver for driver, _, _ in wanted}:
        allowed &= _has_room(snapshot, attached, driver, {volume for volume in wanted if volume[0] == driver})
    allowed[[row for row in attached.broken if _is_limited(snapshot, row)]] = False
    return allowed


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    wanted = find_wanted(snapshot, shape)
    if isinstance(wanted, Refusal):
        return wanted
    for driver, in_tree in _find_required(snapshot, shape):
        if not _is_served(snapshot, driver, in_tree)[row]:
            reason = Reason("{} CSI driver is not installed on the node", (driver,))
            return Refusal(NAME, Code.UNSCHEDULABLE, (reason,))
    broken = _attached(snapshot).broken.get(row)
    return TOO_MANY if broken is None else _give_up(broken)


def find_wanted(snapshot: Snapshot, shape: shapes.Shape) -> set[Attachable] | Refusal:
    """What a pod of the shape attaches to its node, or why that cannot be told."""
    for volume, claim in volume_claims.claimed(snapshot.storage, shape):
        if claim is None:
            reason = Reason(
                "looking up PVC {}/{}: {}", (shape.namespace, volume.claim, volume_claims.missing_claim(volume))
            )
            return Refusal(NAME, Code.UNRESOLVABLE, (reason,))
    try:
        things = holdings.of_pod(shape.namespace, shape.spec)
        return {found for thing in things if (found := attachable(snapshot.storage, thing)) is not None}
    except Unattachable as error:
        return _give_up(error.reason)


def _find_required(snapshot: Snapshot, shape: shapes.Shape) -> list[tuple[str, bool]]:
    """(driver, is it for an in-tree volume?) of drivers that must be on the node, by name."""
    storage = snapshot.storage
    required = {name for name, driver in storage.drivers.items() if driver.prevents_scheduling_if_missing}
    if not required or not snapshot.release.requires_csi_drivers:
        return []
    things = [(attachable(storage, thing), thing) for thing in holdings.of_pod(shape.namespace, shape.spec)]
    return sorted({
        (found[0], is_in_tree(storage, thing)) for found, thing in things if found is not None and found[0] in required
    })  # fmt: skip


def _is_served(snapshot: Snapshot, driver: str, in_tree: bool) -> dtypes.Mask:
    """Bool (n_nodes): the node's CSINode lists the driver. Without a CSINode nobody asks what an in-tree volume is."""

    def compute(rows: slice) -> dtypes.Mask:
        found = (snapshot.storage.find_csi_node(snapshot.nodes, row) for row in range(rows.start, rows.stop))
        return np.fromiter((in_tree if node is None else driver in dict(node.drivers) for node in found), bool)

    return snapshot.storage.column(snapshot.nodes, ("CSI driver", driver, in_tree), compute)


def _give_up(reason: Reason) -> Refusal:
    return Refusal(NAME, Code.ERROR, (Reason('running "NodeVolumeLimits" filter plugin: {}', (reason,)),))


def _attached(snapshot: Snapshot) -> Attached:
    attached = snapshot.storage.kept("attached", lambda: Attached(snapshot))
    attached.refresh()
    return attached


def _has_room(snapshot: Snapshot, attached: Attached, driver: str, wanted: set[Attachable]) -> dtypes.Mask:
    """Bool (n_nodes): the driver can attach these volumes, less those that pods there use already."""
    added = np.full(snapshot.nodes.count, len(wanted), dtypes.COUNT)
    for volume in wanted:
        added[list(attached.rows(volume))] -= 1
    room: dtypes.Mask = (added == 0) | (attached.counts(driver) + added <= _limits(snapshot, driver))
    return room


def _limits(snapshot: Snapshot, driver: str) -> dtypes.Counts:
    """Int32 (n_nodes): how many volumes the driver attaches to the node."""

    def compute(rows: slice) -> dtypes.Counts:
        found = (snapshot.storage.find_csi_node(snapshot.nodes, row) for row in range(rows.start, rows.stop))
        limits = (None if node is None else dict(node.drivers).get(driver) for node in found)
        return np.fromiter((_UNLIMITED if limit is None else limit for limit in limits), dtypes.COUNT)

    return snapshot.storage.column(snapshot.nodes, ("volume limit", driver), compute)


def _lacks_drivers(snapshot: Snapshot) -> dtypes.Mask:
    """Bool (n_nodes): no CSINode tells what drivers the node has."""
    table = snapshot.nodes
    found = (snapshot.storage.find_csi_node(table, row) for row in range(table.count))
    return np.fromiter((node is None for node in found), bool, table.count)


def _is_limited(snapshot: Snapshot, row: int) -> bool:
    """Does any driver have a limit on the node? Only there are volumes counted."""
    node = snapshot.storage.find_csi_node(snapshot.nodes, row)
    return node is not None and any(limit is not None for _, limit in node.drivers)
