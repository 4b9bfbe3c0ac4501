from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.builders import group, with_scale_down
from windlass.engine.model import node_groups
from windlass.engine.model.scale_down_state import NodeGroupView, StartedDeletions
from windlass.engine.model.settings import Settings
from windlass.engine.scale_down import deletion_budgets
from windlass.engine.scale_down.deletion_budgets import DeletionsInProgress


def limited(total: int = 10, drain: int = 5) -> Settings:
    return with_scale_down(max_scale_down_parallelism=total, max_drain_parallelism=drain)


def crop(
    empty: Sequence[str],
    drain: Sequence[str],
    groups: Sequence[node_groups.NodeGroup],
    settings: Settings,
    empty_in_progress: int = 0,
    drain_in_progress: int = 0,
    registered: dict[str, int] | None = None,
) -> StartedDeletions:
    """Nodes are called after their groups: `<group>-<number>`."""
    by_id = {node_group.id: node_group for node_group in groups}
    group_of = {name: by_id[of] for name in (*empty, *drain) if (of := name.split("-")[0]) in by_id}
    counted = Counter(of.id for of in group_of.values()) if registered is None else registered
    leaving = DeletionsInProgress(
        frozenset(f"e{i}" for i in range(empty_in_progress)), frozenset(f"d{i}" for i in range(drain_in_progress))
    )
    return deletion_budgets.crop_nodes(empty, drain, group_of, counted, leaving, settings)


def some(of: str, *numbers: int) -> list[str]:
    return [f"{of}-{number}" for number in numbers]


def whole(id: str, size: int) -> node_groups.NodeGroup:
    return group(id, size, zero_or_max=True)


PLAIN = [group("a", 9), group("b", 9)]


def test_empty_nodes_take_what_there_is_and_drains_the_rest() -> None:
    started = crop(some("a", 0, 1, 2), some("b", 0, 1, 2), PLAIN, limited(total=5, drain=3))
    assert started == StartedDeletions(
        (NodeGroupView("a", ("a-0", "a-1", "a-2")),), (NodeGroupView("b", ("b-0", "b-1")),)
    )


def test_drains_have_a_limit_of_their_own() -> None:
    assert crop([], some("a", 0, 1, 2), PLAIN, limited(drain=1)).drain == (NodeGroupView("a", ("a-0",)),)
    assert crop([], some("a", 0, 1, 2), PLAIN, limited(drain=2), drain_in_progress=1).drain == (
        NodeGroupView("a", ("a-0",)),
    )


def test_what_is_in_progress_counts() -> None:
    started = crop(some("a", 0, 1, 2), [], PLAIN, limited(total=4), empty_in_progress=2, drain_in_progress=1)
    assert started.empty == (NodeGroupView("a", ("a-0",)),)
    assert crop(some("a", 0), some("b", 0), PLAIN, limited(total=4), empty_in_progress=7) == StartedDeletions()


def test_nodes_of_no_group_are_passed_over() -> None:
    assert crop(["lost-0", "a-0"], ["lost-1"], PLAIN, limited()) == StartedDeletions((NodeGroupView("a", ("a-0",)),))


def test_whole_groups_come_first_and_tell_how_many_go_together() -> None:
    groups = [group("a", 9), whole("w", 3)]
    started = crop([*some("a", 0, 1), *some("w", 0, 1)], some("w", 2), groups, limited(total=4))
    assert started.empty == (NodeGroupView("w", ("w-0", "w-1"), 3), NodeGroupView("a", ("a-0",)))
    assert started.drain == (NodeGroupView("w", ("w-2",), 3),)


def test_one_whole_group_may_exceed_the_limits() -> None:
    groups = [whole("v", 12), whole("w", 12)]
    started = crop([*some("v", *range(12)), *some("w", *range(12))], [], groups, limited(total=10))
    assert [bucket.group for bucket in started.empty] == ["v"]
    started = crop([], some("v", *range(12)), groups, limited(total=10, drain=1))
    assert [len(bucket.nodes) for bucket in started.drain] == [12]


