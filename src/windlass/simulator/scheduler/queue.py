"""Whose turn it is, and who has been promised a place: pods that wait for a node."""

from collections.abc import Iterable

from windlass.simulator.scheduler.cluster import (
    ClusterView,
    Json,
    is_terminating,
    key_of,
    nominated_node_of,
    priority_of,
    read_time,
)

SCHEDULER_NAME = "default-scheduler"


def next_pods(cluster: ClusterView) -> list[Json]:
    """Waiting pods that a scheduling cycle may take up, in the order in which it would."""
    return in_order(pod for pod in cluster.waiting.values() if is_queued(pod) and not is_terminating(pod))


def is_queued(pod: Json) -> bool:
    """Is the pod this scheduler's to place, and not held back by a gate?"""
    spec = pod["spec"]
    return (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME and not spec.get("schedulingGates")


def in_order(pods: Iterable[Json]) -> list[Json]:
    """The most important first, then the oldest; then by name, so that the order is always the same."""
    return sorted(
        pods, key=lambda pod: (-priority_of(pod), read_time(pod["metadata"].get("creationTimestamp")), key_of(pod))
    )


def nominations(cluster: ClusterView) -> dict[str, list[Json]]:
    """Waiting pods that preempted others, by the node they were promised."""
    promised: dict[str, list[Json]] = {}
    for pod in cluster.waiting.values():
        if nominated_node_of(pod) and is_queued(pod):
            promised.setdefault(nominated_node_of(pod), []).append(pod)
    return promised
