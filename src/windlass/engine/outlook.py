"""The outlook: the cluster as it will be, which scale-up looks at, and whoever asks why it did what it did.

Nodes that are on their way stand in the snapshot as their template says, pods that are worth no node are not there, and
groups that are unhealthy or back off are told apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from windlass.engine import dtypes, facts, health, newcomers, pod_traits, readiness, requests, settings, taints
from windlass.engine.devices.model import Slices
from windlass.engine.devices.readiness import are_pools_ready
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
    chosen: settings.Templates,
    now_s: float,
) -> tuple[Templates, Templates]:
    """(template by group, what to remember). `group_of` goes by node name."""
    snapshot, passing = seen.snapshot, taints.read_settings(chosen)
    made, learned = templates.find_templates(
        seen.groups,
        nodes,
        group_of,
        lambda name: _find_staying(snapshot, snapshot.nodes.rows[name]),
        seen.daemon_sets,
        remembered,
        lambda node: _equip(taints.sanitize(node, passing), snapshot),
        chosen.force_ds,
        now_s,
    )
    for template in made.values():
        for pod in template.pods:
            snapshot.shape_of(pod)  # inside a fork no selector may appear that nobody knew
    return made, learned


def _equip(node: facts.Node, snapshot: Snapshot) -> facts.Node:
    """A node that exists with the devices that its drivers publish: a new one would have the like."""
    slices = snapshot.devices.stock.local(node.name) if snapshot.devices.stock.slices else ()
    return replace(node, slices=slices) if slices else node


def await_devices(
    nodes: list[facts.Node],
    group_of: Mapping[str, facts.NodeGroup],
    snapshot: Snapshot,
    remembered: Mapping[str, templates.GroupTemplate],
) -> list[facts.Node]:
    """The nodes; those that say they are ready, but lack pools of devices that a node of their group has, are not."""
    expected = {group.id: _expect(group, remembered) for group in group_of.values()}
    if not any(expected.values()):
        return nodes
    return [
        node
        if node.name not in group_of
        or are_pools_ready(snapshot.devices.stock.local(node.name), expected[group_of[node.name].id])
        or not readiness.judge(node).is_ready
        else readiness.mark_unready(node, readiness.RESOURCE_UNREADY)
        for node in nodes
    ]


def _expect(group: facts.NodeGroup, remembered: Mapping[str, templates.GroupTemplate]) -> Slices:
    if group.id in remembered:
        return remembered[group.id].node.slices
    return group.template.slices if group.template is not None else ()


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


def find_unsafe(found: health.Health, verdicts: Mapping[str, health.Verdict]) -> dict[str, proposing.Skip]:
    """The groups that must not grow now, and why."""
    unsafe: dict[str, proposing.Skip] = {}
    for group, each in found.groups.items():
        if not verdicts[group].is_healthy:
            unsafe[group] = proposing.Skip.NOT_READY
        elif each.backoff is not None:
            unsafe[group] = proposing.Skip.BACKOFF
    return unsafe
