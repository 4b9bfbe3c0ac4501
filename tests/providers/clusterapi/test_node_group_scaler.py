"""Growing a group, and taking back what did not come."""

import asyncio

import pytest

from tests.providers.clusterapi.management_cluster import Bed, node, play
from windlass.engine.model import plan
from windlass.kube import transport
from windlass.providers import base

G = "MachineDeployment/default/g"


def grow(to_size: int) -> plan.Resize:
    return plan.Resize(G, 0, to_size, 10)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_group_grows_by_one_patch_of_its_scale(version: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.resize(grow(5))
        assert await bed.replicas(G) == 5
        (patch,) = [request for request in bed.carrier.sent if request.method == "PATCH"]
        assert patch.path.endswith("/machinedeployments/g/scale")
        assert ("fieldManager", "cluster-autoscaler") in patch.query
        assert patch.headers["content-type"] == "application/merge-patch+json"
        assert not any(one.path.endswith("/scale") and one.method == "GET" for one in bed.carrier.sent)

    play(scenario, lambda bed: bed.group("g", 2), version=version)


@pytest.mark.parametrize("kind", ["MachineSet", "MachinePool"])
def test_so_does_any_other_kind_of_group(kind: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.resize(plan.Resize(f"{kind}/default/g", 0, 3, 10))
        assert await bed.replicas(f"{kind}/default/g") == 3

    play(scenario, lambda bed: bed.group("g", 0, kind=kind))


def test_a_new_size_holds_at_once_and_gives_way_to_what_others_write_later() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.resize(grow(5))
        (group,) = bed.provider.observe([]).groups  # no watch had time to tell
        assert group.target_size == 5
        await bed.settle()
        await bed.api.scale(bed.resource("MachineDeployment"), "g", 4, "default")
        assert (await bed.observe())[G].target_size == 4

    play(scenario, lambda bed: bed.group("g", 2))


def test_a_group_that_is_as_large_or_larger_is_left_as_it_is() -> None:
    async def scenario(bed: Bed) -> None:
        for size in (4, 3):
            await bed.provider.resize(grow(size))
        assert await bed.replicas(G) == 4
        assert not any(request.method == "PATCH" for request in bed.carrier.sent)

    play(scenario, lambda bed: bed.group("g", 4))


def test_no_group_grows_beyond_its_maximum() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="desired:11 max:10"):
            await bed.provider.resize(grow(11))
        assert await bed.replicas(G) == 2

    play(scenario, lambda bed: bed.group("g", 2))


def test_a_refusal_says_why() -> None:
    async def scenario(bed: Bed) -> None:
        bed.carrier.forbid("PATCH", "/scale")
        with pytest.raises(base.ProviderError) as caught:
            await bed.provider.resize(grow(3))
        assert (caught.value.error.kind, caught.value.error.code) == ("Other", "cloudProviderError")
        assert "403 Forbidden: not today" in caught.value.error.message

    play(scenario, lambda bed: bed.group("g", 2))


def test_a_group_that_is_gone_or_paused_is_not_changed() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="no such node group"):
            await bed.provider.resize(plan.Resize("MachineDeployment/default/gone", 0, 3, 10))
        bed.group("g", 2, annotations={"cluster.x-k8s.io/paused": ""})
        await bed.settle()
        with pytest.raises(base.ProviderError, match="is paused: it has the annotation"):
            await bed.provider.resize(grow(3))

    play(scenario, lambda bed: bed.group("g", 2))


def test_a_size_that_others_write_meanwhile_is_not_lost() -> None:
    async def scenario(bed: Bed) -> None:
        raced: list[str] = []

        def race(request: transport.Request) -> None:
            if request.method == "PATCH" and not raced:
                raced.append(request.path)
                bed.group("g", 7)

        bed.carrier.refuse = race
        await bed.provider.resize(grow(5))
        assert raced
        assert await bed.replicas(G) == 7

    play(scenario, lambda bed: bed.group("g", 2))


# ── Taking back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_target_is_lowered_down_to_the_nodes_that_exist() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 5)
        bed.members("g", 2)

    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="currentReplicas:5 delta:-4 existingNodes: 2"):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 4, "", 5))
        await bed.provider.reduce_target(plan.ReduceTarget(G, 3, "", 5))
        assert await bed.replicas(G) == 2
        assert (await bed.observe([node("g-0"), node("g-1")]))[G].target_size == 2

    play(scenario, arrange)


def test_a_target_is_lowered_once_however_often_it_is_told() -> None:
    async def scenario(bed: Bed) -> None:
        for _ in range(2):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 2, "", 5))
            assert await bed.replicas(G) == 3

    play(scenario, lambda bed: bed.group("g", 5))


def test_a_target_that_was_raised_meanwhile_is_not_lowered() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="expected:4 found:5"):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 2, "", 4))
        assert await bed.replicas(G) == 5

    play(scenario, lambda bed: bed.group("g", 5))


def test_a_target_is_not_lowered_below_the_minimum() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="desired:1 min:2"):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 2, "", 3))

    play(scenario, lambda bed: bed.group("g", 3, (2, 10)))


def test_a_group_grows_while_many_machines_of_another_are_marked() -> None:
    def prepare(bed: Bed) -> None:
        bed.group("g", 1)
        bed.group("h", 30, (0, 100))
        bed.members("h", 30)

    async def scenario(bed: Bed) -> None:
        await bed.throttle(5.0, 10)
        leaving = [node(f"h-{i}") for i in range(30)]
        shrinking = asyncio.create_task(bed.provider.delete_nodes("MachineDeployment/default/h", leaving))
        await bed.clock.sleep(1.0)
        began_s = bed.clock.monotonic_s()
        await bed.provider.resize(grow(3))
        assert bed.clock.monotonic_s() - began_s < 1.0
        assert not shrinking.done()
        await shrinking

    play(scenario, prepare)
