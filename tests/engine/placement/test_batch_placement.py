"""Placing many pods at once comes out as placing them one by one, each where every filter lets it."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.conformance import objects
from tests.engine.placement import oracle
from tests.engine.snapshot import column_values
from tests.strategies import Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import arrays, facts, settings
from windlass.engine.placement import batch_placement, shape_placer
from windlass.engine.predicates import registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def as_counter(placed: batch_placement.Placement) -> Counter[int]:
    found = Counter(dict(zip(placed.rows.tolist(), placed.counts.tolist(), strict=True)))
    assert found.total() == placed.total
    assert len(found) == len(placed.rows)
    assert Counter(placed.node_row_per_pod().tolist()) == found
    return found


def build(found: Objects) -> tuple[Snapshot, list[facts.PodShape]]:
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(found.all))
    return snapshot, [snapshot.shape_of(objects.pod(pod)) for pod in found.pending]


@given(strategies.clusters(nodes=6, bound=5, pending=3, roomy=True), st.data())
@strategies.examples(120)
def test_placing_at_once_equals_placing_one_by_one(found: Objects, data: st.DataObject) -> None:
    snapshot, asked = build(found)
    questions = column_values.Questions.about([objects.pod(pod) for pod in found.pending])
    before = column_values.freeze(snapshot), column_values.describe(snapshot, questions)
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    rows = snapshot.nodes.count
    usable = np.array(data.draw(st.lists(strategies.pick(True, True, True, False), min_size=rows, max_size=rows)))
    for shape in asked:
        count, pointer = data.draw(st.integers(1, 9)), data.draw(st.integers(-1, rows - 1))
        placed = placer.place(shape, count, pointer, usable)
        expected = oracle.try_out(snapshot, shape, count, pointer, usable)
        assert as_counter(placed) == Counter(expected)
        assert placed.last == (expected[-1] if expected else -1)
    assert (column_values.freeze(snapshot), column_values.describe(snapshot, questions)) == before


@given(strategies.clusters(nodes=4, bound=5, pending=3, roomy=True), st.integers(1, 9))
@strategies.examples(100)
def test_placing_on_one_node_equals_placing_where_only_that_node_is_usable(found: Objects, count: int) -> None:
    snapshot, asked = build(found)
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    for shape in asked:
        for row in range(snapshot.nodes.count):
            usable = np.arange(snapshot.nodes.count) == row
            assert placer.room_on(row, shape, count) == placer.place(shape, count, row - 1, usable).total


@given(strategies.clusters(nodes=6, bound=4, pending=3, roomy=True), st.data())
@strategies.examples(100)
def test_a_placer_sees_what_was_placed_since_it_last_looked(found: Objects, data: st.DataObject) -> None:
    snapshot, asked = build(found)
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    usable, pointer = snapshot.nodes.alive.copy(), -1
    for shape in data.draw(st.lists(st.sampled_from(asked), min_size=2, max_size=6)):
        count = data.draw(st.integers(1, 4))
        expected = oracle.try_out(snapshot, shape, count, pointer, usable)
        placed = placer.place(shape, count, pointer, usable)
        assert as_counter(placed) == Counter(expected)
        if placed.total:
            assert placed.last == expected[-1]
            snapshot.place_many(shape, placed.rows, placed.counts)
            pointer = placed.last


@given(strategies.clusters(nodes=5, bound=6, pending=3, roomy=True), st.data())
@strategies.examples(60)
def test_a_placer_sees_nodes_that_are_emptied_or_gone_in_thought(found: Objects, data: st.DataObject) -> None:
    snapshot, asked = build(found)
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    with snapshot.scratch():
        for row in data.draw(st.permutations(range(snapshot.nodes.count))):
            snapshot.fork()
            snapshot.clear_node(row)
            snapshot.mark_deleting(row)
            assert_rooms_are_as_filters_say(placer, asked)
            if data.draw(st.booleans()):
                snapshot.revert()
            else:
                snapshot.mark_gone(row)
                snapshot.commit()
            assert_rooms_are_as_filters_say(placer, asked)
    assert_rooms_are_as_filters_say(placer, asked)


def assert_rooms_are_as_filters_say(placer: shape_placer.Placer, asked: list[facts.PodShape]) -> None:
    nodes = placer.snapshot.nodes
    for shape in asked:
        feasible = registry.find_feasible(placer.snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        for row in np.flatnonzero(nodes.alive & ~nodes.deleting).tolist():
            assert placer.room_on(row, shape, 1) == feasible[row]


@given(strategies.clusters(nodes=6, bound=5, pending=2, roomy=True), st.data())
@strategies.examples(100)
def test_a_run_knows_after_every_pod_what_is_feasible_for_the_next(found: Objects, data: st.DataObject) -> None:
    snapshot, asked = build(found)
    for shape in asked:
        if batch_placement.uses_filtered_volumes(shape):
            continue
        run = batch_placement.BatchPlacement(snapshot, shape, snapshot.nodes.alive, settings.DEFAULT_FILTER_CONFIG)
        snapshot.fork()
        for _ in range(data.draw(st.integers(1, 8))):
            feasible = registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
            assert run.mask.tolist() == feasible.tolist()
            if not feasible.any():
                break
            row = data.draw(st.sampled_from(np.flatnonzero(feasible).tolist()))
            run.add(row)
            snapshot.place(shape, row)
        snapshot.revert()


@given(strategies.clusters(nodes=6, bound=4, pending=3, roomy=True), st.integers(1, 9), st.integers(0, 99))
@strategies.examples(60)
def test_scattered_pods_go_where_they_may_one_after_the_other(found: Objects, count: int, seed: int) -> None:
    snapshot, asked = build(found)
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    for shape in asked:
        placed = placer.scatter(shape, count, np.random.default_rng(seed), snapshot.nodes.alive.copy())
        first = registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        assert (placed.total > 0) == first.any()
        if (
            not batch_placement.uses_filtered_volumes(shape)
            and batch_placement.BatchPlacement(
                snapshot, shape, snapshot.nodes.alive, settings.DEFAULT_FILTER_CONFIG
            ).is_closed_form
        ):
            assert placed.total == placer.place(shape, count, -1, snapshot.nodes.alive.copy()).total
            assert all(first[row] for row in as_counter(placed))


ROOM = st.lists(st.integers(0, 5), max_size=8).map(lambda room: np.array(room, arrays.RESOURCE_DTYPE))


@given(ROOM, st.integers(0, 30))
@strategies.examples(100)
def test_levels_are_filled_as_a_round_robin_fills_them(room: arrays.Amounts, count: int) -> None:
    rows = np.arange(len(room)) * 3
    left, taken, last = room.copy(), Counter[int](), -1
    position = 0
    while taken.total() < count and left.any():
        if left[position % len(room)]:
            left[position % len(room)] -= 1
            last = int(rows[position % len(room)])
            taken[last] += 1
        position += 1
    placed = batch_placement.fill_levels(rows, room, count)
    assert as_counter(placed) == taken
    assert placed.last == last


@given(ROOM, st.integers(0, 30))
@strategies.examples(100)
def test_first_fit_fills_a_node_before_it_touches_the_next(room: arrays.Amounts, count: int) -> None:
    rows = np.arange(len(room)) * 3
    homes = [int(row) for row, space in zip(rows, room, strict=True) for _ in range(space)][:count]
    placed = batch_placement.fill_first(rows, room, count)
    assert placed.node_row_per_pod().tolist() == homes
    assert placed.last == (homes[-1] if homes else -1)


@given(ROOM, st.integers(0, 30), st.integers(0, 5))
@strategies.examples(100)
def test_scattered_pods_find_all_the_room_there_is_and_no_more(room: arrays.Amounts, count: int, seed: int) -> None:
    rows = np.arange(len(room)) * 3
    placed = batch_placement.fill_scattered(rows, room, count, np.random.default_rng(seed))
    assert placed.total == min(count, int(room.sum()))
    assert all(taken <= room[row // 3] for row, taken in as_counter(placed).items())


@given(st.lists(st.integers(0, 20), unique=True).map(sorted), st.integers(-1, 25))
@strategies.examples(100)
def test_rotating_puts_rows_after_the_pointer_first(rows: list[int], pointer: int) -> None:
    rotated = batch_placement.rotate(np.array(rows, np.intp), pointer).tolist()
    assert rotated == [row for row in rows if row > pointer] + [row for row in rows if row <= pointer]
