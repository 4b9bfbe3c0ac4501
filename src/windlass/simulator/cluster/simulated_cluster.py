"""The simulated cluster assembled: API server, all components on it, and the start of virtual time."""

from collections.abc import Iterable
from typing import Any

from windlass import clock
from windlass.apiserver import embedded_server, registry, server
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.cluster.api_client import ApiClient
from windlass.simulator.cluster.cloud import Cloud
from windlass.simulator.cluster.disruption import DisruptionController
from windlass.simulator.cluster.event_loop import EventLoop
from windlass.simulator.cluster.machines import MachineController, MachineDeploymentController, MachineSetController
from windlass.simulator.cluster.node_groups import RandomStreams
from windlass.simulator.cluster.node_lifecycle import Kubelets, NodeLifecycleController
from windlass.simulator.cluster.workloads import (
    DaemonSetController,
    DeploymentController,
    JobController,
    ProvisioningJobQueue,
    ReplicaSetController,
    StatefulSetController,
)
from windlass.simulator.fast_scheduler.scheduler import FastScheduler

Json = dict[str, Any]

_BOOKMARK_EVERY_S = 21600.0
"""Interval of bookmarks: in-process watches are never lost, so it can be long."""


class SimulatedCluster:
    """The simulated cluster. Clients use its `transport` and its `clock`."""

    def __init__(self, clock_: clock.VirtualClock, node_groups: Iterable[node_groups.NodeGroup], seed: int) -> None:
        settings = registry.ServerSettings(
            disabled_controllers=frozenset({"disruption"}), seed=seed, bookmark_every_s=_BOOKMARK_EVERY_S
        )
        self.clock = clock_
        self.server = server.Server(clock_, settings)
        for definition in api_client.list_crds():
            self.server.apply(definition)
        self.transport = embedded_server.InProcessTransport(self.server, clock_)
        self.api = ApiClient(self.server)
        for kind in api_client.WATCHED:
            self.api.watch(kind)
        self.random_streams = RandomStreams(seed)
        self.event_loop = EventLoop(self.api, clock_)
        self.cloud = Cloud(self.event_loop, node_groups, self.random_streams)
        self.machines = MachineController(self.event_loop, self.cloud)
        self.queue = ProvisioningJobQueue(self.event_loop)
        self.scheduler = FastScheduler(self.event_loop, self.random_streams.for_component("scheduler"))
        self.event_loop.add_components(
            (
                # Budgets first: evictions in the same step meet a current status.
                DisruptionController(self.event_loop),
                MachineDeploymentController(self.event_loop),
                MachineSetController(self.event_loop),
                self.machines,
                NodeLifecycleController(self.event_loop, self.cloud),
                Kubelets(self.event_loop, self.cloud, self.random_streams),
                DeploymentController(self.event_loop),
                ReplicaSetController(self.event_loop),
                StatefulSetController(self.event_loop),
                self.queue,
                JobController(self.event_loop),
                DaemonSetController(self.event_loop),
                self.scheduler,
            )
        )

    def create(self) -> None:
        """Create the cluster and its first machines, without delays."""
        name = {"name": node_groups.CLUSTER, "namespace": node_groups.NAMESPACE}
        self.api.create(api_client.CLUSTERS, {"metadata": name, "spec": {}, "status": {"phase": "Provisioned"}})
        for group in self.cloud.groups.values():
            template, deployment = node_groups.make_group_objects(group)
            self.api.create(api_client.MACHINE_TEMPLATES, template)
            self.api.create(api_client.MACHINE_DEPLOYMENTS, deployment)
        self.event_loop.step()

    def start(self) -> None:
        """From here on machines have delays and failures."""
        self.event_loop.step()
        self.cloud.is_starting = False
