"""Repairs: what is done about groups that are not as they should be, in this order.

    1. what a scale-up asked for and did not get in time is taken back
    2. instances that never registered are deleted, down to the group's minimum (an unhealthy cluster: no further);
       one of which the provider knows that it became a node did register, and stays
    3. instances that could not be created are deleted
    4. a target size that has been wrong for too long is lowered to what is there; then the loop is over

A group whose machines are being replaced is left alone, by `leave_rollouts_alone`: a lower size would cost it a machine
that runs. So is one that cannot choose which instances go, by `never_shrink_blindly`, unless all of them are to go; and
one whose size another controller applies, by `respect_topology_replicas`: that controller would raise it again.

The provider refuses to lower a target size below the number of instances, and to delete instances below the minimum.
That can be foreseen, so it is: a repair that would be refused is told as such, and changes no size. Sizes that the
repairs lead to are part of the answer, because the rest of the loop goes by them.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from windlass.engine import following, health, replicas_owners, settings
from windlass.engine.facts import NodeGroup
from windlass.engine.health import Health, Upcoming


@dataclass(frozen=True, slots=True)
class Size:
    """A group's target size and the number of its instances."""

    target: int
    instances: int


Sizes = Mapping[str, Size]
"""By group."""


@dataclass(frozen=True, slots=True)
class Decrease:
    """Lower a group's target size; no instance may be touched by it."""

    group: str
    by: int
    before: Size

    @property
    def is_possible(self) -> bool:
        return self.before.target - self.by >= self.before.instances


@dataclass(frozen=True, slots=True)
class Removal:
    """Delete instances of a group, which lowers its target size by as many."""

    group: str
    instances: tuple[str, ...]
    is_forced: bool
    """Even below the group's minimum."""
    min_size: int
    before: Size

    @property
    def is_possible(self) -> bool:
        return self.is_forced or self.before.target - len(self.instances) >= self.min_size


class Stop(enum.StrEnum):
    """Why nothing else is decided in a loop."""

    UNHEALTHY = "cluster is unhealthy"
    FIXED = "a size was fixed"
    REFUSED = "a size could not be fixed"
    NO_NODES = "cluster has no nodes"
    NO_READY_NODES = "cluster has no ready nodes"
    NO_READY_NODES_YET = "cluster has no ready nodes yet"


