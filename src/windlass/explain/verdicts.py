"""Verdicts: what each group says to one pod, and what would change its mind.

A new, empty node of the group takes the pod or not; and the group may grow now or not. Both are asked as scale-up asks
them, of the same snapshot, but to the end: every filter and everything that holds the group, not only the first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.engine import dtypes, facts, pod_traits
from windlass.engine.scale_up import proposing
from windlass.engine.scale_up.templates import GroupTemplate
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.explain import expected, look, obstacles, remedies
from windlass.explain.obstacles import Obstacle
from windlass.explain.remedies import Change, Remedy

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

    @property
    def may_grow(self) -> bool:
        return not self.holds

    @property
    def helps(self) -> bool:
        return self.fits and self.may_grow


def judge(at: look.Look, scene: look.Scene, row: int) -> tuple[GroupVerdict, ...]:
    """What each group says to a pod that waits, in the groups' order. It is taken off its place, if it has one."""
    others = tuple(one for one in expected.find(scene) if one != row)
    scene.snapshot.fork()
    if int(scene.snapshot.pods.node_rows[row]) != dtypes.ABSENT:
        scene.snapshot.lift(row)
    try:
        return tuple(_judge(at, scene, scene.snapshot.pods.fact(row, ""), others))
    finally:
        scene.snapshot.revert()


def _judge(at: look.Look, scene: look.Scene, pod: facts.Pod, others: tuple[int, ...]) -> Iterator[GroupVerdict]:
    snapshot, config = scene.snapshot, at.settings.filters
    tracker = look.track_quotas(at, scene)
    for group in scene.groups.all:
        template = scene.groups.templates.get(group.id)
        holds = [*_find_holds(at, scene, group)]
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
        )


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


def _find_holds(at: look.Look, scene: look.Scene, group: facts.NodeGroup) -> Iterator[Hold]:
    """Everything about its size and state, in the order in which scale-up asks."""
    unsafe = scene.groups.unsafe.get(group.id)
    if unsafe is proposing.Skip.BACKOFF:
        backoff = at.decision.story.health.groups[group.id].backoff
        assert backoff is not None, "the scene says that it backs off"
        yield Hold(str(unsafe), Remedy(Change.WAIT, group.id, at_s=backoff.until_s))
    elif unsafe is not None:
        yield Hold(str(unsafe))
    if group.target_size >= group.max_size:
        larger = Remedy(Change.MAX_SIZE, group.id, amount=group.target_size + 1)
        yield Hold(str(proposing.Skip.MAX_SIZE), larger)
    yield from _find_total_holds(at.settings, scene, group)


def _find_total_holds(settings: Settings, scene: look.Scene, group: facts.NodeGroup) -> Iterator[Hold]:
    limit, there = settings.limits.max_nodes_total, max(len(scene.nodes), scene.ready_nodes)
    wanted = max(group.max_size - group.target_size, 1) if group.options.zero_or_max else 1
    if limit <= 0 or there + wanted <= limit:
        return
    reason = str(proposing.Skip.ATOMIC_TOO_LARGE) if wanted > 1 else "max total nodes in cluster reached"
    yield Hold(reason, Remedy(Change.MAX_NODES_TOTAL, amount=there + wanted))
