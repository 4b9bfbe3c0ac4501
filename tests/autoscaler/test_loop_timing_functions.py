"""Cluster Autoscaler's function_duration_seconds has data for each of its functions, measured where they happen."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from tools import metrics_reference
from windlass import clock
from windlass.autoscaler import loop_timing
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.model import plan
from windlass.engine.time_limits import MeasuredStep
from windlass.kube import request_builders, resources
from windlass.observability.metric_definitions import LoopFunction

IN_ANY_LOOP = {
    "main", "autoscaling", "loopWait", "cloudProviderRefresh", "updateClusterState", "filterOutSchedulable",
    "findUnneeded",
}  # fmt: skip
SCALING_UP = {
    "scaleUp", "scaleUp:buildPodEquivalenceGroups", "scaleUp:estimate", "scaleUp:skippedNodeGroupsSimulation",
}  # fmt: skip
SCALING_DOWN = {"scaleDown", "scaleDown:nodeDeletion", "scaleDown:softTaintUnneeded"}
"""All that Cluster Autoscaler observes, and `autoscaling`, which is decided in one call here."""
_COUNT = re.compile(r'cluster_autoscaler_function_duration_seconds_count\{function="([^"]+)"\} (\S+)')
_SUM = re.compile(r'cluster_autoscaler_function_duration_seconds_sum\{function="([^"]+)"\} (\S+)')


def count_calls(running: Autoscaler) -> dict[str, float]:
    text = running._reporter.metrics.render().decode()
    return {name: float(value) for name, value in _COUNT.findall(text)}


def sum_durations(running: Autoscaler) -> dict[str, float]:
    text = running._reporter.metrics.render().decode()
    return {name: float(value) for name, value in _SUM.findall(text)}


def test_a_cluster_that_grows_and_shrinks_has_durations_of_all_functions() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1, boot_s=5.0)
        cluster.register_nodes()
        cluster.add_pod("running", "3", "a-1")
        async with cluster.autoscaling() as running:
            cluster.add_pod("pending", "3")
            await cluster.until(lambda: count_calls(running).keys() >= SCALING_UP)
            await cluster.until(lambda: len(cluster.provider.nodes) == 2)
            gone = request_builders.build_delete(
                resources.PODS, "pending", "default", request_builders.DeleteOptions(grace_s=0)
            )
            assert cluster.server.handle(gone).status == 200
            await cluster.until(lambda: len(cluster.provider.nodes) == 1)
            await cluster.clock.sleep(30.0)
            assert count_calls(running).keys() == IN_ANY_LOOP | SCALING_UP | SCALING_DOWN

    settings = quick()
    simulating = replace(settings.scale_up, scaleup_simulation_for_skipped_node_groups_enabled=True)
    play(scenario, replace(settings, scale_up=simulating))


def test_a_loop_counts_once_and_the_wait_between_two_loops_is_the_rest_of_the_interval() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("running", "3", "a-1")
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(95.0)  # loops at 0, 10 … 90 s
            calls = count_calls(running)
            assert calls["main"] == running.loop.iterations == 10
            assert calls["updateClusterState"] == calls["cloudProviderRefresh"] == calls["main"]
            assert calls["loopWait"] == 9
            assert sum_durations(running)["loopWait"] == pytest.approx(90.0)  # virtual time: loops take none

    play(scenario)


def test_the_time_that_groups_take_to_be_raised_is_part_of_scaling_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("running", "3", "a-1")
        resize = cluster.provider.resize

        async def resize_slowly(order: plan.Resize) -> None:
            await cluster.clock.sleep(2.0)
            await resize(order)

        cluster.provider.resize = resize_slowly  # type: ignore[method-assign]
        async with cluster.autoscaling() as running:
            cluster.add_pod("pending", "3")
            await cluster.until(lambda: "scaleUp" in count_calls(running))
            assert count_calls(running)["scaleUp"] == 1
            assert sum_durations(running)["scaleUp"] == pytest.approx(2.0)

    play(scenario, quick())


def test_every_function_but_a_loop_that_ended_well_has_durations() -> None:
    """Cluster Autoscaler shows mainSuccessful in last_activity only."""
    assert {
        str(loop_function) for loop_function in metrics_reference.MEASURED
    } == IN_ANY_LOOP | SCALING_UP | SCALING_DOWN
    assert set(LoopFunction) - set(metrics_reference.MEASURED) == {LoopFunction.MAIN_SUCCESSFUL}


def test_every_step_of_a_decision_is_a_function_that_metrics_know() -> None:
    assert {str(step) for step in MeasuredStep} <= {str(function) for function in LoopFunction}


def test_a_stopwatch_hands_each_duration_over_once() -> None:
    ticks: Iterator[float] = iter((1.0, 4.0))

    class Ticking(clock.VirtualClock):
        def monotonic_s(self) -> float:
            return next(ticks)

    stopwatch = loop_timing.DecisionTimer(Ticking(0.0))
    with stopwatch.measure(MeasuredStep.ESTIMATE):
        pass
    assert stopwatch.take_durations() == [(MeasuredStep.ESTIMATE, 3.0)]
    assert stopwatch.take_durations() == []
