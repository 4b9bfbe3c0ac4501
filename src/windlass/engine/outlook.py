"""The outlook: the cluster as it will be, which scale-up looks at, and whoever asks why it did what it did.

Nodes that are on their way stand in the snapshot as their template says, pods that are worth no node are not there, and
groups that are unhealthy, back off or have another owner of their size are told apart.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from windlass.engine import (
    deviations,
    dtypes,
    facts,
    health,
    newcomers,
    pod_traits,
    replicas_owners,
    requests,
    resource_readiness,
    settings,
    taints,
)
from windlass.engine.observation import Observation
from windlass.engine.scale_up import helping, proposing, templates
from windlass.engine.snapshot import Snapshot

Templates = dict[str, templates.GroupTemplate]
Upcoming = Mapping[str, health.Upcoming]

_MOST_UPCOMING = 10_000
"""No more nodes of a group are awaited: twice as many as Kubernetes carries. Whoever asked for more has mistyped it."""


def find_templates(
    seen: Observation,
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    remembered: Mapping[str, templates.GroupTemplate],
    chosen: settings.Settings,
    passing: taints.Passing,
    now_s: float,
) -> tuple[Templates, Templates]:
    """(template by group, what to remember). `group_of` goes by node name."""
    snapshot, with_csi = seen.snapshot, chosen.deviations.enable_csi_node_aware_scheduling
    made, learned = templates.find_templates(
        seen.groups,
        nodes,
        group_of,
        lambda name: _find_staying(snapshot, snapshot.nodes.rows[name]),
        seen.daemon_sets,
        remembered,
        lambda node: _equip(taints.sanitize(node, passing), snapshot, with_csi),
        chosen.templates.force_ds,
        now_s,
    )
    for template in made.values():
        for pod in template.pods:
            snapshot.shape_of(pod)  # inside a fork no selector may appear that nobody knew
    return made, learned


def _equip(node: facts.Node, snapshot: Snapshot, with_csi: bool) -> facts.Node:
    """The node with the devices and the CSI drivers that a new one would have: those of a node that exists, or what the
    provider says.
    """
    slices = snapshot.devices.stock.local(node.name) if snapshot.devices.stock.slices else ()
    if slices:
        node = replace(node, slices=slices)
    csi_node = (node.csi_node or snapshot.storage.csi_nodes.get(node.name)) if with_csi else None
    return node if csi_node is node.csi_node else replace(node, csi_node=csi_node)


def find_nodes(
    seen: Observation,
    group_of: Mapping[str, facts.NodeGroup],
    remembered: Mapping[str, templates.GroupTemplate],
    chosen: settings.Settings,
    passing: taints.Passing,
) -> list[facts.Node]:
    """The nodes as a loop takes them: one that lacks a resource, or has a startup taint, is unready."""
    with_csi = chosen.deviations.enable_csi_node_aware_scheduling
    nodes = resource_readiness.mark_unready(seen.nodes, group_of, seen.snapshot, remembered, with_csi)
    return [passing.judge_starting(node) for node in nodes]


def find_awaited(
    upcoming: Upcoming,
    found: health.Health,
    made: Templates,
    nodes: Sequence[facts.Node],
    seen: Observation,
    chosen: settings.Settings,
) -> Upcoming:
    """The nodes to come, with those that have registered and are not known as such."""
    if not upcoming or not chosen.deviations.recognise_newcomers:
        return upcoming
    scale_ups, stock = found.memory.requests.scale_ups, seen.snapshot.devices.stock
    return newcomers.recognise(upcoming, scale_ups, made, nodes, seen.group_of_nodes(), stock)


def _find_staying(snapshot: Snapshot, node_row: int) -> list[facts.Pod]:
    """The pods that are the node's own, as far as their kinds tell: no others say what a new node starts with."""
    table = snapshot.pods
    known = table.answers.setdefault("stays on its node", {})
    rows = snapshot.pods_on(node_row)
    if table.left_out:
        rows = [row for row in rows if int(table.kind_ids[row]) not in table.left_out]
    kind_ids = table.kind_ids[rows].tolist()
    for row, kind_id in zip(rows, kind_ids, strict=True):
        if kind_id not in known:
            pod = table.fact(row, "", timeless=True)
            known[kind_id] = pod_traits.is_mirror(pod) or pod_traits.is_daemonset(pod)
    return [snapshot.pod(row) for row, kind_id in zip(rows, kind_ids, strict=True) if known[kind_id]]


@contextmanager
def look_ahead(
    snapshot: Snapshot, nodes: Sequence[facts.Node], made: Templates, upcoming: Upcoming, cutoff: int
) -> Iterator[dict[str, str]]:
    """The snapshot as it will be, until this ends: (group by name) of the nodes that are on their way."""
    snapshot.fork()
    try:
        for node in nodes:
            row = snapshot.nodes.rows[node.name]
            if node is not snapshot.nodes.facts[row]:
                snapshot.restate(row, node)
        helping.drop_expendable(snapshot, cutoff)
        yield _add_upcoming(snapshot, made, upcoming)
    finally:
        snapshot.revert()


def _add_upcoming(snapshot: Snapshot, made: Templates, upcoming: Upcoming) -> dict[str, str]:
    names: dict[str, str] = {}
    for group, one in upcoming.items():
        for name in one.not_started:
            snapshot.retire(snapshot.nodes.rows[name])
        if group not in made:
            continue
        fresh = [f"{made[group].node.name}-upcoming-{number}" for number in range(min(one.nodes, _MOST_UPCOMING))]
        rows = np.array(snapshot.append(made[group].node, fresh))
        for pod in made[group].pods:
            snapshot.place_many(snapshot.shape_of(pod), rows, np.ones(len(rows), dtypes.RESOURCE))
        names |= dict.fromkeys(fresh, group)
    return names


def judge_groups(
    found: health.Health, sizes: Mapping[str, int], under_way: requests.Requests, limits: settings.Health
) -> dict[str, health.Verdict]:
    """The groups judged again, with these target sizes."""
    seen = {group: each.readiness for group, each in found.groups.items() if each.readiness is not None}
    ranges = health.find_ranges(sizes, seen, under_way)
    return {group: health.judge_group(seen.get(group), ranges[group], limits) for group in sizes}


def verdicts_of(found: health.Health) -> dict[str, health.Verdict]:
    """The groups as they were judged."""
    return {group: each.verdict for group, each in found.groups.items()}


def find_unsafe(
    groups: Iterable[facts.NodeGroup],
    found: health.Health,
    verdicts: Mapping[str, health.Verdict],
    chosen: deviations.Deviations,
) -> dict[str, proposing.Skip]:
    """The groups that must not grow now, and why."""
    unsafe: dict[str, proposing.Skip] = {}
    for group in groups:
        if replicas_owners.is_left_alone(group, chosen):
            unsafe[group.id] = proposing.Skip.REPLICAS_OWNED
        elif not verdicts[group.id].is_healthy:
            unsafe[group.id] = proposing.Skip.NOT_READY
        elif found.groups[group.id].backoff is not None:
            unsafe[group.id] = proposing.Skip.BACKOFF
    return unsafe
