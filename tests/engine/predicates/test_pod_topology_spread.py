"""PodTopologySpread: which pods count, which domains exist, how far one may be ahead."""

from tests.builders import evaluate, feasible, node, pod, selector, spread
from windlass.engine.model import facts, settings
from windlass.engine.model.facts import HOSTNAME, ZONE, SpreadConstraint, Taint
from windlass.engine.predicates import pod_topology_spread
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

APP = selector(app="a")
NODES = [node("a1", zone="x"), node("a2", zone="x"), node("b1", zone="y")]


def wanting(*constraints: SpreadConstraint, **spec: str) -> facts.Pod:
    chosen = tuple(sorted(spec.items()))
    return pod("p", labels={"app": "a"}, spec=facts.PodSpec(spread=constraints, node_selector=chosen))


def running(name: str, on: str, **more: str) -> facts.Pod:
    return pod(name, on=on, labels={"app": "a"}, namespace=more.get("namespace", "default"))


def test_one_domain_may_be_ahead_by_the_skew_and_no_more() -> None:
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1"), running("r", "a2")])
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP))) == {"b1"}
    assert feasible(snapshot, wanting(spread(ZONE, 2, APP))) == {"b1"}
    assert feasible(snapshot, wanting(spread(ZONE, 3, APP))) == {"a1", "a2", "b1"}


def test_a_pod_that_does_not_match_its_own_selector_weighs_nothing() -> None:
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1")])
    other = pod("p", labels={"app": "b"}, spec=facts.PodSpec(spread=(spread(ZONE, 1, APP),)))
    assert feasible(snapshot, other) == {"a1", "a2", "b1"}


def test_pods_of_other_namespaces_and_terminating_ones_are_not_counted() -> None:
    going = pod("r", on="a1", labels={"app": "a"}, deleted_s=1.0)
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1", namespace="prod"), going])
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP))) == {"a1", "a2", "b1"}


def test_an_empty_selector_counts_nobody_and_an_absent_one_not_even_the_pod() -> None:
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1"), running("r", "a1")])
    assert feasible(snapshot, wanting(spread(ZONE, 1))) == {"a1", "a2", "b1"}
    assert feasible(snapshot, wanting(spread(ZONE, 1, None))) == {"a1", "a2", "b1"}


def test_a_node_without_the_label_is_refused_for_good() -> None:
    refusals = evaluate(snapshots.build_snapshot([*NODES, node("nowhere")], []), wanting(spread(ZONE, 1, APP)))
    assert refusals == {"a1": None, "a2": None, "b1": None, "nowhere": pod_topology_spread.NO_LABEL}


def test_a_node_that_lacks_one_key_counts_for_no_constraint() -> None:
    without_rack = node("b1", zone="y")
    racked = [node("a1", zone="x", labels={"rack": "r"}), without_rack]
    snapshot = snapshots.build_snapshot(racked, [running("q", "a1")])
    # Zone y would be the emptiest; but its only node has no rack, so zone x is all there is.
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP), spread("rack", 5, APP))) == {"a1"}
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP))) == {"b1"}


def test_fewer_domains_than_asked_for_count_as_if_one_were_empty() -> None:
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1"), running("r", "b1")])
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP, domains=2))) == {"a1", "a2", "b1"}
    assert feasible(snapshot, wanting(spread(ZONE, 1, APP, domains=3))) == set()


def test_nodes_that_the_pod_may_not_use_are_no_domains_unless_the_policy_ignores_that() -> None:
    labelled = [node("a1", zone="x", labels={"pool": "p"}), node("b1", zone="y")]
    snapshot = snapshots.build_snapshot(labelled, [running("q", "a1")])
    assert feasible(snapshot, wanting(SpreadConstraint(ZONE, 1, APP), pool="p")) == {"a1"}
    ignoring = SpreadConstraint(ZONE, 1, APP, honor_affinity=False)
    assert evaluate(snapshot, wanting(ignoring, pool="p"))["a1"] == pod_topology_spread.TOO_SKEWED


def test_nodes_that_the_pods_affinity_leaves_out_are_no_domains_either() -> None:
    labelled = [node("a1", zone="x", labels={"pool": "p"}), node("b1", zone="y")]
    pools = NodeSelector((NodeSelectorTerm((Requirement("pool", Operator.IN, ("p",)),)),))
    spec = facts.PodSpec(spread=(SpreadConstraint(ZONE, 1, APP),), node_affinity=pools)
    snapshot = snapshots.build_snapshot(labelled, [running("q", "a1")])
    assert feasible(snapshot, pod("p", labels={"app": "a"}, spec=spec)) == {"a1"}


def test_tainted_nodes_are_domains_unless_the_policy_honours_taints() -> None:
    tainted = [node("a1", zone="x"), node("b1", zone="y", taints=(Taint("k", "", "NoSchedule"),))]
    snapshot = snapshots.build_snapshot(tainted, [running("q", "a1")])
    assert feasible(snapshot, wanting(SpreadConstraint(ZONE, 1, APP))) == set()
    assert feasible(snapshot, wanting(SpreadConstraint(ZONE, 1, APP, honor_taints=True))) == {"a1"}


def test_the_first_constraint_that_fails_gives_the_reason() -> None:
    snapshot = snapshots.build_snapshot([node("a1", zone="x"), node("b1")], [running("q", "a1")])
    refusals = evaluate(snapshot, wanting(spread(HOSTNAME, 5, APP), spread(ZONE, 1, APP, domains=2)))
    assert refusals == {"a1": pod_topology_spread.TOO_SKEWED, "b1": pod_topology_spread.NO_LABEL}


def test_a_profile_can_set_constraints_for_pods_that_have_none() -> None:
    profile = settings.FilterConfig(default_constraints=(spread(ZONE, 1, APP),))
    snapshot = snapshots.build_snapshot(NODES, [running("q", "a1")])
    snapshot.show_labels({"app"})
    assert feasible(snapshot, pod("p", labels={"app": "a"}), profile) == {"b1"}
    assert feasible(snapshot, wanting(spread(ZONE, 9, APP)), profile) == {"a1", "a2", "b1"}


def test_a_node_that_is_being_emptied_is_no_domain_where_taints_are_honoured() -> None:
    snapshot = snapshots.build_snapshot([node("a1", zone="x"), node("b1", zone="y")], [running("q", "a1")])
    ignoring, honouring = (wanting(SpreadConstraint(ZONE, 1, APP, honor_taints=honours)) for honours in (False, True))
    assert feasible(snapshot, ignoring) == feasible(snapshot, honouring) == {"b1"}
    snapshot.fork()
    snapshot.mark_deleting(snapshot.nodes.rows["b1"])
    assert feasible(snapshot, ignoring) == set()
    assert feasible(snapshot, honouring) == {"a1"}
