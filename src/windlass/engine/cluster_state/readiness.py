"""Node readiness: the state of the nodes of each group, and instances that have no node.

    ready, unready        as conditions and taints say
    not started           not ready, but so young that it may still become so
    suspended             its condition Suspended is True
    deleted               tainted for deletion and without an instance: no longer part of the group's target size
    unregistered          an instance without a node; long unregistered once it took longer than a node may take

Instances that are being deleted or could not be created are not expected to register.

A node that is Ready and still lacks a device or a driver counts as unready, as in Cluster Autoscaler's custom resources
processors, in their order:

    GPU   the node has the provider's GPU label, and none of the known GPU resources is allocatable
    DRA   fewer complete device pools than the template of its group has
    CSI   a driver that the provider's template of its group names is not in the node's CSINode
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from windlass.engine.dra.inventory import are_pools_ready
from windlass.engine.model import arrays, cluster_health, facts, node_groups, settings, well_known
from windlass.engine.model.dynamic_resources import ResourceSlices
from windlass.engine.model.scale_up_status import GroupTemplate

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

TROUBLE_CONDITIONS = frozenset({"DiskPressure", "NetworkUnavailable"})
"""Conditions that make a node unready where they are True. Others, as memory pressure, do not."""

DECIDING_CONDITIONS = TROUBLE_CONDITIONS | {"Ready"}
"""Conditions on which the readiness of a node depends."""

NOT_READY_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
    }
)

RESOURCE_UNREADY = "cluster-autoscaler.kubernetes.io/resource-not-ready"
"""Reason for a Ready node that lacks a device of its template."""

STARTUP_TAINT = "cluster-autoscaler.kubernetes.io/startup-taint"
"""Reason for a Ready node with a startup taint."""


class NodeReadiness(NamedTuple):
    """Readiness of a node: since when, and the reason where it is not ready."""

    is_ready: bool
    since_s: float = 0.0
    reason: str = ""


UNKNOWN_READINESS = NodeReadiness(False)


class NodeState(enum.StrEnum):
    """The state of a registered node."""

    READY = "ready"
    UNREADY = "unready"
    NOT_STARTED = "notStarted"
    SUSPENDED = "suspended"
    DELETED = "deleted"


_ARRIVED = (NodeState.READY, NodeState.UNREADY, NodeState.SUSPENDED)
"""States of nodes that are not upcoming any more."""


@dataclass(frozen=True, slots=True)
class ReadinessSurvey:
    """Readiness of every group that has a node or an instance to register, and of the whole cluster."""

    by_group: Mapping[str, cluster_health.Readiness]
    total: cluster_health.Readiness


def assess_node(node: facts.Node) -> NodeReadiness:
    """Readiness by the node's conditions and taints. Without a Ready condition it is not ready."""
    is_ready, is_known, since_s, reason = True, False, 0.0, ""
    for condition in node.conditions:
        if condition.type == "Ready":
            is_known = True
            if condition.status in ("False", "Unknown"):
                is_ready, reason = False, condition.reason
        elif condition.type in TROUBLE_CONDITIONS:
            is_ready = is_ready and condition.status != "True"
        else:
            continue
        if condition.since_s > since_s:
            since_s = condition.since_s
    if not is_known:
        return UNKNOWN_READINESS
    if is_ready and node.taints:
        is_ready = not any(taint.key in NOT_READY_TAINTS for taint in node.taints)
    return NodeReadiness(is_ready, since_s, reason)


def is_ready_and_schedulable(node: facts.Node) -> bool:
    """Is the node ready, and not cordoned?"""
    return not node.unschedulable and assess_node(node).is_ready


def mark_unready(node: facts.Node, reason: str) -> facts.Node:
    """A copy of the node that has never been ready."""
    condition = facts.Condition("Ready", "False", node.created_s, reason)
    return replace(node, conditions=(condition, *(other for other in node.conditions if other.type != "Ready")))


def is_suspended(node: facts.Node) -> bool:
    for condition in node.conditions:
        if condition.type == "Suspended":
            return condition.status == "True"
    return False


def classify(node: facts.Node, has_instance: bool, max_node_startup_time_s: float, now_s: float) -> NodeState:
    """The node's state. At the age of --max-node-startup-time it does not count as starting any more."""
    if not has_instance and any(taint.key == facts.TO_BE_DELETED for taint in node.taints):
        return NodeState.DELETED
    if is_suspended(node):
        return NodeState.SUSPENDED
    if assess_node(node).is_ready:
        return NodeState.READY
    return NodeState.NOT_STARTED if node.created_s + max_node_startup_time_s > now_s else NodeState.UNREADY


def track_unregistered(
    nodes: Iterable[facts.Node], groups: Iterable[node_groups.NodeGroup], before: Mapping[str, float], now_s: float
) -> dict[str, float]:
    """Instances without a node, and since when each is known to have none."""
    registered = {node.provider_id for node in nodes}
    return {
        instance.provider_id: before.get(instance.provider_id, now_s)
        for group in groups
        for instance in group.instances
        if instance.provider_id not in registered and is_expected_to_register(instance)
    }


def is_expected_to_register(instance: node_groups.Instance) -> bool:
    return instance.state != "Deleting" and instance.error is None


