from tests.simulator import builders
from windlass.simulator.reference_scheduler import cluster_view
from windlass.simulator.reference_scheduler.cluster_view import ClusterView


def created(pod: builders.Json, moment: str) -> builders.Json:
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": moment}}


def test_the_most_important_pod_comes_first_then_the_oldest_then_by_name() -> None:
    pods = [
        created(builders.pod("young"), "2026-01-01T00:00:02Z"),
        created(builders.pod("twin-b"), "2026-01-01T00:00:01Z"),
        created(builders.pod("twin-a"), "2026-01-01T00:00:01Z"),
        created(builders.pod("important", priority=1), "2026-01-01T00:00:03Z"),
    ]
    order = cluster_view.list_queued(ClusterView.of(pods))
    assert builders.named(tuple(order)) == ["important", "twin-a", "twin-b", "young"]


def test_pods_that_are_not_to_be_placed_now_are_passed_over() -> None:
    pods = [
        builders.pod("gated", schedulingGates=[{"name": "wait"}]),
        builders.pod("foreign", schedulerName="other"),
        builders.terminating(builders.pod("leaving")),
        builders.pod("seated", on="a"),
        builders.pod("ours", schedulerName="default-scheduler"),
    ]
    assert builders.named(tuple(cluster_view.list_queued(ClusterView.of(pods)))) == ["ours"]
