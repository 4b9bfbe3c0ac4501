"""The Cluster API provider on the real Cluster API: what machines really do when groups are changed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from testbed import api, clusterapi, objects
from testbed.bed import Bed
from testbed.infrastructure.knobs import PREFIX
from windlass import clock
from windlass.autoscaler.readers import nodes
from windlass.engine.model import facts, node_groups, plan
from windlass.kube import client, resources, rest_config
from windlass.providers import base
from windlass.providers.clusterapi import auto_discovery
from windlass.providers.clusterapi.machines import Machine
from windlass.providers.clusterapi.provider import Provider

# Watches are cut off at the end of a test; on a busy machine the loop may be closed before a socket is told of it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MARK = "cluster.x-k8s.io/delete-machine"
BOUNDS = {
    f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{which}-size": n for which, n in (("min", "0"), ("max", "9"))
}
PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def namespace(control_plane: Bed) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "provider-"}}
    name: str = control_plane.api.add(body)["metadata"]["name"]
    clusterapi.add_cluster(control_plane.api, control_plane.kubeconfig, name, name)
    return name


class Stage:
    """Groups in one namespace, and a provider that follows it."""

    def __init__(
        self, server: api.Api, workload: client.Client, provider: Provider, namespace: str, version: str
    ) -> None:
        self.server, self.provider, self.namespace = server, provider, namespace
        self._workload = workload
        self._suffix = f"-{version or 'preferred'}"
        self._made: list[str] = []

    def add(self, made: list[api.Object]) -> str:
        """Create a group, and what it refers to; its id."""
        for body in made:
            self.server.add(body)
            self._made.append(f"{api.path_of(body)}/{body['metadata']['name']}")
        return f"{made[-1]['kind']}/{self.namespace}/{made[-1]['metadata']['name']}"

    def deployment(self, name: str, replicas: int, **knobs: str) -> str:
        name += self._suffix
        told = BOUNDS | {PREFIX + knob.replace("_", "-"): value for knob, value in knobs.items()}
        how: Any = {"cluster": self.namespace, "namespace": self.namespace, "annotations": told}
        return self.add(objects.machine_deployment(name, replicas, **how))

    def pool(self, name: str, replicas: int, machines: bool) -> str:
        name += self._suffix
        how: Any = {"cluster": self.namespace, "namespace": self.namespace, "annotations": BOUNDS}
        return self.add(objects.machine_pool(name, replicas, machines=machines, **how))

    def path(self, plural: str, name: str) -> str:
        return f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{self.namespace}/{plural}/{name}"

    async def nodes(self) -> list[facts.Node]:
        return [nodes.read_node(node) for node in (await self._workload.list(resources.NODES)).items]

    async def see(self, id: str, until: Callable[[node_groups.NodeGroup], object]) -> node_groups.NodeGroup:
        """The group, as soon as it is what is waited for."""
        seen: object = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    observed = self.provider.observe(await self.nodes())
                    seen = next((group for group in observed.groups if group.id == id), observed.set_aside)
                    if isinstance(seen, node_groups.NodeGroup) and until(seen):
                        return seen
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"last seen: {seen}") from None

    async def see_running(self, id: str, count: int) -> list[facts.Node]:
        """The nodes of a group that has so many, and nothing else."""
        node_group = await self.see(
            id, lambda group: _states(group) == ["Running"] * count == _states(group)[: group.target_size]
        )
        ids = {instance.provider_id for instance in node_group.instances}
        return sorted((node for node in await self.nodes() if node.provider_id in ids), key=lambda node: node.created_s)

    async def wait_machines(self, of: list[facts.Node], until: Callable[[Machine], object]) -> None:
        """Until the provider itself has heard this of the Machines of nodes: its watch may be behind the server."""
        kinds, ids = self.provider._kinds, {node.provider_id for node in of}
        assert kinds is not None
        async with asyncio.timeout(PATIENCE_S):
            while {machine.provider_id for machine in kinds.machines if until(machine)} & ids != ids:
                await asyncio.sleep(0.1)

    def clear(self) -> None:
        for path in reversed(self._made):
            if self.server.find(path) is not None:
                with contextlib.suppress(api.Refused):  # its owner may take it along meanwhile
                    self.server.delete(path)


def _states(group: node_groups.NodeGroup) -> list[str]:
    return [instance.state for instance in group.instances]


@contextlib.asynccontextmanager
async def _follow(control_plane: Bed, namespace: str, version: str) -> AsyncIterator[Stage]:
    config = auto_discovery.read_config([f"clusterapi:namespace={namespace}"], {"CAPI_VERSION": version})
    async with rest_config.load_rest_config(clock.RealClock(), str(control_plane.kubeconfig)).connect() as carrier:
        talking = client.Client(carrier, clock.RealClock(), client.ClientSettings(qps=0))
        provider = Provider(talking, config)
        running = asyncio.create_task(provider.run())
        try:
            await provider.wait_synced()
            yield Stage(control_plane.api, talking, provider, namespace, version)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


@pytest_asyncio.fixture(params=["v1beta1", ""])
async def stage(control_plane: Bed, namespace: str, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """In the version that the server prefers, and in the one before."""
    async with _follow(control_plane, namespace, request.param) as found:
        yield found
        found.clear()
    await asyncio.sleep(0.25)  # sockets under TLS close a moment after they are told to


async def test_d6_a_group_grows_and_the_machine_that_was_chosen_goes_not_one_that_is_marked(stage: Stage) -> None:
    group = stage.deployment("chosen", 0)
    seen = await stage.see(group, lambda node_group: node_group.template)
    assert seen.template is not None
    assert dict(seen.template.capacity)[facts.CPU] > 0
    await stage.provider.resize(plan.Resize(group, 0, 3, 9))
    there = await stage.see_running(group, 3)
    stale, chosen = there[0], there[1]
    stage.server.merge(stage.path("machines", stale.name), {"metadata": {"annotations": {MARK: "long ago"}}})
    await stage.wait_machines([stale], lambda machine: machine.is_marked)
    await stage.provider.delete_nodes(group, [chosen])
    left = await stage.see_running(group, 2)
    assert {node.name for node in left} == {node.name for node in there} - {chosen.name}
    assert MARK not in stage.server.get(stage.path("machines", stale.name))["metadata"].get("annotations", {})


async def test_d5_a_machine_that_the_cloud_refuses_has_an_error_and_can_be_deleted(stage: Stage) -> None:
    group = stage.deployment("refused", 1, fail="quota exceeded")
    seen = await stage.see(group, lambda node_group: any(instance.error for instance in node_group.instances))
    (failed,) = seen.instances
    assert failed.state == "Creating"
    assert failed.error is not None
    assert failed.error.code == "ProvisioningFailed"
    assert failed.error.message.startswith("CreateError: ")
    assert failed.error.message.endswith(": quota exceeded")
    await stage.provider.delete_instances(plan.DeleteInstances(group, (failed.provider_id,), ""))
    await stage.see(group, lambda seen: (seen.target_size, seen.instances) == (0, ()))


async def test_d8_a_rollout_that_is_stuck_loses_no_machine_that_runs(stage: Stage) -> None:
    group = stage.deployment("rolled", 2)
    there = await stage.see_running(group, 2)
    patch = {
        "metadata": {"annotations": {PREFIX + "provision-seconds": "3600"}},
        "spec": {"template": {"spec": {"version": "v1.36.99"}}},
    }
    stage.server.merge(stage.path("machinedeployments", group.rpartition("/")[2]), patch)
    seen = await stage.see(group, lambda node_group: node_group.is_rolling_out and "Creating" in _states(node_group))
    surge = next(instance.provider_id for instance in seen.instances if instance.state == "Creating")
    for ask in (
        stage.provider.delete_instances(plan.DeleteInstances(group, (surge,), "")),
        stage.provider.delete_nodes(group, there[:1]),
        stage.provider.reduce_target(plan.ReduceTarget(group, 1, "", 2)),
    ):
        with pytest.raises(base.ProviderError, match="rolling out"):
            await ask
    seen = await stage.see(group, lambda seen: True)
    assert _states(seen).count("Running") == seen.target_size == 2


async def test_d7_the_chosen_machine_of_a_pool_goes_and_a_pool_without_machines_cannot_choose(stage: Stage) -> None:
    group, blind = stage.pool("shown", 3, machines=True), stage.pool("hidden", 2, machines=False)
    there = await stage.see_running(group, 3)
    # An instance runs, and has a Node, before there is a Machine for it.
    await stage.wait_machines(there, lambda machine: machine.node_name)
    await stage.see(group, lambda node_group: node_group.can_choose)
    await stage.provider.delete_nodes(group, [there[0]])
    left = await stage.see_running(group, 2)
    assert {node.name for node in left} == {node.name for node in there[1:]}
    await stage.see_running(blind, 2)
    assert not (await stage.see(blind, lambda seen: True)).can_choose
