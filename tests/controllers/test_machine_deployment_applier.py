"""Writing MachineDeployments from what may no longer be the case."""

from tests.controllers import machine_deployment_builders
from tests.controllers.worker_pool_cluster import World, in_virtual_time
from windlass.controllers import machine_deployment_applier, machine_deployments
from windlass.controllers.machine_deployment_applier import ApplyResult
from windlass.controllers.machine_deployments import PoolSize, ReplicaLimits

LIMITS = ReplicaLimits(1, 10)
WANTED = machine_deployment_builders.wanted(limits=LIMITS)


async def make(scene: World) -> machine_deployment_applier.MachineDeploymentApplier:
    """A pool that was made at 3, handed over, and scaled to 7."""
    await scene.set("ns", "c")
    hands = machine_deployment_applier.MachineDeploymentApplier(
        scene.api, machine_deployment_builders.V1BETA2, "operator"
    )
    assert (
        await hands.apply(
            [machine_deployments.ApplyMachineDeployment("md", machine_deployments.build_manifest(WANTED, 3))], "ns"
        )
        == ApplyResult()
    )
    await scene.scale("md", "ns", 7)
    return hands


@in_virtual_time
async def test_a_pool_that_is_there_already_does_not_begin_anew(scene: World) -> None:
    """As an operator would have it that has not heard of the pool yet."""
    hands = await make(scene)
    outcome = await hands.apply(
        [machine_deployments.ApplyMachineDeployment("md", machine_deployments.build_manifest(WANTED, 3))], "ns"
    )
    assert outcome == ApplyResult(is_conflict=True)
    assert await scene.size("md", "ns") == (7, True)


@in_virtual_time
async def test_a_pool_that_was_replaced_meanwhile_is_left_alone(scene: World) -> None:
    hands = await make(scene)
    stale = machine_deployments.ApplyMachineDeployment(
        "md",
        machine_deployments.build_manifest(WANTED, None),
        machine_deployments.ReplicasHandover(7, False),
        "other",
        "1",
    )
    assert not (await hands.apply([stale], "ns")).is_done
    written = machine_deployments.ApplyMachineDeployment(
        "md", machine_deployments.build_manifest(WANTED, 1), None, "other", "1"
    )
    assert not (await hands.apply([written], "ns")).is_done
    assert await scene.size("md", "ns") == (7, True)


@in_virtual_time
async def test_nothing_is_let_go_of_where_the_handover_failed(scene: World) -> None:
    await scene.set("ns", "c")
    hands = machine_deployment_applier.MachineDeploymentApplier(
        scene.api, machine_deployment_builders.V1BETA2, "operator"
    )
    await hands.apply(
        [
            machine_deployments.ApplyMachineDeployment(
                "md", machine_deployments.build_manifest(machine_deployment_builders.wanted(), 3)
            )
        ],
        "ns",
    )
    live = machine_deployments.parse_machine_deployment(await scene.deployment("md", "ns") or {})
    step = machine_deployments.plan_apply(WANTED, PoolSize(3, LIMITS), None, live, "operator")
    assert step is not None
    await scene.api.merge_patch(scene.deployments, "md", {"metadata": {"labels": {"touched": "yes"}}}, "ns")
    assert await hands.apply([step], "ns") == ApplyResult(is_conflict=True)
    assert await scene.size("md", "ns") == (3, False)


@in_virtual_time
async def test_a_pool_that_is_gone_is_not_deleted_twice(scene: World) -> None:
    await scene.set("ns", "c")
    hands = machine_deployment_applier.MachineDeploymentApplier(
        scene.api, machine_deployment_builders.V1BETA2, "operator"
    )
    assert await hands.apply([machine_deployments.DeleteMachineDeployment("md", "uid")], "ns") == ApplyResult(
        is_conflict=True
    )
