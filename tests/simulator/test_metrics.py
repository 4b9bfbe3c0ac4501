"""What is measured: waiting, cost, utilization, the lower bound, and expectations."""

from typing import Any

import pytest

from tests.simulator import small_clusters
from windlass.simulator import metrics, simulation
from windlass.simulator.cluster import api_client
from windlass.simulator.metrics import CostLowerBound, MetricSeries
from windlass.simulator.scenario import loader, model

Json = dict[str, Any]

STORY = """
name: small
duration: 2h
groups:
  - {name: general, min: 1, max: 5, initial: 2, capacity: {cpu: 4, memory: 16Gi}, price: 0.5, boot: 60s, ready: 0s}
workloads:
  - {name: web, replicas: 4, requests: {cpu: 1, memory: 1Gi}}
timeline:
  - {at: 1h, do: scale, workload: web, to: 10}
expect:
  - {measure: pending_max_s, at_most: 100}
  - {measure: nodes, from: 1h30m, until: 2h, at_least: 3}
  - {measure: nodes, group: general, from: 0s, until: 30m, at_most: 1}
"""


async def _add_one_at_an_hour_and_a_half_minute(story: simulation.Simulation) -> None:
    await story.clock.sleep(3630)
    small_clusters.scale(story.cluster, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    await story.clock.sleep(1e9)


@pytest.fixture(scope="module")
def result() -> simulation.SimulationResult:
    return simulation.Simulation(loader.parse_scenario(STORY, "small")).run(_add_one_at_an_hour_and_a_half_minute)


def test_waiting_is_counted_from_a_pods_coming_to_its_node(result: simulation.SimulationResult) -> None:
    assert result.totals["pods"] == 6
    assert result.totals["pods_that_waited"] == 2
    assert result.totals["pending_max_s"] == 90
    assert result.totals["pending_p50_s"] == 0


def test_a_pod_that_is_deleted_while_it_waits_has_waited_until_then() -> None:
    shrinks = STORY.replace("expect:", "  - {at: 1h10m, do: scale, workload: web, to: 4}\nexpect:")
    found = simulation.Simulation(loader.parse_scenario(shrinks, "small")).run().totals
    assert (found["pods"], found["pods_that_waited"], found["pods_given_up"]) == (6, 2, 2)
    assert found["pods_never_placed"] == 0
    assert found["pending_max_s"] == 600


def test_machines_cost_from_the_moment_the_cloud_has_them(result: simulation.SimulationResult) -> None:
    # Two for two hours, and a third from 3,630 s + 12 s on.
    hours = 2 * 2 + (7200 - 3642) / 3600
    assert result.totals["node_hours"] == pytest.approx(hours, abs=1e-4)
    assert result.totals["cost"] == pytest.approx(hours * 0.5, abs=1e-4)


def test_the_bound_is_what_the_pods_would_need_without_gaps(result: simulation.SimulationResult) -> None:
    # Four cores ask for one machine in the first hour, ten for two and a half in the second; a sample late.
    assert result.totals["node_hours_lower_bound"] == pytest.approx(3.5, abs=0.03)
    assert result.totals["cost_ratio"] == pytest.approx(result.totals["cost"] / 1.75, rel=0.02)


def test_utilization_is_what_is_asked_of_what_is_ready(result: simulation.SimulationResult) -> None:
    assert result.series.utilization_cpu[30] == 0.5
    assert result.series.utilization_cpu[-1] == pytest.approx(10 / 12, abs=1e-6)


def test_series_have_a_sample_for_every_minute(result: simulation.SimulationResult) -> None:
    assert len(result.series.pending) == 121
    assert result.series.pending[60:63] == [2, 2, 0] or result.series.pending[59:63] == [0, 0, 2, 0]
    assert result.series.nodes["general"][0] == 2
    assert result.series.nodes["general"][-1] == 3


def test_expectations_are_judged_with_what_was_found(result: simulation.SimulationResult) -> None:
    assert [outcome.is_met for outcome in result.outcomes] == [True, True, False]
    assert str(result.outcomes[2]) == "nodes of general: found 2, expected at most 1"
    assert not result.is_as_expected


def test_every_name_of_a_total_has_a_number(result: simulation.SimulationResult) -> None:
    assert tuple(result.totals) == loader.TOTAL_MEASURES


def test_a_group_in_several_zones_counts_as_a_whole_by_its_own_name() -> None:
    series = MetricSeries(60.0, {"web-a": [1, 2], "web-b": [3, 4]})
    both = model.Expectation(measure="nodes", group="web", at_most=5)
    expectation = model.Expectation(measure="nodes", group="web-b", at_most=4)
    assert metrics.check_expectation(both, {}, series).most == 6
    assert metrics.check_expectation(expectation, {}, series).is_met


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.95, 4), (0.25, 1), (1.0, 4)])
def test_a_quantile_is_one_of_the_values(share: float, expected: float) -> None:
    assert metrics.quantile([1, 2, 3, 4], share) == expected


def test_the_bound_takes_the_cheapest_machine_that_may_have_the_pod() -> None:
    cheap = small_clusters.group("cheap", price_per_hour=1.0, taints=({"key": "x", "effect": "NoSchedule"},))
    dear = small_clusters.group("dear", price_per_hour=3.0)
    demand = CostLowerBound([cheap, dear])
    pod: Json = {"kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "status": {}}
    pod["spec"] = small_clusters.template("web", "2")["spec"]
    demand.add("default/p", pod)
    assert demand.bound()[0] == pytest.approx(1.5)
    assert demand.bound()[1] == pytest.approx(0.5)
    tolerant = {**pod, "spec": {**pod["spec"], "tolerations": [{"operator": "Exists"}]}}
    demand.add("default/q", tolerant)
    assert demand.bound()[0] == pytest.approx(2.0)
    demand.remove("default/p")
    demand.remove("default/q")
    assert demand.bound() == (0, 0)