def classify_nodes(
    nodes: Collection[facts.Node],
    groups: Collection[node_groups.NodeGroup],
    group_of: Mapping[str, node_groups.NodeGroup],
    unregistered_since: Mapping[str, float],
    active_settings: settings.Settings,
    now_s: float,
) -> ReadinessSurvey:
    """Sort nodes and unregistered instances by state. `group_of` is by node name; other nodes are in the total only."""
    instances = {instance.provider_id: instance.state for group in groups for instance in group.instances}
    are_gone = active_settings.deviations.count_leaving_nodes_as_gone
    limits = {group.id: settings.for_group(active_settings, group.options) for group in groups}
    ungrouped, by_group = (
        _ReadinessBuilder(active_settings.groups),
        {group_id: _ReadinessBuilder(group_defaults) for group_id, group_defaults in limits.items()},
    )
    for node in nodes:
        group = group_of.get(node.name)
        lists = ungrouped if group is None else by_group[group.id]
        state = classify(node, node.provider_id in instances, lists.max_node_startup_time_s, now_s)
        lists.add_node(node, state, is_leaving=are_gone and instances.get(node.provider_id) == "Deleting")
    for group in groups if unregistered_since else ():
        for provider_id, is_long in _find_unregistered(group, unregistered_since, limits[group.id], now_s):
            by_group[group.id].add_instance(provider_id, is_long)
    readinesses = {group_id: lists.freeze() for group_id, lists in by_group.items()}
    total = _sum_up([*readinesses.values(), ungrouped.freeze()])
    return ReadinessSurvey(
        {group_id: readiness for group_id, readiness in readinesses.items() if readiness != cluster_health.NO_NODES},
        total,
    )


def _sum_up(parts: Sequence[cluster_health.Readiness]) -> cluster_health.Readiness:
    names = [field.name for field in fields(cluster_health.Readiness)]
    return cluster_health.Readiness(
        **{name: tuple(chain.from_iterable(getattr(part, name) for part in parts)) for name in names}
    )


def _find_unregistered(
    group: node_groups.NodeGroup, since: Mapping[str, float], limits: settings.GroupDefaults, now_s: float
) -> Iterator[tuple[str, bool]]:
    for instance in group.instances:
        since_s = since.get(instance.provider_id)
        if since_s is not None:
            yield instance.provider_id, since_s + limits.max_node_provision_time_s < now_s


class _ReadinessBuilder:
    """Collects the nodes of one group by state."""

    __slots__ = (
        "_by_state", "_leaving", "_long_unregistered", "_resource_unready", "_unregistered", "max_node_startup_time_s",
    )  # fmt: skip

    def __init__(self, limits: settings.GroupDefaults) -> None:
        self.max_node_startup_time_s = limits.max_node_startup_time_s
        self._by_state: dict[NodeState, list[str]] = {state: [] for state in NodeState}
        self._unregistered: list[str] = []
        self._long_unregistered: list[str] = []
        self._resource_unready: list[str] = []
        self._leaving: list[str] = []

    def add_node(self, node: facts.Node, state: NodeState, is_leaving: bool) -> None:
        self._by_state[state].append(node.name)
        if is_leaving and state in _ARRIVED:
            self._leaving.append(node.name)
        if state is NodeState.UNREADY and assess_node(node).reason == RESOURCE_UNREADY:
            self._resource_unready.append(node.name)

    def add_instance(self, provider_id: str, is_long: bool) -> None:
        (self._long_unregistered if is_long else self._unregistered).append(provider_id)

    def freeze(self) -> cluster_health.Readiness:
        return cluster_health.Readiness(
            ready=tuple(self._by_state[NodeState.READY]),
            unready=tuple(self._by_state[NodeState.UNREADY]),
            not_started=tuple(self._by_state[NodeState.NOT_STARTED]),
            suspended=tuple(self._by_state[NodeState.SUSPENDED]),
            deleted=tuple(self._by_state[NodeState.DELETED]),
            unregistered=tuple(self._unregistered),
            long_unregistered=tuple(self._long_unregistered),
            resource_unready=tuple(self._resource_unready),
            leaving=tuple(self._leaving),
        )


def mark_nodes_without_resources(
    nodes: list[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    snapshot: "Snapshot",
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
        mark_unready(node, RESOURCE_UNREADY) if node.name in lacking and is_ready_and_schedulable(node) else node
        for node in nodes
    ]


def _find_without_gpus(snapshot: "Snapshot") -> Iterator[str]:
    table = snapshot.nodes
    labelled = table.alive & (table.label_ids(well_known.CLUSTER_API_GPU_LABEL) != arrays.ABSENT)
    for row in np.flatnonzero(labelled).tolist():
        if well_known.count_ready_gpus(table.facts[row]) == 0:
            yield table.names[row]


def _find_without_pools(
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    snapshot: "Snapshot",
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
        if desired := expected[group.id]:
            csi_node = csi_nodes.get(name)
            if csi_node is None or not desired <= {driver for driver, _ in csi_node.drivers}:
                yield name


def _expect_drivers(group: node_groups.NodeGroup) -> frozenset[str]:
    if group.template is None or group.template.csi_node is None:
        return frozenset()
    return frozenset(driver for driver, _ in group.template.csi_node.drivers)
