"""NodeAffinity: nodeSelector, terms, expressions, names; and what a profile adds."""

import pytest

from tests.builders import evaluate, feasible, node, pod
from windlass.engine.model import facts, settings
from windlass.engine.predicates import node_affinity, registry
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

NODES = [node("a", labels={"size": "5", "disk": "ssd"}), node("b", labels={"size": "x"}), node("c")]


def wanting(*terms: NodeSelectorTerm, **selector: str) -> facts.Pod:
    affinity = NodeSelector(terms) if terms else None
    return pod("p", spec=facts.PodSpec(node_selector=tuple(sorted(selector.items())), node_affinity=affinity))


def labelled(key: str, operator: Operator, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions=(Requirement(key, operator, values),))


def named(operator: Operator, *names: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(fields=tuple(Requirement("metadata.name", operator, (name,)) for name in names))


@pytest.mark.parametrize(
    ("term", "matching"),
    [
        (labelled("size", Operator.IN, "5", "7"), {"a"}),
        (labelled("size", Operator.NOT_IN, "5"), {"b", "c"}),
        (labelled("size", Operator.EXISTS), {"a", "b"}),
        (labelled("size", Operator.DOES_NOT_EXIST), {"c"}),
        (labelled("size", Operator.GT, "4"), {"a"}),
        (labelled("size", Operator.GT, "5"), set()),
        (labelled("size", Operator.LT, "6"), {"a"}),
        (labelled("nobody-has-it", Operator.NOT_IN, "v"), {"a", "b", "c"}),
        (named(Operator.IN, "b"), {"b"}),
        (named(Operator.NOT_IN, "b"), {"a", "c"}),
        (NodeSelectorTerm(), set()),
    ],
)
def test_a_term_matches_by_labels_or_by_name(term: NodeSelectorTerm, matching: set[str]) -> None:
    assert feasible(snapshots.build_snapshot(NODES, []), wanting(term)) == matching


@pytest.mark.parametrize("value", ["4.5", "9223372036854775808", "4 ", ""])
def test_only_64_bit_integers_are_compared(value: str) -> None:
    snapshot = snapshots.build_snapshot([node("a", labels={"size": value})], [])
    assert feasible(snapshot, wanting(labelled("size", Operator.GT, "0"))) == set()
    assert feasible(snapshot, wanting(labelled("size", Operator.LT, "9000000000"))) == set()


def test_any_term_will_do_but_all_of_a_term_must_hold_and_the_selector_too() -> None:
    both = NodeSelectorTerm((Requirement("size", Operator.EXISTS), Requirement("disk", Operator.EXISTS)))
    snapshot = snapshots.build_snapshot(NODES, [])
    assert feasible(snapshot, wanting(both, named(Operator.IN, "c"))) == {"a", "c"}
    assert feasible(snapshot, wanting(both, named(Operator.IN, "c"), disk="ssd")) == {"a"}
    assert feasible(snapshot, wanting(disk="hdd")) == set()


def test_an_affinity_without_terms_matches_no_node() -> None:
    nobody = pod("p", spec=facts.PodSpec(node_affinity=NodeSelector(())))
    assert evaluate(snapshots.build_snapshot(NODES, []), nobody) == dict.fromkeys("abc", node_affinity.MISMATCH)


def test_nodes_outside_those_that_all_terms_name_are_not_even_looked_at() -> None:
    refusals = evaluate(snapshots.build_snapshot(NODES, []), wanting(named(Operator.IN, "a"), named(Operator.IN, "b")))
    assert refusals == {"a": None, "b": None, "c": registry.PreFilterResult(frozenset("ab"), ("NodeAffinity",)).outside}
    mixed = evaluate(
        snapshots.build_snapshot(NODES, []), wanting(named(Operator.IN, "a"), labelled("disk", Operator.EXISTS))
    )
    assert mixed == {"a": None, "b": node_affinity.MISMATCH, "c": node_affinity.MISMATCH}


def test_terms_that_name_contradicting_nodes_refuse_the_pod_everywhere() -> None:
    refusals = evaluate(snapshots.build_snapshot(NODES, []), wanting(named(Operator.IN, "a", "b")))
    assert refusals == dict.fromkeys("abc", node_affinity.CONFLICT)


def test_a_profile_can_add_affinity_for_every_pod() -> None:
    profile = settings.FilterConfig(added_affinity=NodeSelector((labelled("disk", Operator.IN, "ssd"),)))
    refusals = evaluate(snapshots.build_snapshot(NODES, []), wanting(size="5"), profile)
    assert refusals == {"a": None, "b": node_affinity.ENFORCED, "c": node_affinity.ENFORCED}


def test_appended_nodes_are_selected_by_their_own_name_and_hostname() -> None:
    snapshot = snapshots.build_snapshot(NODES, [])
    by_name, by_host = wanting(named(Operator.IN, "new-1")), wanting(**{facts.HOSTNAME: "new-0"})
    assert feasible(snapshot, by_name) == feasible(snapshot, by_host) == set()
    snapshot.fork()
    snapshot.append(node("template"), ["new-0", "new-1"])
    assert feasible(snapshot, by_name) == {"new-1"}
    assert feasible(snapshot, by_host) == {"new-0"}
    snapshot.revert()
    assert feasible(snapshot, by_name) == feasible(snapshot, by_host) == set()
