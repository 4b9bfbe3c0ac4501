"""Volumes that do not exist yet: whether a driver could provision one that a node can reach, and has the space."""

import numpy as np

from windlass.engine import dtypes, facts, nodes
from windlass.engine.predicates import volume_reach
from windlass.engine.storage import Storage
from windlass.selectors import Operator, Requirement

NO_PROVISIONER = "kubernetes.io/no-provisioner"
_NONE = -1
"""No storage at all can be reached from the node."""


def allowed(table: nodes.NodeTable, storage_class: facts.StorageClass, rows: slice) -> dtypes.Mask:
    """Bool (n_rows): the class provisions volumes for this node's topology."""
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.zeros(rows.stop - rows.start, bool)
    if not storage_class.allowed_topologies:
        return np.ones(rows.stop - rows.start, bool)
    mask = np.zeros(rows.stop - rows.start, bool)
    for term in storage_class.allowed_topologies:
        if term:
            matching = np.ones(len(mask), bool)
            for key, values in term:
                matching &= table.requirement_mask(Requirement(key, Operator.IN, values))[rows]
            mask |= matching
    return mask


def has_space(
    table: nodes.NodeTable, storage: Storage, storage_class: facts.StorageClass, size_bytes: int, rows: slice
) -> dtypes.Mask:
    """Bool (n_rows): storage that the node can reach takes a volume of this size.

    Only asked of drivers that publish their capacity. Volumes that other pods of a what-if would have provisioned take
    no space: the scheduler, too, learns of them only when the driver publishes anew.
    """
    driver = storage.drivers.get(storage_class.provisioner)
    if not size_bytes or driver is None or not driver.storage_capacity:
        return np.ones(rows.stop - rows.start, bool)
    return _largest_bytes(table, storage, storage_class.name)[rows] >= size_bytes


def _largest_bytes(table: nodes.NodeTable, storage: Storage, storage_class: str) -> dtypes.Amounts:
    """Int64 (n_nodes): the largest volume of the class that could be provisioned for the node."""
    limits_bytes, index = storage.kept(("limits", storage_class), lambda: _find_limits(storage, storage_class))

    def compute(rows: slice) -> dtypes.Amounts:
        largest = np.full(rows.stop - rows.start, _NONE, dtypes.RESOURCE)
        found = index.find(table, rows)
        if found:
            reached_bytes = np.repeat([limits_bytes[number] for number in found], [len(at) for at in found.values()])
            np.maximum.at(largest, np.concatenate(list(found.values())), reached_bytes)
        return largest

    return storage.column(table, ("largest volume", storage_class), compute)


def _find_limits(storage: Storage, storage_class: str) -> tuple[list[int], volume_reach.Index]:
    """The largest volumes that drivers could provision, and from where each can be reached."""
    limits_bytes: list[int] = []
    topologies: list[list[volume_reach.Requirements]] = []
    for capacity in storage.capacities_of(storage_class):
        limit = capacity.capacity_bytes if capacity.maximum_volume_bytes is None else capacity.maximum_volume_bytes
        if limit is not None and capacity.node_topology is not None:
            limits_bytes.append(limit)
            topologies.append([capacity.node_topology.requirements])
    return limits_bytes, volume_reach.Index(topologies)
