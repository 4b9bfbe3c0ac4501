from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.model import facts, well_known
from windlass.engine.scale_up.equivalence_groups import MAX_GROUPS_PER_CONTROLLER, PodGrouping, group_equivalent_pods
from windlass.engine.snapshot import cluster_snapshot as snapshots

OWNERS = [
    None,
    facts.Owner("apps/v1", "ReplicaSet", "a", "uid-a"),
    facts.Owner("batch/v1", "Job", "b", "uid-b"),
    facts.Owner("apps/v1", "DaemonSet", "c", "uid-c"),
]
alike = st.builds(
    facts.Pod,
    st.sampled_from(["x", "y"]),
    st.just("p"),
    labels=st.sampled_from([{}, {"app": "1"}, {"app": "2"}, {"app": "1", "tier": "1"}]),
    annotations=st.sampled_from([{}, {}, {}, {well_known.DAEMONSET_POD_ANNOTATION: "true"}]),
    owner=st.sampled_from(OWNERS),
    digest=st.sampled_from(["d1", "d2"]),
)
pending = st.lists(alike, max_size=30).map(lambda pods: [replace(pod, name=f"p{i}") for i, pod in enumerate(pods)])
groupings = st.sampled_from(list(PodGrouping))


def web(number: int, digest: str = "d", **labels: str) -> facts.Pod:
    return facts.Pod("x", f"web-{number}", labels=labels, owner=OWNERS[1], digest=digest)


def partition(pods: list[facts.Pod], grouping: PodGrouping) -> list[list[facts.Pod]]:
    snapshot = snapshots.build_snapshot([], pods)
    return [[pods[row] for row in group] for group in group_equivalent_pods(snapshot, range(len(pods)), grouping)]


def sizes(pods: list[facts.Pod], grouping: PodGrouping = PodGrouping.BY_CONTROLLER) -> list[int]:
    return [len(group) for group in partition(pods, grouping)]


@given(pending, groupings)
def test_every_pod_is_in_exactly_one_group_and_order_is_kept(pods: list[facts.Pod], grouping: PodGrouping) -> None:
    groups = partition(pods, grouping)
    place = {pod.name: i for i, pod in enumerate(pods)}
    numbers = [[place[pod.name] for pod in group] for group in groups]
    assert sorted(n for group in numbers for n in group) == list(range(len(pods)))
    assert all(group == sorted(group) for group in numbers)
    assert [group[0] for group in numbers] == sorted(group[0] for group in numbers)


@given(pending, groupings)
def test_pods_of_a_group_are_alike(pods: list[facts.Pod], grouping: PodGrouping) -> None:
    for group in partition(pods, grouping):
        first = group[0]
        assert all((pod.owner, pod.labels, pod.digest) == (first.owner, first.labels, first.digest) for pod in group)


@given(pending)
def test_pods_of_daemonsets_are_alone_by_controller(pods: list[facts.Pod]) -> None:
    daemons = [pod for pod in pods if well_known.is_daemonset(pod)]
    assert sizes(daemons) == [1] * len(daemons)


@given(pending)
def test_pods_without_a_controller_are_alone_by_controller_and_together_by_likeness(pods: list[facts.Pod]) -> None:
    free = [pod for pod in pods if pod.owner is None and not well_known.is_daemonset(pod)]
    assert sizes(free) == [1] * len(free)
    kinds = {(pod.namespace, tuple(sorted(pod.labels.items())), pod.digest) for pod in free}
    assert len(partition(free, PodGrouping.BY_LIKENESS)) == len(kinds)


# Eight kinds of pods per controller can be drawn: beyond ten, which pods stay alone depends on who came first.
@given(pending, st.randoms(use_true_random=False), groupings)
def test_the_order_of_pods_changes_only_the_order_of_groups(
    pods: list[facts.Pod], shuffler: Random, grouping: PodGrouping
) -> None:
    shuffled = list(pods)
    shuffler.shuffle(shuffled)
    found = {frozenset(pod.name for pod in group) for group in partition(shuffled, grouping)}
    assert found == {frozenset(pod.name for pod in group) for group in partition(pods, grouping)}


@given(pending)
def test_likeness_only_ever_joins_groups_of_the_peer(pods: list[facts.Pod]) -> None:
    fine, coarse = partition(pods, PodGrouping.BY_CONTROLLER), partition(pods, PodGrouping.BY_LIKENESS)
    home = {pod.name: i for i, group in enumerate(coarse) for pod in group}
    # A controller's uid is its own, so its pods share a namespace; made-up pods may not.
    one_namespace = [group for group in fine if len({pod.namespace for pod in group}) == 1]
    assert all(len({home[pod.name] for pod in group}) == 1 for group in one_namespace)


def test_a_controller_has_at_most_ten_groups_and_further_pods_stay_alone() -> None:
    kinds = [web(i, digest=f"d{i % 12}") for i in range(36)]
    found = Counter(sizes(kinds))
    assert found == {3: MAX_GROUPS_PER_CONTROLLER, 1: 6}
    assert Counter(sizes(kinds, PodGrouping.BY_LIKENESS)) == {3: 12}


def test_groups_of_one_controller_do_not_use_up_those_of_another() -> None:
    first = [web(i, digest=f"d{i}") for i in range(10)]
    second = [replace(web(i, digest="d"), owner=OWNERS[2], name=f"job-{i}") for i in range(5)]
    assert sizes(first + second) == [1] * 10 + [5]


@pytest.mark.parametrize("grouping", list(PodGrouping))
def test_labels_and_specs_keep_pods_apart(grouping: PodGrouping) -> None:
    assert sizes([web(0, app="1"), web(1, app="2"), web(2, app="1")], grouping) == [2, 1]
    assert sizes([web(0, "d1"), web(1, "d2"), web(2, "d2")], grouping) == [1, 2]
    large = facts.PodSpec(requests=((facts.CPU, 4000),))
    undigested = [web(0, ""), replace(web(1, ""), spec=large), web(2, "")]
    assert sizes(undigested, grouping) == [2, 1]
