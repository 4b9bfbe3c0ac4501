"""A cluster in process, in virtual time: the embedded API server, the simulated provider, and the autoscaler on both.

Nobody schedules pods or runs kubelets here: what they would do, a test does. `World` of the simulator does it all.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tests.providers import fake_provider
from tests.providers.clusterapi.management_cluster import Carrier
from windlass import clock
from windlass.apiserver import embedded_server, registry, server
from windlass.autoscaler import cluster_informers, memory_store
from windlass.autoscaler.actuator import Actuator
from windlass.autoscaler.autoscaler import Autoscaler, run_inline
from windlass.autoscaler.cluster_informers import ClusterState
from windlass.engine.loop import Decision
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.kube import client, request_builders, resources
from windlass.observability import reporter as observability_reporter

Json = dict[str, Any]
NOW_S = 1_700_000_000.0
HAS = (("cpu", 4000), ("memory", 2**34), ("pods", 110))


def template(name: str) -> facts.Node:
    ready = (facts.Condition("Ready", "True"),)
    return facts.Node(name, allocatable=HAS, capacity=HAS, labels={"group": name}, conditions=ready)


class Cluster:
    """What a test needs at hand."""

    def __init__(self, time: clock.VirtualClock, settings: Settings | None = None) -> None:
        self.clock, self.settings = time, settings or Settings()
        # Nobody here takes off the taint that new nodes get until they are ready.
        self.server = server.Server(
            time, registry.ServerSettings(disabled_admission=frozenset({"TaintNodesByCondition"}))
        )
        self.carrier = Carrier(embedded_server.InProcessTransport(self.server, time))
        self.provider = fake_provider.Provider(time)
        self.api = client.Client(
            embedded_server.InProcessTransport(self.server, time), time, client.ClientSettings(qps=0), random.Random(1)
        )
        self.going: asyncio.Task[None]
        """The autoscaler that runs."""
        self.unready: set[str] = set()
        """Groups whose nodes register and never become ready."""
        self.acting_qps = 0.0
        """How many requests a second are sent to carry out plans, at most; 0 is no limit."""
        self.writes_events = False
        """Whether the autoscaler's reporter writes its events, as in the process."""
        self._known: set[str] = set()
        self._started = 0
        self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
        self._owner = self.want_pods(1)

    def add_group(self, id: str, size: int = 0, **more: Any) -> fake_provider.Group:
        group = fake_provider.Group(id, 0, 10, template(id), size=size, **more)
        self.provider.add(group)
        return group

    def register_nodes(self) -> None:
        """Kubelets of instances that have booted, or are gone, say so."""
        nodes = {node.name: node for node in self.provider.nodes}
        for name in sorted(nodes.keys() - self._known):
            is_ready = nodes[name].labels["group"] not in self.unready
            self.server.apply(_spell_node(nodes[name], () if is_ready else (_NOT_READY,)), "kubelet")
            self._tell(resources.NODES, name, {**_STATUS, "conditions": [_READY if is_ready else _STARTING]})
        for name in sorted(self._known - nodes.keys()):
            self.server.handle(request_builders.build_delete(resources.NODES, name))
        self._known = set(nodes)

    def want_pods(self, replicas: int) -> str:
        """So many are wanted by the ReplicaSet that owns all of them; what it is known by."""
        wanted = {**_REPLICA_SET, "spec": {**_REPLICA_SPEC, "replicas": replicas}}
        uid: str = self.server.apply(wanted)["metadata"]["uid"]
        return uid

    def add_pod(self, name: str, cpu: str = "1", node: str = "", *, is_tried: bool = True, **more: Any) -> None:
        """One that runs on a node, or waits; `is_tried`: the scheduler has found no place for it."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": self._owner, "controller": True}
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], **({"nodeName": node} if node else {}), **more.pop("spec", {})}
        status = {"phase": "Running"} if node else {"phase": "Pending", "conditions": [condition] if is_tried else []}
        metadata = {"name": name, "namespace": "default", "ownerReferences": [owner], **more}
        self.server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, "test")
        self._tell(resources.PODS, name, status, "default")

    def _tell(self, resource: resources.Resource[Any], name: str, status: Json, namespace: str = "") -> None:
        patch = request_builders.build_merge_patch(resource, name, {"status": status}, namespace, subresource="status")
        assert self.server.handle(patch).status == 200

    # Looking

    async def node(self, name: str) -> Json:
        return await self.api.get(resources.NODES.untyped(), name)

    async def taints(self, name: str) -> set[str]:
        return {taint["key"] for taint in (await self.node(name))["spec"].get("taints", ())}

    async def events(self) -> list[Json]:
        found: list[Json] = (await self.api.list(resources.EVENTS.untyped())).items
        return found

    async def until(self, what: Callable[[], object], within_s: float = 300.0) -> float:
        """Let time pass until it is so. How long that took."""
        since_s = self.clock.monotonic_s()
        while not what():
            assert self.clock.monotonic_s() < since_s + within_s, "not in time"
            self.register_nodes()
            await self.clock.sleep(0.1)
        return self.clock.monotonic_s() - since_s

    async def wait(self, what: Callable[[], object], within_s: float = 300.0) -> None:
        """Let time pass until it is so, and nobody registers nodes meanwhile."""
        since_s = self.clock.monotonic_s()
        while not what():
            assert self.clock.monotonic_s() < since_s + within_s, "not in time"
            await self.clock.sleep(0.1)

    # The autoscaler

    @contextlib.asynccontextmanager
    async def autoscaling(
        self, snapshot: Snapshot | None = None, choose: Callable[..., Decision] | None = None, **more: Any
    ) -> AsyncIterator[Autoscaler]:
        """An autoscaler that runs meanwhile; afterwards it is gone at once, as if killed. `choose` decides."""

        def connect(qps: float = 0.0) -> client.Client:
            return client.Client(self.carrier, self.clock, client.ClientSettings(qps=qps, burst=1), random.Random(2))

        def on_event(kind: str) -> None:
            running.on_change(kind)

        batch = cluster_informers.select_capacity_apis(self.settings)
        priorities_in = "kube-system" if "priority" in self.settings.scale_up.expander else ""
        world = ClusterState(connect(), self.provider, on_event, priorities_in, snapshot, batch)
        reporter = observability_reporter.Reporter(connect(), self.settings)
        running = Autoscaler(
            world,
            Actuator(connect(self.acting_qps), self.provider, batch.requests),
            reporter,
            memory_store.MemoryStore(connect(), "kube-system", "windlass-memory", f"process {self._started}"),
            self.settings,
            self.clock,
            **{"think": run_inline, **more},
        )
        if choose is not None:
            running._engine_decide = choose
        self._started += 1
        following = asyncio.create_task(world.run())
        await world.wait_synced()
        self.going = going = asyncio.create_task(running.run())
        tasks = [going, following, *([asyncio.create_task(reporter.run())] if self.writes_events else [])]
        try:
            async with cluster_informers.run_status_controllers(
                connect(), batch, world.nodes, self.settings, self.clock
            ):
                yield running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def play(scenario: Callable[[Cluster], Any], settings: Settings | None = None) -> None:
    """Run a scenario in virtual time."""
    time = clock.VirtualClock(NOW_S)

    async def main() -> None:
        await scenario(Cluster(time, settings))

    time.run(main())


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
_REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs", "namespace": "default"}}
_REPLICA_SPEC = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}


AMOUNTS = {"cpu": "4", "memory": str(2**34), "pods": "110"}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"}
_STARTING = {**_READY, "status": "False", "reason": "KubeletNotReady"}
_STATUS = {"capacity": AMOUNTS, "allocatable": AMOUNTS}


_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _spell_node(node: facts.Node, taints: Sequence[Json]) -> Json:
    metadata = {"name": node.name, "labels": dict(node.labels)}
    spec = {"providerID": node.provider_id, "taints": list(taints)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
