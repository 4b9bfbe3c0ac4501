"""Balancing: the smallest first, never beyond a maximum, nothing lost and nothing made up."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.model.scale_up_status import SizedGroup
from windlass.engine.scale_up.balancing import balance_increase

groups_strategy = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 15)), max_size=8).map(
    lambda sizes: [SizedGroup(f"g{number}", size, maximum) for number, (size, maximum) in enumerate(sizes)]
)


def sizes(groups: list[SizedGroup], new_nodes: int) -> dict[str, int]:
    return {increase.group.id: increase.new_size for increase in balance_increase(groups, new_nodes)}


def test_the_smallest_group_grows_first() -> None:
    assert sizes([SizedGroup("large", 5, 10), SizedGroup("small", 1, 10)], 3) == {"small": 4}


def test_what_makes_groups_even_is_shared_evenly() -> None:
    assert sizes([SizedGroup("a", 1, 10), SizedGroup("b", 2, 10), SizedGroup("c", 3, 10)], 6) == {
        "a": 4,
        "b": 4,
        "c": 4,
    }


def test_the_odd_node_goes_to_the_first_of_equals() -> None:
    assert sizes([SizedGroup("a", 1, 10), SizedGroup("b", 1, 10), SizedGroup("c", 1, 10)], 4) == {
        "a": 3,
        "b": 2,
        "c": 2,
    }


def test_what_a_full_group_cannot_take_goes_to_the_others() -> None:
    assert sizes([SizedGroup("a", 1, 2), SizedGroup("b", 1, 10)], 5) == {"a": 2, "b": 5}


def test_what_nobody_can_take_is_dropped() -> None:
    assert sizes([SizedGroup("a", 1, 2), SizedGroup("b", 1, 2)], 50) == {"a": 2, "b": 2}


def test_a_group_beyond_its_maximum_neither_grows_nor_shrinks() -> None:
    assert sizes([SizedGroup("over", 3, 2), SizedGroup("b", 5, 9)], 2) == {"b": 7}


def test_without_groups_or_nodes_nothing_grows() -> None:
    assert balance_increase([], 3) == []
    assert balance_increase([SizedGroup("a", 1, 5)], 0) == []


def test_an_increase_says_how_many_nodes_it_adds() -> None:
    assert [increase.added for increase in balance_increase([SizedGroup("a", 2, 9)], 3)] == [3]


@given(groups_strategy, st.integers(0, 80))
def test_the_total_is_conserved_up_to_the_room_there_is(groups: list[SizedGroup], new_nodes: int) -> None:
    room = sum(max(group.max_size - group.size, 0) for group in groups)
    assert sum(increase.added for increase in balance_increase(groups, new_nodes)) == min(new_nodes, room)


@given(groups_strategy, st.integers(0, 80))
def test_no_group_exceeds_its_maximum_or_shrinks(groups: list[SizedGroup], new_nodes: int) -> None:
    for increase in balance_increase(groups, new_nodes):
        assert increase.group.size < increase.new_size <= increase.group.max_size


@given(groups_strategy, st.integers(0, 80))
def test_a_group_that_grew_is_at_most_one_larger_than_any_that_still_could(
    groups: list[SizedGroup], new_nodes: int
) -> None:
    after = {group.id: group.size for group in groups} | sizes(groups, new_nodes)
    could = [after[group.id] for group in groups if after[group.id] < group.max_size]
    grown = [after[group.id] for group in groups if after[group.id] > group.size]
    assert not could or not grown or max(grown) <= min(could) + 1


@given(groups_strategy, st.integers(0, 40))
def test_one_node_more_changes_one_size_by_one(groups: list[SizedGroup], new_nodes: int) -> None:
    before = {group.id: group.size for group in groups}
    less, more = before | sizes(groups, new_nodes), before | sizes(groups, new_nodes + 1)
    assert sorted(more[group] - less[group] for group in before if more[group] != less[group]) in ([], [1])
