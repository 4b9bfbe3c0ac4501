"""What is shown of a status: every fact of it, and nothing besides."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.observability import status_model
from windlass.observability.status_model import (
    ClusterCost,
    ClusterSample,
    ClusterSummary,
    NodeState,
    PendingPods,
    PendingState,
    PublishedBackoff,
    PublishedDecision,
    PublishedGroup,
    PublishedNode,
    PublishedStatus,
    RejectedGroup,
    StatusChange,
)
from windlass.tui import status_rows

GROUPS = (
    PublishedGroup(
        "MachineDeployment/default/batch", 0, 9, 2, ready=1, booting=1, price_per_hour=1.5, cost_per_hour=3.0
    ),
    PublishedGroup(
        "MachineDeployment/default/web", 1, 5, 1, backoff=PublishedBackoff(7200.0, "stock", "no more in stock")
    ),
)
NODES = (
    PublishedNode("batch-1", GROUPS[0].id, cpu=0.25, memory=0.9, pods=3),
    PublishedNode("batch-2", GROUPS[0].id, NodeState.BOOTING),
    PublishedNode("control-plane", "", pods=2),
    PublishedNode(
        "web-1", GROUPS[1].id, NodeState.UNNEEDED, since_s=3000.0, cpu=0.1, cordoned=True, why="its pods have a place"
    ),
)
PENDING = (
    PendingPods(
        "default/a", 3, PendingState.HELPED, requests={"cpu": 500, "memory": 2**30}, since_s=3540.0, groups=("batch",)
    ),
    PendingPods("default/b", 1, PendingState.NOWHERE, reasons=(RejectedGroup("x/y/web", ("Insufficient cpu",)),)),
)
DECISIONS = (
    PublishedDecision(0, 3600.0, "up", "scale up batch 0→2", "3 pods had no room", groups=("batch",)),
    PublishedDecision(1, 3661.0, "down", "scale down web 2→1", "unneeded for 10m", nodes=("web-2",)),
)
STATUS = PublishedStatus(
    ClusterSummary(
        3600.0, mode="simulated", name="tiny", nodes=4, ready=3, pods=5, pending=4, cpu=0.2, cost=ClusterCost(3.0, 1.25)
    ),
    GROUPS, NODES, PENDING, DECISIONS,
    tuple(ClusterSample(60.0 * i, i, 9 - i, 0.5, 0.5, 1.0) for i in range(9)),
)  # fmt: skip


def texts(found: list[status_rows.StatusRow]) -> list[str]:
    return [row.text.plain for row in found]


def test_nodes_stand_under_their_groups_and_those_of_none_at_the_end() -> None:
    found = status_rows.node_rows(STATUS, "name", "")
    assert [(row.kind, row.name) for row in found] == [
        ("group", GROUPS[0].id), ("node", "batch-1"), ("node", "batch-2"),
        ("group", GROUPS[1].id), ("node", "web-1"), ("group", ""), ("node", "control-plane"),
    ]  # fmt: skip


def test_a_node_says_how_full_it_is_and_what_becomes_of_it() -> None:
    _, batch, booting, group, web, *_ = texts(status_rows.node_rows(STATUS, "name", ""))
    assert "cpu ███" in batch
    assert " 25%" in batch
    assert " 90%" in batch
    assert "◌ batch-2" in booting
    assert "○ web-1" in web
    assert "unneeded 10m  cordoned  its pods have a place" in web
    assert "size 1 of 1–5" in group
    assert "backs off until 02:00:00: no more in stock" in group


def test_a_group_whose_replicas_have_an_owner_says_so() -> None:
    status = PublishedStatus(
        ClusterSummary(0.0), (PublishedGroup("a/b/c", 0, 3, 1, replicas_owner="spec.replicas is applied by x"),)
    )
    assert texts(status_rows.node_rows(status, "name", ""))[0].endswith("spec.replicas is applied by x")


def test_every_state_has_a_mark_of_its_own() -> None:
    marks = {
        texts(
            status_rows.node_rows(
                PublishedStatus(ClusterSummary(0.0), (), (PublishedNode("n", "", state),)), "name", ""
            )
        )[1][2]
        for state in NodeState
    }
    assert len(marks) == len(NodeState)


def test_nodes_are_sorted_within_their_group() -> None:
    by_state = [row.name for row in status_rows.node_rows(STATUS, "state", "") if row.kind == "node"]
    assert by_state == ["batch-2", "batch-1", "web-1", "control-plane"]
    full = status_model.apply_change(
        STATUS, StatusChange(STATUS.cluster, nodes=(PublishedNode("batch-2", GROUPS[0].id, cpu=0.7),))
    )
    assert [row.name for row in status_rows.node_rows(full, "cpu", "") if row.kind == "node"][:2] == [
        "batch-2",
        "batch-1",
    ]


def test_a_filter_keeps_what_has_it_with_the_group_around_it() -> None:
    assert [row.name for row in status_rows.node_rows(STATUS, "name", "BATCH-2")] == [GROUPS[0].id, "batch-2"]
    assert len(status_rows.node_rows(STATUS, "name", "default/batch")) == 3
    assert [row.name for row in status_rows.node_rows(STATUS, "name", "unneeded")] == [GROUPS[1].id, "web-1"]
    assert status_rows.node_rows(STATUS, "name", "nothing") == []
    assert [row.name for row in status_rows.pending_rows(STATUS, "/b")] == ["default/b"]
    assert [row.name for row in status_rows.decision_rows(STATUS, "web")] == ["1"]


def test_pods_say_why_they_wait() -> None:
    first, second = texts(status_rows.pending_rows(STATUS, ""))
    assert first == "3× default/a  cpu 500m, memory 1Gi  1m  batch grows for it"
    assert second.endswith("no group can scale up: web: Insufficient cpu")


def test_the_newest_decision_is_first_and_can_be_read_in_full() -> None:
    assert (
        texts(status_rows.decision_rows(STATUS, ""))[0] == "01:01:01  ▼ down     scale down web 2→1  unneeded for 10m"
    )
    assert (
        status_rows.describe_decision(STATUS, "1") == "01:01:01  scale down web 2→1\n\nunneeded for 10m\n\nnodes: web-2"
    )
    assert "this one is older" in status_rows.describe_decision(STATUS, "99")


def test_the_head_says_the_whole_and_the_trends_what_it_costs() -> None:
    assert status_rows.summary_line(STATUS).plain.startswith(
        "simulated tiny  3 of 4 nodes ready · 5 pods · 4 pending · cpu 20%"
    )
    cost, pending, nodes = status_rows.trend_lines(STATUS, 60).plain.splitlines()
    assert cost.endswith("3.00/h, 1.25 so far")
    assert "█▇▆▅▅▄▃▂▁"[:3] in pending
    assert nodes.rstrip().endswith("4")
    assert max(map(len, (cost, pending, nodes))) <= 60


@given(st.floats(-1, 3), st.integers(1, 40))
def test_a_bar_is_as_wide_as_it_was_asked_to_be(share: float, width: int) -> None:
    assert len(status_rows.draw_bar(share, width)) == width


@given(st.lists(st.floats(0, 1e9), max_size=800), st.integers(1, 200))
def test_a_line_fits_and_its_highest_is_the_most(values: list[float], width: int) -> None:
    drawn = status_rows.draw_sparkline(values, width)
    assert len(drawn) <= width
    assert ("█" in drawn) == (max(values, default=0.0) > 0)
