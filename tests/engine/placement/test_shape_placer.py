"""Placing: what has no closed form, and where the closed forms end."""

from collections import Counter

import numpy as np

from tests.builders import node, pod, selector, spread, term
from windlass.engine.model import facts, settings
from windlass.engine.placement import shape_placer
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot.cluster_snapshot import Snapshot


def place(snapshot: Snapshot, wanted: facts.Pod, count: int, pointer: int = -1) -> Counter[str]:
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    placed = placer.place(snapshot.shape_of(wanted), count, pointer, snapshot.nodes.alive.copy())
    return Counter({snapshot.nodes.names[row]: int(n) for row, n in zip(placed.rows, placed.counts, strict=True)})


def test_plain_pods_go_round_robin_from_the_node_after_the_last() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=2000), node("b", cpu=1000), node("c", cpu=4000)], [])
    assert place(snapshot, pod("p", cpu=1000), 3, pointer=0) == {"b": 1, "c": 1, "a": 1}
    assert place(snapshot, pod("p", cpu=1000), 5, pointer=0) == {"b": 1, "c": 2, "a": 2}
    assert place(snapshot, pod("p", cpu=1000), 9, pointer=0) == {"b": 1, "c": 4, "a": 2}


def test_many_nodes_are_searched_from_the_pointer_and_around_the_end() -> None:
    snapshot = snapshots.build_snapshot(
        [node(f"n{i}", cpu=1000 if i in (3, 150, 290) else 500) for i in range(300)], []
    )
    assert place(snapshot, pod("p", cpu=1000), 1, pointer=3) == {"n150": 1}
    assert place(snapshot, pod("p", cpu=1000), 1, pointer=290) == {"n3": 1}
    assert place(snapshot, pod("p", cpu=1000), 7, pointer=100) == {"n150": 1, "n290": 1, "n3": 1}


def test_a_pointer_beyond_the_last_node_starts_at_the_first() -> None:
    snapshot = snapshots.build_snapshot([node(f"n{i}", cpu=1000) for i in range(100)], [])
    for count in (1, 5, 90):
        assert place(snapshot, pod("p", cpu=1000), count, pointer=130) == {f"n{i}": 1 for i in range(count)}


def test_pods_that_spread_fill_zones_evenly_and_stop_where_one_is_full() -> None:
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y", pods=2)]
    wanted = pod("p", labels={"app": "a"}, spec=facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),)))
    assert place(snapshots.build_snapshot(nodes, []), wanted, 9) == {"a": 3, "c": 2}


def test_a_spread_constraint_with_an_empty_selector_never_fills_up() -> None:
    nodes = [node("a", zone="x"), node("b", zone="y", pods=0)]
    wanted = pod("p", spec=facts.PodSpec(spread=(spread(facts.ZONE),)))
    assert place(snapshots.build_snapshot(nodes, []), wanted, 5) == {"a": 5}


def test_pods_on_their_way_out_do_not_fill_up_a_domain() -> None:
    nodes = [node("a", zone="x"), node("b", zone="y", pods=0)]
    spec = facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),))
    going = pod("p", labels={"app": "a"}, deleted_s=1.0, spec=spec)
    assert place(snapshots.build_snapshot(nodes, []), going, 5) == {"a": 5}


def test_pods_that_keep_apart_take_one_node_each_or_one_zone_each() -> None:
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
    apart = pod("p", labels={"app": "a"}, spec=facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, app="a"),)))
    assert place(snapshots.build_snapshot(nodes, []), apart, 5) == {"a": 1, "b": 1, "c": 1}
    by_zone = pod("p", labels={"app": "a"}, spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),)))
    assert place(snapshots.build_snapshot(nodes, []), by_zone, 5) == {"a": 1, "c": 1}


def test_the_first_of_a_gathering_decides_where_the_others_go() -> None:
    nodes = [node("a", zone="x"), node("b", zone="y"), node("c", zone="y")]
    together = pod("p", labels={"app": "a"}, spec=facts.PodSpec(affinity=(term(facts.ZONE, app="a"),)))
    assert place(snapshots.build_snapshot(nodes, []), together, 4, pointer=0) == {"b": 2, "c": 2}
    assert place(snapshots.build_snapshot(nodes, []), together, 4) == {"a": 4}


def test_host_ports_allow_one_pod_per_node() -> None:
    spec = facts.PodSpec(host_ports=(facts.HostPort("0.0.0.0", "TCP", 80),))
    assert place(snapshots.build_snapshot([node("a"), node("b")], []), pod("p", spec=spec), 4) == {"a": 1, "b": 1}


def test_plain_pods_avoid_nodes_of_pods_that_repel_them() -> None:
    hermit = pod("h", on="a", spec=facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, app="a"),)))
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [hermit])
    assert place(snapshot, pod("p", labels={"app": "a"}), 3) == {"b": 3}


def test_a_resource_that_nobody_heard_of_leaves_other_shapes_their_columns() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000), node("b", cpu=1000)], [])
    placer = shape_placer.Placer(snapshot, settings.DEFAULT_FILTER_CONFIG)
    plain, odd = (snapshot.shape_of(pod("p", cpu=1000)), snapshot.shape_of(pod("q", more={"example.com/odd": 1})))
    everywhere = np.ones(2, bool)
    assert placer.place(plain, 1, -1, everywhere).last == 0
    assert placer.place(odd, 1, -1, everywhere).total == 0
    snapshot.place(plain, 0)
    assert placer.place(plain, 2, -1, everywhere).node_row_per_pod().tolist() == [1]


def test_with_resources_unchecked_a_node_takes_any_number() -> None:
    snapshot = snapshots.build_snapshot([node("a", cpu=1000, pods=1), node("b", cpu=1000)], [])
    profile = settings.FilterConfig(disabled=frozenset({"NodeResourcesFit"}))
    placer = shape_placer.Placer(snapshot, profile)
    placed = placer.place(snapshot.shape_of(pod("p", cpu=4000)), 8, -1, snapshot.nodes.alive.copy())
    assert sorted(placed.node_row_per_pod().tolist()) == [0, 0, 0, 0, 1, 1, 1, 1]
