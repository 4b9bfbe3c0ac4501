"""Group verdicts on a pod: does a new node of the group fit it, may the group grow, and what would change that?

Both are evaluated as scale-up does it, on the same snapshot, but completely: every filter and everything that blocks
the group, not only the first. Pending pods that are expected on a node and influence the verdict (affinity, spread)
are named.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from windlass.engine.cluster_state import remediation
from windlass.engine.loop_state import ScaleUpContext
from windlass.engine.model import arrays, facts, node_groups, scale_up_status, well_known
from windlass.engine.model.scale_up_status import GroupTemplate
from windlass.engine.model.settings import FilterConfig, Settings
from windlass.engine.scale_up import options, orchestrator
from windlass.engine.snapshot import topology_counts
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.explain import obstacles
from windlass.explain.decision_view import MAX_NODES_TOTAL_REACHED
from windlass.explain.obstacles import Obstacle, Remedy, RemedyKind

if TYPE_CHECKING:  # `pods` and `cluster` hand in the context
    from windlass.explain.explain_context import ExplainContext


def find_expected_pods(context: ScaleUpContext) -> tuple[int, ...]:
    """Rows of the pending pods that are expected on a node."""
    waiting = context.waiting
    rows = sorted((*waiting.nominated, *waiting.unschedulable, *waiting.unprocessed))
    return tuple(row for row in rows if int(context.snapshot.pods.node_rows[row]) != arrays.ABSENT)


def find_relevant_pods(
    snapshot: Snapshot, shape: facts.PodShape, rows: tuple[int, ...], config: FilterConfig
) -> tuple[str, ...]:
    """Those of the pods in these rows that decide, by where they are, whether a node takes a pod of this shape."""
    return tuple(
        snapshot.pods.key(row) for row in rows if _is_relevant(snapshot, shape, snapshot.shape_of_row(row), config)
    )


def _is_relevant(snapshot: Snapshot, shape: facts.PodShape, other: facts.PodShape, config: FilterConfig) -> bool:
    namespaces = snapshot.topology_counts.namespaces
    return any(key.matches(other.profile, namespaces) for key in _counted_selectors(shape, config)) or any(
        topology_counts.carried_term_matches(term, shape.profile, namespaces) for term in other.spec.anti_affinity
    )


def _counted_selectors(shape: facts.PodShape, config: FilterConfig) -> Iterator[topology_counts.Matching]:
    """What the pod's own affinity, anti-affinity and spread constraints count."""
    yield from (
        topology_counts.PodsMatchingAllTerms((term,)) for term in (*shape.spec.affinity, *shape.spec.anti_affinity)
    )
    for constraint in shape.spec.spread or config.default_constraints:
        key = topology_counts.make_spread_count(shape.namespace, constraint.selector)
        if key is not None:
            yield key


NO_GROWTH: Mapping[str, int] = MappingProxyType({})

NO_TEMPLATE = "no template: the group has no node, and the provider reports no template"


@dataclass(frozen=True, slots=True)
class ScaleUpBlocker:
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
    holds: tuple[ScaleUpBlocker, ...] = ()
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


def find_verdicts(
    at: "ExplainContext", context: ScaleUpContext, row: int, growth: Mapping[str, int] = NO_GROWTH
) -> tuple[GroupVerdict, ...]:
    """The verdict of each group on a pending pod, in the groups' order. Its assumed placement is removed first.

    `growth`: sizes that groups are raised to for others, by group. What holds them then, holds them for this pod.
    """
    others = tuple(item for item in find_expected_pods(context) if item != row)
    context.snapshot.fork()
    if int(context.snapshot.pods.node_rows[row]) != arrays.ABSENT:
        context.snapshot.unbind(row)
    try:
        return tuple(_find_verdicts(at, context, context.snapshot.pods.fact(row, ""), others, growth))
    finally:
        context.snapshot.revert()


