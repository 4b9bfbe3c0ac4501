"""Most pods, least nodes, least waste and random: options narrowed by what can be counted."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import build
from windlass.engine.expanders import chain
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption

Keep = Callable[[Sequence[ExpansionOption]], list[ExpansionOption]]


def test_most_pods_counts_pods_not_kinds_of_pods() -> None:
    few_kinds = build.option("few-kinds", 1, build.pods(5))
    many_kinds = build.option("many-kinds", 1, build.pods(1, 100), build.pods(1, 200), build.pods(1, 300))
    assert chain.find_most_pods([many_kinds, few_kinds]) == [few_kinds]


def test_most_pods_keeps_all_that_help_equally_many() -> None:
    options = [build.option("a", 1, build.pods(2)), build.option("b", 9, build.pods(1, 100), build.pods(1, 200))]
    assert chain.find_most_pods(options) == options


def test_least_nodes_passes_over_an_option_without_nodes() -> None:
    options = [build.option("none", 0), build.option("two", 2), build.option("three", 3), build.option("too", 2)]
    assert build.groups(chain.find_least_nodes(options)) == ["two", "too"]


def test_least_waste_prefers_the_better_filled_node() -> None:
    large = build.option("large", 1, build.pods(4), template=build.node(cpu=8, memory_gib=8))
    small = build.option("small", 1, build.pods(4), template=build.node(cpu=4, memory_gib=8))
    assert chain.find_least_waste([large, small]) == [small]
    assert chain.wasted_fraction(small) == 0.5
    assert chain.wasted_fraction(large) == 1.0


def test_least_waste_counts_capacity_not_allocatable() -> None:
    capacity = ((facts.CPU, 4000), (facts.MEMORY, 4 * build.GIB))
    template = facts.Node("n", capacity=capacity, allocatable=((facts.CPU, 2000), (facts.MEMORY, 2 * build.GIB)))
    assert chain.wasted_fraction(build.option("g", 1, build.pods(2), template=template)) == 1.0


def test_a_resource_that_a_template_lacks_is_not_wasted() -> None:
    template = facts.Node("n", capacity=((facts.CPU, 4000),))
    assert chain.wasted_fraction(build.option("g", 1, build.pods(1, 1000), template=template)) == 0.75


@given(build.many_options, st.randoms(use_true_random=False))
def test_least_waste_does_not_depend_on_the_order(options: list[ExpansionOption], shuffler: Random) -> None:
    shuffled = list(options)
    shuffler.shuffle(shuffled)
    kept, kept_shuffled = chain.find_least_waste(options), chain.find_least_waste(shuffled)
    assert len(kept) == len(kept_shuffled)
    assert all(option in kept for option in kept_shuffled)


@pytest.mark.parametrize("keep", [chain.find_most_pods, chain.find_least_nodes, chain.find_least_waste])
@given(options=build.many_options)
def test_what_is_kept_was_there_in_the_same_order(keep: Keep, options: list[ExpansionOption]) -> None:
    kept = keep(options)
    rest = iter(options)
    assert all(any(option is candidate for candidate in rest) for option in kept)


def test_random_takes_one_and_the_same_for_the_same_seed() -> None:
    options = [build.option(group) for group in "abcdefgh"]
    drawn = [chain.pick_random(options, np.random.default_rng(7)) for _ in range(3)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(drawn[0]) == 1


def test_random_can_take_any() -> None:
    rng = np.random.default_rng(1)
    options = [build.option(group) for group in "abc"]
    assert {chain.pick_random(options, rng)[0].group for _ in range(60)} == {"a", "b", "c"}


@pytest.mark.parametrize("keep", [chain.find_most_pods, chain.find_least_nodes, chain.find_least_waste])
def test_of_nothing_nothing_is_kept(keep: Keep) -> None:
    assert keep([]) == []
    assert chain.pick_random([], np.random.default_rng(0)) == []
