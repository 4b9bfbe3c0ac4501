"""Priority: the highest rule that matches, and what happens when none does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import builders
from windlass.engine.expanders import priority
from windlass.errors import InvalidInput


def keep(ids: list[str], rules: dict[int, list[str]]) -> list[str]:
    return builders.groups(
        priority.find_best_options([builders.option(group) for group in ids], priority.compile_rules(rules))
    )


def test_the_group_with_the_highest_priority_is_kept() -> None:
    assert keep(["on-demand", "spot-a", "spot-b"], {10: [".*"], 50: ["spot-.*"]}) == ["spot-a", "spot-b"]


def test_a_group_has_the_highest_of_its_priorities() -> None:
    assert keep(["a", "b"], {10: ["a", "b"], 20: ["b"], 5: ["b"]}) == ["b"]


def test_an_expression_is_found_anywhere_in_the_id() -> None:
    assert keep(["MachineDeployment/default/spot", "other"], {1: ["spot"]}) == ["MachineDeployment/default/spot"]


def test_groups_that_no_rule_matches_are_passed_over_while_others_match() -> None:
    assert keep(["stranger", "known"], {0: ["known"]}) == ["known"]


def test_all_are_kept_when_no_rule_matches_or_there_are_none() -> None:
    assert keep(["a", "b"], {10: ["nothing"]}) == ["a", "b"]
    assert keep(["a", "b"], {}) == ["a", "b"]


def test_priorities_below_minus_one_do_not_count() -> None:
    assert keep(["a", "b"], {-5: ["a"]}) == ["a", "b"]
    assert keep(["a", "b"], {-1: ["a"]}) == ["a"]


def test_a_bad_expression_is_named_with_its_priority() -> None:
    with pytest.raises(InvalidInput, match=r"priority 10: '\*bad\(' is not a regular expression of Go's: "):
        priority.compile_rules({10: ["good", "*bad("]})


@given(
    st.lists(st.text("ab", min_size=1, max_size=3), unique=True, max_size=5),
    st.dictionaries(st.integers(-3, 5), st.lists(st.text("ab", max_size=2), max_size=2), max_size=4),
)
def test_whoever_is_kept_ranks_as_high_as_anyone(ids: list[str], rules: dict[int, list[str]]) -> None:
    compiled = priority.compile_rules(rules)
    ranks = {group: priority.find_priority(group, compiled) for group in ids}
    counted = [rank for rank in ranks.values() if rank is not None and rank >= priority.LOWEST]
    expected = [group for group in ids if ranks[group] == max(counted)] if counted else ids
    assert keep(ids, rules) == expected
