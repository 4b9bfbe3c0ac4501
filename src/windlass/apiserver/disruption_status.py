"""PodDisruptionBudget status: expected and healthy pods, allowed disruptions, and the DisruptionAllowed condition.

The embedded API server's disruption controller and that of the simulated cluster both compute the status here. They
differ in how they collect the pods of a budget: the first on every write, the second once for all writes of a step.
"""

from collections.abc import Callable, Collection
from typing import Any

from windlass.kube import time_formats

Json = dict[str, Any]

_DELETION_TIMEOUT_S = 120.0
"""A pod with a granted eviction counts as disrupted for this long, even if no client deletes it."""


def compute_status(
    budget: Json, pod_count: int, healthy: Collection[str], count_expected: Callable[[], int], now_s: float
) -> Json:
    """The new status.

    `healthy` are the names of ready pods; `count_expected` returns the replicas of the pods' controllers, and is called
    only where the budget depends on them.
    """
    before: Json = budget.get("status") or {}
    expected, desired = _required_pods(budget["spec"], pod_count, count_expected)
    disrupted = _still_disrupted(before.get("disruptedPods") or {}, healthy, now_s)
    current = len(healthy) - len(disrupted)  # pods in disruptedPods are healthy, but no longer count
    status: Json = {
        "currentHealthy": current,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(current - desired, 0) if expected > 0 else 0,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": list(before.get("conditions") or ()),
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    set_disruption_condition(status, time_formats.format_time(now_s))
    return status


def set_disruption_condition(status: Json, now: str, failure: str = "") -> None:
    """Set DisruptionAllowed from `disruptionsAllowed`, or to SyncFailed with the message of a failure."""
    is_allowed = status.get("disruptionsAllowed", 0) > 0 and not failure
    reason = "SyncFailed" if failure else ("SufficientPods" if is_allowed else "InsufficientPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": reason,
        "message": failure,
    }
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    conditions = status.setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = condition
            return
    conditions.append(condition)


def disruption_ends_s(granted_at: str) -> float:
    """The time from which a pod whose eviction was granted then, and that is still there, counts as healthy again."""
    return time_formats.parse_server_time(granted_at) + _DELETION_TIMEOUT_S


def _still_disrupted(granted: dict[str, str], healthy: Collection[str], now_s: float) -> dict[str, str]:
    """Pods with a granted eviction that still exist and whose deletion timeout has not passed."""
    return {name: since for name, since in granted.items() if name in healthy and disruption_ends_s(since) > now_s}


def _required_pods(spec: Json, pod_count: int, count_expected: Callable[[], int]) -> tuple[int, int]:
    """Expected pods, and how many of them have to be healthy."""
    limit = spec.get("maxUnavailable")
    if limit is not None:
        expected = count_expected()
        return expected, max(expected - _scale_limit(limit, expected), 0)
    limit = spec.get("minAvailable")
    if isinstance(limit, int):
        return pod_count, limit
    if limit is None:
        return 0, 0
    expected = count_expected()
    return expected, _scale_limit(limit, expected)


def _scale_limit(limit: int | str, expected: int) -> int:
    """A limit as a number of pods; percentages are rounded up."""
    return limit if isinstance(limit, int) else -(-int(limit.removesuffix("%")) * expected // 100)
