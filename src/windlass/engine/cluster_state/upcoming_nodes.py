"""Upcoming nodes: injected into the snapshot's fork by template, so that pods that fit on them order nothing.

Registered nodes that no group is known for yet are matched to upcoming ones by template, so that a node does not count
twice while its provider id or machine is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from windlass.engine import taints
from windlass.engine.cluster_state import health, readiness, remediation, scale_requests
from windlass.engine.dra.inventory import DeviceInventory, are_pools_ready
from windlass.engine.model import (
    arrays,
    cluster_health,
    deviations,
    facts,
    node_groups,
    scale_up_status,
    settings,
    well_known,
)
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.observation import Observation
from windlass.engine.scale_up import node_templates, pending_pods
from windlass.engine.scale_up.node_templates import TEMPLATE_LABEL
from windlass.engine.snapshot.cluster_snapshot import Snapshot

GroupTemplates = dict[str, scale_up_status.GroupTemplate]

UpcomingByGroup = Mapping[str, cluster_health.UpcomingNodes]

_MOST_UPCOMING = 10_000
"""Maximum of upcoming nodes per group: twice the limit of Kubernetes. A larger size is a typing error."""


def find_group_templates(
    observation: Observation,
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    remembered: Mapping[str, scale_up_status.GroupTemplate],
    active_settings: settings.Settings,
    passing: taints.TransientTaints,
    now_s: float,
) -> tuple[GroupTemplates, GroupTemplates]:
    """(template by group, what to remember). `group_of` goes by node name."""
    snapshot, with_csi = observation.snapshot, active_settings.deviations.enable_csi_node_aware_scheduling
    made, learned = node_templates.make_templates(
        observation.groups,
        nodes,
        group_of,
        lambda name: _find_node_bound_pods(snapshot, snapshot.nodes.rows[name]),
        observation.daemon_sets,
        remembered,
        lambda node: _add_devices_and_drivers(taints.sanitize(node, passing), snapshot, with_csi),
        active_settings.templates.force_ds,
        now_s,
    )
    for template in made.values():
        for pod in template.pods:
            snapshot.shape_of(pod)  # a fork takes no new selectors
    return made, learned


def _add_devices_and_drivers(node: facts.Node, snapshot: Snapshot, with_csi: bool) -> facts.Node:
    """The node with the devices and the CSI drivers that a new one would have: those of a node that exists, or what the
    provider says.
    """
    slices = snapshot.devices.inventory.slices_of_node(node.name) if snapshot.devices.inventory.slices else ()
    if slices:
        node = replace(node, slices=slices)
    csi_node = (node.csi_node or snapshot.storage.csi_nodes.get(node.name)) if with_csi else None
    return node if csi_node is node.csi_node else replace(node, csi_node=csi_node)


def list_effective_nodes(
    observation: Observation,
    group_of: Mapping[str, node_groups.NodeGroup],
    remembered: Mapping[str, scale_up_status.GroupTemplate],
    active_settings: settings.Settings,
    passing: taints.TransientTaints,
) -> list[facts.Node]:
    """The nodes as the loop uses them: unready where a resource is missing or a startup taint is present."""
    with_csi = active_settings.deviations.enable_csi_node_aware_scheduling
    nodes = readiness.mark_nodes_without_resources(
        observation.nodes, group_of, observation.snapshot, remembered, with_csi
    )
    return [passing.mark_starting(node) for node in nodes]


def find_upcoming_and_unready(
    upcoming: UpcomingByGroup,
    assessed_health: cluster_health.ClusterHealth,
    made: GroupTemplates,
    nodes: Sequence[facts.Node],
    observation: Observation,
    active_settings: settings.Settings,
) -> UpcomingByGroup:
    """The upcoming nodes, without those that have registered and are not matched to an instance yet."""
    if not upcoming or not active_settings.deviations.recognise_newcomers:
        return upcoming
    scale_ups, inventory = assessed_health.memory.requests.scale_ups, observation.snapshot.devices.inventory
    return match_unready_nodes(upcoming, scale_ups, made, nodes, observation.group_of_nodes(), inventory)


def _find_node_bound_pods(snapshot: Snapshot, node_row: int) -> list[facts.Pod]:
    """The DaemonSet and mirror pods of the node: new nodes start with the same."""
    table = snapshot.pods
    known = table.answers.setdefault("stays on its node", {})
    rows = snapshot.pods_on(node_row)
    if table.left_out:
        rows = [row for row in rows if int(table.template_ids[row]) not in table.left_out]
    kind_ids = table.template_ids[rows].tolist()
    for row, kind_id in zip(rows, kind_ids, strict=True):
        if kind_id not in known:
            pod = table.fact(row, "", timeless=True)
            known[kind_id] = well_known.is_mirror(pod) or well_known.is_daemonset(pod)
    return [snapshot.pod(row) for row, kind_id in zip(rows, kind_ids, strict=True) if known[kind_id]]


def inject_upcoming(
    snapshot: Snapshot, nodes: Sequence[facts.Node], made: GroupTemplates, upcoming: UpcomingByGroup, cutoff: int
) -> dict[str, str]:
    """Fork the snapshot, and add upcoming nodes without expendable pods; returns the group of each by its name.

    The caller reverts the fork.
    """
    snapshot.fork()
    for node in nodes:
        row = snapshot.nodes.rows[node.name]
        if node is not snapshot.nodes.facts[row]:
            snapshot.replace_node_facts(row, node)
    pending_pods.filter_out_expendable(snapshot, cutoff)
    return _add_upcoming(snapshot, made, upcoming)


def _add_upcoming(snapshot: Snapshot, made: GroupTemplates, upcoming: UpcomingByGroup) -> dict[str, str]:
    names: dict[str, str] = {}
    for group, upcoming_nodes in upcoming.items():
        for name in upcoming_nodes.not_started:
            snapshot.mark_gone(snapshot.nodes.rows[name])
        if group not in made:
            continue
        fresh = [
            f"{made[group].node.name}-upcoming-{number}" for number in range(min(upcoming_nodes.nodes, _MOST_UPCOMING))
        ]
        rows = np.array(snapshot.append(made[group].node, fresh))
        for pod in made[group].pods:
            snapshot.place_many(snapshot.shape_of(pod), rows, np.ones(len(rows), arrays.RESOURCE_DTYPE))
        names |= dict.fromkeys(fresh, group)
    return names


def check_groups(
    assessed_health: cluster_health.ClusterHealth,
    sizes: Mapping[str, int],
    under_way: cluster_health.ScaleRequests,
    limits: settings.HealthSettings,
) -> dict[str, cluster_health.HealthVerdict]:
    """Health verdicts on the groups with these target sizes."""
    readinesses = {
        group: group_health.readiness
        for group, group_health in assessed_health.groups.items()
        if group_health.readiness is not None
    }
    ranges = health.find_ranges(sizes, readinesses, under_way)
    return {group: health.check_group(readinesses.get(group), ranges[group], limits) for group in sizes}


def list_verdicts(assessed_health: cluster_health.ClusterHealth) -> dict[str, cluster_health.HealthVerdict]:
    """Health verdicts by group."""
    return {group: group_health.verdict for group, group_health in assessed_health.groups.items()}


def find_unsafe(
    groups: Iterable[node_groups.NodeGroup],
    assessed_health: cluster_health.ClusterHealth,
    verdicts: Mapping[str, cluster_health.HealthVerdict],
    active_deviations: deviations.Deviations,
) -> dict[str, scale_up_status.SkipReason]:
    """Groups that must not grow now, and the skip reasons."""
    unsafe: dict[str, scale_up_status.SkipReason] = {}
    for group in groups:
        if remediation.is_owned_elsewhere(group, active_deviations):
            is_topology = group.replicas_owner is not None and group.replicas_owner.is_topology
            reasons = scale_up_status.SkipReason
            unsafe[group.id] = reasons.REPLICAS_OWNED if is_topology else reasons.REPLICAS_MANAGED
        elif not verdicts[group.id].is_healthy:
            unsafe[group.id] = scale_up_status.SkipReason.NOT_READY
        elif assessed_health.groups[group.id].backoff is not None:
            unsafe[group.id] = scale_up_status.SkipReason.BACKOFF
    return unsafe


_NODE_SPECIFIC_LABELS = frozenset({facts.HOSTNAME, TEMPLATE_LABEL})
"""Labels by which a node differs from its template."""


def match_unready_nodes(
    upcoming: Mapping[str, cluster_health.UpcomingNodes],
    scale_ups: Mapping[str, cluster_health.ScaleUpRequest],
    made: Mapping[str, GroupTemplate],
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    inventory: DeviceInventory,
) -> dict[str, cluster_health.UpcomingNodes]:
    """The nodes to come; newcomers that cannot be used yet are among those that have registered, as far as any lack."""
    matched = dict(upcoming)
    open_places = {
        group: upcoming_nodes.nodes - len(upcoming_nodes.not_started)
        for group, upcoming_nodes in upcoming.items()
        if group in made
    }
    if not any(places > 0 for places in open_places.values()):
        return matched
    began_s = min(scale_ups[group].began_s for group in open_places)
    remaining = [node for node in nodes if node.name not in group_of and _was_created_since(node, began_s)]
    for group, places in open_places.items():
        template, since_s = made[group].node, scale_ups[group].began_s
        own = [
            node
            for node in remaining
            if _was_created_since(node, since_s) and _matches_template(node, template, inventory)
        ][: max(places, 0)]
        if own:
            matched[group] = replace(
                matched[group],
                not_started=(*matched[group].not_started, *(node.name for node in own)),
            )
            remaining = [node for node in remaining if node not in own]
    return matched


def _was_created_since(node: facts.Node, began_s: float) -> bool:
    return node.created_s + scale_requests.RESOLUTION_S > began_s


def _matches_template(node: facts.Node, template: facts.Node, inventory: DeviceInventory) -> bool:
    """Can it not be used yet, and does nothing that it says of itself speak against the template?"""
    if readiness.assess_node(node).is_ready and are_pools_ready(inventory.slices_of_node(node.name), template.slices):
        return False
    return all(
        node.labels.get(key, value) == value
        for key, value in template.labels.items()
        if key not in _NODE_SPECIFIC_LABELS
    )
