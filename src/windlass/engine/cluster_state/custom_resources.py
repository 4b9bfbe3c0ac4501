"""Custom resources: nodes that are Ready and still lack a device or a driver count as unready.

As in Cluster Autoscaler's custom resources processors, in their order:

    GPU   the node has the provider's GPU label, and none of the known GPU resources is allocatable
    DRA   fewer complete device pools than the template of its group has
    CSI   a driver that the provider's template of its group names is not in the node's CSINode
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from windlass.engine.cluster_state import readiness
from windlass.engine.dra.inventory import are_pools_ready
from windlass.engine.model import arrays, facts, node_groups, well_known
from windlass.engine.model.dynamic_resources import ResourceSlices
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def mark_nodes_without_resources(
    nodes: list[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    snapshot: Snapshot,
    remembered: Mapping[str, GroupTemplate],
    with_csi: bool,
) -> list[facts.Node]:
    """The nodes; an unready copy stands for each that lacks a resource. `group_of` goes by node name."""
    lacking = {*_find_without_gpus(snapshot), *_find_without_pools(nodes, group_of, snapshot, remembered)}
    if with_csi:
        lacking |= {*_find_without_drivers(group_of, snapshot.storage.csi_nodes)}
    if not lacking:
        return nodes
    return [
        readiness.mark_unready(node, readiness.RESOURCE_UNREADY)
        if node.name in lacking and readiness.is_ready_and_schedulable(node)
        else node
        for node in nodes
    ]


def _find_without_gpus(snapshot: Snapshot) -> Iterator[str]:
    table = snapshot.nodes
    labelled = table.alive & (table.label_ids(well_known.CLUSTER_API_GPU_LABEL) != arrays.ABSENT)
    for row in np.flatnonzero(labelled).tolist():
        if well_known.count_ready_gpus(table.facts[row]) == 0:
            yield table.names[row]


def _find_without_pools(
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    snapshot: Snapshot,
    remembered: Mapping[str, GroupTemplate],
) -> Iterator[str]:
    expected = {group.id: _expect_slices(group, remembered) for group in group_of.values()}
    if not any(expected.values()):
        return
    for node in nodes:
        group, inventory = group_of.get(node.name), snapshot.devices.inventory
        if group is not None and not are_pools_ready(inventory.slices_of_node(node.name), expected[group.id]):
            yield node.name


def _expect_slices(group: node_groups.NodeGroup, remembered: Mapping[str, GroupTemplate]) -> ResourceSlices:
    if group.id in remembered:
        return remembered[group.id].node.slices
    return group.template.slices if group.template is not None else ()


def _find_without_drivers(
    group_of: Mapping[str, node_groups.NodeGroup], csi_nodes: Mapping[str, facts.CSINode]
) -> Iterator[str]:
    """Nodes whose CSINode is missing, or lacks a driver that the provider says a node of the group has."""
    expected = {group.id: _expect_drivers(group) for group in group_of.values()}
    if not any(expected.values()):
        return
    for name, group in group_of.items():
        if wanted := expected[group.id]:
            csi_node = csi_nodes.get(name)
            if csi_node is None or not wanted <= {driver for driver, _ in csi_node.drivers}:
                yield name


def _expect_drivers(group: node_groups.NodeGroup) -> frozenset[str]:
    if group.template is None or group.template.csi_node is None:
        return frozenset()
    return frozenset(driver for driver, _ in group.template.csi_node.drivers)
