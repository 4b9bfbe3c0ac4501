"""Health: are groups and the cluster as they should be, and what is still to come?

From what is seen and what the last loop remembered: the readiness of nodes, requests brought up to date, groups that
back off, the range within which each group's size is acceptable, sizes that are wrong and since when, and verdicts on
each group and the cluster. What is done about it is planned in `repairs`.

Groups do not affect each other here: leaving one out changes nothing for the others.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from windlass.engine import backoff, facts, following, readiness, requests, settings
from windlass.engine.backoff import Backoff
from windlass.engine.readiness import NOBODY, Readiness
from windlass.engine.requests import Requests, ScaleUp


@dataclass(frozen=True, slots=True)
class Range:
    """How many ready nodes a group may have, given what is under way. `min` may be negative."""

    min: int
    max: int
    target: int


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A group has another number of nodes than it should, and none of them is on its way."""

    current: int
    expected: int
    since_s: float
    """Since when exactly these numbers differ."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether few enough nodes lack, and the numbers that decided."""

    is_healthy: bool
    lacking: int
    """Nodes that should be ready and are not."""
    nodes: int
    """Nodes of which `max_total_unready_percentage` may lack; `ok_total_unready_count` always may."""


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Nodes that a group will get soon."""

    nodes: int
    not_started: tuple[str, ...]
    """Those of them that have registered, by name."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next loop must know."""

    requests: Requests = field(default_factory=Requests)
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    unregistered_since: Mapping[str, float] = field(default_factory=dict)
    """By provider id."""
    wrong_sizes: Mapping[str, WrongSize] = field(default_factory=dict)
    known: following.Known = field(default_factory=following.Known)


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """One group: what is seen of it, and what follows."""

    readiness: Readiness | None
    """None if it has neither a node nor an instance that should become one."""
    range: Range
    verdict: Verdict
    progress: following.Progress
    wrong_size: WrongSize | None
    backoff: Backoff | None
    """Why it must not grow now."""

    @property
    def may_grow(self) -> bool:
        return self.verdict.is_healthy and self.backoff is None


@dataclass(frozen=True, slots=True)
class Health:
    """The whole cluster at one moment."""

    groups: Mapping[str, GroupHealth]
    total: Readiness
    verdict: Verdict
    memory: Memory

    def as_before(self, memory: Memory) -> "Health":
        """What is seen of it, without what was found out about requests: that is left for a later loop."""
        groups = {id: replace(each, progress=following.Progress(None)) for id, each in self.groups.items()}
        return replace(self, groups=groups, memory=memory)

    @property
    def failures(self) -> tuple[following.Failure, ...]:
        return tuple(failure for group in self.groups.values() for failure in group.progress.failures)


def assess(
    nodes: Collection[facts.Node],
    groups: Collection[facts.NodeGroup],
    group_of: Mapping[str, facts.NodeGroup],
    memory: Memory,
    chosen: settings.Settings,
    now_s: float,
) -> Health:
    """Look at everything once. `group_of` is by node name, for nodes that belong to a group."""
    since = readiness.track_unregistered(nodes, groups, memory.unregistered_since, now_s)
    found = readiness.survey(nodes, groups, group_of, since, chosen, now_s)
    created_s = {node.name: node.created_s for node in nodes}
    courses = {group.id: _describe(group, found, created_s, since, chosen, now_s) for group in groups}
    progress = {
        group.id: following.follow(
            courses[group.id], memory.requests.scale_ups.get(group.id), memory.known, chosen.deviations
        )
        for group in groups
    }
    under_way = Requests(
        {group: each.request for group, each in progress.items() if each.request is not None},
        requests.forget_deleted(memory.requests.scale_downs, now_s),
    )
    backoffs = _back_off(memory.backoffs, progress.values(), now_s, chosen.health)
    targets = {group.id: group.target_size for group in groups}
    ranges = find_ranges(targets, found.by_group, under_way)
    wrong_sizes = find_wrong_sizes(ranges, found.by_group, memory.wrong_sizes, now_s)
    return Health(
        {
            group.id: GroupHealth(
                found.by_group.get(group.id),
                ranges[group.id],
                judge_group(found.by_group.get(group.id), ranges[group.id], chosen.health),
                progress[group.id],
                wrong_sizes.get(group.id),
                backoff.find(backoffs, group.id, now_s),
            )
            for group in groups
        },
        found.total,
        judge_cluster(found.total, len(nodes), chosen.health),
        Memory(under_way, backoffs, since, wrong_sizes, _know(courses.values(), found.total)),
    )


