"""A constraint that is counted again comes to what counting it anew comes to, whatever moved."""

import numpy as np
import pytest

from tests.builders import node, pod, selector
from windlass.engine.model import facts, settings
from windlass.engine.model.facts import HOSTNAME, ZONE, SpreadConstraint
from windlass.engine.predicates import pod_topology_spread
from windlass.engine.snapshot import cluster_snapshot as snapshots

APP = selector(app="a")
NODES = [
    node("a1", zone="x"),
    node("a2", zone="x"),
    node("b1", zone="y", taints=(facts.Taint("k", "", "NoSchedule"),)),
    node("c1", zone="z"),
    node("nowhere"),
]
CONSTRAINTS = [
    SpreadConstraint(ZONE, 1, APP),
    SpreadConstraint(ZONE, 1, APP, honor_taints=True),
    SpreadConstraint(ZONE, 2, APP, min_domains=4),
    SpreadConstraint(HOSTNAME, 1, APP),
    SpreadConstraint(ZONE, 1, None),
]


def make(constraint: SpreadConstraint) -> tuple[snapshots.Snapshot, pod_topology_spread.SpreadRecount, list[int]]:
    waiting = [pod(f"p{n}", labels={"app": "a"}, spec=facts.PodSpec(spread=(constraint,))) for n in range(6)]
    snapshot = snapshots.build_snapshot(NODES, [*waiting, pod("q", on="a1", labels={"app": "a"})])
    shape = snapshot.shape_of(waiting[0])
    (recount,) = pod_topology_spread.make_recounts(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
    return snapshot, recount, [row for row in range(7) if snapshot.pod(row).name.startswith("p")]


def check(snapshot: snapshots.Snapshot, recount: pod_topology_spread.SpreadRecount) -> None:
    recount.count()
    shape = snapshot.shape_of_row(0)
    expected = pod_topology_spread.mask(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
    assert expected is not None
    assert [recount.is_open(row) for row in range(snapshot.nodes.count)] == expected.tolist()


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_what_was_never_looked_at_again_is_as_it_was_first(constraint: SpreadConstraint) -> None:
    snapshot, recount, _ = make(constraint)
    before = [recount.is_open(row) for row in range(len(NODES))]
    check(snapshot, recount)
    assert [recount.is_open(row) for row in range(len(NODES))] == before


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("seed", range(3))
def test_moves_and_nodes_that_go_are_counted(constraint: SpreadConstraint, seed: int) -> None:
    snapshot, recount, waiting = make(constraint)
    chance = np.random.default_rng(seed)
    snapshot.fork()
    bound: dict[int, int] = {}
    for _ in range(12):
        row = waiting[int(chance.integers(len(waiting)))]
        if row in bound:
            snapshot.unbind(row)
            del bound[row]
        else:
            bound[row] = int(chance.integers(len(NODES)))
            snapshot.bind(row, bound[row])
        check(snapshot, recount)
    snapshot.mark_deleting(0)
    check(snapshot, recount)
    snapshot.revert()
    check(snapshot, recount)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_domain_whose_last_node_goes_is_no_domain_any_more(constraint: SpreadConstraint) -> None:
    snapshot, recount, _ = make(constraint)
    snapshot.fork()
    for name in ("c1", "b1"):
        snapshot.mark_gone(snapshot.nodes.rows[name])
        check(snapshot, recount)
    snapshot.revert()
    check(snapshot, recount)


def test_nothing_is_counted_without_constraints_or_where_a_profile_does_not_ask() -> None:
    snapshot, _, _ = make(CONSTRAINTS[0])
    shape = snapshot.shape_of_row(0)
    silent = settings.FilterConfig(disabled=frozenset({pod_topology_spread.NAME}))
    assert pod_topology_spread.make_recounts(snapshot, shape, silent) == []
    assert (
        pod_topology_spread.make_recounts(snapshot, snapshot.shape_of(pod("plain")), settings.DEFAULT_FILTER_CONFIG)
        == []
    )
