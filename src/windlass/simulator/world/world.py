"""The world put together: an API server, all parts on it, and the moment when it begins."""

from collections.abc import Iterable
from typing import Any

from windlass import clock
from windlass.apiserver import core, inprocess, server
from windlass.simulator.world import definitions, groups, kinds
from windlass.simulator.world.api import Api
from windlass.simulator.world.budgets import Budgets
from windlass.simulator.world.chance import Dice
from windlass.simulator.world.cloud import Cloud
from windlass.simulator.world.daemon_sets import DaemonSets
from windlass.simulator.world.deployments import Deployments
from windlass.simulator.world.jobs import Jobs
from windlass.simulator.world.kubelets import Kubelets
from windlass.simulator.world.machine_deployments import MachineDeployments
from windlass.simulator.world.machine_sets import MachineSets
from windlass.simulator.world.machines import Machines
from windlass.simulator.world.node_lifecycle import NodeLifecycle
from windlass.simulator.world.pulse import Pulse
from windlass.simulator.world.queueing import Queue
from windlass.simulator.world.replica_sets import ReplicaSets
from windlass.simulator.world.scheduling.scheduler import Scheduler
from windlass.simulator.world.stateful_sets import StatefulSets

Json = dict[str, Any]

_BOOKMARK_EVERY_S = 21600.0
"""Watches in the same process are never lost, so nobody need be told often that they are not."""


class World:
    """A cluster that breathes. Whoever wants to meet it talks to `transport`, by `clock`."""

    def __init__(self, clock_: clock.Virtual, node_groups: Iterable[groups.Group], seed: int) -> None:
        settings = core.Settings(
            disabled_controllers=frozenset({"disruption"}), seed=seed, bookmark_every_s=_BOOKMARK_EVERY_S
        )
        self.clock = clock_
        self.server = server.Server(clock_, settings)
        for definition in definitions.every():
            self.server.apply(definition)
        self.transport = inprocess.InProcess(self.server, clock_)
        self.api = Api(self.server)
        for kind in kinds.WATCHED:
            self.api.watch(kind)
        self.dice = Dice(seed)
        self.pulse = Pulse(self.api, clock_)
        self.cloud = Cloud(self.pulse, node_groups, self.dice)
        self.machines = Machines(self.pulse, self.cloud)
        self.queue = Queue(self.pulse)
        self.scheduler = Scheduler(self.pulse, self.dice.for_part("scheduler"))
        self.pulse.join(
            (
                # Budgets first: whoever evicts afterwards meets a status that knows of this moment.
                Budgets(self.pulse),
                MachineDeployments(self.pulse),
                MachineSets(self.pulse),
                self.machines,
                NodeLifecycle(self.pulse, self.cloud),
                Kubelets(self.pulse, self.cloud, self.dice),
                Deployments(self.pulse),
                ReplicaSets(self.pulse),
                StatefulSets(self.pulse),
                self.queue,
                Jobs(self.pulse),
                DaemonSets(self.pulse),
                self.scheduler,
            )
        )

    def found(self) -> None:
        """Make the cluster and its first machines, which are there at once."""
        name = {"name": groups.CLUSTER, "namespace": groups.NAMESPACE}
        self.api.create(kinds.CLUSTERS, {"metadata": name, "spec": {}, "status": {"phase": "Provisioned"}})
        for group in self.cloud.groups.values():
            template, deployment = groups.make_objects(group)
            self.api.create(kinds.MACHINE_TEMPLATES, template)
            self.api.create(kinds.MACHINE_DEPLOYMENTS, deployment)
        self.pulse.step()

    def begin(self) -> None:
        """From here on machines take their time, and may fail."""
        self.pulse.step()
        self.cloud.is_founding = False
