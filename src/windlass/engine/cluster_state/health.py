"""Cluster health: are groups and the cluster as they should be, and which nodes are upcoming?

Readiness, scale requests brought up to date, backoffs, acceptable ranges, incorrect sizes and since when, and verdicts.
Groups do not affect each other here. What is done about it is planned in `remediation`.
"""

from collections.abc import Collection, Iterable, Mapping

from windlass.engine.cluster_state import backoff, readiness, scale_requests
from windlass.engine.model import cluster_health, facts, node_groups, settings
from windlass.engine.model.cluster_health import NO_NODES, Backoff, Readiness, ScaleRequests, ScaleUpRequest


def assess_health(
    nodes: Collection[facts.Node],
    groups: Collection[node_groups.NodeGroup],
    group_of: Mapping[str, node_groups.NodeGroup],
    memory: cluster_health.HealthMemory,
    active_settings: settings.Settings,
    now_s: float,
) -> cluster_health.ClusterHealth:
    """Assess all groups and the cluster. `group_of` is by node name, for nodes that belong to a group."""
    since = readiness.track_unregistered(nodes, groups, memory.unregistered_since, now_s)
    readiness_survey = readiness.classify_nodes(nodes, groups, group_of, since, active_settings, now_s)
    created_s = {node.name: node.created_s for node in nodes}
    courses = {
        group.id: _make_tracker(group, readiness_survey, created_s, since, active_settings, now_s) for group in groups
    }
    progress = {
        group.id: scale_requests.update_scale_request(
            courses[group.id], memory.requests.scale_ups.get(group.id), memory.known, active_settings.deviations
        )
        for group in groups
    }
    under_way = ScaleRequests(
        {
            group: scale_up_progress.request
            for group, scale_up_progress in progress.items()
            if scale_up_progress.request is not None
        },
        scale_requests.drop_expired_scale_downs(memory.requests.scale_downs, now_s),
    )
    backoffs = _update_backoffs(memory.backoffs, progress.values(), now_s, active_settings.health)
    targets = {group.id: group.target_size for group in groups}
    ranges = find_ranges(targets, readiness_survey.by_group, under_way)
    wrong_sizes = find_wrong_sizes(ranges, readiness_survey.by_group, memory.wrong_sizes, now_s)
    return cluster_health.ClusterHealth(
        {
            group.id: cluster_health.GroupHealth(
                readiness_survey.by_group.get(group.id),
                ranges[group.id],
                check_group(readiness_survey.by_group.get(group.id), ranges[group.id], active_settings.health),
                progress[group.id],
                wrong_sizes.get(group.id),
                backoff.find_backoff(backoffs, group.id, now_s),
            )
            for group in groups
        },
        readiness_survey.total,
        check_cluster(readiness_survey.total, len(nodes), active_settings.health),
        cluster_health.HealthMemory(
            under_way, backoffs, since, wrong_sizes, _collect_known_failures(courses.values(), readiness_survey.total)
        ),
    )


def find_ranges(
    targets: Mapping[str, int], readinesses: Mapping[str, Readiness], under_way: ScaleRequests
) -> dict[str, cluster_health.AcceptableRange]:
    """The acceptable range of each group: requested nodes may be missing, nodes being deleted may still exist."""
    ranges = {}
    for group, target in targets.items():
        request = under_way.scale_ups.get(group)
        awaited = 0 if request is None else request.increase + request.external
        leaving = sum(1 for other in under_way.scale_downs if other.group == group)
        given_up = len(readinesses.get(group, NO_NODES).long_unregistered)
        ranges[group] = cluster_health.AcceptableRange(target - given_up - awaited, target + leaving, target)
    return ranges


def find_wrong_sizes(
    ranges: Mapping[str, cluster_health.AcceptableRange],
    readinesses: Mapping[str, Readiness],
    before: Mapping[str, cluster_health.IncorrectSize],
    now_s: float,
) -> dict[str, cluster_health.IncorrectSize]:
    """Groups with too many nodes, or too few even if every instance were a node; groups without any are no such."""
    wrong = {}
    for group, acceptable in ranges.items():
        if group not in readinesses:
            continue
        registered, target = readinesses[group].registered, acceptable.target
        without_node = len(readinesses[group].unregistered) + len(readinesses[group].long_unregistered)
        if target - without_node <= registered <= target:
            continue
        last = before.get(group)
        is_same = last is not None and (last.current, last.expected) == (registered, target)
        wrong[group] = last if last is not None and is_same else cluster_health.IncorrectSize(registered, target, now_s)
    return wrong


