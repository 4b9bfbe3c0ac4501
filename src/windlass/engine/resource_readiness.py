"""Resource readiness: nodes that are Ready in the API and still lack a resource that they are meant to have.

A device plugin or driver may come up minutes after its node. Until then the node counts as unready (reason
`readiness.RESOURCE_UNREADY`): it is awaited, it is no example for its group's template, and it is reported as
`resourceUnready`. As in Cluster Autoscaler's custom resources processors, in their order:

    GPU   the node has the provider's GPU label, and none of the known GPU resources is allocatable
    DRA   fewer complete pools of devices than the template of its group has
    CSI   a driver that the provider's template of its group names is not in the node's CSINode

Cordoned nodes are left as they are: nothing is placed on them anyway.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from windlass.engine import dtypes, facts, gpus, readiness
from windlass.engine.devices.model import Slices
from windlass.engine.devices.readiness import are_pools_ready
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.snapshot import Snapshot


def mark_unready(
    nodes: list[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
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
    labelled = table.alive & (table.label_ids(gpus.CLUSTER_API_LABEL) != dtypes.ABSENT)
    for row in np.flatnonzero(labelled).tolist():
        if gpus.count_ready(table.facts[row]) == 0:
            yield table.names[row]


def _find_without_pools(
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    snapshot: Snapshot,
    remembered: Mapping[str, GroupTemplate],
) -> Iterator[str]:
    expected = {group.id: _expect_slices(group, remembered) for group in group_of.values()}
    if not any(expected.values()):
        return
    for node in nodes:
        group, stock = group_of.get(node.name), snapshot.devices.stock
        if group is not None and not are_pools_ready(stock.local(node.name), expected[group.id]):
            yield node.name


def _expect_slices(group: facts.NodeGroup, remembered: Mapping[str, GroupTemplate]) -> Slices:
    if group.id in remembered:
        return remembered[group.id].node.slices
    return group.template.slices if group.template is not None else ()


def _find_without_drivers(
    group_of: Mapping[str, facts.NodeGroup], csi_nodes: Mapping[str, facts.CSINode]
) -> Iterator[str]:
    """Nodes whose CSINode is missing, or lacks a driver that the provider says a node of the group has."""
    expected = {group.id: _expect_drivers(group) for group in group_of.values()}
    if not any(expected.values()):
        return
    for name, group in group_of.items():
        if wanted := expected[group.id]:
            found = csi_nodes.get(name)
            if found is None or not wanted <= {driver for driver, _ in found.drivers}:
                yield name


def _expect_drivers(group: facts.NodeGroup) -> frozenset[str]:
    if group.template is None or group.template.csi_node is None:
        return frozenset()
    return frozenset(driver for driver, _ in group.template.csi_node.drivers)
