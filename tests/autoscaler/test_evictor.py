"""Evictions sent on their own: what the answers mean, when they came, and what is withdrawn in time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import NOW_S, Cluster, play
from tests.providers.clusterapi.management_cluster import refusal
from windlass.autoscaler.evictor import Evictor
from windlass.engine.model import plan
from windlass.engine.model.plan import PlanResult
from windlass.engine.observation import EvictionAnswer, EvictionState
from windlass.kube import client, resources, transport


def evict(name: str, uid: str = "", node: str = "a-1") -> plan.Evict:
    return plan.Evict("default", name, uid, 1.5, node)


@contextlib.asynccontextmanager
async def evicting(cluster: Cluster, qps: float = 0.0) -> AsyncIterator[Evictor[str]]:
    evictor: Evictor[str] = Evictor(
        client.Client(cluster.carrier, cluster.clock, client.ClientSettings(qps=qps, burst=1))
    )
    running = asyncio.create_task(evictor.run())
    try:
        yield evictor
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def send(cluster: Cluster, *orders: plan.Evict) -> PlanResult:
    """What became of them."""
    async with evicting(cluster) as evictor:
        evictor.submit(orders, "batch")
        while evictor.observe().unanswered:
            await cluster.clock.sleep(0.1)
        ((about, outcome),) = evictor.take_results()
        assert about == "batch"
        assert evictor.take_results() == []
        return outcome


def test_evictions_answers_are_told_apart() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        for name in ("free", "held", "other"):
            cluster.add_pod(name, node="a-1", labels={"app": name})
        selector = {"selector": {"matchLabels": {"app": "held"}}, "minAvailable": 1}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": selector}
        cluster.server.apply({**budget, "metadata": {"name": "b", "namespace": "default"}})
        uids: dict[str, str] = {}
        for name in ("free", "held", "other"):
            found: dict[str, Any] = await cluster.api.get(resources.PODS.untyped(), name, "default")
            uids[name] = found["metadata"]["uid"]
        orders = [evict("free", uids["free"]), evict("held", uids["held"]), evict("gone"), evict("other", "old-uid")]
        outcome = await send(cluster, *orders)
        assert set(outcome.done) == {orders[0], orders[2], orders[3]}
        assert "disruption budget" in outcome.failed[orders[1]]
        left = await cluster.api.list(resources.PODS.untyped())
        assert sorted(pod["metadata"]["name"] for pod in left.items) == ["free", "held", "other"]
        free = await cluster.api.get(resources.PODS.untyped(), "free", "default")
        assert free["metadata"]["deletionGracePeriodSeconds"] == 2

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "said", "is_gone"),
    [
        ("pods", "Precondition failed: UID in precondition: 1, UID in object meta: 2", True),
        ("Pod", "the UID in the precondition (1) does not match the UID in record (2)", True),
        ("pods", "the object has been modified; please apply your changes to the latest version", False),
        ("poddisruptionbudgets", "the object has been modified; please apply your changes", False),
        (None, "the object has been modified", False),
    ],
)
def test_a_conflict_means_that_the_pod_is_gone_only_if_it_is_about_its_uid(
    kind: str | None, said: str, is_gone: bool
) -> None:
    async def scenario(cluster: Cluster) -> None:
        def refuse(request: transport.Request) -> transport.Response | None:
            return refusal(409, "Conflict", said, kind) if request.path.endswith("/eviction") else None

        cluster.carrier.refuse = refuse
        outcome = await send(cluster, order := evict("p", "1"))
        assert (outcome.done == (order,), order in outcome.failed) == (is_gone, not is_gone)

    play(scenario)


def test_when_each_eviction_was_answered_is_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with evicting(cluster, qps=0.1) as evictor:
            evictor.submit([evict("p", "1"), evict("q", "2")], "")
            await cluster.clock.sleep(1.0)
            assert evictor.observe() == EvictionState(frozenset({"2"}), {"1": EvictionAnswer(NOW_S, NOW_S)})
            await cluster.clock.sleep(10.0)
            assert evictor.observe().answered["2"] == EvictionAnswer(NOW_S + 10.0, NOW_S + 10.0)
            evictor.submit([evict("p", "1")], "")
            await cluster.clock.sleep(10.0)
            assert evictor.observe().answered["1"] == EvictionAnswer(NOW_S, NOW_S + 20.0)
            evictor.clear_answers()
            assert evictor.observe() == EvictionState()

    play(scenario)


def test_an_eviction_that_waits_for_its_turn_can_be_withdrawn() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with evicting(cluster, qps=0.1) as evictor:
            names = [f"p{i}" for i in range(60)]
            evictor.submit([evict(name, name, "a-1" if i < 30 else "a-2") for i, name in enumerate(names)], "")
            evictor.submit([evict("p0", "p0")], "twice")
            await cluster.clock.sleep(5.0)
            evictor.cancel_except({"a-1"})
            await cluster.clock.sleep(1000.0)
            assert len([call for call in cluster.carrier.calls if "/eviction" in call]) == 30

    play(scenario)


def test_a_fault_in_one_eviction_keeps_no_other_from_being_sent() -> None:
    async def scenario(cluster: Cluster) -> None:
        def burst(request: transport.Request) -> transport.Response | None:
            if request.path.endswith("/pods/p/eviction"):
                raise RuntimeError("a bug")
            return None

        cluster.carrier.refuse = burst
        outcome = await send(cluster, evict("p"), evict("q"))
        assert (outcome.done, outcome.failed) == ((evict("q"),), {evict("p"): "RuntimeError('a bug')"})

    play(scenario)
