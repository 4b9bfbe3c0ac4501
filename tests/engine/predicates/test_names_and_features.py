"""NodeName and NodeDeclaredFeatures: a pod that asks for one node, or for what a node declares."""

from tests.builders import judge, node, pod
from windlass.engine import facts
from windlass.engine import snapshot as snapshots
from windlass.engine.predicates import declared_features, node_name


def test_a_pod_that_names_its_node_runs_there_or_nowhere() -> None:
    snapshot = snapshots.build([node("a"), node("b")], [])
    found = judge(snapshot, pod("p", spec=facts.PodSpec(node_name="b")))
    assert found == {"a": node_name.REFUSAL, "b": None}
    found = judge(snapshot, pod("p", spec=facts.PodSpec(node_name="gone")))
    assert found == {"a": node_name.REFUSAL, "b": node_name.REFUSAL}


def test_a_node_must_declare_every_feature_that_a_pod_needs() -> None:
    nodes = [node("none"), node("one", features=frozenset({"x"})), node("all", features=frozenset({"x", "y", "z"}))]
    found = judge(snapshots.build(nodes, []), pod("p", spec=facts.PodSpec(required_features=frozenset({"x", "y"}))))
    assert found == {"none": declared_features.REFUSAL, "one": declared_features.REFUSAL, "all": None}
    found = judge(snapshots.build(nodes, []), pod("p", spec=facts.PodSpec(required_features=frozenset({"x"}))))
    assert found == {"none": declared_features.REFUSAL, "one": None, "all": None}
