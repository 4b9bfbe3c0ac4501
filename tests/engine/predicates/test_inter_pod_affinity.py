"""InterPodAffinity: who must be near whom, who must not, and whom others keep away."""

from tests.builders import evaluate, feasible, node, pod, selector, term
from windlass import scheduler_releases
from windlass.engine.model import facts, settings
from windlass.engine.model.facts import HOSTNAME, ZONE, PodAffinityTerm
from windlass.engine.predicates import inter_pod_affinity
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import EVERYTHING, LabelSelector, Operator, Requirement

NODES = [node("a1", zone="x"), node("a2", zone="x"), node("b1", zone="y"), node("nowhere")]


def near(*terms: PodAffinityTerm, **labels: str) -> facts.Pod:
    return pod("p", labels=labels, spec=facts.PodSpec(affinity=terms))


def away(*terms: PodAffinityTerm, name: str = "p", on: str = "", namespace: str = "default") -> facts.Pod:
    return pod(name, on=on, namespace=namespace, spec=facts.PodSpec(anti_affinity=terms))


def in_namespaces(operator: Operator, *values: str) -> PodAffinityTerm:
    label_selector = LabelSelector((Requirement("env", operator, values),))
    return PodAffinityTerm(HOSTNAME, selector(app="a"), (), label_selector)


def test_since_1_37_a_namespace_selector_selects_namespaces_that_exist_by_their_labels() -> None:
    places = (("a1", "dev"), ("b1", "x"))
    runs = [pod(f"on-{on}", on=on, labels={"app": "a"}, namespace=namespace) for on, namespace in places]
    namespaces = [facts.Namespace("dev", {"env": "dev"})]
    unlike = away(in_namespaces(Operator.NOT_IN, "dev"))
    every = away(PodAffinityTerm(HOSTNAME, selector(app="a"), (), EVERYTHING))
    older = snapshots.build_snapshot(NODES, runs, namespaces)
    newer = snapshots.build_snapshot(NODES, runs, namespaces, release=scheduler_releases.NEWEST_RELEASE)
    assert feasible(older, unlike) == {"a2", "nowhere"}
    assert feasible(newer, unlike) == {"a1", "a2", "b1", "nowhere"}
    assert feasible(older, every) == feasible(newer, every) == {"a2", "nowhere"}


def test_affinity_wants_a_pod_in_the_domain() -> None:
    snapshot = snapshots.build_snapshot(NODES, [pod("q", on="a1", labels={"app": "a"})])
    assert feasible(snapshot, near(term(ZONE, app="a"))) == {"a1", "a2"}
    assert evaluate(snapshot, near(term(HOSTNAME, app="a")))["a2"] == inter_pod_affinity.AFFINITY


def test_one_pod_must_match_all_terms() -> None:
    halves = [pod("q", on="a1", labels={"app": "a"}), pod("r", on="a1", labels={"tier": "t"})]
    wanted = near(term(ZONE, app="a"), term(ZONE, tier="t"))
    assert feasible(snapshots.build_snapshot(NODES, halves), wanted) == set()
    whole = pod("s", on="a2", labels={"app": "a", "tier": "t"})
    assert feasible(snapshots.build_snapshot(NODES, [*halves, whole]), wanted) == {"a1", "a2"}


def test_the_first_of_its_kind_may_go_anywhere_that_has_the_key() -> None:
    empty = snapshots.build_snapshot(NODES, [])
    assert feasible(empty, near(term(ZONE, app="a"), app="a")) == {"a1", "a2", "b1"}
    assert feasible(empty, near(term(ZONE, app="a"), app="b")) == set()
    second = snapshots.build_snapshot(NODES, [pod("q", on="b1", labels={"app": "a"})])
    assert feasible(second, near(term(ZONE, app="a"), app="a")) == {"b1"}


def test_a_match_on_a_node_without_the_key_does_not_end_the_first_pod_rule() -> None:
    snapshot = snapshots.build_snapshot(NODES, [pod("q", on="nowhere", labels={"app": "a"})])
    assert feasible(snapshot, near(term(ZONE, app="a"), app="a")) == {"a1", "a2", "b1"}


def test_anti_affinity_closes_the_domain_and_terminating_pods_count() -> None:
    snapshot = snapshots.build_snapshot(NODES, [pod("q", on="a1", labels={"app": "a"}, deleted_s=1.0)])
    refusals = evaluate(snapshot, away(term(ZONE, app="a")))
    assert refusals == {
        "a1": inter_pod_affinity.ANTI_AFFINITY,
        "a2": inter_pod_affinity.ANTI_AFFINITY,
        "b1": None,
        "nowhere": None,
    }


def test_pods_that_are_there_keep_others_away_by_their_own_anti_affinity() -> None:
    snapshot = snapshots.build_snapshot(NODES, [away(term(ZONE, app="a"), name="hermit", on="a1")])
    assert evaluate(snapshot, pod("p", labels={"app": "a"}))["a2"] == inter_pod_affinity.SYMMETRY
    assert feasible(snapshot, pod("p", labels={"app": "b"})) == {"a1", "a2", "b1", "nowhere"}
    snapshot.remove_pod(pod("hermit").uid)
    assert feasible(snapshot, pod("p", labels={"app": "a"})) == {"a1", "a2", "b1", "nowhere"}


