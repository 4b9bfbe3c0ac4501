"""Nominated pods beside a pod that must be spread: kube-scheduler counts them where it counts no pod that runs."""

from tests.conformance import scheduler
from tests.differential.oracle import Json
from tests.simulator import builders

ZONE = "topology.kubernetes.io/zone"
SKEWED = {
    "plugin": "PodTopologySpread",
    "code": "Unschedulable",
    "reasons": ["node(s) didn't match pod topology spread constraints"],
}


def make_case(running_on: str = "") -> Json:
    """A pod that is spread with an empty selector, and two zones; another waits, nominated to node-1, or runs."""
    nodes = [builders.node(f"node-{number}", labels={ZONE: f"z{number}"}) for number in (1, 2)]
    new, other = builders.pod("new"), builders.pod("other", on=running_on)
    new["spec"]["topologySpreadConstraints"] = [
        {"labelSelector": {}, "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    ]
    if not running_on:
        other["status"] = {"nominatedNodeName": "node-1"}
    for pod in (new, other):
        pod["spec"]["schedulerName"] = "default-scheduler"
    objects = [{"apiVersion": "v1", **item} for item in (*nodes, other)]
    return {"name": "case", "objects": objects, "pending": [{"apiVersion": "v1", **new}],
            "verdicts": {"new": {"node-1": None, "node-2": None}}}  # fmt: skip


def find_verdicts(case: Json) -> dict[str, Json | None]:
    set_aside, pairs = scheduler.compare(case)
    assert set_aside == []
    return {pair.node: pair.found for pair in pairs}


def test_an_empty_selector_counts_nominated_pods() -> None:
    assert find_verdicts(make_case()) == {"node-1": SKEWED, "node-2": None}


def test_an_empty_selector_counts_no_pod_that_runs() -> None:
    assert find_verdicts(make_case(running_on="node-1")) == {"node-1": None, "node-2": None}
