"""Verdicts: what each group says to one pod, and what would change its mind.

A new, empty node of the group takes the pod or not; and the group may grow now or not. Both are asked as scale-up asks
them, of the same snapshot, but to the end: every filter and everything that holds the group, not only the first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from windlass.engine import dtypes, facts, pod_traits, replicas_owners
from windlass.engine.decide import ScaleUpContext
from windlass.engine.scale_up import helping, proposing
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.explain import expected, look, obstacles, remedies
from windlass.explain.obstacles import Obstacle
from windlass.explain.remedies import Change, Remedy

NOTHING: Mapping[str, int] = MappingProxyType({})
NO_TEMPLATE = "no template: the group has no node, and nobody says what one would look like"


@dataclass(frozen=True, slots=True)
class Hold:
    """Something that keeps a group from growing, and what would end it."""

    reason: str
    """In Cluster Autoscaler's words, where it has some."""
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One group and one pod."""

    group: str
    size: int
    max_size: int
    fits: bool
    """A new, empty node of it takes the pod."""
    holds: tuple[Hold, ...] = ()
    """Why it cannot grow now."""
    obstacles: tuple[Obstacle, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    """Everything that would have to change, together, for the group to help the pod."""
    is_curable: bool = True
    """Those remedies would do. If not, something stands in the way that none of them changes."""
    counts_on: tuple[str, ...] = ()
    """Pods that wait as well: all this holds if they come to where they are expected."""
    free: Mapping[str, int] = field(default_factory=dict)
    """What is free on a new node, of what the pod asks for; in each resource's own unit."""
    starts_with: str = ""
    """Whose pods a new node starts with: DaemonSets, static pods, or both."""
    grows_from: int | None = None
    """Its size now, where the next loop raises it to `size` for other pods; None where it does not grow."""
    replicas_owner: str = ""
    """Which controller reverts the size of a group that is scaled all the same, and what ends that."""

    @property
    def may_grow(self) -> bool:
        return not self.holds

    @property
    def helps(self) -> bool:
        return self.fits and self.may_grow


def judge(
    at: look.Look, context: ScaleUpContext, row: int, growth: Mapping[str, int] = NOTHING
) -> tuple[GroupVerdict, ...]:
    """What each group says to a pod that waits, in the groups' order. It is taken off its place, if it has one.

    `growth`: sizes that groups are raised to for others, by group. What holds them then, holds them for this pod.
    """
    others = tuple(one for one in expected.find(context) if one != row)
    context.snapshot.fork()
    if int(context.snapshot.pods.node_rows[row]) != dtypes.ABSENT:
        context.snapshot.lift(row)
    try:
        return tuple(_judge(at, context, context.snapshot.pods.fact(row, ""), others, growth))
    finally:
        context.snapshot.revert()


def _judge(
    at: look.Look,
    context: ScaleUpContext,
    pod: facts.Pod,
    others: tuple[int, ...],
    growth: Mapping[str, int],
) -> Iterator[GroupVerdict]:
    snapshot, config = context.snapshot, at.settings.filters
    nodes = [*helping.list_nodes(at.seen, snapshot, context.groups), *_list_ordered(context.groups, growth)]
    tracker, there = helping.track_quotas(at.seen, nodes, at.settings), max(len(nodes), context.ready_nodes)
    before = {one.id: one.target_size for one in at.seen.groups}
    for group in _grow(context.groups.all, growth):
        template = context.groups.templates.get(group.id)
        holds = [*_find_holds(at, context, group, there)]
        if template is None:
            holds.append(Hold(NO_TEMPLATE))
            yield GroupVerdict(group.id, group.target_size, group.max_size, False, tuple(holds), is_curable=False)
            continue
        wanted = group.max_size - group.target_size if group.options.zero_or_max else 1
        exceeded = tracker.check(group.id, template.node, max(wanted, 1)).exceeded
        holds += [Hold(f'exceeded quota: "{one.quota}", resources: {", ".join(one.resources)}') for one in exceeded]
        snapshot.fork()
        row = place_template(snapshot, template)
        found = obstacles.find(snapshot, snapshot.shape_of(pod), row, config)
        changes = remedies.find(snapshot, pod, row, config)
        cured = snapshot.shape_of(remedies.apply(pod, changes or ()))
        minded = expected.find_minded(snapshot, cured, others, config)
        free = _find_free(snapshot, pod, row)
        snapshot.revert()
        ends = [one.remedy for one in holds]
        yield GroupVerdict(
            group.id,
            group.target_size,
            group.max_size,
            not found,
            tuple(holds),
            tuple(found),
            (*(changes or ()), *(one for one in ends if one is not None)),
            changes is not None and None not in ends,
            minded,
            free,
            _name_own_pods(template),
            before[group.id] if group.id in growth else None,
            _find_reverting(at.settings, group),
        )


