"""Whole scheduling cycles of the real kube-scheduler: message, nominated node, victims."""

from pathlib import Path

import pytest

from tests.conformance.outcome import Json, read_lines
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, key_of

CASES = list(read_lines(Path(__file__).parent / "data" / "cycles.jsonl.gz"))


def view(case: Json) -> ClusterView:
    cluster = ClusterView.of([*case["objects"], case["pod"]])
    assert cluster.rejected == []
    return cluster


@pytest.mark.parametrize("case", [one for one in CASES if "node" not in one["outcome"]], ids=lambda case: case["name"])
def test_a_failed_cycle_ends_as_it_did_in_kube_scheduler(case: Json) -> None:
    failure = scheduling_cycle.schedule(view(case), case["pod"])
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    recorded = case["outcome"]
    assert failure.message == recorded["message"]
    assert failure.reason == recorded["reason"]
    assert failure.nominated_node == recorded.get("nominated")
    assert sorted(key_of(pod) for pod in failure.victims) == recorded.get("victims", [])
    assert sorted(key_of(pod) for pod in failure.denominated) == recorded.get("cleared", [])


@pytest.mark.parametrize("case", [one for one in CASES if "node" in one["outcome"]], ids=lambda case: case["name"])
def test_a_pod_that_kube_scheduler_placed_is_placed(case: Json) -> None:
    cluster = view(case)
    placement = scheduling_cycle.schedule(cluster, case["pod"])
    assert isinstance(placement, scheduling_cycle.Placement)
    assert scheduling_cycle.run_filters(cluster, case["pod"])[case["outcome"]["node"]] is None
    if case["pod"]["status"].get("nominatedNodeName") == case["outcome"]["node"]:
        assert placement.node_name == case["outcome"]["node"]
