"""Sizes that someone else puts back: noticed, told with who does it, and not written without end."""

import logging

import pytest

from tests.providers.clusterapi.management_cluster import Bed, enough, node, play
from windlass.engine.model import facts, plan
from windlass.kube import request_builders
from windlass.providers import base
from windlass.providers.clusterapi import scale_client

G = "MachineDeployment/default/g"


def three(bed: Bed) -> None:
    bed.group("g", 3, annotations=enough())
    bed.members("g", 3)


def nodes() -> list[facts.Node]:
    return [node(f"g-{i}") for i in range(3)]


async def put_back(bed: Bed, replicas: int = 3, manager: str = "capi-topology") -> None:
    """As a server-side apply with force does."""
    body = {
        "apiVersion": f"cluster.x-k8s.io/{bed.version}",
        "kind": "MachineDeployment",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"replicas": replicas},
    }
    writer = request_builders.WriteOptions(manager)
    await bed.api.call(request_builders.build_apply(bed.resource("MachineDeployment"), body, force=True, writer=writer))
    await bed.settle()


async def raise_to(bed: Bed, size: int) -> None:
    await bed.provider.resize(plan.Resize(G, 3, size, 10))
    await bed.settle()
    bed.provider.observe(nodes())


async def contest(bed: Bed, manager: str = "capi-topology") -> None:
    for _ in range(2):
        await raise_to(bed, 5)
        assert await bed.replicas(G) == 5
        await put_back(bed, manager=manager)
        bed.provider.observe(nodes())


@pytest.mark.parametrize(
    ("manager", "remedy"),
    [
        ("capi-topology", "Cluster.spec.topology.workers"),
        ("argocd-controller", "ignoreDifferences"),
        ("kustomize-controller", "Flux"),
        ("kubectl", "leave spec.replicas out of what it applies"),
    ],
)
def test_the_third_size_is_refused_with_who_puts_it_back_and_what_to_do(manager: str, remedy: str) -> None:
    async def scenario(bed: Bed) -> None:
        await contest(bed, manager)
        with pytest.raises(
            base.ProviderError, match=rf"put back twice by {manager}, which owns spec.replicas: .*{remedy}"
        ) as it:
            await raise_to(bed, 5)
        assert it.value.error.code == scale_client.SIZE_REVERTED_CODE
        assert await bed.replicas(G) == 3

    play(scenario, three)


def test_after_it_was_refused_once_the_size_is_tried_again_and_refused_again_if_it_is_put_back() -> None:
    async def scenario(bed: Bed) -> None:
        await contest(bed)
        with pytest.raises(base.ProviderError):
            await raise_to(bed, 5)
        await bed.clock.sleep(300.0)  # as long as a group backs off
        await raise_to(bed, 5)
        assert await bed.replicas(G) == 5
        await put_back(bed)
        with pytest.raises(base.ProviderError, match="put back"):
            await raise_to(bed, 5)

    play(scenario, three)


def test_nodes_of_a_group_whose_sizes_are_put_back_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(bed: Bed) -> None:
        for i in range(2):
            await bed.provider.delete_nodes(G, [node(f"g-{i}")])
            await bed.settle()
            bed.provider.observe(nodes())
            await put_back(bed)
        (group,) = bed.provider.observe(nodes()).groups
        assert group.kept == {"fake:///g-0", "fake:///g-1", "fake:///g-2"}
        await bed.settle()
        told = [record.getMessage() for record in caplog.records if "size was reverted" in record.getMessage()]
        assert len(told) == 1
        assert "capi-topology" in told[0]
        await bed.clock.sleep(1800.0)
        (group,) = bed.provider.observe(nodes()).groups
        assert group.kept == frozenset()

    play(scenario, three)


def test_a_size_that_stays_for_a_while_is_not_contested() -> None:
    async def scenario(bed: Bed) -> None:
        for _ in range(3):
            await raise_to(bed, 5)
            await bed.clock.sleep(1000.0)
            await put_back(bed, manager="kubectl")  # someone's own decision, later
        assert await bed.replicas(G) == 3

    play(scenario, three)


def test_sizes_lowered_here_contest_nothing() -> None:
    async def scenario(bed: Bed) -> None:
        for _ in range(4):
            await raise_to(bed, 5)
            await bed.provider.reduce_target(plan.ReduceTarget(G, 2, "", 5))
            await bed.settle()
            (group,) = bed.provider.observe(nodes()).groups
            assert group.kept == frozenset()

    play(scenario, three)


def test_a_size_that_someone_raises_further_is_not_put_back() -> None:
    async def scenario(bed: Bed) -> None:
        for size in (4, 6, 8):
            await raise_to(bed, size)
            await put_back(bed, size + 1)
        await raise_to(bed, 10)
        assert await bed.replicas(G) == 10

    play(scenario, three)


def test_a_size_that_was_refused_or_whose_answer_got_lost_contests_nothing() -> None:
    async def scenario(bed: Bed) -> None:
        for code, reason in ((403, "Forbidden"), (500, "InternalError"), (409, "Conflict")):
            bed.carrier.forbid("PATCH", "/scale", code, reason)
            with pytest.raises(base.ProviderError, match="not today"):
                await raise_to(bed, 5)
            bed.carrier.allow()
            bed.provider.observe(nodes())
        await raise_to(bed, 5)
        assert await bed.replicas(G) == 5

    play(scenario, three)


def test_one_size_put_back_between_others_that_stay_is_nobody_s_habit() -> None:
    async def scenario(bed: Bed) -> None:
        for _ in range(3):
            await raise_to(bed, 4)
            await put_back(bed)
            await raise_to(bed, 5)
            await raise_to(bed, 6)
            await bed.provider.reduce_target(plan.ReduceTarget(G, 3, "", 6))
            await bed.settle()
        assert await bed.replicas(G) == 3

    play(scenario, three)
