"""Backoff: a group whose scale-up failed is left alone for a while, longer each time.

The first time lasts five minutes, each further one twice as long, up to half an hour. A failure while the group is left
alone anyway starts the same time again: several scale-ups that fail together are one failure. Three hours after the
last failure all is forgotten. Why it failed is reported and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.engine import facts, settings


@dataclass(frozen=True, slots=True)
class Backoff:
    """The last failure of a group, and until when the group is left alone for it, that moment included."""

    until_s: float
    duration_s: float
    failed_s: float
    error: facts.InstanceError


Backoffs = Mapping[str, Backoff]
"""By group. An entry outlives its time, because the next failure builds on it."""


def fail(
    backoffs: Backoffs, group: str, error: facts.InstanceError, now_s: float, limits: settings.Health
) -> dict[str, Backoff]:
    """Back the group off, from now on."""
    duration_s = _next_duration_s(backoffs.get(group), now_s, limits)
    return {**backoffs, group: Backoff(now_s + duration_s, duration_s, now_s, error)}


def find(backoffs: Backoffs, group: str, now_s: float) -> Backoff | None:
    """Why the group is left alone now; None if it is not."""
    backoff = backoffs.get(group)
    return None if backoff is None or _is_over(backoff, now_s) else backoff


def forget_old(backoffs: Backoffs, now_s: float, limits: settings.Health) -> dict[str, Backoff]:
    """Let groups start anew whose last failure is too long ago to matter."""
    kept_s = limits.node_group_backoff_reset_timeout_s
    return {group: backoff for group, backoff in backoffs.items() if backoff.failed_s + kept_s >= now_s}


def _next_duration_s(last: Backoff | None, now_s: float, limits: settings.Health) -> float:
    if last is None:
        return limits.initial_node_group_backoff_duration_s
    if not _is_over(last, now_s):
        return last.duration_s
    return min(2 * last.duration_s, limits.max_node_group_backoff_duration_s)


def _is_over(backoff: Backoff, now_s: float) -> bool:
    return backoff.until_s < now_s
