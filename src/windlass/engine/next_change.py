"""The next time at which the same observation may be decided otherwise.

Time alone changes a decision where a timer ends: the startup of a node, the age of a pod, a request or a backoff. The
earliest of these times counts. It may be too early, which costs a loop that finds
nothing new; it is never too late. A decision that orders something, that finds other nodes unneeded than before, or
that searches in random order may be decided otherwise at once (`steps.conclusion`).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from windlass.engine.actuation import deletion_taint
from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts, node_groups, settings
from windlass.engine.model.cluster_health import ClusterHealth
from windlass.engine.model.decision_record import DecisionRecord, ScaleDownRecord
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown, pod_classification
from windlass.engine.scale_up import node_templates, pod_list
from windlass.engine.snapshot.snapshot import Snapshot


def find_next_change_s(
    observation: Observation,
    record: DecisionRecord,
    group_of: Mapping[str, node_groups.NodeGroup],
    durable: DurableMemory,
    settings: Settings,
) -> float:
    """The earliest time at which the same observation may be decided otherwise, for a decision that orders nothing."""
    now_s = record.at_s
    times = (
        *_pending_pod_changes(observation.snapshot, settings),
        *_template_changes(record.nodes, group_of),
        *_scale_down_changes(record.scale_down),
        *_cooldown_ends(durable, settings),
        *(gone_at_s for _, gone_at_s in pod_classification.find_terminating(observation.snapshot.pods)),
        *(drain.since_s + deletion_taint.TAINT_TIMEOUT_S for drain in durable.drains.values()),
    )
    return min(
        find_next_health_change_s(record.health, record.nodes, observation.groups, group_of, settings, now_s),
        min((time_s for time_s in times if time_s >= now_s), default=float("inf")),
    )


def _pending_pod_changes(snapshot: Snapshot, settings: Settings) -> Iterator[float]:
    """When pending pods become old enough, or so old that scale-up does not wait for more of them."""
    rows = np.array(snapshot.pending(), np.intp)
    created_s, kind_ids = snapshot.pods.created_s[rows], snapshot.pods.template_ids[rows]
    deviations = settings.deviations
    window = (deviations.quiet_window_s, deviations.quiet_window_max_s)
    youth = window if deviations.quiet_window_s > 0 else (pod_list.YOUNG_S, pod_list.YOUNG_WITH_GPU_S)
    for wait_s in {settings.pods.new_pod_scale_up_delay_s, *youth}:
        yield from (created_s + wait_s).tolist()
    for kind_id in set(kind_ids.tolist()):
        own_s = snapshot.pods.template_keys[kind_id].scale_up_delay_s
        if own_s is not None:
            yield from (created_s[kind_ids == kind_id] + own_s).tolist()


def _template_changes(nodes: Iterable[facts.Node], group_of: Mapping[str, node_groups.NodeGroup]) -> Iterator[float]:
    """When nodes have been ready long enough to be examples for their group's template."""
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
    health: ClusterHealth,
    nodes: Collection[facts.Node],
    groups: Collection[node_groups.NodeGroup],
    group_of: Mapping[str, node_groups.NodeGroup],
    chosen: settings.Settings,
    now_s: float,
) -> float:
    """The next time at which health, requests or remediation change by themselves; infinity if they never do."""
    times = (
        *_startup_deadlines(health, nodes, group_of, chosen),
        *_provision_deadlines(health, groups, chosen),
        *_backoff_deadlines(health, chosen),
    )
    return min((time_s for time_s in times if time_s >= now_s), default=math.inf)


def _startup_deadlines(
    health: ClusterHealth,
    nodes: Collection[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    chosen: settings.Settings,
) -> Iterator[float]:
    starting = set(health.total.not_started)
    for node in nodes:
        if node.name in starting:
            group = group_of.get(node.name)
            limits = chosen.groups if group is None else settings.for_group(chosen, group.options)
            yield node.created_s + limits.max_node_startup_time_s


def _provision_deadlines(
    health: ClusterHealth, groups: Collection[node_groups.NodeGroup], chosen: settings.Settings
) -> Iterator[float]:
    for group in groups:
        time_s = settings.for_group(chosen, group.options).max_node_provision_time_s
        for instance in group.instances:
            if instance.provider_id in health.memory.unregistered_since:
                yield health.memory.unregistered_since[instance.provider_id] + time_s
        if group.id in health.memory.wrong_sizes:
            yield health.memory.wrong_sizes[group.id].since_s + time_s


def _backoff_deadlines(health: ClusterHealth, chosen: settings.Settings) -> Iterator[float]:
    for request in health.memory.requests.scale_ups.values():
        yield request.expected_by_s
    for deletion in health.memory.requests.scale_downs:
        yield deletion.expected_by_s
    for backoff in health.memory.backoffs.values():
        yield backoff.until_s
        yield backoff.failed_s + chosen.health.node_group_backoff_reset_timeout_s
