"""Conclusion of the loop: its plan, the memory for the next loop, the decision record, and how long they hold.

The next time at which the same observation may be decided otherwise.

Time alone changes a decision where a timer ends: the startup of a node, the age of a pod, a request or a backoff. The
earliest of these times counts. It may be too early, which costs a loop that finds
nothing new; it is never too late. A decision that orders something, that finds other nodes unneeded than before, or
that searches in random order may be decided otherwise at once (`steps.conclusion`).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import loop_memory
from windlass.engine.actuation import deletion_taint
from windlass.engine.cluster_state import health, readiness, upcoming_nodes
from windlass.engine.loop_memory import CachedDecision, LoopMemory, VolatileMemory
from windlass.engine.loop_state import LoopState
from windlass.engine.model import cluster_health, facts, node_groups, plan, settings
from windlass.engine.model.cluster_health import ClusterHealth
from windlass.engine.model.decision_record import (
    NOT_ACTIONABLE,
    DecisionRecord,
    LoopStop,
    ScaleDownRecord,
    ScaleDownResult,
)
from windlass.engine.model.durable_memory import DurableMemory
from windlass.engine.model.provisioning import ProvisioningReport
from windlass.engine.model.scale_up_status import ScaleUpProposal, ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown, utilization
from windlass.engine.scale_up import node_templates, pending_pods
from windlass.engine.snapshot.cluster_snapshot import Snapshot


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
        *(gone_at_s for _, gone_at_s in utilization.find_terminating(observation.snapshot.pods)),
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
    youth = window if deviations.quiet_window_s > 0 else (pending_pods.YOUNG_S, pending_pods.YOUNG_WITH_GPU_S)
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
    active_settings: settings.Settings,
    now_s: float,
) -> float:
    """The next time at which health, requests or remediation change by themselves; infinity if they never do."""
    times = (
        *_startup_deadlines(health, nodes, group_of, active_settings),
        *_provision_deadlines(health, groups, active_settings),
        *_backoff_deadlines(health, active_settings),
    )
    return min((time_s for time_s in times if time_s >= now_s), default=math.inf)


def _startup_deadlines(
    health: ClusterHealth,
    nodes: Collection[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    active_settings: settings.Settings,
) -> Iterator[float]:
    starting = set(health.total.not_started)
    for node in nodes:
        if node.name in starting:
            group = group_of.get(node.name)
            limits = active_settings.groups if group is None else settings.for_group(active_settings, group.options)
            yield node.created_s + limits.max_node_startup_time_s


def _provision_deadlines(
    health: ClusterHealth, groups: Collection[node_groups.NodeGroup], active_settings: settings.Settings
) -> Iterator[float]:
    for group in groups:
        time_s = settings.for_group(active_settings, group.options).max_node_provision_time_s
        for instance in group.instances:
            if instance.provider_id in health.memory.unregistered_since:
                yield health.memory.unregistered_since[instance.provider_id] + time_s
        if group.id in health.memory.wrong_sizes:
            yield health.memory.wrong_sizes[group.id].since_s + time_s


def _backoff_deadlines(health: ClusterHealth, active_settings: settings.Settings) -> Iterator[float]:
    for request in health.memory.requests.scale_ups.values():
        yield request.expected_by_s
    for deletion in health.memory.requests.scale_downs:
        yield deletion.expected_by_s
    for backoff in health.memory.backoffs.values():
        yield backoff.until_s
        yield backoff.failed_s + active_settings.health.node_group_backoff_reset_timeout_s


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a loop ends with."""

    plan: plan.Plan
    memory: LoopMemory
    record: DecisionRecord
    quiet_until_s: float
    """Up to this time the same observation is decided alike."""


@dataclass(frozen=True, slots=True)
class _Result:
    """What a loop that ended early has in common with one that ran all steps."""

    plan: plan.Plan
    durable: DurableMemory
    record: DecisionRecord
    group_of: Mapping[str, node_groups.NodeGroup]
    is_request_next: bool


def conclude(state: LoopState) -> Conclusion:
    """The decision, which holds until time alone would change it."""
    inputs, queue, timer = state.inputs, state.queue, state.timer
    result = _end_early(state) if state.has_ended_early else _end(state)
    ordered = (*result.plan, *queue.instructions())
    before, now_s = state.startup.durable, inputs.now_s
    durable = replace(result.durable, requests=queue.make_memory(result.is_request_next))
    durable = loop_memory.retain_held(before, durable, inputs.observation, now_s)
    until_s = now_s
    has_settled = durable.scale_down.previous == before.scale_down.previous
    if not ordered and has_settled and inputs.settings.deviations.tight_packing:
        until_s = find_next_change_s(inputs.observation, result.record, result.group_of, durable, inputs.settings)
    times = (*queue.changes_at_s(), *_template_expiries(state))
    until_s = min(until_s, min((time_s for time_s in times if time_s >= now_s), default=until_s))
    if timer.ran_out or timer.inquiry.was_needed or state.remediation.stop in NOT_ACTIONABLE:
        until_s = now_s  # the next loop may get further, or the expander may answer otherwise
    if inputs.observation.refused:
        until_s = now_s  # the next observation is without the refusals, and a group backs off from now on
    cached = CachedDecision(
        inputs.observation,
        inputs.snapshot.generation,
        durable,
        inputs.settings,
        ordered,
        result.record,
        until_s,
        state.templates.examples,
    )
    return Conclusion(ordered, LoopMemory(durable, _make_volatile(state, cached)), result.record, until_s)


