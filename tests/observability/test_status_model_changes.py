"""A change leads from one status to the next, and says no more than it must."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from windlass.observability import status_model
from windlass.observability.status_model import (
    MAX_DECISIONS,
    MAX_SAMPLES,
    ClusterSample,
    ClusterSummary,
    NodeState,
    PendingPods,
    PendingState,
    PublishedDecision,
    PublishedGroup,
    PublishedNode,
    PublishedStatus,
    StatusChange,
)

NAMES = st.sampled_from([f"n{number}" for number in range(8)])
NODES = st.builds(
    PublishedNode, NAMES, st.sampled_from(("a", "b")), st.sampled_from(NodeState), cpu=st.sampled_from((0.0, 0.5))
)
GROUPS = st.builds(PublishedGroup, st.sampled_from("abc"), st.just(0), st.just(9), st.integers(0, 3))
PENDING = st.builds(PendingPods, NAMES, st.integers(1, 3), st.sampled_from(PendingState))


@st.composite
def statuses(draw: st.DrawFn, decided: int, sampled: int) -> PublishedStatus:
    nodes = {node.name: node for node in draw(st.lists(NODES, max_size=8))}
    groups = {group.id: group for group in draw(st.lists(GROUPS, max_size=3))}
    return PublishedStatus(
        ClusterSummary(draw(st.floats(0, 9))),
        tuple(groups[id] for id in sorted(groups)),
        tuple(nodes[name] for name in sorted(nodes)),
        tuple(draw(st.lists(PENDING, max_size=3))),
        status_model.carry_over_decisions(
            [PublishedDecision(number, float(number), "up", "more") for number in range(decided)]
        ),
        status_model.carry_over_samples(
            [ClusterSample(float(number), 1, 0, 0.0, 0.0, 0.0) for number in range(sampled)]
        ),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[PublishedStatus, PublishedStatus]:
    decided, sampled = draw(st.integers(0, MAX_DECISIONS + 5)), draw(st.integers(0, MAX_SAMPLES + 5))
    before = draw(statuses(decided, sampled))
    return before, draw(statuses(decided + draw(st.integers(0, 4)), sampled + draw(st.integers(0, 4))))


@given(pairs())
def test_a_change_applied_gives_what_came_after(both: tuple[PublishedStatus, PublishedStatus]) -> None:
    before, after = both
    assert status_model.apply_change(before, status_model.diff_status(before, after)) == after


@given(pairs())
def test_a_change_survives_the_wire(both: tuple[PublishedStatus, PublishedStatus]) -> None:
    change = status_model.diff_status(*both)
    assert msgspec.json.decode(msgspec.json.encode(change), type=StatusChange) == change
    assert msgspec.json.decode(msgspec.json.encode(both[1]), type=PublishedStatus) == both[1]


@given(statuses(3, 3))
def test_nothing_but_the_time_is_said_where_nothing_changed(status: PublishedStatus) -> None:
    assert status_model.diff_status(status, status) == StatusChange(status.cluster)


def test_one_node_of_two_thousand_is_a_small_change() -> None:
    nodes = tuple(PublishedNode(f"node-{number:05d}", "pool", cpu=0.5, memory=0.25, pods=12) for number in range(2000))
    before = PublishedStatus(ClusterSummary(1.0, nodes=2000), nodes=nodes)
    other = msgspec.structs.replace(nodes[7], cpu=0.625)
    after = PublishedStatus(ClusterSummary(2.0, nodes=2000), nodes=(*nodes[:7], other, *nodes[8:]))
    change = status_model.diff_status(before, after)
    assert change.nodes == (other,)
    assert len(msgspec.json.encode(change)) < 300
