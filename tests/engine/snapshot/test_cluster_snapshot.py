"""The snapshot, by behaviour: what comes, goes, comes back and is undone."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.builders import evaluate, feasible, node, pod, selector, spread, term
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot import topology_counts, volume_usage
from windlass.selectors import LabelSelector, Operator, Requirement


def free_cpu(snapshot: snapshots.Snapshot, name: str) -> int:
    return int(snapshot.nodes.free[snapshot.nodes.resource_column("cpu"), snapshot.nodes.rows[name]])


def names_on(snapshot: snapshots.Snapshot, name: str) -> list[str]:
    return [snapshot.pod(row).name for row in snapshot.pods_on(snapshot.nodes.rows[name])]


# ── Facts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pods_that_arrive_before_their_node_are_counted_once_it_is_there() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="b", cpu=1000), pod("q", on="b", cpu=500)])
    assert snapshot.pending() == []
    snapshot.add_node(node("b"))
    assert free_cpu(snapshot, "b") == 2500
    assert names_on(snapshot, "b") == ["p", "q"]


@pytest.mark.parametrize("cpu", [2**62, 2**63 - 1, 2**64, 10**5000], ids=("2^62", "2^63-1", "2^64", "10^5000"))
def test_pods_that_ask_for_more_than_any_number_holds_leave_no_room(cpu: int) -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod(f"p{number}", on="a", cpu=cpu) for number in range(5)])
    assert free_cpu(snapshot, "a") < 0
    assert not feasible(snapshot, pod("q", cpu=1))
    assert not feasible(snapshot, pod("r", cpu=cpu))


def test_a_node_that_leaves_and_comes_back_finds_its_pods_again() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("p", on="a", cpu=1000)])
    snapshot.remove_node("a")
    assert list(evaluate(snapshot, pod("q"))) == ["b"]
    snapshot.add_node(node("c"))
    assert free_cpu(snapshot, "c") == 4000
    snapshot.add_node(node("a", cpu=2000))
    assert free_cpu(snapshot, "a") == 1000
    assert names_on(snapshot, "a") == ["p"]


def test_a_pod_that_goes_while_its_node_is_away_is_gone_when_the_node_returns() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a", cpu=1000)])
    snapshot.remove_node("a")
    snapshot.remove_pod(pod("p").uid)
    snapshot.add_node(node("a"))
    assert names_on(snapshot, "a") == []
    assert free_cpu(snapshot, "a") == 4000


def test_a_row_taken_over_keeps_nothing_of_the_node_before() -> None:
    apart = facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),))
    tainted = node("a", zone="x", taints=(facts.Taint("k", "v", "NoSchedule"),), unschedulable=True, more={"gpu": 2})
    snapshot = snapshots.build_snapshot([tainted], [pod("p", on="a", spec=apart)])
    assert feasible(snapshot, pod("q", labels={"app": "a"})) == set()
    snapshot.remove_node("a")
    snapshot.add_node(node("b"))
    assert snapshot.nodes.rows == {"b": 0}
    assert feasible(snapshot, pod("q", labels={"app": "a"})) == {"b"}
    assert feasible(snapshot, pod("q", more={"gpu": 1})) == set()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_hold_nothing(phase: str) -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a", cpu=1000)])
    snapshot.add_pod(pod("p", on="a", cpu=1000, phase=phase))
    assert free_cpu(snapshot, "a") == 4000
    assert names_on(snapshot, "a") == []
    assert len(snapshot.pods) == 0


def test_new_facts_of_a_node_keep_what_its_pods_use() -> None:
    snapshot = snapshots.build_snapshot([node("a", more={"gpu": 4})], [pod("p", on="a", cpu=1000, more={"gpu": 1})])
    snapshot.add_node(node("a", cpu=500))
    assert free_cpu(snapshot, "a") == -500
    assert feasible(snapshot, pod("q", more={"gpu": 1})) == set()
    snapshot.add_node(node("a", more={"gpu": 2, "fpga": 1}))
    assert free_cpu(snapshot, "a") == 3000
    assert feasible(snapshot, pod("q", more={"gpu": 1, "fpga": 1})) == {"a"}
    assert feasible(snapshot, pod("q", more={"gpu": 2})) == set()


def test_new_facts_of_a_pod_replace_the_old() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("p", on="a", cpu=1000)])
    snapshot.add_pod(pod("p", on="b", cpu=2000))
    assert (free_cpu(snapshot, "a"), free_cpu(snapshot, "b")) == (4000, 2000)
    assert len(snapshot.pods) == 1


def test_labels_that_nobody_selects_on_make_no_difference_until_somebody_does() -> None:
    pods = [pod(f"p{number}", on="a", labels={"ordinal": str(number)}) for number in range(3)]
    snapshot = snapshots.build_snapshot([node("a", zone="x"), node("b", zone="y")], pods)
    assert len(snapshot.shapes) == 1
    away_from_1 = pod("q", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, ordinal="1"),)))
    assert feasible(snapshot, away_from_1) == {"b"}
    snapshot.remove_pod(pods[1].uid)
    assert feasible(snapshot, away_from_1) == {"a", "b"}


def test_labels_of_pods_that_wait_for_their_node_are_keyed_anew_too() -> None:
    snapshot = snapshots.build_snapshot([node("b", zone="y")], [pod("p", on="a", labels={"ordinal": "1"})])
    away = pod("q", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, ordinal="1"),)))
    assert feasible(snapshot, away) == {"b"}
    snapshot.add_node(node("a", zone="y"))
    assert feasible(snapshot, away) == set()


def test_a_selector_on_unseen_labels_is_refused_inside_a_fork_every_time() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a", labels={"ordinal": "1"})])
    away = pod("q", spec=facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, ordinal="1"),)))
    snapshot.fork()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inside a fork"):
            snapshot.shape_of(away)
    snapshot.revert()
    assert feasible(snapshot, away) == set()


def test_namespaces_that_change_their_labels_are_selected_anew() -> None:
    teams = LabelSelector((Requirement("team", Operator.IN, ("a",)),))
    by_team = facts.PodAffinityTerm(facts.HOSTNAME, selector(app="a"), (), teams)
    away = pod("q", spec=facts.PodSpec(anti_affinity=(by_team,)))
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a", namespace="prod", labels={"app": "a"})])
    assert feasible(snapshot, away) == {"a"}
    snapshot.set_namespaces([facts.Namespace("prod", {"team": "a"})])
    assert feasible(snapshot, away) == set()
    snapshot.set_namespaces([facts.Namespace("prod", {"team": "b"})])
    assert feasible(snapshot, away) == {"a"}


def test_namespaces_that_change_their_labels_are_repelled_anew() -> None:
    teams = LabelSelector((Requirement("team", Operator.IN, ("a",)),))
    by_team = facts.PodAffinityTerm(facts.HOSTNAME, selector(app="a"), (), teams)
    hermit = pod("hermit", on="a", spec=facts.PodSpec(anti_affinity=(by_team,)))
    snapshot = snapshots.build_snapshot([node("a")], [hermit], [facts.Namespace("prod", {"team": "a"})])
    repelled = pod("q", namespace="prod", labels={"app": "a"})
    assert feasible(snapshot, repelled) == set()
    snapshot.set_namespaces([facts.Namespace("prod", {"team": "b"})])
    assert feasible(snapshot, repelled) == {"a"}
    snapshot.set_namespaces([facts.Namespace("prod", {"team": "a"})])
    assert feasible(snapshot, repelled) == set()


def test_changing_namespaces_over_and_over_takes_no_more_memory() -> None:
    snapshot = snapshots.build_snapshot([node("a", zone="x")], [pod("p", on="a", labels={"app": "a"})])
    constraints = [spread(facts.ZONE, 1, selector(app="a", i=str(i))) for i in range(9)]
    spreading = [
        pod("q", labels={"app": "a"}, spec=facts.PodSpec(spread=(spread_constraint,)))
        for spread_constraint in constraints
    ]
    highest = set()
    for number in range(30):
        snapshot.set_namespaces([facts.Namespace("default", {"generation": str(number)})])
        for wanted in spreading:
            evaluate(snapshot, wanted)
        highest.add(max(snapshot.topology_counts.row(key) for key in _spread_tallies(spreading)))
    assert len(highest) == 1


def _spread_tallies(pods: list[facts.Pod]) -> list[topology_counts.SelectedPods]:
    selected_podses = [
        topology_counts.make_spread_count(one.namespace, constraint.selector)
        for one in pods
        for constraint in one.spec.spread
    ]
    return [tally for tally in selected_podses if tally is not None]


# ── What-ifs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_appended_nodes_have_hostnames_of_their_own_and_are_cut_off_again() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    snapshot.fork()
    rows = snapshot.append(node("template", zone="x"), ["new-0", "new-1"])
    assert [snapshot.nodes.names[row] for row in rows] == ["new-0", "new-1"]
    assert len({int(snapshot.nodes.label_ids(facts.HOSTNAME)[row]) for row in rows}) == 2
    snapshot.revert()
    assert list(evaluate(snapshot, pod("p"))) == ["a"]
    assert snapshot.nodes.rows == {"a": 0}


def test_nodes_are_appended_inside_a_fork_only_and_under_names_of_their_own() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    with pytest.raises(RuntimeError, match="inside a fork"):
        snapshot.append(node("template"), ["new-0"])
    snapshot.fork()
    with pytest.raises(ValueError, match="'a'"):
        snapshot.append(node("template"), ["new-0", "a"])
    snapshot.append(node("template"), ["new-0"])
    with pytest.raises(ValueError, match="'new-0'"):
        snapshot.append(node("template"), ["new-0"])
    snapshot.revert()
    assert snapshot.nodes.rows == {"a": 0}


def test_disks_imagined_on_appended_nodes_are_let_go_with_them() -> None:
    disk = facts.Volume("v", "persistentVolumeClaim", claim="c")
    snapshot = snapshots.build_snapshot([node("a")], [])
    shape = snapshot.shape_of(pod("p", spec=facts.PodSpec(volumes=(disk,))))
    snapshot.fork()
    rows = snapshot.append(node("template"), ["new-0", "new-1"])
    snapshot.place_many(shape, np.array(rows), np.ones(2, np.int64))
    snapshot.revert()
    assert list(snapshot.topology_counts.held.rows(volume_usage.ClaimReference("default", "c"))) == []


def test_an_inner_revert_undoes_the_inner_what_if_alone() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    shape = snapshot.shape_of(pod("p", cpu=1000))
    snapshot.fork()
    snapshot.place(shape, 0)
    snapshot.fork()
    snapshot.place(shape, 0, 2)
    assert free_cpu(snapshot, "a") == 1000
    snapshot.revert()
    assert free_cpu(snapshot, "a") == 3000
    snapshot.fork()
    snapshot.place(shape, 0)
    snapshot.commit()
    assert free_cpu(snapshot, "a") == 2000
    snapshot.revert()
    assert free_cpu(snapshot, "a") == 4000
    assert snapshot.forks == 0


def test_lifting_and_reverting_keeps_the_order_of_arrival() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod(name, on="a") for name in "pqr"])
    snapshot.fork()
    snapshot.unbind(snapshot.pods.rows[pod("q").uid])
    assert names_on(snapshot, "a") == ["p", "r"]
    snapshot.revert()
    assert names_on(snapshot, "a") == ["p", "q", "r"]


def test_a_question_first_asked_inside_a_what_if_is_answered_right_after_it() -> None:
    apart = pod("q", labels={"app": "a"}, spec=facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, app="a"),)))
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("p", on="a", labels={"app": "a"})])
    shape = snapshot.shape_of(apart)
    snapshot.fork()
    snapshot.place(snapshot.shape_of(pod("x", labels={"app": "a"})), 1)
    snapshot.clear_node(0)
    assert feasible(snapshot, apart) == {"a"}
    snapshot.place(shape, 0)
    assert feasible(snapshot, apart) == set()
    snapshot.revert()
    assert feasible(snapshot, apart) == {"b"}


def test_a_node_being_emptied_takes_only_pods_that_tolerate_it_and_a_retired_one_none() -> None:
    brave = facts.PodSpec(tolerations=(facts.Toleration("", "Exists", "", ""),))
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [])
    snapshot.fork()
    snapshot.mark_deleting(0)
    assert feasible(snapshot, pod("p")) == {"b"}
    assert feasible(snapshot, pod("p", spec=brave)) == {"a", "b"}
    snapshot.mark_gone(0)
    assert feasible(snapshot, pod("p", spec=brave)) == {"b"}
    snapshot.revert()
    assert feasible(snapshot, pod("p")) == {"a", "b"}


def test_pods_on_a_retired_node_count_for_nothing() -> None:
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
    apart = facts.PodSpec(anti_affinity=(term(facts.ZONE, app="b"),))
    snapshot = snapshots.build_snapshot(nodes, [pod("p", on="a", labels={"app": "a"}), pod("h", on="a", spec=apart)])
    away = pod("q", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),)))
    near = pod("q", spec=facts.PodSpec(affinity=(term(facts.ZONE, app="a"),)))
    even = pod("q", labels={"app": "a"}, spec=facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),)))
    asked = (away, near, even, pod("q", labels={"app": "b"}))
    assert [feasible(snapshot, one) for one in asked] == [{"c"}, {"a", "b"}, {"c"}, {"c"}]
    snapshot.fork()
    snapshot.mark_gone(0)
    assert [feasible(snapshot, one) for one in asked] == [{"b", "c"}, set(), {"b", "c"}, {"b", "c"}]
    snapshot.revert()
    assert [feasible(snapshot, one) for one in asked] == [{"c"}, {"a", "b"}, {"c"}, {"c"}]


def test_a_pod_can_be_put_together_again_as_it_was_observed() -> None:
    full = replace(
        pod("p", on="a", labels={"app": "a", "own": "p"}, deleted_s=7.0, cpu=100),
        annotations={"k": "v"}, owner=facts.Owner("apps/v1", "ReplicaSet", "rs", "u"), digest="d", nominated_node="n",
        scheduler="other", restart_policy="Never", created_s=3.0, grace_s=30.0, unschedulable_since_s=5.0,
    )  # fmt: skip
    snapshot = snapshots.build_snapshot([node("a")], [full])
    assert snapshot.pod(snapshot.pods.rows[full.uid]) == full


# ── Generation ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_change_of_facts_makes_a_generation() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a")])
    changes: list[Callable[[], object]] = [
        lambda: snapshot.add_node(node("b")),
        lambda: snapshot.add_node(node("b", cpu=1)),
        lambda: snapshot.add_pod(pod("q")),
        lambda: snapshot.add_pod(pod("q", on="a")),
        lambda: snapshot.remove_pod(pod("q").uid),
        lambda: snapshot.remove_node("b"),
        lambda: snapshot.set_namespaces([facts.Namespace("default", {"env": "prod"})]),
        lambda: snapshot.storage.put(facts.CSIDriver("driver")),
        lambda: snapshot.storage.remove(facts.CSIDriver("driver")),
    ]
    seen = [snapshot.generation]
    for change in changes:
        change()
        seen.append(snapshot.generation)
    assert seen == sorted(set(seen))


def test_what_a_fork_undoes_makes_no_generation_and_what_it_keeps_makes_one() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a"), pod("q")])
    before = snapshot.generation
    for end in (snapshot.revert, snapshot.commit):
        snapshot.fork()
        snapshot.unbind(snapshot.pods.rows[pod("p").uid])
        snapshot.append(node("template"), ["new"])
        snapshot.mark_gone(0)
        assert snapshot.generation == before
        end()
        assert (snapshot.generation == before) is (end == snapshot.revert)


def test_asking_makes_no_generation() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [pod("p", on="a", labels={"app": "x"})])
    before = snapshot.generation
    snapshot.shape_of(pod("q", spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="x"),))))
    feasible(snapshot, pod("r"))
    snapshot.remove_pod("nobody")
    assert snapshot.generation == before