def _grow(groups: Iterable[facts.NodeGroup], growth: Mapping[str, int]) -> Iterator[facts.NodeGroup]:
    """The groups as large as they are raised to."""
    for group in groups:
        yield replace(group, target_size=max(group.target_size, growth.get(group.id, 0)))


def _list_ordered(groups: proposing.Groups, growth: Mapping[str, int]) -> Iterator[tuple[facts.Node, str]]:
    """The nodes that groups are raised by, as far as they are not in the snapshot yet."""
    for group in groups.all:
        missing = growth.get(group.id, 0) - group.target_size
        if missing > 0 and group.id in groups.templates:
            yield from ((groups.templates[group.id].node, group.id) for _ in range(missing))


def place_template(snapshot: Snapshot, template: GroupTemplate) -> int:
    """The row of a new node with the pods that it starts with. Only inside a fork."""
    (row,) = snapshot.append(template.node, [template.node.name])
    for pod in template.pods:
        snapshot.place(snapshot.shape_of(pod), row)
    return row


def _name_own_pods(template: GroupTemplate) -> str:
    kinds = dict.fromkeys("DaemonSets" if pod_traits.is_daemonset(pod) else "static pods" for pod in template.pods)
    return " and ".join(sorted(kinds))


def _find_free(snapshot: Snapshot, pod: facts.Pod, row: int) -> dict[str, int]:
    table = snapshot.nodes
    return {name: int(table.free[table.resource_column(name), row]) for name, amount in pod.spec.requests if amount}


def _find_holds(at: look.Look, context: ScaleUpContext, group: facts.NodeGroup, there: int) -> Iterator[Hold]:
    """Everything about its size and state, in the order in which scale-up asks. `there`: nodes of the cluster."""
    unsafe = context.groups.unsafe.get(group.id)
    if unsafe is proposing.Skip.BACKOFF:
        backoff = at.decision.story.health.groups[group.id].backoff
        assert backoff is not None, "the context says that it backs off"
        yield Hold(str(unsafe), Remedy(Change.WAIT, group.id, at_s=backoff.until_s))
    elif unsafe is proposing.Skip.REPLICAS_OWNED:
        assert group.replicas_owner is not None, "the context says that its size has an owner"
        yield Hold(str(unsafe), Remedy(Change.TOPOLOGY_REPLICAS, group.id, group.replicas_owner.remedy))
    elif unsafe is not None:
        yield Hold(str(unsafe))
    if group.target_size >= group.max_size:
        larger = Remedy(Change.MAX_SIZE, group.id, amount=group.target_size + 1)
        yield Hold(str(proposing.Skip.MAX_SIZE), larger)
    yield from _find_total_holds(at.settings, group, there)


def _find_reverting(settings: Settings, group: facts.NodeGroup) -> str:
    """Which controller reverts what scale-up writes; empty where nothing is written, or none does."""
    if group.replicas_owner is None or replicas_owners.is_left_alone(group, settings.deviations):
        return ""
    return group.replicas_owner.message


def _find_total_holds(settings: Settings, group: facts.NodeGroup, there: int) -> Iterator[Hold]:
    limit = settings.limits.max_nodes_total
    wanted = max(group.max_size - group.target_size, 1) if group.options.zero_or_max else 1
    if limit <= 0 or there + wanted <= limit:
        return
    whole = group.options.zero_or_max
    reason = str(proposing.Skip.ATOMIC_TOO_LARGE) if whole else "max total nodes in cluster reached"
    yield Hold(reason, Remedy(Change.MAX_NODES_TOTAL, amount=there + wanted))
