"""All filters together: who speaks first, what a profile silences, what is said in words."""

from tests.builders import evaluate, feasible, node, pod, term
from windlass.engine.model import facts, settings
from windlass.engine.model.facts import HOSTNAME, HostPort, Taint
from windlass.engine.predicates import registry
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

EVERYTHING_WRONG = facts.PodSpec(
    requests=(("cpu", 9000),), node_name="elsewhere", node_selector=(("disk", "ssd"),),
    host_ports=(HostPort("0.0.0.0", "TCP", 80),), anti_affinity=(term(HOSTNAME, app="a"),),
    required_features=frozenset({"x"}),
    spread=(facts.SpreadConstraint("rack", 1, None),),
)  # fmt: skip
ORDER = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures",
]  # fmt: skip


def make() -> snapshots.Snapshot:
    worst = node("a", cpu=1000, taints=(Taint("k", "", "NoSchedule"),), unschedulable=True)
    holder = facts.PodSpec(host_ports=(HostPort("0.0.0.0", "TCP", 80),))
    return snapshots.build_snapshot([worst], [pod("q", on="a", labels={"app": "a"}, spec=holder)])


def test_the_first_filter_in_the_schedulers_order_gives_the_verdict() -> None:
    silenced: list[str] = []
    for expected in ORDER:
        profile = settings.FilterConfig(disabled=frozenset(silenced))
        refusal = evaluate(make(), pod("p", spec=EVERYTHING_WRONG), profile)["a"]
        assert refusal is not None
        assert refusal.rule == expected
        silenced.append(expected)
    assert feasible(make(), pod("p", spec=EVERYTHING_WRONG), settings.FilterConfig(disabled=frozenset(silenced))) == {
        "a"
    }


def test_a_refusal_before_any_node_is_looked_at_comes_first() -> None:
    fields = tuple(Requirement("metadata.name", Operator.IN, (name,)) for name in ("a", "b"))
    torn = facts.PodSpec(node_affinity=NodeSelector((NodeSelectorTerm(fields=fields),)), node_name="elsewhere")
    snapshot = make()
    judgement = registry.diagnose(snapshot, snapshot.shape_of(pod("p", spec=torn)), settings.DEFAULT_FILTER_CONFIG)
    assert judgement.everywhere is not None
    assert judgement.everywhere.texts == ["pod affinity terms conflict"]
    assert judgement.feasible.tolist() == []


def test_the_pre_filter_of_a_plugin_without_filter_still_refuses_pods() -> None:
    fields = (Requirement("metadata.name", Operator.IN, ("elsewhere",)),)
    refused = {
        "PodTopologySpread": facts.PodSpec(spread_fault="x is no operator"),
        "InterPodAffinity": facts.PodSpec(interpod_fault="x is no operator"),
        "DynamicResources": facts.PodSpec(claims=(facts.PodClaim("gpu", "missing"),)),
        "VolumeRestrictions": facts.PodSpec(volumes=(facts.Volume("data", "persistentVolumeClaim", "missing"),)),
        "NodeAffinity": facts.PodSpec(node_affinity=NodeSelector((NodeSelectorTerm(fields=fields),))),
    }
    for name, spec in refused.items():
        snapshot = snapshots.build_snapshot([node("a")], [])
        alone = frozenset((name, "NodeVolumeLimits", "VolumeBinding", "VolumeZone"))
        without = settings.FilterConfig(disabled=alone)
        assert feasible(snapshot, pod("p", spec=spec), without) == {"a"}, name
        rejecting = settings.FilterConfig(disabled=alone, prefilter_only=frozenset((name,)))
        assert feasible(snapshot, pod("p", spec=spec), rejecting) == set(), name
        judgement = registry.diagnose(snapshot, snapshot.shape_of(pod("p", spec=spec)), rejecting)
        assert judgement.feasible.tolist() == [], name
        refusal = judgement[0]
        assert refusal is not None, name
        assert refusal.rule == name


def test_the_verdict_is_summed_up_as_the_scheduler_does() -> None:
    snapshot = snapshots.build_snapshot(
        [node("a", cpu=100), node("b", cpu=200), node("c", unschedulable=True), node("d")], []
    )
    summary = registry.diagnose(
        snapshot, snapshot.shape_of(pod("p", cpu=3000)), settings.DEFAULT_FILTER_CONFIG
    ).summary()
    assert summary == "1/4 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


def test_judging_writes_into_nothing_that_is_kept() -> None:
    snapshot = make()
    wanted = pod("p", spec=facts.PodSpec(tolerations=(facts.Toleration("", "Exists", "", ""),)))
    shape = snapshot.shape_of(wanted)
    for _ in range(2):
        mask = registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        assert mask.tolist() == [True]
        mask[:] = False
