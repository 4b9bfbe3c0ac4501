"""Most pods, least nodes, least waste and random: options narrowed by what can be counted."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import builders
from windlass.engine.expanders import least_nodes, least_waste, most_pods, random
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption

Keep = Callable[[Sequence[ExpansionOption]], list[ExpansionOption]]


def test_most_pods_counts_pods_not_kinds_of_pods() -> None:
    few_kinds = builders.option("few-kinds", 1, builders.pods(5))
    many_kinds = builders.option("many-kinds", 1, builders.pods(1, 100), builders.pods(1, 200), builders.pods(1, 300))
    assert most_pods.find_best_options([many_kinds, few_kinds]) == [few_kinds]


def test_most_pods_keeps_all_that_help_equally_many() -> None:
    options = [
        builders.option("a", 1, builders.pods(2)),
        builders.option("b", 9, builders.pods(1, 100), builders.pods(1, 200)),
    ]
    assert most_pods.find_best_options(options) == options


def test_least_nodes_passes_over_an_option_without_nodes() -> None:
    options = [
        builders.option("none", 0),
        builders.option("two", 2),
        builders.option("three", 3),
        builders.option("too", 2),
    ]
    assert builders.groups(least_nodes.find_best_options(options)) == ["two", "too"]


def test_least_waste_prefers_the_better_filled_node() -> None:
    large = builders.option("large", 1, builders.pods(4), template=builders.node(cpu=8, memory_gib=8))
    small = builders.option("small", 1, builders.pods(4), template=builders.node(cpu=4, memory_gib=8))
    assert least_waste.find_best_options([large, small]) == [small]
    assert least_waste.calculate_waste(small) == 0.5
    assert least_waste.calculate_waste(large) == 1.0


def test_least_waste_counts_capacity_not_allocatable() -> None:
    capacity = ((facts.CPU, 4000), (facts.MEMORY, 4 * builders.GIB))
    template = facts.Node("n", capacity=capacity, allocatable=((facts.CPU, 2000), (facts.MEMORY, 2 * builders.GIB)))
    assert least_waste.calculate_waste(builders.option("g", 1, builders.pods(2), template=template)) == 1.0


def test_a_resource_that_a_template_lacks_is_not_wasted() -> None:
    template = facts.Node("n", capacity=((facts.CPU, 4000),))
    assert least_waste.calculate_waste(builders.option("g", 1, builders.pods(1, 1000), template=template)) == 0.75


@given(builders.many_options, st.randoms(use_true_random=False))
def test_least_waste_does_not_depend_on_the_order(options: list[ExpansionOption], shuffler: Random) -> None:
    shuffled = list(options)
    shuffler.shuffle(shuffled)
    kept, kept_shuffled = least_waste.find_best_options(options), least_waste.find_best_options(shuffled)
    assert len(kept) == len(kept_shuffled)
    assert all(option in kept for option in kept_shuffled)


@pytest.mark.parametrize(
    "keep", [most_pods.find_best_options, least_nodes.find_best_options, least_waste.find_best_options]
)
@given(options=builders.many_options)
def test_what_is_kept_was_there_in_the_same_order(keep: Keep, options: list[ExpansionOption]) -> None:
    kept = keep(options)
    rest = iter(options)
    assert all(any(option is candidate for candidate in rest) for option in kept)


def test_random_takes_one_and_the_same_for_the_same_seed() -> None:
    options = [builders.option(group) for group in "abcdefgh"]
    drawn = [random.find_best_options(options, np.random.default_rng(7)) for _ in range(3)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(drawn[0]) == 1


def test_random_can_take_any() -> None:
    rng = np.random.default_rng(1)
    options = [builders.option(group) for group in "abc"]
    assert {random.find_best_options(options, rng)[0].group for _ in range(60)} == {"a", "b", "c"}


@pytest.mark.parametrize(
    "keep", [most_pods.find_best_options, least_nodes.find_best_options, least_waste.find_best_options]
)
def test_of_nothing_nothing_is_kept(keep: Keep) -> None:
    assert keep([]) == []
    assert random.find_best_options([], np.random.default_rng(0)) == []
