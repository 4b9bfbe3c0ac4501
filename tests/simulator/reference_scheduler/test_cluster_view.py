"""The cluster view of the reference scheduler: what it holds, and the order of the queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator import builders
from windlass import errors
from windlass.simulator.reference_scheduler import cluster_view, scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView


def test_an_object_that_cannot_be_read_is_set_aside_and_named() -> None:
    bad = builders.pod("bad", on="a", cpu="1.5.3")
    cluster = ClusterView.of([bad, builders.node("a"), builders.node("b", memory="lots"), builders.pod("new")])
    assert [str(error) for error in cluster.rejected] == [
        "Pod default/bad: spec.containers[0].resources.requests[cpu]: found '1.5.3', "
        "expected a quantity such as 500m, 2, 1.5Gi or 1e3",
        "Node b: status.allocatable[memory]: found 'lots', expected a quantity such as 500m, 2, 1.5Gi or 1e3",
    ]
    assert list(cluster.nodes) == ["a"]
    assert isinstance(scheduling_cycle.schedule(cluster, builders.pod("new")), scheduling_cycle.Placement)


def test_a_replacement_that_cannot_be_read_leaves_the_earlier_version() -> None:
    cluster = ClusterView.of([builders.node("a", cpu="1"), builders.pod("old", on="a")])
    with pytest.raises(errors.InvalidObject):
        cluster.put(builders.pod("old", on="a", cpu="?"))
    assert isinstance(scheduling_cycle.schedule(cluster, builders.pod("new")), scheduling_cycle.SchedulingFailure)


def test_pods_may_come_before_their_node() -> None:
    cluster = ClusterView.of([builders.pod("early", on="a")])
    cluster.put(builders.node("a", cpu="1"))
    assert scheduling_cycle.run_filters(cluster, builders.pod("new"))["a"] is not None


def test_pods_of_a_node_that_went_away_count_for_nothing_until_it_returns() -> None:
    host = "kubernetes.io/hostname"
    rival = builders.pod("rival", on="a", labels={"app": "db"}, affinity=builders.anti_affinity({"app": "db"}, host))
    node = builders.node("a", labels={host: "a"})
    cluster = ClusterView.of([node, builders.node("b", labels={host: "a"}), rival])
    new = builders.pod("new", labels={"app": "db"})
    assert scheduling_cycle.run_filters(cluster, new)["b"] is not None
    cluster.remove(node)
    assert scheduling_cycle.run_filters(cluster, new) == {"b": None}
    cluster.put(node)
    assert scheduling_cycle.run_filters(cluster, new)["b"] is not None


names = st.sampled_from(["p1", "p2", "p3"])

places = st.sampled_from(["", "a", "b", "gone"])


@given(st.lists(st.tuples(names, places, st.booleans()), max_size=20))
def test_after_any_changes_the_view_is_what_the_remaining_objects_make_it(changes: list[tuple[str, str, bool]]) -> None:
    nodes = [builders.node("a"), builders.node("b")]
    cluster = ClusterView.of(nodes)
    remaining: dict[str, builders.Json] = {}
    for name, place, is_removed in changes:
        pod = builders.pod(name, on=place)
        if is_removed:
            cluster.remove(pod)
            remaining.pop(name, None)
        else:
            cluster.put(pod)
            remaining[name] = pod
    fresh = ClusterView.of([*nodes, *remaining.values()])
    assert cluster.waiting == fresh.waiting
    assert {name: node.pods for name, node in cluster.nodes.items()} == {n: v.pods for n, v in fresh.nodes.items()}


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
