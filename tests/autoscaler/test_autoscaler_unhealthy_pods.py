"""Unhealthy pods under disruption budgets, through the live loop: what is chosen is what the API evicts."""

from dataclasses import replace
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import Cluster, Json, play
from tests.autoscaler.test_autoscaler import quick
from tests.autoscaler.test_autoscaler_drains import count_evictions, end_pods
from windlass.engine.model import deviations
from windlass.engine.model.settings import Settings
from windlass.kube import request_builders, resources

STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def set_ready(cluster: Cluster, name: str, is_ready: bool) -> None:
    """As the pod's kubelet does."""
    conditions = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    status: Json = {"status": {"phase": "Running", "conditions": conditions}}
    patch = request_builders.build_merge_patch(resources.PODS, name, status, "default", subresource="status")
    assert cluster.server.handle(patch).status == 200


def add_budget(cluster: Cluster, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "namespace": "default"}
    cluster.server.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"selector": selector, **spec},
        }
    )


def broken_beside_whole(cluster: Cluster) -> None:
    """One pod of web is Ready on a-1, the other is not, on a-2, which is needed for nothing else."""
    cluster.add_group("a", 2)
    cluster.register_nodes()
    cluster.want_pods(2)
    cluster.add_pod("whole", "3", "a-1", labels={"app": "web"}, annotations=STAYS)
    cluster.add_pod("broken", "10m", "a-2", labels={"app": "web"})
    set_ready(cluster, "whole", True)
    set_ready(cluster, "broken", False)


async def wait_until_gone(cluster: Cluster) -> None:
    while cluster.provider.groups["a"].size > 1:
        assert cluster.clock.monotonic_s() < 600.0, "not in time"
        await cluster.clock.sleep(1.0)
        await end_pods(cluster)


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {"minAvailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"},
        {"minAvailable": 1},
    ],
    ids=["AlwaysAllow", "IfHealthyBudget", "default"],
)
def test_a_node_goes_with_a_pod_that_the_api_lets_go(spec: Json) -> None:
    """The budget allows no disruption throughout, and the API evicts at the first attempt."""

    async def scenario(cluster: Cluster) -> None:
        broken_beside_whole(cluster)
        add_budget(cluster, **spec)
        async with cluster.autoscaling():
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"broken": 1}
            found = await cluster.api.get(resources.POD_DISRUPTION_BUDGETS.untyped(), "web", "default")
            assert found["status"]["disruptionsAllowed"] == 0

    play(scenario, quick())


@pytest.mark.parametrize(
    ("spec", "behavior"),
    [
        ({"minAvailable": 2}, deviations.ALL_DEVIATIONS),
        ({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, deviations.NO_DEVIATIONS),
    ],
    ids=["too few healthy", "as Cluster Autoscaler does"],
)
def test_a_node_stays_with_a_pod_that_its_budget_guards(spec: Json, behavior: deviations.Deviations) -> None:
    async def scenario(cluster: Cluster) -> None:
        broken_beside_whole(cluster)
        add_budget(cluster, **spec)
        async with cluster.autoscaling():
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["a"].size == 2
            assert not count_evictions(cluster)

    settings: Settings = replace(quick(), deviations=behavior)
    play(scenario, settings)


def test_a_pod_that_breaks_later_lets_its_node_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        broken_beside_whole(cluster)
        set_ready(cluster, "broken", True)
        add_budget(cluster, minAvailable=2, unhealthyPodEvictionPolicy="AlwaysAllow")
        async with cluster.autoscaling():
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["a"].size == 2
            set_ready(cluster, "broken", False)
            await wait_until_gone(cluster)
            assert count_evictions(cluster) == {"broken": 1}

    play(scenario, quick())


def set_observed_generation(cluster: Cluster, generation: int) -> None:
    """As the disruption controller does once it has read the spec."""
    status: Json = {"status": {"observedGeneration": generation}}
    budgets = resources.POD_DISRUPTION_BUDGETS
    patch = request_builders.build_merge_patch(budgets, "web", status, "default", subresource="status")
    assert cluster.server.handle(patch).status == 200


@pytest.mark.parametrize(
    "behavior", [deviations.ALL_DEVIATIONS, deviations.NO_DEVIATIONS], ids=["windlass", "as Cluster Autoscaler does"]
)
def test_a_node_stays_until_the_status_of_a_budget_is_as_new_as_its_spec(behavior: deviations.Deviations) -> None:
    """The API evicts nothing that is charged to such a budget: Cluster Autoscaler tries all the same."""

    async def scenario(cluster: Cluster) -> None:
        broken_beside_whole(cluster)
        set_ready(cluster, "broken", True)
        add_budget(cluster, minAvailable=1)
        set_observed_generation(cluster, 0)
        async with cluster.autoscaling():
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["a"].size == 2
            assert bool(count_evictions(cluster)) is (behavior is deviations.NO_DEVIATIONS)
            set_observed_generation(cluster, 1)
            await wait_until_gone(cluster)
            if behavior is deviations.ALL_DEVIATIONS:
                assert count_evictions(cluster) == {"broken": 1}

    play(scenario, replace(quick(), deviations=behavior))
