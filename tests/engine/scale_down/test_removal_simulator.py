"""Removing nodes in thought: what moves, what is left as it was, what stays behind as a ghost."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.builders import node, pod, selector, spread, term
from tests.engine.placement import oracle
from tests.engine.snapshot import column_values
from tests.strategies import Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.drainability import context, pdb, rules
from windlass.engine.model import facts, settings
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.placement import hinting
from windlass.engine.scale_down import removal_simulator
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot.cluster_snapshot import Snapshot

APP = facts.Owner("apps/v1", "ReplicaSet", "rs", "uid-rs")
AGENT = facts.Owner("apps/v1", "DaemonSet", "ds", "uid-ds")
CONTROLLERS = {
    ("ReplicaSet", namespace, "rs"): facts.Controller("ReplicaSet", namespace, "rs", "uid-rs", replicas=9)
    for namespace in strategies.NAMESPACES
} | {("DaemonSet", "default", "ds"): facts.Controller("DaemonSet", "default", "ds", "uid-ds")}


def simulator(snapshot: Snapshot, budgets: pdb.RemainingPdbTracker | None = None) -> removal_simulator.RemovalSimulator:
    left = budgets or pdb.RemainingPdbTracker()
    judge = rules.PodDrainability(snapshot.pods, context.DrainContext(now_s=0.0, budgets=left, controllers=CONTROLLERS))
    everywhere = np.ones(snapshot.nodes.count, bool)
    return removal_simulator.RemovalSimulator(
        snapshot, judge, left, everywhere, hinting.HintingState(), settings.DEFAULT_FILTER_CONFIG
    )


def moving(name: str, on: str, cpu: int = 0, spec: facts.PodSpec | None = None, **labels: str) -> facts.Pod:
    return pod(name, on=on, owner=APP, cpu=cpu, spec=spec, labels=labels)


def whereabouts(snapshot: Snapshot) -> dict[str, str]:
    return {snapshot.pod(row).name: snapshot.pod(row).node_name for row in snapshot.pods.rows.values()}


def test_pods_of_a_node_that_goes_stay_where_they_went_and_the_next_candidate_sees_them() -> None:
    pods = [moving("p", "a", 3000), moving("q", "b", 2000), moving("r", "c", 1000)]
    snapshot = snapshots.build_snapshot([node("a"), node("b"), node("c")], pods)
    simulate = simulator(snapshot).simulate
    removal = simulate("a")
    assert removal.is_removable
    assert [snapshot.pod(row).name for row in removal.moves.move] == ["p"]
    assert whereabouts(snapshot) == {"p": "c", "q": "b", "r": "c"}
    assert simulate("b").reason is UnremovableReason.NO_PLACE_TO_MOVE_PODS
    assert simulate("a").reason is UnremovableReason.NO_NODE_INFO


def test_a_node_whose_pods_find_no_place_is_left_as_it_was() -> None:
    pods = [moving("p", "a", 500), moving("huge", "a", 3500), moving("q", "b", 2000), moving("r", "b")]
    snapshot = snapshots.build_snapshot([node("a"), node("b"), node("c", cpu=600)], pods)
    before = column_values.freeze(snapshot)
    removal = simulator(snapshot).simulate("a")
    assert removal.reason is UnremovableReason.NO_PLACE_TO_MOVE_PODS
    assert removal.homeless is not None
    assert snapshot.pod(removal.homeless).name == "huge"
    assert column_values.freeze(snapshot) == before
    assert snapshot.forks == 0


def test_a_refused_candidate_is_still_a_destination_for_others() -> None:
    snapshot = snapshots.build_snapshot(
        [node("a"), node("b", cpu=1000)], [moving("p", "a", 3000), moving("q", "b", 1000)]
    )
    simulate = simulator(snapshot).simulate
    assert not simulate("a").is_removable
    assert simulate("b").is_removable
    assert whereabouts(snapshot) == {"p": "a", "q": "a"}


def test_pods_of_daemonsets_do_not_look_for_a_place() -> None:
    daemon = pod("agent", on="a", owner=AGENT, cpu=4000)
    snapshot = snapshots.build_snapshot([node("a"), node("b", cpu=100)], [daemon])
    removal = simulator(snapshot).simulate("a")
    assert removal.is_removable
    assert [snapshot.pod(row).name for row in removal.moves.daemonset] == ["agent"]


def test_a_pod_that_nobody_would_replace_blocks_its_node() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("bare", on="a")])
    removal = simulator(snapshot).simulate("a")
    assert removal.reason is UnremovableReason.BLOCKED_BY_POD
    assert whereabouts(snapshot) == {"bare": "a"}


def test_the_ghost_keeps_its_topology_domain_while_its_pods_look_for_places() -> None:
    spec = facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),))
    pods = [moving("p", "a", spec=spec, app="a"), moving("q", "b", spec=spec, app="a")]
    nodes = [node("a", zone="x"), node("b", zone="y")]
    # Zone y would hold none and zone x two: the ghost's zone still counts.
    assert (
        simulator(snapshots.build_snapshot(nodes, pods)).simulate("b").reason is UnremovableReason.NO_PLACE_TO_MOVE_PODS
    )
    # A constraint that honours taints does not count the ghost, which carries one.
    honest = facts.PodSpec(spread=(facts.SpreadConstraint(facts.ZONE, 1, selector(app="a"), honor_taints=True),))
    pods = [replace(one, spec=honest) for one in pods]
    assert simulator(snapshots.build_snapshot(nodes, pods)).simulate("b").is_removable


def test_once_gone_a_node_is_no_domain_any_more() -> None:
    spec = facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),))
    nodes = [node("a", zone="x"), node("b", zone="y"), node("c", zone="x")]
    snapshot = snapshots.build_snapshot(nodes, [moving(name, "a", spec=spec, app="a") for name in "pq"])
    simulate = simulator(snapshot).simulate
    assert simulate("b").is_removable
    assert simulate("a").is_removable  # only zone x is left, so two in it are no skew
    assert whereabouts(snapshot) == {"p": "c", "q": "c"}


def test_nothing_goes_to_the_ghost_not_even_what_tolerates_everything() -> None:
    spec = facts.PodSpec(tolerations=(facts.Toleration("", "Exists", "", ""),), requests=(("cpu", 3000),))
    snapshot = snapshots.build_snapshot([node("a"), node("b", cpu=1000)], [moving("p", "a", spec=spec)])
    assert simulator(snapshot).simulate("a").reason is UnremovableReason.NO_PLACE_TO_MOVE_PODS


def test_pods_keep_their_distance_while_they_move() -> None:
    apart = facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, app="a"),))
    pods = [moving("p", "a", spec=apart, app="a"), moving("q", "b", spec=apart, app="a")]
    assert simulator(snapshots.build_snapshot([node("a"), node("b"), node("c")], pods)).simulate("a").is_removable
    assert not simulator(snapshots.build_snapshot([node("a"), node("b")], pods)).simulate("a").is_removable


@dataclass(frozen=True, slots=True)
class Plain:
    """What became of a candidate when its pods were moved one by one."""

    removable: bool
    homes: Counter[tuple[int, int]]


def remove_plainly(snapshot: Snapshot, name: str, pointer: int, gone: set[int]) -> tuple[Plain, int]:
    row = snapshot.nodes.rows[name]
    snapshot.fork()
    pods = snapshot.clear_node(row)
    snapshot.mark_deleting(row)
    usable = snapshot.nodes.alive & ~snapshot.nodes.unschedulable
    usable[[row, *gone]] = False
    homes: Counter[tuple[int, int]] = Counter()
    for groups in hinting.group_by_priority(snapshot, pods):
        for shape, alike in hinting.sort_by_size(snapshot, groups):
            taken = oracle.place(snapshot, shape, len(alike), pointer, usable)
            pointer = taken[-1] if taken else pointer
            homes.update((shape.id, home) for home in taken)
            if len(taken) < len(alike):
                snapshot.revert()
                return Plain(False, Counter()), pointer
    snapshot.revert()
    return Plain(True, homes), pointer


@given(strategies.clusters(nodes=5, bound=8, pending=1, roomy=True), st.permutations(strategies.NODE_NAMES[:5]))
@strategies.examples(80)
def test_candidates_come_out_as_when_their_pods_move_one_by_one(objects: Objects, order: list[str]) -> None:
    read = cluster_dump.read_objects(objects.all)
    read.pods = [replace(one, owner=APP, deleted_s=None) for one in read.pods]
    snapshot = cluster_dump.build_snapshot(read)
    simulate, pointer, gone = simulator(snapshot).simulate, -1, set[int]()
    for name in [name for name in order if name in snapshot.nodes.rows]:
        before, row = column_values.freeze(snapshot), snapshot.nodes.rows[name]
        expected, pointer = remove_plainly(snapshot, name, pointer, gone)
        assert column_values.freeze(snapshot) == before
        answer = simulate(name)
        assert answer.is_removable == expected.removable
        if not answer.is_removable:
            assert column_values.freeze(snapshot) == before
            continue
        gone.add(row)
        moved = [(int(snapshot.pods.shape_ids[item]), int(snapshot.pods.node_rows[item])) for item in answer.moves.move]
        assert Counter(moved) == expected.homes
        assert not snapshot.nodes.alive[row]
        assert snapshot.pods_on(row) == []
