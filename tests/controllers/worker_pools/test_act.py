"""Writing MachineDeployments from what may no longer be the case."""

from tests.controllers.worker_pools import builders
from tests.controllers.worker_pools.world import World, in_virtual_time
from windlass.controllers.worker_pools import act, applying, machine_deployments, manifest
from windlass.controllers.worker_pools.act import Outcome
from windlass.controllers.worker_pools.sizes import Limits, Size

LIMITS = Limits(1, 10)
WANTED = builders.wanted(limits=LIMITS)


async def make(scene: World) -> act.Hands:
    """A pool that was made at 3, handed over, and scaled to 7."""
    await scene.set("ns", "c")
    hands = act.Hands(scene.api, builders.V1BETA2, "operator")
    assert await hands.carry_out([applying.Apply("md", manifest.spell(WANTED, 3))], "ns") == Outcome()
    await scene.scale("md", "ns", 7)
    return hands


@in_virtual_time
async def test_a_pool_that_is_there_already_does_not_begin_anew(scene: World) -> None:
    """As an operator would have it that has not heard of the pool yet."""
    hands = await make(scene)
    outcome = await hands.carry_out([applying.Apply("md", manifest.spell(WANTED, 3))], "ns")
    assert outcome == Outcome(is_outdated=True)
    assert await scene.size("md", "ns") == (7, True)


@in_virtual_time
async def test_a_pool_that_was_replaced_meanwhile_is_left_alone(scene: World) -> None:
    hands = await make(scene)
    stale = applying.Apply("md", manifest.spell(WANTED, None), applying.Handover(7, False), "other", "1")
    assert not (await hands.carry_out([stale], "ns")).is_done
    written = applying.Apply("md", manifest.spell(WANTED, 1), None, "other", "1")
    assert not (await hands.carry_out([written], "ns")).is_done
    assert await scene.size("md", "ns") == (7, True)


@in_virtual_time
async def test_nothing_is_let_go_of_where_the_handover_failed(scene: World) -> None:
    await scene.set("ns", "c")
    hands = act.Hands(scene.api, builders.V1BETA2, "operator")
    await hands.carry_out([applying.Apply("md", manifest.spell(builders.wanted(), 3))], "ns")
    live = machine_deployments.read(await scene.deployment("md", "ns") or {})
    step = applying.plan(WANTED, Size(3, LIMITS), None, live, "operator")
    assert step is not None
    await scene.api.merge_patch(scene.deployments, "md", {"metadata": {"labels": {"touched": "yes"}}}, "ns")
    assert await hands.carry_out([step], "ns") == Outcome(is_outdated=True)
    assert await scene.size("md", "ns") == (3, False)


@in_virtual_time
async def test_a_pool_that_is_gone_is_not_deleted_twice(scene: World) -> None:
    await scene.set("ns", "c")
    hands = act.Hands(scene.api, builders.V1BETA2, "operator")
    assert await hands.carry_out([applying.Delete("md", "uid")], "ns") == Outcome(is_outdated=True)