def find_ranges(targets: Mapping[str, int], found: Mapping[str, Readiness], under_way: Requests) -> dict[str, Range]:
    """What size each group may have: nodes asked for need not be there yet, nodes being deleted may still be."""
    ranges = {}
    for group, target in targets.items():
        request = under_way.scale_ups.get(group)
        awaited = 0 if request is None else request.increase + request.external
        leaving = sum(1 for other in under_way.scale_downs if other.group == group)
        given_up = len(found.get(group, NOBODY).long_unregistered)
        ranges[group] = Range(target - given_up - awaited, target + leaving, target)
    return ranges


def find_wrong_sizes(
    ranges: Mapping[str, Range], found: Mapping[str, Readiness], before: Mapping[str, WrongSize], now_s: float
) -> dict[str, WrongSize]:
    """Groups with too many nodes, or too few even if every instance were a node. Groups with nothing at all are not."""
    wrong = {}
    for group, acceptable in ranges.items():
        if group not in found:
            continue
        registered, target = found[group].registered, acceptable.target
        without_node = len(found[group].unregistered) + len(found[group].long_unregistered)
        if target - without_node <= registered <= target:
            continue
        last = before.get(group)
        is_same = last is not None and (last.current, last.expected) == (registered, target)
        wrong[group] = last if last is not None and is_same else WrongSize(registered, target, now_s)
    return wrong


def judge_group(found: Readiness | None, acceptable: Range, limits: settings.Health) -> Verdict:
    """Does the group have the nodes that it should have by now? One with none must just have been asked for all."""
    if found is None:
        is_healthy = acceptable.target == 0 or (acceptable.min == 0 and acceptable.target > 0)
        return Verdict(is_healthy, max(acceptable.min, 0), 0)
    lacking = max(acceptable.min - len(found.ready) - len(found.suspended), 0)
    nodes = sum(map(len, (found.ready, found.unready, found.not_started, found.suspended)))
    return Verdict(_is_tolerable(lacking, nodes, limits), lacking, nodes)


def judge_cluster(total: Readiness, nodes: int, limits: settings.Health) -> Verdict:
    """Are few enough nodes unready? If not, the fault may lie with whoever reports them, and nothing must be done."""
    return Verdict(_is_tolerable(len(total.unready), nodes, limits), len(total.unready), nodes)


def find_upcoming(
    targets: Mapping[str, int],
    found: Mapping[str, Readiness | None],
    scale_ups: Mapping[str, ScaleUp],
    backoffs: Mapping[str, Backoff],
    now_s: float,
) -> dict[str, Upcoming]:
    """Nodes to come, by group. Those of a group that was not asked, or that failed lately, are not relied upon."""
    upcoming = {}
    for group, target in targets.items():
        seen = found.get(group) or NOBODY
        missing = target - seen.arrived
        if missing > 0 and group in scale_ups and backoff.find(backoffs, group, now_s) is None:
            upcoming[group] = Upcoming(missing, seen.not_started)
    return upcoming


def _is_tolerable(lacking: int, nodes: int, limits: settings.Health) -> bool:
    return lacking <= limits.ok_total_unready_count or lacking <= limits.max_total_unready_percentage / 100.0 * nodes


def _describe(
    group: facts.NodeGroup,
    found: readiness.Survey,
    created_s: Mapping[str, float],
    since: Mapping[str, float],
    chosen: settings.Settings,
    now_s: float,
) -> following.Course:
    time_s = settings.for_group(chosen, group.options).max_node_provision_time_s
    return following.Course(group, found.by_group.get(group.id, NOBODY), created_s, since, time_s, now_s)


def _back_off(
    backoffs: Mapping[str, Backoff], progress: Iterable[following.Progress], now_s: float, limits: settings.Health
) -> Mapping[str, Backoff]:
    backoffs = backoff.forget_old(backoffs, now_s, limits)
    for each in progress:
        for failure in each.failures:
            backoffs = backoff.fail(backoffs, failure.group, failure.error, now_s, limits)
    return backoffs


def _know(courses: Iterable[following.Course], total: Readiness) -> following.Known:
    courses = list(courses)
    uncreated = (provider_id for course in courses for provider_id, _ in following.find_uncreated(course.group))
    return following.Known(
        frozenset(uncreated),
        frozenset((*total.long_unregistered, *total.unready)),
        {course.group.id: course.absent for course in courses},
    )