def _end(state: LoopState) -> _Result:
    """After all steps."""
    inputs, durable, groups = state.inputs, state.min_size.durable, state.min_size.sizes
    ordered = (
        *state.startup.plan,
        *state.remediation_plan,
        *state.scale_up.plan,
        *state.scale_down.plan,
        *state.soft_taint_plan,
        *state.min_size.plan,
    )
    verdicts = state.upcoming.verdicts
    if state.remediation.uncreated or any(isinstance(order, plan.Resize | plan.Drain) for order in ordered):
        sizes = {group.id: group.target_size for group in groups.values()}
        requests, limits = durable.health.requests, inputs.settings.health
        verdicts = upcoming_nodes.check_groups(state.health, sizes, requests, limits)
    else:  # Cluster Autoscaler compares sizes again only after changes
        groups = {group.id: group for group in inputs.observation.groups}
    status, proposals = state.scale_up.status, state.scale_up.status.proposals
    if state.min_size.proposal is not None:
        proposals = (*(proposals if status.was_tried else ()), state.min_size.proposal)
    outcome = state.scale_up
    report = ProvisioningReport(
        picked=state.pods.request,
        booked=state.pods.booked,
        helped=outcome.helped_requests,
        remaining=outcome.remaining_requests,
        ignored=state.pods.consumers,
    )
    record = DecisionRecord(
        inputs.now_s,
        state.health,
        state.remediation,
        proposals,
        state.scale_down.record,
        _count_upcoming(state, durable, groups),
        _list_unhealthy(verdicts),
        state.queue.make_report(report),
        tuple(inputs.nodes),
        state.templates.templates,
        outcome.buffers,
    )
    return _Result(ordered, durable, record, outcome.group_of, state.turn.is_next)


def _end_early(state: LoopState) -> _Result:
    """After a step that ended the loop: nothing is scaled."""
    inputs, durable, stop = state.inputs, state.assessed_durable, state.remediation.stop
    upcoming = {group: nodes.nodes for group, nodes in state.remediation.upcoming.items()}
    unhealthy = _list_unhealthy(upcoming_nodes.list_verdicts(state.health))
    if stop in NOT_ACTIONABLE:
        last = inputs.memory.volatile.standing
        upcoming, unhealthy = ({}, ()) if last is None else (dict(last.story.upcoming), ())
    if stop is LoopStop.UNHEALTHY or stop in NOT_ACTIONABLE:
        durable = replace(durable, scale_down=durable.scale_down.clear())
    record = DecisionRecord(
        inputs.now_s,
        state.health,
        state.remediation,
        (ScaleUpProposal(ScaleUpResult.NOT_TRIED),),
        ScaleDownRecord(ScaleDownResult.NOT_TRIED),
        upcoming,
        unhealthy,
        state.queue.make_report(ProvisioningReport()),
        tuple(inputs.nodes),
        state.templates.templates,
    )
    is_next = inputs.memory.durable.requests.is_next
    return _Result((*state.startup.plan, *state.remediation_plan), durable, record, inputs.group_of, is_next)


def _count_upcoming(
    state: LoopState, durable: DurableMemory, groups: Mapping[str, node_groups.NodeGroup]
) -> dict[str, int]:
    """Upcoming nodes by group, with what this loop ordered."""
    upcoming = health.find_upcoming(
        {group.id: group.target_size for group in groups.values()},
        {group: group_health.readiness for group, group_health in state.health.groups.items()},
        durable.health.requests.scale_ups,
        durable.health.backoffs,
        state.inputs.now_s,
    )
    return {group: nodes.nodes for group, nodes in upcoming.items()}


def _list_unhealthy(verdicts: Mapping[str, cluster_health.HealthVerdict]) -> tuple[str, ...]:
    return tuple(sorted(group for group, verdict in verdicts.items() if not verdict.is_healthy))


def _template_expiries(state: LoopState) -> Iterator[float]:
    """When templates that no node is an example of any more expire."""
    expire_time_s = state.inputs.settings.templates.node_info_cache_expire_time_s
    for group, learned_s in state.templates.learned_s.items():
        if group not in state.templates.examples:
            yield learned_s + expire_time_s


def _make_volatile(state: LoopState, cached: CachedDecision) -> VolatileMemory:
    """What the next loop needs, except what must survive a restart."""
    before, searches, now_s = state.inputs.memory.volatile, state.searches, state.inputs.now_s
    if not state.has_ended_early:  # capacity is booked where this loop found room for it
        searches.booking.hints.old.update(state.turn.places)
    return replace(
        before,
        pending=searches.pending,
        removal=searches.removal,
        booking=searches.booking,
        standing=cached,
        faults=(),
        templates=state.templates.remembered,
        learned_s=state.templates.learned_s,
        began_s=now_s if before.began_s is None else before.began_s,
    )
