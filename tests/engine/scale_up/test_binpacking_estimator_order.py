"""The order of packing: by how much of a node a pod takes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.scale_up import binpacking_estimator


def order(requests: list[tuple[int, int]], allocatable: tuple[int, int] = (4000, 1000)) -> list[int]:
    columns = np.array(requests, dtype=np.int64).reshape(-1, 2)
    return [
        int(position) for position in binpacking_estimator.sort_decreasing(columns[:, 0], columns[:, 1], *allocatable)
    ]


def test_larger_pods_come_first() -> None:
    assert order([(100, 10), (2000, 10), (100, 900)]) == [2, 1, 0]


def test_cpu_and_memory_weigh_by_what_a_node_has() -> None:
    assert order([(1000, 0), (0, 300)], allocatable=(4000, 1000)) == [1, 0]
    assert order([(1000, 0), (0, 300)], allocatable=(2000, 1000)) == [0, 1]


def test_equal_pods_keep_their_order() -> None:
    assert order([(400, 0), (0, 100), (400, 0), (500, 0)]) == [3, 0, 1, 2]


def test_a_resource_that_the_node_lacks_does_not_count() -> None:
    assert order([(1, 900), (2, 0)], allocatable=(4000, 0)) == [1, 0]
    assert order([(1, 900), (2, 0)], allocatable=(0, 0)) == [0, 1]


def test_no_groups_have_no_order() -> None:
    assert order([]) == []


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2000)), max_size=30))
def test_the_order_is_the_one_of_sorting_by_score(requests: list[tuple[int, int]]) -> None:
    scores = [cpu / 4000 + memory / 1000 for cpu, memory in requests]
    assert order(requests) == sorted(range(len(requests)), key=lambda position: -scores[position])
