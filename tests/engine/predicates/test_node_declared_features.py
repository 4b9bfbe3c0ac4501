"""NodeName and NodeDeclaredFeatures: a pod that asks for one node, or for what a node declares."""

from tests.builders import evaluate, node, pod
from windlass import scheduler_releases
from windlass.engine.model import facts
from windlass.engine.predicates import node_declared_features, node_name, node_unschedulable, registry
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement


def test_a_pod_that_names_its_node_runs_there_or_nowhere() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [])
    refusals = evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="b")))
    assert refusals == {"a": node_name.REFUSAL, "b": None}
    refusals = evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="gone")))
    assert refusals == {"a": node_name.REFUSAL, "b": node_name.REFUSAL}


def test_since_1_37_the_named_node_is_the_only_one_that_is_looked_at() -> None:
    nodes = [node("a"), node("b", unschedulable=True)]
    snapshot = snapshots.build_snapshot(nodes, [], release=scheduler_releases.NEWEST_RELEASE)
    outside = registry.PreFilterResult(frozenset("b"), ("NodeName",)).outside
    assert outside.texts == ["node(s) didn't satisfy plugin(s) [NodeName]"]
    refusals = evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="b")))
    assert refusals == {"a": outside, "b": node_unschedulable.REFUSAL}
    assert set(evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="gone"))).values()) == {outside}


def test_since_1_37_a_name_and_an_affinity_by_name_are_intersected() -> None:
    by_name = NodeSelector((NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("a",)),)),))
    snapshot = snapshots.build_snapshot(
        [node("a"), node("b"), node("c")], [], release=scheduler_releases.NEWEST_RELEASE
    )
    both = evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="a", node_affinity=by_name)))
    refusal = both["b"]
    assert refusal is not None
    assert (refusal.rule, refusal.texts) == (
        "NodeAffinity,NodeName", ["node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]"],
    )  # fmt: skip
    assert both == {"a": None, "b": refusal, "c": refusal}
    neither = evaluate(snapshot, pod("p", spec=facts.PodSpec(node_name="b", node_affinity=by_name)))
    texts = {text for one in neither.values() if one is not None for text in one.texts}
    assert texts == {"node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"}
    assert None not in neither.values()


def test_a_node_must_declare_every_feature_that_a_pod_needs() -> None:
    nodes = [node("none"), node("one", features=frozenset({"x"})), node("all", features=frozenset({"x", "y", "z"}))]
    refusals = evaluate(
        snapshots.build_snapshot(nodes, []), pod("p", spec=facts.PodSpec(required_features=frozenset({"x", "y"})))
    )
    assert refusals == {"none": node_declared_features.REFUSAL, "one": node_declared_features.REFUSAL, "all": None}
    refusals = evaluate(
        snapshots.build_snapshot(nodes, []), pod("p", spec=facts.PodSpec(required_features=frozenset({"x"})))
    )
    assert refusals == {"none": node_declared_features.REFUSAL, "one": None, "all": None}
