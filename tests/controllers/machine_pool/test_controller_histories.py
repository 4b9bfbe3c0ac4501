"""Random histories: whatever happens in whatever order, what the pool says in the end is the truth.

Providers change their minds, nodes come, go and fall ill, the workload cluster is cut off, the API server fails calls,
and the controller is killed and started anew.
"""

import random
from typing import Any

import pytest

from tests.controllers.machine_pool import management_cluster
from tests.controllers.machine_pool.management_cluster import Stage, World, conditions
from windlass import clock
from windlass.kube import errors, resources, transport
from windlass.kube.models import meta

NAMES = [f"p-{number}" for number in range(5)]
KIND = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "metadata": {"name": "p"}}


class Unreliable:
    """Loses calls and answers now and then, before the server acts or after."""

    def __init__(self, carrier: transport.Transport, chance: random.Random) -> None:
        self._carrier = carrier
        self._chance = chance
        self.rate = 0.1

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method != "GET" and self._chance.random() < self.rate:
            if self._chance.random() < 0.5:
                raise errors.ConnectFailed(request.call, "refused")
            response = await self._carrier.send(request)
            await response.stream.aclose()
            if self._chance.random() < 0.5:
                raise errors.ConnectionLost(request.call, "lost")
            raise errors.ServerError(request.call, 500, meta.Status(reason="InternalError"))
        return await self._carrier.send(request)


async def happen(scene: World, stage: Stage, chance: random.Random) -> None:
    """One thing."""
    match chance.randrange(8):
        case 0 | 1:
            ids = [f"test:///{name}" for name in chance.sample(NAMES, chance.randrange(len(NAMES) + 1))]
            replicas = chance.choice([None, len(ids), len(ids), len(ids) + 1])
            await stage.add_infrastructure("p", ids, ready=chance.random() < 0.9, replicas=replicas)
        case 2 | 3:
            await stage.add_nodes(chance.choice(NAMES), ready=chance.random() < 0.7)
        case 4:
            name = chance.choice(NAMES)
            if await scene.get("Node", name) is not None:
                await scene.delete("Node", name)
        case 5:
            await scene.apply({**KIND, "spec": {"replicas": chance.randrange(4)}})
        case 6:
            scene.down ^= {"https://work.example:6443"}
        case 7:
            value = chance.choice(["", None])
            metadata: dict[str, Any] = {"name": "p", "annotations": {"cluster.x-k8s.io/paused": value}}
            await scene.apply({**KIND, "metadata": metadata})


async def check(scene: World, ids: list[str]) -> None:
    """The pool says what is the case."""
    pool = await scene.pool("p")
    status_, old = pool["status"], pool["status"]["deprecated"]["v1beta1"]
    nodes = {node.meta.name: node for node in (await scene.api.list(resources.NODES)).items}
    listed = [item.removeprefix("test:///") for item in ids]
    there = [name for name in listed if name in nodes]
    ready = [name for name in there if (nodes[name].status.conditions or [])[0].status == "True"]  # type: ignore[union-attr]
    refs = status_.get("nodeRefs", [])
    assert [ref["name"] for ref in refs] == there
    assert [ref["uid"] for ref in refs] == [nodes[name].meta.uid for name in there]
    assert old.get("readyReplicas", 0) == old.get("availableReplicas", 0) == len(ready)
    assert status_["replicas"] == len(ids)
    wanted = pool["spec"]["replicas"]
    assert status_["phase"] == (
        "Running" if wanted == len(ready) else "ScalingUp" if wanted > len(ready) else "ScalingDown"
    )
    assert status_["observedGeneration"] == pool["metadata"]["generation"]
    assert set(conditions(pool)) <= {"Paused", "Ready", "BootstrapReady", "InfrastructureReady", "ReplicasReady"}
    for name in there:
        assert (nodes[name].meta.annotations or {})["cluster.x-k8s.io/owner-name"] == "p"


@pytest.mark.parametrize("seed", range(12))
def test_the_truth_is_told_in_the_end(seed: int) -> None:
    time = clock.VirtualClock(management_cluster.NOW_S)
    chance = random.Random(seed)

    async def play() -> None:
        scene = World(time)
        stage = Stage(scene)
        await stage.set()
        await stage.add_infrastructure("p", [])
        await stage.add_pool("p", 2)
        unreliable: list[Unreliable] = []

        def spoil(carrier: transport.Transport) -> transport.Transport:
            unreliable.append(Unreliable(carrier, chance))
            return unreliable[-1]

        for _ in range(4):
            async with scene.controlled(between=spoil):
                for _ in range(10):
                    await happen(scene, stage, chance)
                    await scene.settle(chance.choice([0.0, 0.01, 1.0, 30.0]))
        async with scene.controlled(between=spoil):
            scene.down.clear()
            metadata: dict[str, Any] = {"name": "p", "annotations": {"cluster.x-k8s.io/paused": None}}
            await scene.apply({**KIND, "metadata": metadata})
            ids = [f"test:///{name}" for name in chance.sample(NAMES, 3)]
            await stage.add_infrastructure("p", ids)
            unreliable[-1].rate = 0.0
            await scene.settle(400.0)
            await check(scene, ids)
            scene.written.writes.clear()
            await scene.settle(2000.0)
            assert scene.written.writes == [], "quiet afterwards"
            await scene.delete("MachinePool", "p")
            await scene.settle(30.0)
            assert await scene.get("MachinePool", "p") is None
            left = [name for name in NAMES if await scene.get("Node", name) and f"test:///{name}" in ids]
            assert left == []

    time.run(play())