def test_none_exceeds_them_where_nothing_is_left() -> None:
    groups = [whole("v", 2)]
    assert crop(some("v", 0, 1), [], groups, limited(total=3), empty_in_progress=3) == StartedDeletions()
    assert crop(some("v", 0), some("v", 1), groups, limited(drain=1), drain_in_progress=1) == StartedDeletions()
    assert crop([], some("v", 0, 1), groups, limited(drain=1), drain_in_progress=1) == StartedDeletions()


def test_a_group_of_which_not_all_nodes_go_does_not_go_at_all() -> None:
    assert crop(some("w", 0, 1), [], [whole("w", 3)], limited(), registered={"w": 3}) == StartedDeletions()


def test_a_group_goes_whole_without_the_nodes_that_never_came() -> None:
    started = crop(some("w", 0, 1), [], [whole("w", 3)], limited(), registered={"w": 2})
    assert started.empty == (NodeGroupView("w", ("w-0", "w-1"), 2),)


# ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

clusters = st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)), max_size=5)
limits = st.tuples(st.integers(0, 10), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4))
Clusters = list[tuple[bool, int, int, int]]


def build(found: Clusters) -> tuple[list[node_groups.NodeGroup], list[str], list[str], dict[str, int]]:
    """Groups of empty nodes, nodes with pods and nodes that stay."""
    groups = [group(f"g{i}", e + d + s, zero_or_max=w) for i, (w, e, d, s) in enumerate(found)]
    empty = [f"g{i}-{number}" for i, (_, e, _, _) in enumerate(found) for number in range(e)]
    drain = [f"g{i}-{e + number}" for i, (_, e, d, _) in enumerate(found) for number in range(d)]
    return groups, empty, drain, {node_group.id: node_group.target_size for node_group in groups}


@given(clusters, limits)
def test_whole_groups_are_never_split(found: Clusters, limit: tuple[int, int, int, int]) -> None:
    total, drains, empty_running, drain_running = limit
    groups, empty, drain, registered = build(found)
    started = crop(empty, drain, groups, limited(total, drains), empty_running, drain_running, registered)
    going: Counter[str] = Counter()
    for bucket in (*started.empty, *started.drain):
        going[bucket.group] += len(bucket.nodes)
    for node_group in groups:
        if node_group.options.zero_or_max:
            assert going[node_group.id] in (0, node_group.target_size)


@given(clusters, limits)
def test_limits_hold_but_for_one_whole_group(found: Clusters, limit: tuple[int, int, int, int]) -> None:
    total, drains, empty_running, drain_running = limit
    groups, empty, drain, registered = build(found)
    started = crop(empty, drain, groups, limited(total, drains), empty_running, drain_running, registered)
    is_whole = {node_group.id: node_group.options.zero_or_max for node_group in groups}
    plain = sum(
        len(node_group_view.nodes)
        for node_group_view in (*started.empty, *started.drain)
        if not is_whole[node_group_view.group]
    )
    plain_drains = sum(len(one.nodes) for one in started.drain if not is_whole[one.group])
    assert plain <= max(total - empty_running - drain_running, 0)
    assert plain_drains <= max(drains - drain_running, 0)
    if not any(is_whole.values()):
        going = sum(len(one.nodes) for one in (*started.empty, *started.drain))
        assert going == min(
            len(empty) + min(len(drain), max(drains - drain_running, 0)), max(total - empty_running - drain_running, 0)
        )


@given(clusters, limits)
def test_what_goes_was_proposed_and_keeps_its_order(found: Clusters, limit: tuple[int, int, int, int]) -> None:
    total, drains, empty_running, drain_running = limit
    groups, empty, drain, registered = build(found)
    started = crop(empty, drain, groups, limited(total, drains), empty_running, drain_running, registered)
    for proposed, buckets in ((empty, started.empty), (drain, started.drain)):
        assert len({bucket.group for bucket in buckets}) == len(buckets)
        for bucket in buckets:
            assert list(bucket.nodes) == [name for name in proposed if name in bucket.nodes]
            assert bucket.nodes