def test_a_term_looks_at_its_own_namespace_unless_it_names_others() -> None:
    there = [pod("q", on="a1", namespace="prod", labels={"app": "a"})]
    snapshot = snapshots.build_snapshot(NODES[:1], there)
    assert feasible(snapshot, away(term(HOSTNAME, app="a"))) == {"a1"}
    assert feasible(snapshot, away(term(HOSTNAME, "prod", app="a"))) == set()


def test_an_empty_namespace_selector_means_all_namespaces_and_an_absent_selector_nobody() -> None:
    snapshot = snapshots.build_snapshot(NODES[:1], [pod("q", on="a1", namespace="prod", labels={"app": "a"})])
    assert feasible(snapshot, away(PodAffinityTerm(HOSTNAME, selector(app="a"), (), EVERYTHING))) == set()
    assert feasible(snapshot, away(PodAffinityTerm(HOSTNAME, None, ("prod",)))) == {"a1"}
    assert feasible(snapshot, away(PodAffinityTerm(HOSTNAME, EVERYTHING, ("prod",)))) == set()


def test_a_namespace_selector_that_no_labels_satisfy_too_matches_every_namespace_in_own_terms_only() -> None:
    namespaces = [facts.Namespace("prod", {"env": "prod"}), facts.Namespace("default", {"env": "prod"})]
    own = snapshots.build_snapshot(NODES[:1], [pod("q", on="a1", namespace="prod", labels={"app": "a"})], namespaces)
    assert feasible(own, away(in_namespaces(Operator.NOT_IN, "prod"))) == set()
    assert feasible(own, away(in_namespaces(Operator.IN, "dev"))) == {"a1"}
    hermit = away(in_namespaces(Operator.NOT_IN, "prod"), name="hermit", on="a1", namespace="prod")
    carried = snapshots.build_snapshot(NODES[:1], [hermit], namespaces)
    assert feasible(carried, pod("p", labels={"app": "a"})) == {"a1"}


def test_an_unknown_namespace_has_no_labels() -> None:
    hermit = away(in_namespaces(Operator.DOES_NOT_EXIST), name="hermit", on="a1", namespace="lab")
    snapshot = snapshots.build_snapshot(NODES[:1], [hermit])
    assert feasible(snapshot, pod("p", labels={"app": "a"})) == set()
    wanted = pod("q", on="a1", namespace="lab", labels={"app": "a"})
    own = snapshots.build_snapshot(NODES[:1], [wanted])
    assert feasible(own, away(in_namespaces(Operator.EXISTS))) == {"a1"}


def test_each_of_several_pods_keeps_others_away_from_its_own_domain() -> None:
    hermits = [away(term(ZONE, app="a"), name="hermit", on="a1"), away(term(HOSTNAME, app="a"), name="other", on="b1")]
    snapshot = snapshots.build_snapshot([*NODES, node("c1", zone="z")], hermits)
    assert feasible(snapshot, pod("p", labels={"app": "a"})) == {"nowhere", "c1"}


def test_one_node_is_explained_as_many_are() -> None:
    snapshot = snapshots.build_snapshot(NODES, [pod("q", on="a1", labels={"app": "a"})])
    shape = snapshot.shape_of(near(term(HOSTNAME, app="a")))
    rows = list(range(1, len(NODES)))
    together = inter_pod_affinity.explain_rows(snapshot, shape, rows, settings.DEFAULT_FILTER_CONFIG)
    assert [
        inter_pod_affinity.explain(snapshot, shape, row, settings.DEFAULT_FILTER_CONFIG) for row in rows
    ] == together
    assert together == [inter_pod_affinity.AFFINITY] * 3


def test_every_key_that_terms_name_must_be_there_and_occupied() -> None:
    wanted = near(term(ZONE, app="a"), term(HOSTNAME, app="a"))
    assert feasible(snapshots.build_snapshot(NODES, [pod("q", on="a1", labels={"app": "a"})]), wanted) == {"a1"}
    first = near(term(ZONE, app="a"), term("rack", app="a"), app="a")
    racked = [*NODES[:1], node("r1", zone="x", labels={"rack": "r"}), node("r2", labels={"rack": "r"})]
    assert feasible(snapshots.build_snapshot(racked, []), first) == {"r1"}


def test_what_a_pod_wants_near_and_what_it_keeps_away_from_both_count() -> None:
    there = [pod("q", on="a1", labels={"app": "a"}), pod("r", on="a2", labels={"tier": "t"})]
    spec = facts.PodSpec(affinity=(term(ZONE, app="a"),), anti_affinity=(term(HOSTNAME, tier="t"),))
    assert feasible(snapshots.build_snapshot(NODES, there), pod("p", spec=spec)) == {"a1"}


def test_the_first_of_its_kind_must_match_all_of_its_own_terms() -> None:
    wanted = (term(ZONE, app="a"), term(ZONE, tier="t"))
    assert feasible(snapshots.build_snapshot(NODES, []), near(*wanted, app="a")) == set()
    assert feasible(snapshots.build_snapshot(NODES, []), near(*wanted, app="a", tier="t")) == {"a1", "a2", "b1"}