def _find_verdicts(
    at: "ExplainContext",
    context: ScaleUpContext,
    pod: facts.Pod,
    others: tuple[int, ...],
    growth: Mapping[str, int],
) -> Iterator[GroupVerdict]:
    snapshot, config = context.snapshot, at.settings.filters
    nodes = [*orchestrator.list_nodes(at.observation, snapshot, context.groups), *_list_ordered(context.groups, growth)]
    tracker, there = orchestrator.track_quotas(at.observation, nodes, at.settings), max(len(nodes), context.ready_nodes)
    before = {node_group.id: node_group.target_size for node_group in at.observation.groups}
    for group in _grow(context.groups.all, growth):
        template = context.groups.templates.get(group.id)
        holds = [*_find_blockers(at, context, group, there)]
        if template is None:
            holds.append(ScaleUpBlocker(NO_TEMPLATE))
            yield GroupVerdict(group.id, group.target_size, group.max_size, False, tuple(holds), is_curable=False)
            continue
        desired = group.max_size - group.target_size if group.options.zero_or_max else 1
        exceeded = tracker.check(group.id, template.node, max(desired, 1)).exceeded
        holds += [
            ScaleUpBlocker(
                f'exceeded quota: "{exceeded_quota.quota}", resources: {", ".join(exceeded_quota.resources)}'
            )
            for exceeded_quota in exceeded
        ]
        snapshot.fork()
        row = place_template(snapshot, template)
        pod_obstacles = obstacles.find_obstacles(snapshot, snapshot.shape_of(pod), row, config)
        changes = obstacles.find_remedies(snapshot, pod, row, config)
        cured = snapshot.shape_of(obstacles.apply_remedies(pod, changes or ()))
        minded = find_relevant_pods(snapshot, cured, others, config)
        free = _find_free(snapshot, pod, row)
        snapshot.revert()
        ends = [scale_up_blocker.remedy for scale_up_blocker in holds]
        yield GroupVerdict(
            group.id,
            group.target_size,
            group.max_size,
            not pod_obstacles,
            tuple(holds),
            tuple(pod_obstacles),
            (*(changes or ()), *(remedy for remedy in ends if remedy is not None)),
            changes is not None and None not in ends,
            minded,
            free,
            _name_own_pods(template),
            before[group.id] if group.id in growth else None,
            _find_reverting(at.settings, group),
        )


def _grow(groups: Iterable[node_groups.NodeGroup], growth: Mapping[str, int]) -> Iterator[node_groups.NodeGroup]:
    """The groups as large as they are raised to."""
    for group in groups:
        yield replace(group, target_size=max(group.target_size, growth.get(group.id, 0)))


def _list_ordered(groups: options.ScaleUpGroups, growth: Mapping[str, int]) -> Iterator[tuple[facts.Node, str]]:
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
    kinds = dict.fromkeys("DaemonSets" if well_known.is_daemonset(pod) else "static pods" for pod in template.pods)
    return " and ".join(sorted(kinds))


def _find_free(snapshot: Snapshot, pod: facts.Pod, row: int) -> dict[str, int]:
    table = snapshot.nodes
    return {name: int(table.free[table.resource_column(name), row]) for name, amount in pod.spec.requests if amount}


def _find_blockers(
    at: "ExplainContext", context: ScaleUpContext, group: node_groups.NodeGroup, there: int
) -> Iterator[ScaleUpBlocker]:
    """Everything about its size and state, in the order in which scale-up asks. `there`: nodes of the cluster."""
    unsafe = context.groups.unsafe.get(group.id)
    if unsafe is scale_up_status.SkipReason.BACKOFF:
        backoff = at.decision.story.health.groups[group.id].backoff
        assert backoff is not None, "the context says that it backs off"
        yield ScaleUpBlocker(str(unsafe), Remedy(RemedyKind.WAIT, group.id, at_s=backoff.until_s))
    elif unsafe in (scale_up_status.SkipReason.REPLICAS_OWNED, scale_up_status.SkipReason.REPLICAS_MANAGED):
        assert group.replicas_owner is not None, "the context says that its size has an owner"
        yield ScaleUpBlocker(str(unsafe), Remedy(RemedyKind.TOPOLOGY_REPLICAS, group.id, group.replicas_owner.remedy))
    elif unsafe is not None:
        yield ScaleUpBlocker(str(unsafe))
    if group.target_size >= group.max_size:
        larger = Remedy(RemedyKind.MAX_SIZE, group.id, amount=group.target_size + 1)
        yield ScaleUpBlocker(str(scale_up_status.SkipReason.MAX_SIZE), larger)
    yield from _find_total_blockers(at.settings, group, there)


def _find_reverting(settings: Settings, group: node_groups.NodeGroup) -> str:
    """Which controller reverts what scale-up writes; empty where nothing is written, or none does."""
    if group.replicas_owner is None or remediation.is_owned_elsewhere(group, settings.deviations):
        return ""
    return group.replicas_owner.message


def _find_total_blockers(settings: Settings, group: node_groups.NodeGroup, there: int) -> Iterator[ScaleUpBlocker]:
    limit = settings.limits.max_nodes_total
    desired = max(group.max_size - group.target_size, 1) if group.options.zero_or_max else 1
    if limit <= 0 or there + desired <= limit:
        return
    whole = group.options.zero_or_max
    reason = str(scale_up_status.SkipReason.ATOMIC_TOO_LARGE) if whole else MAX_NODES_TOTAL_REACHED
    yield ScaleUpBlocker(reason, Remedy(RemedyKind.MAX_NODES_TOTAL, amount=there + desired))