def check_group(
    assessed_health: Readiness | None, acceptable: cluster_health.AcceptableRange, limits: settings.HealthSettings
) -> cluster_health.HealthVerdict:
    """Does the group have the nodes that it should have by now? An empty group must just have been scaled up."""
    if assessed_health is None:
        is_healthy = acceptable.target == 0 or (acceptable.min == 0 and acceptable.target > 0)
        return cluster_health.HealthVerdict(is_healthy, max(acceptable.min, 0), 0)
    lacking = max(acceptable.min - len(assessed_health.ready) - len(assessed_health.suspended), 0)
    nodes = sum(
        map(
            len,
            (assessed_health.ready, assessed_health.unready, assessed_health.not_started, assessed_health.suspended),
        )
    )
    return cluster_health.HealthVerdict(_is_tolerable(lacking, nodes, limits), lacking, nodes)


def check_cluster(total: Readiness, nodes: int, limits: settings.HealthSettings) -> cluster_health.HealthVerdict:
    """Are few enough nodes unready (--max-total-unready-percentage)? Otherwise nothing is scaled."""
    return cluster_health.HealthVerdict(_is_tolerable(len(total.unready), nodes, limits), len(total.unready), nodes)


def find_upcoming(
    targets: Mapping[str, int],
    readinesses: Mapping[str, Readiness | None],
    scale_ups: Mapping[str, ScaleUpRequest],
    backoffs: Mapping[str, Backoff],
    now_s: float,
) -> dict[str, cluster_health.UpcomingNodes]:
    """Upcoming nodes by group. Groups without a scale-up request, or in backoff, have none."""
    upcoming = {}
    for group, target in targets.items():
        seen = readinesses.get(group) or NO_NODES
        missing = target - seen.arrived
        if missing > 0 and group in scale_ups and backoff.find_backoff(backoffs, group, now_s) is None:
            upcoming[group] = cluster_health.UpcomingNodes(missing, seen.not_started)
    return upcoming


def _is_tolerable(lacking: int, nodes: int, limits: settings.HealthSettings) -> bool:
    return lacking <= limits.ok_total_unready_count or lacking <= limits.max_total_unready_percentage / 100.0 * nodes


def _make_tracker(
    group: node_groups.NodeGroup,
    readiness_survey: readiness.ReadinessSurvey,
    created_s: Mapping[str, float],
    since: Mapping[str, float],
    active_settings: settings.Settings,
    now_s: float,
) -> scale_requests.GroupTracker:
    time_s = settings.for_group(active_settings, group.options).max_node_provision_time_s
    return scale_requests.GroupTracker(
        group, readiness_survey.by_group.get(group.id, NO_NODES), created_s, since, time_s, now_s
    )


def _update_backoffs(
    backoffs: Mapping[str, Backoff],
    progress: Iterable[cluster_health.ScaleUpProgress],
    now_s: float,
    limits: settings.HealthSettings,
) -> Mapping[str, Backoff]:
    backoffs = backoff.remove_stale_backoffs(backoffs, now_s, limits)
    for scale_up_progress in progress:
        for failure in scale_up_progress.failures:
            backoffs = backoff.back_off_group(backoffs, failure.group, failure.error, now_s, limits)
    return backoffs


def _collect_known_failures(
    courses: Iterable[scale_requests.GroupTracker], total: Readiness
) -> cluster_health.KnownFailures:
    courses = list(courses)
    uncreated = (provider_id for course in courses for provider_id, _ in scale_requests.find_uncreated(course.group))
    return cluster_health.KnownFailures(
        frozenset(uncreated),
        frozenset((*total.long_unregistered, *total.unready)),
        {course.group.id: course.absent for course in courses},
    )
