"""Filters that have no say: of a pod that asks for nothing, of nodes that a what-if empties, in some profiles."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders import feasible, node, pod, selector, term
from windlass.engine.model import facts, settings
from windlass.engine.model.facts import HOSTNAME, Taint, Toleration
from windlass.engine.predicates import (
    node_affinity,
    node_unschedulable,
    pod_topology_spread,
    registry,
    taint_toleration,
)
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

ALWAYS = ("NodeUnschedulable", "TaintToleration", "NodeResourcesFit")
EVERYTHING = Toleration("", "Exists", "", "")


def on_disk(value: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement("disk", Operator.IN, (value,)),)),))


@pytest.mark.parametrize("rule", registry.FILTERS, ids=lambda rule: rule.NAME)
def test_a_filter_has_no_say_of_a_pod_that_asks_nothing_of_it(rule: registry.Filter) -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("q", on="a", labels={"app": "a"})])
    mask = rule.mask(snapshot, snapshot.shape_of(pod("p")), settings.DEFAULT_FILTER_CONFIG)
    assert (mask is None) == (rule.NAME not in ALWAYS)
    assert mask is None or mask.tolist() == [True, True]


@pytest.mark.parametrize("rule", registry.PRE_FILTERS, ids=lambda rule: rule.NAME)
def test_nothing_is_refused_beforehand_to_a_pod_that_asks_nothing(rule: registry.PreFilter) -> None:
    snapshot = snapshots.build_snapshot([node("a")], [])
    assert rule.pre_filter(snapshot, snapshot.shape_of(pod("p")), settings.DEFAULT_FILTER_CONFIG) is None


def test_whoever_tolerates_everything_is_not_asked_for_cordons() -> None:
    snapshot = snapshots.build_snapshot([node("a", unschedulable=True)], [])
    tolerant = snapshot.shape_of(pod("p", spec=facts.PodSpec(tolerations=(EVERYTHING,))))
    assert node_unschedulable.mask(snapshot, tolerant, settings.DEFAULT_FILTER_CONFIG) is None


SPECS = [
    facts.PodSpec(),
    facts.PodSpec(node_name="b"),
    facts.PodSpec(node_selector=(("disk", "ssd"),)),
    facts.PodSpec(node_affinity=on_disk("hdd")),
    facts.PodSpec(tolerations=(EVERYTHING,)),
    facts.PodSpec(required_features=frozenset({"x"})),
]
PROFILES = [
    settings.DEFAULT_FILTER_CONFIG,
    *(settings.FilterConfig(disabled=frozenset({rule.NAME})) for rule in (*registry.STATIC_FILTERS, taint_toleration)),
    settings.FilterConfig(added_affinity=on_disk("ssd")),
]


def test_what_is_kept_of_one_pod_and_profile_is_not_told_of_another() -> None:
    """Masks are kept by all that they depend on: in any order, each is as if it were asked alone."""
    nodes = [
        node("a", labels={"disk": "ssd"}, features=frozenset({"x"})),
        node("b", labels={"disk": "hdd"}, unschedulable=True),
        node("c", taints=(Taint("k", "", "NoSchedule"),)),
    ]
    together = snapshots.build_snapshot(nodes, [])
    for profile in PROFILES:
        for spec in SPECS:
            alone = feasible(snapshots.build_snapshot(nodes, []), pod("p", spec=spec), profile)
            assert feasible(together, pod("p", spec=spec), profile) == alone
            # The same of another shape, which has all of this in common.
            other = pod("p", spec=replace(spec, requests=(("cpu", 1),)))
            assert feasible(together, other, profile) == alone


def test_what_a_profile_adds_binds_pods_that_ask_for_nothing() -> None:
    snapshot = snapshots.build_snapshot([node("a", labels={"disk": "ssd"}), node("b")], [])
    assert feasible(snapshot, pod("p"), settings.FilterConfig(added_affinity=on_disk("ssd"))) == {"a"}
    both = facts.PodSpec(node_selector=(("disk", "hdd"),))
    assert feasible(snapshot, pod("p", spec=both), settings.FilterConfig(added_affinity=on_disk("ssd"))) == set()


def test_a_node_that_a_what_if_empties_takes_only_pods_that_tolerate_that() -> None:
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [])
    snapshot.fork()
    snapshot.mark_deleting(0)
    assert feasible(snapshot, pod("p")) == {"b"}
    assert feasible(snapshot, pod("p", spec=facts.PodSpec(tolerations=(EVERYTHING,)))) == {"a", "b"}
    untainted = settings.FilterConfig(disabled=frozenset({"TaintToleration"}))
    assert feasible(snapshot, pod("p"), untainted) == {"a", "b"}
    other = facts.PodSpec(tolerations=(Toleration("k", "Exists", "", ""),))
    assert taint_toleration.not_deleting_mask(snapshot, other).tolist() == [False, True]


def test_a_filter_that_the_caller_keeps_current_is_left_out() -> None:
    away = facts.PodSpec(anti_affinity=(term(HOSTNAME, app="a"),))
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [pod("q", on="a", labels={"app": "a"})])
    shape = snapshot.shape_of(pod("p", spec=away))
    assert registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG).tolist() == [False, True]
    assert registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG, ("InterPodAffinity",)).tolist() == [
        True,
        True,
    ]


def test_pods_that_are_refused_beforehand_fit_nowhere() -> None:
    fields = tuple(Requirement("metadata.name", Operator.IN, (name,)) for name in ("a", "b"))
    torn = facts.PodSpec(node_affinity=NodeSelector((NodeSelectorTerm(fields=fields),)))
    snapshot = snapshots.build_snapshot([node("a"), node("b")], [])
    shape = snapshot.shape_of(pod("p", spec=torn))
    assert registry.run_pre_filters(snapshot, shape, settings.DEFAULT_FILTER_CONFIG) == node_affinity.CONFLICT
    assert registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG).tolist() == [False, False]
    silent = settings.FilterConfig(disabled=frozenset({"NodeAffinity"}))
    assert registry.run_pre_filters(snapshot, shape, silent) is None
    assert registry.find_feasible(snapshot, shape, silent).tolist() == [True, True]


def test_many_nodes_are_explained_as_each_alone() -> None:
    constraint = facts.SpreadConstraint(HOSTNAME, 1, selector(app="a"))
    wanted = pod("p", labels={"app": "a"}, spec=facts.PodSpec(spread=(constraint,), node_selector=(("disk", "ssd"),)))
    nodes = [node(name, labels={"disk": "ssd"}) for name in ("a", "b")]
    snapshot = snapshots.build_snapshot([*nodes, node("c")], [pod("q", on="a", labels={"app": "a"})])
    shape = snapshot.shape_of(wanted)
    judgement = registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
    refused = np.flatnonzero(judgement.refused_by).tolist()
    assert refused == [0, 2]
    for row in refused:
        number = int(judgement.refused_by[row])
        (refusal,) = registry.explain_refusals(snapshot, shape, [row], number, settings.DEFAULT_FILTER_CONFIG)
        assert (
            refusal
            == judgement[row]
            == registry.FILTERS[number - 1].explain(snapshot, shape, row, settings.DEFAULT_FILTER_CONFIG)
        )
    assert judgement[0] == pod_topology_spread.TOO_SKEWED
    assert judgement[2] == node_affinity.MISMATCH