NOT_ACTIONABLE = frozenset({Stop.NO_NODES, Stop.NO_READY_NODES, Stop.NO_READY_NODES_YET})
"""The loop ended before groups were looked at: nothing is known of their health."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """What to do, and where it leads."""

    reverts: tuple[Decrease, ...]
    unregistered: tuple[Removal, ...]
    uncreated: tuple[Removal, ...]
    fixes: tuple[Decrease, ...]
    sizes: Sizes
    upcoming: Mapping[str, Upcoming]
    """Nodes to come when all this is done."""
    stop: Stop | None = None
    """Set if the loop ends here."""


def do_nothing(groups: Iterable[NodeGroup], stop: Stop) -> Repairs:
    """The groups as they are, because the loop ends here."""
    sizes = {group.id: Size(group.target_size, len(group.instances)) for group in groups}
    return Repairs((), (), (), (), sizes, {}, stop)


def plan(groups: Collection[NodeGroup], found: Health, chosen: settings.Settings, now_s: float) -> Repairs:
    """Everything that is to be repaired now."""
    sizes: Sizes = {group.id: Size(group.target_size, len(group.instances)) for group in groups}
    reverts = _revert(groups, found, sizes, chosen)
    sizes = _lower(sizes, reverts)
    unregistered = _remove_unregistered(groups, found, sizes, chosen)
    sizes = _remove(sizes, unregistered)
    if not found.verdict.is_healthy:
        return Repairs(tuple(reverts), tuple(unregistered), (), (), sizes, {}, Stop.UNHEALTHY)
    uncreated = _remove_uncreated(_without(groups, unregistered), sizes, chosen)
    sizes = _remove(sizes, uncreated)
    fixes = _fix(groups, found, sizes, chosen, now_s)
    sizes = _lower(sizes, fixes)
    upcoming = _find_upcoming(found, sizes, unregistered, now_s)
    stop = None if chosen.deviations.isolate_size_fixes else _stop(fixes)
    return Repairs(tuple(reverts), tuple(unregistered), tuple(uncreated), tuple(fixes), sizes, upcoming, stop)


def _revert(groups: Iterable[NodeGroup], found: Health, sizes: Sizes, chosen: settings.Settings) -> list[Decrease]:
    reverts = []
    for group in _select_repairable(groups, chosen):
        size, by = sizes[group.id], found.groups[group.id].progress.overdue
        if chosen.deviations.revert_only_missing_nodes:
            by = min(by, _count_spare(group, size))
        if by > 0:
            reverts.append(Decrease(group.id, by, size))
    return reverts


def _remove_unregistered(
    groups: Iterable[NodeGroup], found: Health, sizes: Sizes, chosen: settings.Settings
) -> list[Removal]:
    """Those that have been unregistered longest go first; where only some may go, the others wait."""
    is_forced, since = chosen.health.force_delete_unregistered_nodes, found.memory.unregistered_since
    removals = []
    for group in _select_repairable(groups, chosen):
        size, seen = sizes[group.id], found.groups[group.id].readiness
        kept = {instance.provider_id for instance in group.instances if instance.had_node}
        late = (instance for instance in (seen.long_unregistered if seen else ()) if instance not in kept)
        doomed = sorted(late, key=lambda instance: (since[instance], instance))
        allowed = len(doomed) if is_forced else max(min(len(doomed), size.target - group.min_size), 0)
        going = _complete(group, doomed[:allowed], chosen)
        if going and _is_chosen(group, going, size, chosen):
            removals.append(Removal(group.id, going, is_forced, group.min_size, size))
    return removals


def _remove_uncreated(groups: Iterable[NodeGroup], sizes: Sizes, chosen: settings.Settings) -> list[Removal]:
    is_forced = chosen.health.force_delete_failed_nodes
    removals = []
    for group in _select_repairable(groups, chosen):
        doomed = [provider_id for provider_id, _ in following.find_uncreated(group)]
        going = _complete(group, doomed, chosen)
        if going and _is_chosen(group, going, sizes[group.id], chosen):
            removals.append(Removal(group.id, going, is_forced, group.min_size, sizes[group.id]))
    return removals


def _without(groups: Iterable[NodeGroup], removals: Iterable[Removal]) -> Iterator[NodeGroup]:
    """The groups as they are when these instances are gone."""
    gone = {removal.group: frozenset(removal.instances) for removal in removals if removal.is_possible}
    for group in groups:
        if group.id in gone:
            left = (each for each in group.instances if each.provider_id not in gone[group.id])
            group = replace(group, instances=tuple(left))
        yield group


def _select_repairable(groups: Iterable[NodeGroup], chosen: settings.Settings) -> Iterator[NodeGroup]:
    """Groups that may be lowered: no rollout is under way, and no other controller applies the size."""
    for group in groups:
        is_spared = group.is_rolling_out and chosen.deviations.leave_rollouts_alone
        if not is_spared and not replicas_owners.is_left_alone(group, chosen.deviations):
            yield group


def _is_chosen(group: NodeGroup, going: Sequence[str], size: Size, chosen: settings.Settings) -> bool:
    """Would these instances be the ones that go?"""
    return group.can_choose or len(going) >= size.target or not chosen.deviations.never_shrink_blindly


def _complete(group: NodeGroup, doomed: Sequence[str], chosen: settings.Settings) -> tuple[str, ...]:
    """A group that is all or nothing loses all its instances with the first, or only with the last if it wants that."""
    options = settings.for_group(chosen, group.options)
    if not doomed or not options.zero_or_max:
        return tuple(doomed)
    if options.allow_non_atomic_scale_up_to_max and len(doomed) < len(group.instances):
        return ()
    return tuple(instance.provider_id for instance in group.instances)


def _fix(
    groups: Iterable[NodeGroup], found: Health, sizes: Sizes, chosen: settings.Settings, now_s: float
) -> list[Decrease]:
    """Lower target sizes that nothing has come up to for longer than a node may take, up to the first refusal."""
    fixes = []
    for group in _select_repairable(groups, chosen):
        time_s = settings.for_group(chosen, group.options).max_node_provision_time_s
        size, by = sizes[group.id], _count_excess(found.groups[group.id].wrong_size, time_s, now_s)
        if chosen.deviations.isolate_size_fixes:
            by = min(by, _count_spare(group, size))
        if by > 0:
            fixes.append(Decrease(group.id, by, size))
            if not fixes[-1].is_possible:
                break
    return fixes


def _count_excess(wrong: health.WrongSize | None, max_node_provision_time_s: float, now_s: float) -> int:
    if wrong is None or wrong.since_s + max_node_provision_time_s >= now_s:
        return 0
    return wrong.expected - wrong.current


def _count_spare(group: NodeGroup, size: Size) -> int:
    """By how much the target size can be lowered without touching instances or the minimum."""
    return size.target - max(size.instances, group.min_size)


def _find_upcoming(found: Health, sizes: Sizes, unregistered: Iterable[Removal], now_s: float) -> dict[str, Upcoming]:
    """Instances that were given up count as arrived, so their removal must not count as nodes that came."""
    removed = {removal.group: len(removal.instances) for removal in unregistered if removal.is_possible}
    return health.find_upcoming(
        {group: size.target + removed.get(group, 0) for group, size in sizes.items()},
        {group: each.readiness for group, each in found.groups.items()},
        found.memory.requests.scale_ups,
        found.memory.backoffs,
        now_s,
    )


def _stop(fixes: Sequence[Decrease]) -> Stop | None:
    if not fixes:
        return None
    return Stop.FIXED if all(fix.is_possible for fix in fixes) else Stop.REFUSED


def _remove(sizes: Sizes, removals: Iterable[Removal]) -> Sizes:
    done = {removal.group: len(removal.instances) for removal in removals if removal.is_possible}
    return {
        group: Size(size.target - done.get(group, 0), size.instances - done.get(group, 0))
        for group, size in sizes.items()
    }


def _lower(sizes: Sizes, decreases: Iterable[Decrease]) -> Sizes:
    done = {decrease.group: decrease.by for decrease in decreases if decrease.is_possible}
    return {group: replace(size, target=size.target - done.get(group, 0)) for group, size in sizes.items()}
