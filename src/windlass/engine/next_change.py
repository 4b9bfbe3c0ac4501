"""The next time at which the same observation may be decided otherwise.

Time alone changes a decision where something has been awaited for long enough: a node to start, a pod to be old enough,
a request or a backoff to end. The earliest of these times counts. It may be too early, which costs a loop that finds
nothing new; it is never too late. A decision that orders something, that finds other nodes unneeded than before, or
that searches in random order may be decided otherwise at once.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from windlass.engine.actuation import deletion_taint
from windlass.engine.cluster_state import readiness
from windlass.engine.model import cluster_health, facts, node_groups, plan, settings
from windlass.engine.model.cluster_health import ClusterHealth
from windlass.engine.model.decision_record import ScaleDownRecord
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown, pod_classification
from windlass.engine.scale_up import node_templates, pod_list
from windlass.engine.snapshot.snapshot import Snapshot


def find_next_change_s(
    seen: Observation,
    found: cluster_health.ClusterHealth,
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    ordered: plan.Plan,
    before: DurableMemory,
    durable: DurableMemory,
    shrunk: ScaleDownRecord,
    settings: Settings,
    now_s: float,
) -> float:
    """The earliest time at which the same observation may be decided otherwise; now, if it may at any time."""
    has_settled = durable.scale_down.previous == before.scale_down.previous
    if ordered or not has_settled or not settings.deviations.tight_packing:
        return now_s
    times = (
        *_pending_pod_changes(seen.snapshot, settings),
        *_template_changes(nodes, group_of),
        *_scale_down_changes(shrunk),
        *_cooldown_ends(durable, settings),
        *(gone_at_s for _, gone_at_s in pod_classification.find_terminating(seen.snapshot.pods)),
        *(drain.since_s + deletion_taint.TAINT_TIMEOUT_S for drain in durable.drains.values()),
    )
    return min(
        find_next_health_change_s(found, nodes, seen.groups, group_of, settings, now_s),
        min((time_s for time_s in times if time_s >= now_s), default=float("inf")),
    )


def _pending_pod_changes(snapshot: Snapshot, settings: Settings) -> Iterator[float]:
    """When pods that wait become old enough, or so old that more of them need not be waited for."""
    rows = np.array(snapshot.pending(), np.intp)
    created_s, kind_ids = snapshot.pods.created_s[rows], snapshot.pods.template_ids[rows]
    chosen = settings.deviations
    window = (chosen.quiet_window_s, chosen.quiet_window_max_s)
    youth = window if chosen.quiet_window_s > 0 else (pod_list.YOUNG_S, pod_list.YOUNG_WITH_GPU_S)
    for wait_s in {settings.pods.new_pod_scale_up_delay_s, *youth}:
        yield from (created_s + wait_s).tolist()
    for kind_id in set(kind_ids.tolist()):
        own_s = snapshot.pods.template_keys[kind_id].scale_up_delay_s
        if own_s is not None:
            yield from (created_s[kind_ids == kind_id] + own_s).tolist()


def _template_changes(nodes: Iterable[facts.Node], group_of: Mapping[str, node_groups.NodeGroup]) -> Iterator[float]:
    """When nodes have been ready for long enough to speak for their group."""
    for node in nodes:
        if node.name in group_of:
            for condition in node.conditions:
                if condition.type in readiness.DECIDING_CONDITIONS:
                    yield condition.since_s + node_templates.STABLE_FOR_S


def _scale_down_changes(story: ScaleDownRecord) -> Iterator[float]:
    if story.look is not None:
        yield story.look.changes_at_s
    if story.choice is not None:
        yield story.choice.changes_at_s


def _cooldown_ends(durable: DurableMemory, settings: Settings) -> Iterator[float]:
    for activity in (durable.activity, *durable.activities.values()):
        yield cooldown.cooldown_ends_at_s(activity, settings.scale_down)


def find_next_health_change_s(
    found: ClusterHealth,
    nodes: Collection[facts.Node],
    groups: Collection[node_groups.NodeGroup],
    group_of: Mapping[str, node_groups.NodeGroup],
    chosen: settings.Settings,
    now_s: float,
) -> float:
    """Up to this time nothing about health, requests and repairs changes by itself; infinity if it never does."""
    times = (
        *_startup_deadlines(found, nodes, group_of, chosen),
        *_provision_deadlines(found, groups, chosen),
        *_backoff_deadlines(found, chosen),
    )
    return min((time_s for time_s in times if time_s >= now_s), default=math.inf)


def _startup_deadlines(
    found: ClusterHealth,
    nodes: Collection[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    chosen: settings.Settings,
) -> Iterator[float]:
    starting = set(found.total.not_started)
    for node in nodes:
        if node.name in starting:
            group = group_of.get(node.name)
            limits = chosen.groups if group is None else settings.for_group(chosen, group.options)
            yield node.created_s + limits.max_node_startup_time_s


def _provision_deadlines(
    found: ClusterHealth, groups: Collection[node_groups.NodeGroup], chosen: settings.Settings
) -> Iterator[float]:
    for group in groups:
        time_s = settings.for_group(chosen, group.options).max_node_provision_time_s
        for instance in group.instances:
            if instance.provider_id in found.memory.unregistered_since:
                yield found.memory.unregistered_since[instance.provider_id] + time_s
        if group.id in found.memory.wrong_sizes:
            yield found.memory.wrong_sizes[group.id].since_s + time_s


def _backoff_deadlines(found: ClusterHealth, chosen: settings.Settings) -> Iterator[float]:
    for request in found.memory.requests.scale_ups.values():
        yield request.expected_by_s
    for deletion in found.memory.requests.scale_downs:
        yield deletion.expected_by_s
    for backoff in found.memory.backoffs.values():
        yield backoff.until_s
        yield backoff.failed_s + chosen.health.node_group_backoff_reset_timeout_s
