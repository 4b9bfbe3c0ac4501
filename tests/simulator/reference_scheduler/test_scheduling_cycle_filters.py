"""Corners that recorded cases seldom reach. Everything else a filter does is held to recorded verdicts."""

from typing import Any

import pytest

from tests.simulator import builders
from tests.simulator.builders import node, pod
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView
from windlass.simulator.reference_scheduler.framework import StatusCode

ZONE = "topology.kubernetes.io/zone"


def port(name: str, on: str = "") -> builders.Json:
    made = pod(name, on=on)
    made["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
    return made


def test_filters_are_asked_in_the_order_of_the_scheduler() -> None:
    """A pod that every one of these filters would refuse hears from the first of them that is asked."""
    host = "kubernetes.io/hostname"
    refused = node("a", cpu="0", labels={host: "a"}, taints=[{"key": "spot", "effect": "NoSchedule"}])
    refused["spec"]["unschedulable"] = True
    rival = port("rival", on="a")
    rival["metadata"]["labels"] = {"app": "db"}
    new = port("new")
    new["spec"]["affinity"] = builders.anti_affinity({"app": "db"}, host)
    new["spec"]["nodeSelector"] = {"disk": "ssd"}
    new["spec"]["hostNetwork"], new["spec"]["hostUsers"] = True, False
    remedies: list[tuple[str, Any]] = [
        ("NodeUnschedulable", lambda: refused["spec"].pop("unschedulable")),
        ("TaintToleration", lambda: refused["spec"].pop("taints")),
        ("NodeAffinity", lambda: refused["metadata"]["labels"].update(disk="ssd")),
        ("NodePorts", lambda: rival["spec"]["containers"][0].pop("ports")),
        ("NodeResourcesFit", lambda: refused["status"]["allocatable"].update(cpu="8")),
        ("InterPodAffinity", lambda: rival["metadata"].pop("labels")),
        (
            "NodeDeclaredFeatures",
            lambda: refused["status"].update(declaredFeatures=["UserNamespacesHostNetworkSupport"]),
        ),
    ]
    for plugin, remedy in remedies:
        refusal = scheduling_cycle.run_filters(ClusterView.of([refused, rival]), new)["a"]
        assert refusal is not None
        assert refusal.plugin == plugin
        remedy()
    assert scheduling_cycle.run_filters(ClusterView.of([refused, rival]), new) == {"a": None}


def test_a_port_that_two_pods_hold_is_free_only_when_both_have_gone() -> None:
    low, high = port("low", on="a"), port("high", on="a")
    high["spec"]["priority"] = 9
    new = port("new")
    new["spec"]["priority"] = 5
    failure = scheduling_cycle.schedule(ClusterView.of([node("a"), low, high]), new)
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    assert failure.victims == ()


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "cores", "operator": "Gt", "values": ["-5"]},
        {"key": "cores", "operator": "Gt", "values": ["4.5"]},
        {"key": "cores", "operator": "NotIn", "values": ["not a label value"]},
        {"key": "cores", "operator": "NotIn", "values": ["x" * 64]},
        {"key": "cores", "operator": "Exists", "values": ["8"]},
    ],
)
def test_a_requirement_that_the_scheduler_cannot_read_matches_no_node(expression: builders.Json) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    new = pod("new", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    refusal = scheduling_cycle.run_filters(ClusterView.of([node("a", labels={"cores": "8"})]), new)["a"]
    assert refusal is not None
    assert refusal.code is StatusCode.UNRESOLVABLE


def test_half_millicores_are_added_up_before_they_are_rounded() -> None:
    new = pod("new", cpu="0.5m")
    new["spec"]["containers"].append({"name": "second", "resources": {"requests": {"cpu": "0.5m"}}})
    assert scheduling_cycle.run_filters(ClusterView.of([node("a", cpu="1m")]), new) == {"a": None}


def test_what_is_taken_is_rounded_pod_by_pod() -> None:
    running = [pod(f"p{i}", on="a", cpu="0.5m") for i in range(2)]
    verdict = scheduling_cycle.run_filters(ClusterView.of([node("a", cpu="2m"), *running]), pod("new", cpu="0.5m"))["a"]
    assert verdict is not None
    assert verdict.reasons == ("Insufficient cpu",)


def test_a_terminating_victim_is_subtracted_from_a_spread_that_never_counted_it() -> None:
    """As upstream does: the domain seems one emptier than it is, and the pod gets a place it might have to give up."""
    app = {"app": "db"}
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": app},
    }
    nodes = [node("a", labels={ZONE: "z1"}), node("b", labels={ZONE: "z2"}, pods="0")]
    keeps = pod("keeps", on="a", labels=app, priority=9)
    leaving = builders.terminating(pod("leaving", on="a", labels=app))
    new = pod("new", labels=app, priority=5, topologySpreadConstraints=[spread])
    failure = scheduling_cycle.schedule(ClusterView.of([*nodes, keeps, leaving]), new)
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    assert failure.nominated_node == "a"
