"""The chain: names, narrowing and the draw at the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import builders
from windlass.engine.expanders import chain, priority
from windlass.engine.expanders.price import PriceTable
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.errors import InvalidInput


def situation(seed: int = 0) -> chain.ExpanderContext:
    return chain.ExpanderContext(
        np.random.default_rng(seed), priority.compile_rules({1: ["a"]}), PriceTable({"": 1.0}), 5
    )


def test_each_strategy_narrows_what_the_one_before_kept() -> None:
    options = [
        builders.option("few-pods", 1, builders.pods(1)),
        builders.option("many-nodes", 3, builders.pods(4)),
        builders.option("best", 2, builders.pods(4)),
    ]
    choice = chain.choose_option(options, ["most-pods", "least-nodes"], situation())
    assert choice.winner is options[2]
    assert [(name, builders.groups(list(kept))) for name, kept in choice.steps] == [
        ("most-pods", ["many-nodes", "best"]),
        ("least-nodes", ["best"]),
    ]


def test_nobody_is_asked_after_one_option_is_left() -> None:
    def refuse(_: object) -> list[str]:
        raise AssertionError("asked although decided")

    first: chain.ExpanderFilter[str] = chain.ExpanderFilter("first", lambda options: options[:1])
    never: chain.ExpanderFilter[str] = chain.ExpanderFilter("never", refuse)
    assert chain.run_chain(["x", "y"], [first, never], never).winner == "x"


def test_a_tie_is_drawn_with_the_generator() -> None:
    options = [builders.option(group, 1, builders.pods(1)) for group in "abcdef"]
    winners = [chain.choose_option(options, ["least-nodes"], situation(seed)).winner for seed in range(40)]
    assert {winner.group for winner in winners if winner} == set("abcdef")
    once, again = (chain.choose_option(options, ["least-nodes"], situation(3)).winner for _ in range(2))
    assert once is again


def test_when_all_are_dropped_nothing_is_chosen() -> None:
    options = [builders.option("a", 0), builders.option("b", 0)]
    assert chain.choose_option(options, ["least-nodes", "most-pods"], situation()).winner is None
    assert chain.choose_option([], ["random"], situation()).winner is None


def test_an_unknown_name_is_refused_with_those_accepted() -> None:
    with pytest.raises(InvalidInput, match="unknown expander 'cheapest'; accepted are random, most-pods, "):
        chain.check_names(["random", "cheapest"])


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="least-waste is named twice"):
        chain.check_names(["least-waste", "price", "least-waste"])


def test_a_strategy_after_random_is_refused_because_it_is_never_asked() -> None:
    with pytest.raises(InvalidInput, match="price after random has no effect"):
        chain.check_names(["random", "price"])


def test_price_without_prices_is_refused() -> None:
    with pytest.raises(InvalidInput, match="price needs prices"):
        chain.build_chain(["price"], chain.ExpanderContext(np.random.default_rng(0)))


def test_every_strategy_can_be_built_and_asked() -> None:
    options = [builders.option("a", 1, builders.pods(1)), builders.option("b", 1, builders.pods(1))]
    for name in chain.STRATEGIES:
        (strategy,) = chain.build_chain([name], situation())
        assert all(option in options for option in strategy.best_options(options))


NAMES = st.lists(st.sampled_from([name for name in chain.STRATEGIES if name != "random"]), unique=True)


@given(builders.many_options, NAMES, st.booleans(), st.integers(0, 5))
def test_the_winner_is_one_that_every_strategy_asked_kept(
    options: list[ExpansionOption], names: list[str], then_random: bool, seed: int
) -> None:
    choice = chain.choose_option(options, names + ["random"] * then_random, situation(seed))
    left = list(options)
    for _, kept in choice.steps:
        assert all(option in left for option in kept)
        left = list(kept)
    assert choice.winner is (left[0] if left else None)
    assert len(left) <= 1
