"""Anything, in any order: a static pool has what it asks for, an autoscaled one what its autoscaler made of it."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controllers import worker_pool_cluster
from tests.controllers.worker_pool_cluster import EKS, LATTICE, TEMPLATES, World, owners
from windlass import clock
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.eks_anywhere import controller
from windlass.controllers.eks_anywhere.model import EksAnywhereSettings as EksSettings
from windlass.controllers.lattice import controller as lattice_controller
from windlass.controllers.lattice.model import LatticeSettings
from windlass.controllers.machine_deployments import PoolSize, ReplicaLimits

Json = dict[str, Any]


class Eks:
    """An EKS Anywhere Cluster with one group."""

    namespace, deployment, manager = "eksa-system", "prod-a", "eks-a-controller"

    @staticmethod
    def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
        return controller.new_controller(site, EksSettings())

    @staticmethod
    def begin(size: PoolSize) -> int:
        return size.replicas if size.limits is None else size.limits.min

    @staticmethod
    async def put(scene: World, size: PoolSize) -> None:
        group: Json = {"name": "a", "count": size.replicas, **TEMPLATES}
        if size.limits is not None:
            group["autoscalingConfiguration"] = {"minCount": size.limits.min, "maxCount": size.limits.max}
        await scene.put(EKS, "prod", "default", {"workerNodeGroupConfigurations": [group]})


class Lattice:
    """A LatticeCluster with one pool."""

    namespace, deployment, manager = "capi-system", "prod-pool-a", "lattice-operator"

    @staticmethod
    def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
        return lattice_controller.new_controller(site, LatticeSettings(deploys_autoscaler=False))

    @staticmethod
    def begin(size: PoolSize) -> int:
        return size.replicas if size.limits is None else max(size.limits.min, size.replicas)

    @staticmethod
    async def put(scene: World, size: PoolSize) -> None:
        pool: Json = {"replicas": size.replicas, **TEMPLATES}
        if size.limits is not None:
            pool |= {"min": size.limits.min, "max": size.limits.max}
        await scene.put(LATTICE, "prod", "capi-system", {"nodes": {"worker_pools": {"a": pool}}})


@dataclass(frozen=True)
class Scale:
    """By the autoscaler."""

    replicas: int


@dataclass(frozen=True)
class Restart:
    """Another leader."""


SIZES = st.builds(PoolSize, st.integers(0, 12)) | st.builds(
    lambda replicas, low, more: PoolSize(replicas, ReplicaLimits(low, low + more)),
    st.integers(0, 12),
    st.integers(1, 6),
    st.integers(0, 6),
)
HISTORIES = st.lists(SIZES | st.builds(Scale, st.integers(0, 15)) | st.just(Restart()), max_size=8)


@pytest.mark.parametrize("operator", [Eks, Lattice])
@settings(max_examples=40, deadline=None)
@given(first=SIZES, history=HISTORIES)
def test_sizes_are_kept_by_whom_they_belong_to(
    operator: type[Eks] | type[Lattice], first: PoolSize, history: list[PoolSize | Scale | Restart]
) -> None:
    time = clock.VirtualClock(worker_pool_cluster.NOW_S)
    time.run(_play(World(time), operator, first, history))


async def _play(
    scene: World, operator: type[Eks] | type[Lattice], first: PoolSize, history: list[PoolSize | Scale | Restart]
) -> None:
    await scene.set(operator.namespace, "prod")
    size, expected = first, operator.begin(first)
    lives: list[list[PoolSize | Scale]] = [[]]
    for event in history:
        if isinstance(event, Restart):
            lives.append([])
        else:
            lives[-1].append(event)
    await operator.put(scene, first)
    for life in lives:
        async with scene.controlled(operator.make):
            await _check(scene, operator, size, expected)
            for event in life:
                if isinstance(event, Scale):
                    await scene.scale(operator.deployment, operator.namespace, event.replicas)
                    expected = event.replicas if size.is_autoscaled else size.replicas
                else:
                    expected = _follow(size, event, expected)
                    size = event
                    await operator.put(scene, size)
                await _check(scene, operator, size, expected)
            await scene.catch_up()
            scene.written.writes.clear()
            await scene.settle(1500.0)
            assert scene.written.writes == []


def _follow(before: PoolSize, after: PoolSize, current: int) -> int:
    """What becomes of the size when what is asked for changes."""
    if after.limits is None:
        return after.replicas
    return current if before.is_autoscaled else after.limits.clamp(current)


async def _check(scene: World, operator: type[Eks] | type[Lattice], size: PoolSize, expected: int) -> None:
    found = await scene.size(operator.deployment, operator.namespace)
    assert found == (expected, size.is_autoscaled)
    managers = owners(await scene.deployment(operator.deployment, operator.namespace), "spec", "replicas")
    assert (operator.manager in managers) == (not size.is_autoscaled)
    assert managers, "someone owns it: a scale will be seen"
