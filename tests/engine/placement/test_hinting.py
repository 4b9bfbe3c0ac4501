"""Searching places for pods that exist: whose turn it is, where they may go, where they were before."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.builders import node, pod
from tests.conformance import objects
from tests.engine.placement import oracle
from tests.strategies import Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import facts, settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def find(
    snapshot: Snapshot, rows: list[int], search: hinting.HintingState | None = None, **how: Any
) -> hinting.SchedulingResult:
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    return hinting.try_schedule_pods(placer, rows, search or hinting.HintingState(), snapshot.nodes.alive.copy(), **how)


def homes(snapshot: Snapshot, rows: list[int]) -> dict[str, str]:
    return {snapshot.pod(row).name: snapshot.pod(row).node_name for row in rows}


def important(name: str, priority: int, cpu: int) -> facts.Pod:
    return pod(name, spec=facts.PodSpec(requests=(("cpu", cpu),), priority=priority))


def test_pods_of_higher_priority_come_first_then_large_ones() -> None:
    waiting = [pod("small", cpu=500), pod("large", cpu=3500), important("urgent", 10, 1000), important("idle", -5, 100)]
    snapshot = snapshots.build_snapshot([node("a")], waiting)
    scheduling_result = find(snapshot, snapshot.pending())
    assert [snapshot.pod(row).name for row in scheduling_result.placed] == ["urgent", "small", "idle"]
    assert [snapshot.pod(row).name for row in scheduling_result.failed] == ["large"]


def test_pods_go_round_robin_from_where_the_last_search_ended() -> None:
    snapshot = snapshots.build_snapshot([node(name) for name in "abc"], [pod(f"p{i}", cpu=10) for i in range(4)])
    search = hinting.HintingState()
    find(snapshot, snapshot.pending()[:2], search)
    assert search.pointer == 1
    find(snapshot, snapshot.pending(), search)
    assert homes(snapshot, list(range(4))) == {"p0": "a", "p1": "b", "p2": "c", "p3": "a"}


def test_cordoned_nodes_are_never_looked_at_even_if_tolerated() -> None:
    brave = facts.PodSpec(tolerations=(facts.Toleration("", "Exists", "", ""),))
    snapshot = snapshots.build_snapshot([node("a", unschedulable=True)], [pod("p", spec=brave)])
    assert find(snapshot, snapshot.pending()).failed == [0]


def test_all_or_nothing_ends_at_the_first_pod_that_fits_nowhere() -> None:
    waiting = [pod("huge", cpu=9000), pod("small", cpu=100)]
    snapshot = snapshots.build_snapshot([node("a")], waiting)
    scheduling_result = find(snapshot, snapshot.pending(), all_or_nothing=True)
    assert (scheduling_result.placed, scheduling_result.failed) == ([], [0])


def test_pods_return_to_where_they_were_placed_the_last_time_if_they_still_fit() -> None:
    waiting = [pod(f"p{i}", cpu=2000) for i in range(3)]
    snapshot = snapshots.build_snapshot([node("a"), node("b"), node("c")], waiting)
    search = hinting.HintingState(hints=hinting.PlacementHints(old={pod("p1").uid: "c", pod("p0").uid: "gone"}))
    snapshot.fork()
    find(snapshot, snapshot.pending(), search)
    assert homes(snapshot, [0, 1, 2]) == {"p0": "a", "p1": "c", "p2": "b"}
    snapshot.revert()
    assert search.hints.current == {f"uid-default-p{i}": name for i, name in enumerate("acb")}
    snapshot.add_pod(pod("fat", on="c", cpu=3000))
    find(snapshot, snapshot.pending(), search)
    assert homes(snapshot, [0, 1, 2])["p1"] in ("a", "b")


def test_hints_that_are_not_confirmed_are_forgotten_after_two_rounds() -> None:
    hints = hinting.PlacementHints(current={"p": "a"})
    hints.drop_old()
    assert hints
    hints.drop_old()
    assert not hints


@given(
    strategies.clusters(nodes=5, bound=3, pending=4, roomy=True), st.lists(st.integers(1, 5), min_size=4, max_size=4)
)
@strategies.examples(80)
def test_pods_find_places_as_if_taken_one_by_one(found: Objects, replicas: list[int]) -> None:
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(found.all))
    for pending, count in zip(found.pending, replicas, strict=False):
        for number in range(count):
            metadata = {**pending["metadata"], "name": f"{pending['metadata']['name']}-{number}", "uid": f"u-{number}"}
            metadata["uid"] += pending["metadata"]["name"]
            snapshot.add_pod(objects.pod({**pending, "metadata": metadata}))
    rows = snapshot.pending()
    expected, most_failed = take_one_by_one(snapshot, rows)
    answer = find(snapshot, rows)
    assert sorted(answer.placed + answer.failed) == sorted(rows)
    assert (
        Counter((int(snapshot.pods.shape_ids[row]), int(snapshot.pods.node_rows[row])) for row in answer.placed)
        == expected
    )
    assert len(answer.failed) == most_failed


def take_one_by_one(snapshot: Snapshot, rows: list[int]) -> tuple[Counter[tuple[int, int]], int]:
    """(pods by shape and node, how many failed), placing every pod by itself in the order of the search."""
    placed: Counter[tuple[int, int]] = Counter()
    failed, pointer = 0, -1
    usable = snapshot.nodes.alive & ~snapshot.nodes.unschedulable
    snapshot.fork()
    for groups in hinting.group_by_priority(snapshot, rows):
        for shape, alike in hinting.sort_by_size(snapshot, groups):
            taken = oracle.place(snapshot, shape, len(alike), pointer, usable)
            placed.update((shape.id, row) for row in taken)
            failed += len(alike) - len(taken)
            pointer = taken[-1] if taken else pointer
    snapshot.revert()
    return placed, failed


def test_in_turns_spreads_the_pods_of_each_shape_over_the_whole() -> None:
    snapshot = snapshots.build_snapshot(
        [], [pod(f"p{i}", cpu=1) for i in range(8)] + [pod(f"q{i}", cpu=2) for i in range(2)]
    )
    (groups,) = hinting.group_by_priority(snapshot, snapshot.pending())
    turns = hinting.interleave_shapes(groups)
    assert sorted(row for _, rows in turns for row in rows) == list(range(10))
    assert [len(rows) for _, rows in turns] == [1] * 10
    assert [shape.id for shape, _ in turns].index(groups[1][0].id) == 2


def test_scattered_searches_place_as_many_pods_that_do_not_mind_each_other() -> None:
    snapshot = snapshots.build_snapshot(
        [node(name, cpu=3000) for name in "abc"], [pod(f"p{i}", cpu=1000) for i in range(11)]
    )
    for seed in range(4):
        snapshot.fork()
        answer = find(snapshot, snapshot.pending(), hinting.HintingState(scatter=np.random.default_rng(seed)))
        assert (len(answer.placed), len(answer.failed)) == (9, 2)
        snapshot.revert()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12), st.integers(1, 6), st.data())
def test_what_is_foreseen_is_what_comes_of_trying(
    others: list[tuple[int, bool]], count: int, data: st.DataObject
) -> None:
    nodes = [
        node("old", cpu=4000),
        *(node(f"n{i}", cpu=500 * room, unschedulable=c) for i, (room, c) in enumerate(others)),
    ]
    pods = [pod(f"p{i}", cpu=500, on="old") for i in range(count)]
    pointer = data.draw(st.integers(-1, len(others)))
    foretold, tried = (snapshots.build_snapshot(nodes, pods) for _ in range(2))
    searches = [hinting.HintingState(pointer), hinting.HintingState(pointer)]
    usable = foretold.nodes.alive & ~foretold.nodes.unschedulable
    usable[0] = False
    rows = foretold.pods_on(0)
    placer = shape_placer.Placer(foretold, settings.DEFAULT_FILTER_CONFIG)
    plain = hinting.find_plain_shape(placer, np.array(rows), searches[0])
    assert plain is not None
    placed = hinting.predict_placement(placer, plain, np.array(rows), searches[0], usable.copy())
    tried.fork()
    tried.clear_node(0)
    placer = shape_placer.Placer(tried, settings.DEFAULT_FILTER_CONFIG)
    scheduling_result = hinting.try_schedule_pods(placer, rows, searches[1], usable, all_or_nothing=True)
    assert (len(scheduling_result.placed), scheduling_result.placed) == (placed.total, rows[: placed.total])
    assert searches[0].pointer == searches[1].pointer
    assert searches[0].hints.current == searches[1].hints.current
    if not scheduling_result.failed:
        foretold.relocate(0, np.array(rows), placed.rows, placed.counts)
        assert homes(foretold, rows) == homes(tried, rows)


def test_nothing_is_foreseen_of_pods_that_differ_or_have_hints() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("p", cpu=1, on="a"), pod("q", cpu=2, on="a")])
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    assert hinting.find_plain_shape(placer, np.array([0, 1]), hinting.HintingState()) is None
    hinted = hinting.HintingState(hints=hinting.PlacementHints(old={snapshot.pods.uids[0]: "b"}))
    assert hinting.find_plain_shape(placer, np.array([0]), hinted) is None
    assert hinting.find_plain_shape(placer, np.array([1]), hinted) is not None
