"""Backoff of node groups: a group whose scale-up failed is left alone for a while.

Five minutes, each further time twice as long, up to half an hour. A failure during a backoff restarts the same time.
Three hours after the last failure all is forgotten.
"""

from windlass.engine.model import cluster_health, node_groups, settings


def back_off_group(
    backoffs: cluster_health.Backoffs,
    group: str,
    error: node_groups.InstanceError,
    now_s: float,
    limits: settings.HealthSettings,
) -> dict[str, cluster_health.Backoff]:
    """The backoffs with this group's, which starts or grows now."""
    duration_s = _next_duration_s(backoffs.get(group), now_s, limits)
    return {**backoffs, group: cluster_health.Backoff(now_s + duration_s, duration_s, now_s, error)}


def find_backoff(backoffs: cluster_health.Backoffs, group: str, now_s: float) -> cluster_health.Backoff | None:
    """The backoff of the group; None if it is not in backoff."""
    backoff = backoffs.get(group)
    return None if backoff is None or _is_backoff_over(backoff, now_s) else backoff


def remove_stale_backoffs(
    backoffs: cluster_health.Backoffs, now_s: float, limits: settings.HealthSettings
) -> dict[str, cluster_health.Backoff]:
    """Drop backoffs whose last failure is longer ago than the reset timeout."""
    kept_s = limits.node_group_backoff_reset_timeout_s
    return {group: backoff for group, backoff in backoffs.items() if backoff.failed_s + kept_s >= now_s}


def _next_duration_s(last: cluster_health.Backoff | None, now_s: float, limits: settings.HealthSettings) -> float:
    if last is None:
        return limits.initial_node_group_backoff_duration_s
    if not _is_backoff_over(last, now_s):
        return last.duration_s
    return min(2 * last.duration_s, limits.max_node_group_backoff_duration_s)


def _is_backoff_over(backoff: cluster_health.Backoff, now_s: float) -> bool:
    return backoff.until_s < now_s
