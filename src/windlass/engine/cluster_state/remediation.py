"""Remediation of node groups, in this order.

    1. what a scale-up requested and did not get in time is reverted
    2. instances that never registered are deleted, down to the group's minimum (an unhealthy cluster: no further)
    3. instances that could not be created are deleted
    4. a target size that has been wrong for too long is lowered to what is there; then the loop ends

Left alone: groups that roll out (`leave_rollouts_alone`), that cannot choose which instances go
(`never_shrink_blindly`), and whose size another controller applies (`is_owned_elsewhere`). What the provider
would refuse is foreseen, recorded as impossible, and changes no size. The sizes that result are what the rest of the
loop goes by. A cluster without ready nodes ends the loop early (`find_not_actionable`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from windlass.engine.cluster_state import health, readiness, scale_requests
from windlass.engine.model import cluster_health, decision_record, deviations, facts, node_groups, settings
from windlass.engine.model.cluster_health import ClusterHealth, UpcomingNodes
from windlass.engine.model.decision_record import LoopStop
from windlass.engine.model.node_groups import NodeGroup


def do_nothing(groups: Iterable[NodeGroup], stop: decision_record.LoopStop) -> decision_record.Remediation:
    """No remediation, because the loop ends here."""
    sizes = {group.id: decision_record.GroupSize(group.target_size, len(group.instances)) for group in groups}
    return decision_record.Remediation((), (), (), (), sizes, {}, stop)


def plan_remediation(
    groups: Collection[NodeGroup], assessed_health: ClusterHealth, active_settings: settings.Settings, now_s: float
) -> decision_record.Remediation:
    """All remediation that is due."""
    sizes: decision_record.GroupSizes = {
        group.id: decision_record.GroupSize(group.target_size, len(group.instances)) for group in groups
    }
    reverts = _revert_unfulfilled(groups, assessed_health, sizes, active_settings)
    sizes = _apply_decreases(sizes, reverts)
    unregistered = _remove_unregistered(groups, assessed_health, sizes, active_settings)
    sizes = _apply_removals(sizes, unregistered)
    if not assessed_health.verdict.is_healthy:
        return decision_record.Remediation(
            tuple(reverts), tuple(unregistered), (), (), sizes, {}, decision_record.LoopStop.UNHEALTHY
        )
    uncreated = _remove_uncreated(_without_removed(groups, unregistered), sizes, active_settings)
    sizes = _apply_removals(sizes, uncreated)
    fixes = _fix_sizes(groups, assessed_health, sizes, active_settings, now_s)
    sizes = _apply_decreases(sizes, fixes)
    upcoming = _find_upcoming(assessed_health, sizes, unregistered, now_s)
    stop = None if active_settings.deviations.isolate_size_fixes else _find_stop_after_fixes(fixes)
    return decision_record.Remediation(
        tuple(reverts), tuple(unregistered), tuple(uncreated), tuple(fixes), sizes, upcoming, stop
    )


def _revert_unfulfilled(
    groups: Iterable[NodeGroup],
    assessed_health: ClusterHealth,
    sizes: decision_record.GroupSizes,
    active_settings: settings.Settings,
) -> list[decision_record.SizeDecrease]:
    reverts = []
    for group in _select_repairable(groups, active_settings):
        size, by = sizes[group.id], assessed_health.groups[group.id].progress.overdue
        if active_settings.deviations.revert_only_missing_nodes:
            by = min(by, _count_spare(group, size))
        if by > 0:
            reverts.append(decision_record.SizeDecrease(group.id, by, size))
    return reverts


def _remove_unregistered(
    groups: Iterable[NodeGroup],
    assessed_health: ClusterHealth,
    sizes: decision_record.GroupSizes,
    active_settings: settings.Settings,
) -> list[decision_record.InstanceRemoval]:
    """Those that have been unregistered longest go first; where only some may go, the others wait."""
    is_forced, since = active_settings.health.force_delete_unregistered_nodes, assessed_health.memory.unregistered_since
    removals = []
    for group in _select_repairable(groups, active_settings):
        size, seen = sizes[group.id], assessed_health.groups[group.id].readiness
        kept = {instance.provider_id for instance in group.instances if instance.had_node}
        late = (instance for instance in (seen.long_unregistered if seen else ()) if instance not in kept)
        doomed = sorted(late, key=lambda instance: (since[instance], instance))
        allowed = len(doomed) if is_forced else max(min(len(doomed), size.target - group.min_size), 0)
        going = _complete_atomic_group(group, doomed[:allowed], active_settings)
        if going and _would_be_removed(group, going, size, active_settings):
            removals.append(decision_record.InstanceRemoval(group.id, going, is_forced, group.min_size, size))
    return removals


def _remove_uncreated(
    groups: Iterable[NodeGroup], sizes: decision_record.GroupSizes, active_settings: settings.Settings
) -> list[decision_record.InstanceRemoval]:
    is_forced = active_settings.health.force_delete_failed_nodes
    removals = []
    for group in _select_repairable(groups, active_settings):
        doomed = [provider_id for provider_id, _ in scale_requests.find_uncreated(group)]
        going = _complete_atomic_group(group, doomed, active_settings)
        if going and _would_be_removed(group, going, sizes[group.id], active_settings):
            removals.append(
                decision_record.InstanceRemoval(group.id, going, is_forced, group.min_size, sizes[group.id])
            )
    return removals


def _without_removed(
    groups: Iterable[NodeGroup], removals: Iterable[decision_record.InstanceRemoval]
) -> Iterator[NodeGroup]:
    """The sizes after these instances are deleted."""
    gone = {removal.group: frozenset(removal.instances) for removal in removals if removal.is_possible}
    for group in groups:
        if group.id in gone:
            remaining = (instance for instance in group.instances if instance.provider_id not in gone[group.id])
            group = replace(group, instances=tuple(remaining))
        yield group


def _select_repairable(groups: Iterable[NodeGroup], active_settings: settings.Settings) -> Iterator[NodeGroup]:
    """Groups whose target may decrease: no rollout is in progress, and no other controller owns the replicas."""
    for group in groups:
        is_spared = group.is_rolling_out and active_settings.deviations.leave_rollouts_alone
        if not is_spared and not is_owned_elsewhere(group, active_settings.deviations):
            yield group


def _would_be_removed(
    group: NodeGroup, going: Sequence[str], size: decision_record.GroupSize, active_settings: settings.Settings
) -> bool:
    """Would the provider delete exactly these instances?"""
    return group.can_choose or len(going) >= size.target or not active_settings.deviations.never_shrink_blindly


def _complete_atomic_group(
    group: NodeGroup, doomed: Sequence[str], active_settings: settings.Settings
) -> tuple[str, ...]:
    """A group that is all or nothing loses all its instances with the first, or only with the last if it wants that."""
    options = settings.for_group(active_settings, group.options)
    if not doomed or not options.zero_or_max:
        return tuple(doomed)
    if options.allow_non_atomic_scale_up_to_max and len(doomed) < len(group.instances):
        return ()
    return tuple(instance.provider_id for instance in group.instances)


def _fix_sizes(
    groups: Iterable[NodeGroup],
    assessed_health: ClusterHealth,
    sizes: decision_record.GroupSizes,
    active_settings: settings.Settings,
    now_s: float,
) -> list[decision_record.SizeDecrease]:
    """Lower target sizes that nothing has come up to for longer than a node may take, up to the first refusal."""
    fixes = []
    for group in _select_repairable(groups, active_settings):
        time_s = settings.for_group(active_settings, group.options).max_node_provision_time_s
        size, by = sizes[group.id], _count_excess(assessed_health.groups[group.id].wrong_size, time_s, now_s)
        if active_settings.deviations.isolate_size_fixes:
            by = min(by, _count_spare(group, size))
        if by > 0:
            fixes.append(decision_record.SizeDecrease(group.id, by, size))
            if not fixes[-1].is_possible:
                break
    return fixes


def _count_excess(wrong: cluster_health.IncorrectSize | None, max_node_provision_time_s: float, now_s: float) -> int:
    if wrong is None or wrong.since_s + max_node_provision_time_s >= now_s:
        return 0
    return wrong.expected - wrong.current


def _count_spare(group: NodeGroup, size: decision_record.GroupSize) -> int:
    """The possible decrease of the target size that deletes no instance and keeps the minimum."""
    return size.target - max(size.instances, group.min_size)


def _find_upcoming(
    assessed_health: ClusterHealth,
    sizes: decision_record.GroupSizes,
    unregistered: Iterable[decision_record.InstanceRemoval],
    now_s: float,
) -> dict[str, UpcomingNodes]:
    """Instances that were given up count as arrived, so their removal must not count as nodes that came."""
    removed = {removal.group: len(removal.instances) for removal in unregistered if removal.is_possible}
    return health.find_upcoming(
        {group: size.target + removed.get(group, 0) for group, size in sizes.items()},
        {group: group_health.readiness for group, group_health in assessed_health.groups.items()},
        assessed_health.memory.requests.scale_ups,
        assessed_health.memory.backoffs,
        now_s,
    )


def _find_stop_after_fixes(fixes: Sequence[decision_record.SizeDecrease]) -> decision_record.LoopStop | None:
    if not fixes:
        return None
    return decision_record.LoopStop.FIXED if all(fix.is_possible for fix in fixes) else decision_record.LoopStop.REFUSED


def _apply_removals(
    sizes: decision_record.GroupSizes, removals: Iterable[decision_record.InstanceRemoval]
) -> decision_record.GroupSizes:
    done = {removal.group: len(removal.instances) for removal in removals if removal.is_possible}
    return {
        group: decision_record.GroupSize(size.target - done.get(group, 0), size.instances - done.get(group, 0))
        for group, size in sizes.items()
    }


def _apply_decreases(
    sizes: decision_record.GroupSizes, decreases: Iterable[decision_record.SizeDecrease]
) -> decision_record.GroupSizes:
    done = {decrease.group: decrease.by for decrease in decreases if decrease.is_possible}
    return {group: replace(size, target=size.target - done.get(group, 0)) for group, size in sizes.items()}


def is_owned_elsewhere(group: node_groups.NodeGroup, active_deviations: deviations.Deviations) -> bool:
    """Does another controller own the group's replicas?"""
    owner = group.replicas_owner
    if owner is None:
        return False
    return (
        active_deviations.respect_topology_replicas
        if owner.is_topology
        else active_deviations.respect_replicas_managed_by
    )


def list_owned_elsewhere(
    groups: Iterable[node_groups.NodeGroup], active_deviations: deviations.Deviations
) -> Iterator[tuple[str, str]]:
    """Groups whose replicas another controller owns: (id, owner and remedy)."""
    for group in groups:
        if group.replicas_owner is not None and is_owned_elsewhere(group, active_deviations):
            yield group.id, group.replicas_owner.message


NOT_READY_AFTER_START_S = 600.0
"""How long after a start nodes may be unready without an event."""


def find_not_actionable(nodes: Sequence[facts.Node], began_s: float, now_s: float) -> LoopStop | None:
    """The stop for a cluster without any ready and schedulable node; None otherwise."""
    if not nodes:
        return LoopStop.NO_NODES
    if any(readiness.is_ready_and_schedulable(node) for node in nodes):
        return None
    return LoopStop.NO_READY_NODES if now_s > began_s + NOT_READY_AFTER_START_S else LoopStop.NO_READY_NODES_YET
