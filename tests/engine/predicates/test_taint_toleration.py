"""TaintToleration and NodeUnschedulable: who may go to a node that repels."""

import pytest

from tests.builders import evaluate, feasible, node, pod
from windlass.engine.model import facts
from windlass.engine.model.facts import Taint, Toleration
from windlass.engine.predicates import node_unschedulable, taint_toleration
from windlass.engine.snapshot import cluster_snapshot as snapshots


def tolerating(*tolerations: Toleration) -> facts.Pod:
    return pod("p", spec=facts.PodSpec(tolerations=tolerations))


CASES = [
    (Taint("k", "v", "NoSchedule"), Toleration("k", "Equal", "v", "NoSchedule"), True),
    (Taint("k", "v", "NoSchedule"), Toleration("k", "Equal", "v", ""), True),
    (Taint("k", "v", "NoSchedule"), Toleration("k", "Equal", "other", ""), False),
    (Taint("k", "v", "NoSchedule"), Toleration("other", "Exists", "", ""), False),
    (Taint("k", "v", "NoSchedule"), Toleration("k", "Exists", "", "NoExecute"), False),
    (Taint("k", "v", "NoExecute"), Toleration("k", "Exists", "", "NoExecute"), True),
    (Taint("k", "v", "NoExecute"), Toleration("", "Exists", "", ""), True),
    (Taint("k", "v", "NoSchedule"), Toleration("", "Exists", "", "NoExecute"), False),
    (Taint("k", "", "NoSchedule"), Toleration("k", "Equal", "", ""), True),
    (Taint("k", "v", "PreferNoSchedule"), Toleration("other", "Exists", "", ""), True),
]


@pytest.mark.parametrize(("taint", "toleration", "passes"), CASES)
def test_a_taint_repels_whoever_does_not_tolerate_it(taint: Taint, toleration: Toleration, passes: bool) -> None:
    snapshot = snapshots.build_snapshot([node("a", taints=(taint,))], [])
    assert evaluate(snapshot, tolerating(toleration))["a"] == (None if passes else taint_toleration.REFUSAL)


def test_every_taint_must_be_tolerated_each_by_any_toleration() -> None:
    taint, other = Taint("a", "", "NoSchedule"), Taint("b", "", "NoExecute")
    snapshot = snapshots.build_snapshot(
        [node("both", taints=(taint, other)), node("one", taints=(taint,)), node("none")], []
    )
    a, b = Toleration("a", "Exists", "", ""), Toleration("b", "Exists", "", "")
    assert feasible(snapshot, tolerating()) == {"none"}
    assert feasible(snapshot, tolerating(a)) == {"one", "none"}
    assert feasible(snapshot, tolerating(b, a)) == {"both", "one", "none"}


def test_a_taint_that_comes_or_goes_is_seen_at_once() -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    assert feasible(snapshot, tolerating()) == {"a"}
    snapshot.add_node(node("a", taints=(Taint("k", "", "NoSchedule"),)))
    assert feasible(snapshot, tolerating()) == set()
    snapshot.add_node(node("a"))
    assert feasible(snapshot, tolerating()) == {"a"}


def test_a_cordoned_node_takes_only_pods_that_tolerate_its_taint() -> None:
    snapshot = snapshots.build_snapshot([node("a", unschedulable=True)], [])
    assert evaluate(snapshot, tolerating())["a"] == node_unschedulable.REFUSAL
    key = "node.kubernetes.io/unschedulable"
    assert feasible(snapshot, tolerating(Toleration(key, "Exists", "", "NoSchedule"))) == {"a"}
    assert feasible(snapshot, tolerating(Toleration(key, "Equal", "", ""))) == {"a"}
    assert feasible(snapshot, tolerating(Toleration(key, "Exists", "", "NoExecute"))) == set()
