"""Cluster state: the workload cluster, kept current by informers and observed as one Observation.

    cluster_state = ClusterState(api, provider, on_change=…)
    running = asyncio.create_task(cluster_state.run())
    await cluster_state.wait_synced()
    with cluster_state.frozen():
        seen = cluster_state.observe()      # does not change until the end of the block

Flags decide which objects of autoscaling.x-k8s.io are watched and whose status is written (`CapacityApis`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass import clock, errors
from windlass.autoscaler import batcher, informer_sinks, priority_expander_config, scheduler_config
from windlass.autoscaler.capacity_apis import capacity_buffers, capacity_quotas, provisioning_requests
from windlass.autoscaler.readers import dra, pods, storage_objects, workloads
from windlass.engine.capacity_apis import proactive_pods
from windlass.engine.expanders import priority
from windlass.engine.model import dynamic_resources, facts, node_groups, plan
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.kube import client, informers, reflector, request_builders, resources
from windlass.kube import errors as kube_errors
from windlass.kube.models import core, meta
from windlass.kube.models import pods as pod_models
from windlass.observability import options
from windlass.providers import base

OnChange = Callable[[str], None]
"""Called often with the kind of a changed object."""

UNSCHEDULABLE_POD = "UnschedulablePod"
"""Reported instead of Pod when a pod becomes unschedulable."""

_POLL_INTERVAL_S = 0.05
"""Poll interval for kinds that the server does not serve yet."""

_REQUIRED_KINDS = frozenset({"Node", "Pod", "PodDisruptionBudget"})
"""Kinds without whose current state a used node could seem idle."""


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """An observation, and the objects that were left out of it."""

    observation: Observation
    set_aside: tuple[errors.InvalidObject, ...] = ()
    refresh_s: float = 0.0
    """Seconds that the provider took to list its node groups."""
    buffers_reconciled_s: Mapping[bool, float] = field(default_factory=dict)
    """See `CapacityBuffers.find_oldest_reconciled_s`."""


@dataclass(slots=True)
class _WorkloadCaches:
    daemon_sets: informer_sinks.FactCache[node_groups.DaemonSet] = field(default_factory=informer_sinks.FactCache)
    budgets: informer_sinks.FactCache[facts.PodDisruptionBudget] = field(default_factory=informer_sinks.FactCache)
    controllers: list[informer_sinks.FactCache[facts.Controller]] = field(default_factory=list)
    priorities: informer_sinks.FactCache[tuple[priority.PriorityRule, ...]] = field(
        default_factory=informer_sinks.FactCache
    )


_CONTROLLER_READERS: Mapping[resources.Resource[Any], Callable[[Any], facts.Controller | None]] = {
    resources.REPLICATION_CONTROLLERS: workloads.read_replica_controller,
    resources.REPLICA_SETS: workloads.read_replica_controller,
    resources.STATEFUL_SETS: workloads.read_replica_controller,
    resources.JOBS: workloads.read_active_job,
}

_DEVICE_READERS: Mapping[resources.Resource[Any], Callable[[Any], dynamic_resources.DeviceFact]] = {
    resources.DEVICE_CLASSES: dra.read_device_class,
    resources.RESOURCE_SLICES: dra.read_resource_slice,
    resources.RESOURCE_CLAIMS: dra.read_resource_claim,
}

_STORAGE_READERS: Mapping[resources.Resource[Any], Callable[[Any], Any]] = {
    resources.PERSISTENT_VOLUMES: storage_objects.read_volume,
    resources.PERSISTENT_VOLUME_CLAIMS: storage_objects.read_claim,
    resources.STORAGE_CLASSES: storage_objects.read_storage_class,
    resources.CSI_NODES: storage_objects.read_csi_node,
    resources.CSI_DRIVERS: storage_objects.read_csi_driver,
    resources.CSI_STORAGE_CAPACITIES: storage_objects.read_storage_capacity,
    resources.VOLUME_ATTACHMENTS: storage_objects.read_attachment,
}


def _read_priorities(config_map: core.ConfigMap) -> tuple[priority.PriorityRule, ...]:
    return priority_expander_config.read_config_map(config_map.meta.namespace or "", config_map.data or {})


class _NotifyingSink:
    """A sink that notifies a callback of each change."""

    def __init__(self, sink: reflector.Sink[Any], kind: str, tell: OnChange) -> None:
        self._sink, self._kind, self._tell = sink, kind, tell
        self.begin = sink.begin

    @property
    def warnings(self) -> Mapping[str, errors.InvalidObject]:
        """Warnings about objects that could be read. See `FactSink.complaints`."""
        invalids: Mapping[str, errors.InvalidObject] = getattr(self._sink, "complaints", {})
        return invalids

    def put(self, metadata: meta.ObjectMeta, found: Any) -> None:
        self._sink.put(metadata, found)
        self._tell(self._kind)

    def set_aside(self, unreadable: resources.Unreadable[Any]) -> None:
        self._sink.set_aside(unreadable)
        self._tell(self._kind)

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._sink.remove(metadata)
        self._tell(self._kind)

    def end(self) -> None:
        self._sink.end()
        self._tell(self._kind)


class _NotifyingPodSink(_NotifyingSink):
    """The same for pods; a pod that becomes unschedulable is reported as such, once."""

    def __init__(self, sink: reflector.Sink[Any], tell: OnChange, not_tried: batcher.UnprocessedPods) -> None:
        super().__init__(sink, "Pod", tell)
        self._waiting: set[str] = set()
        self._untried = not_tried

    def put(self, metadata: meta.ObjectMeta, pod: pod_models.Pod) -> None:
        self._sink.put(metadata, pod)
        identity = informer_sinks.pod_identity(metadata)
        is_unschedulable = pods.is_unschedulable(pod)
        self._untried.put(identity, pod, is_unschedulable)
        if not is_unschedulable:
            self._waiting.discard(identity)
            self._tell("Pod")
        elif identity not in self._waiting:
            self._waiting.add(identity)
            self._tell(UNSCHEDULABLE_POD)

    def set_aside(self, unreadable: resources.Unreadable[Any]) -> None:
        self._forget(unreadable.metadata)
        super().set_aside(unreadable)

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._forget(metadata)
        super().remove(metadata)

    def _forget(self, metadata: meta.ObjectMeta) -> None:
        self._waiting.discard(informer_sinks.pod_identity(metadata))
        self._untried.remove(informer_sinks.pod_identity(metadata))


@dataclass(frozen=True, slots=True)
class CapacityApis:
    """Informers of autoscaling.x-k8s.io objects; None where flags disable them."""

    requests: provisioning_requests.ProvisioningRequests | None = None
    quotas: capacity_quotas.CapacityQuotas | None = None
    buffers: capacity_buffers.CapacityBuffers | None = None


class ClusterState:
    """Follows all inputs of a decision except node groups, which the provider follows."""

    def __init__(
        self,
        api: client.Client,
        provider: base.Provider,
        on_change: OnChange,
        priorities_namespace: str = "",
        snapshot: Snapshot | None = None,
        batch: CapacityApis | None = None,
        scheduler: scheduler_config.SchedulerRelease | None = None,
    ) -> None:
        """`scheduler`: release of kube-scheduler; None: that of the snapshot."""
        self.snapshot = Snapshot() if snapshot is None else snapshot
        self._provider, self._on_change, self._clock = provider, on_change, api.clock
        self._api, self._scheduler = api, scheduler
        self._version_trouble: kube_errors.KubeError | None = None
        """Error of the last attempt to read the version of the API server."""
        self._gate = informer_sinks.ChangeBuffer()
        self._observed: Sequence[facts.Node] = ()
        self._lacking: list[str] = []
        self.unprocessed_pods = batcher.UnprocessedPods(api.clock, self._find_lacking)
        self._workloads = _WorkloadCaches()
        self._heard: list[_NotifyingSink] = []
        self._controllers: tuple[tuple[object, ...], dict[ControllerKey, facts.Controller]] = ((), {})
        self._informers = [*self._follow(api), *self._follow_priorities(api, priorities_namespace)]
        batch = batch or CapacityApis()
        self._requests = batch.requests or provisioning_requests.ProvisioningRequests()
        self._quotas = batch.quotas or capacity_quotas.CapacityQuotas()
        self._buffers = batch.buffers or capacity_buffers.CapacityBuffers()
        self._optional = [
            informer
            for item in (batch.requests, batch.buffers, batch.quotas)
            if item is not None
            for informer in item.make_informers(api, self._gate, self._notify_on)
        ]
        """Kinds that the server may not serve. The others do not wait for them."""
        self._optional += self._follow_devices(api)

    async def run(self) -> None:
        """Run all informers until cancelled. Server failures do not end them."""
        if self._scheduler is not None:
            self.snapshot.set_release(
                await scheduler_config.find_scheduler_release(self._api, self._scheduler, self._report_version)
            )
            if self.snapshot.release.applies_device_taint_rules:
                self._optional.append(self._follow_taint_rules())
            self._scheduler, self._version_trouble = None, None
        async with asyncio.TaskGroup() as together:
            for informer in (*self._informers, *self._optional):
                together.create_task(informer.run())

    async def wait_synced(self) -> None:
        """Wait until all informers are synced, except those of kinds that are not served."""
        while self._scheduler is not None:
            await self._clock.sleep(_POLL_INTERVAL_S)
        for informer in self._informers:
            await informer.wait_synced()
        for informer in self._optional:
            while not informer.synced and informer.last_error is None:
                await self._clock.sleep(_POLL_INTERVAL_S)

    @property
    def trouble(self) -> dict[str, str]:
        """Return kinds whose informer is not current, and why; empty if all are."""
        if self._version_trouble is not None:
            return {"Node": str(self._version_trouble)}  # informers start after the version is known
        every = (*self._informers, *self._optional)
        return {
            informer.resource.kind: str(informer.last_error) for informer in every if informer.last_error is not None
        }

    @property
    def stale_reason(self) -> str:
        """Reason not to act now: a kind that scale-down depends on is not current, or no group can be resized, so that
        a node would be drained in vain. Empty if there is none.
        """
        found = [f"{kind}: {why}" for kind, why in self.trouble.items() if kind in _REQUIRED_KINDS]
        if self._provider.unavailable_reason:
            found.append(f"node groups: {self._provider.unavailable_reason}")
        return "; ".join(found)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the observed state; changes that arrive meanwhile are applied afterwards."""
        with self._gate.frozen():
            yield

    def nodes(self) -> Sequence[facts.Node]:
        """Return existing nodes; while frozen, the nodes that were observed.

        A decision in a thread adds and removes simulated nodes in the snapshot, which other readers must not see.
        """
        return self._observed if self._gate.is_frozen else self._list_nodes()

    def find_node(self, name: str) -> facts.Node | None:
        """Return the node of that name; None if the informer does not know it."""
        if self._gate.is_frozen:
            return next((node for node in self._observed if node.name == name), None)
        table = self.snapshot.nodes
        row = table.rows.get(name)
        return None if row is None or not table.alive[row] else table.facts[row]

    def _list_nodes(self) -> list[facts.Node]:
        table = self.snapshot.nodes
        return [node for node, alive in zip(table.facts, table.alive.tolist(), strict=True) if alive]

    def observe(self, failed: Mapping[plan.Instruction, str] | None = None) -> ClusterObservation:
        """Observe the cluster now. No decision runs meanwhile, so unused pod shapes are forgotten here."""
        if self.snapshot.is_cluttered:
            self.snapshot.forget_unused()
            pods.forget_unused_templates()
        self.snapshot.mark_leftover_claims()
        self._observed = self._list_nodes()
        began_s = self._clock.monotonic_s()
        groups = self._provider.observe(self._observed)
        refresh_s = self._clock.monotonic_s() - began_s
        known = self._workloads
        rules = known.priorities.all
        observation = Observation(
            self.snapshot,
            groups.groups,
            known.daemon_sets.all,
            known.budgets.all,
            self._index_controllers(),
            rules[0] if rules else (),
            requests=self._requests.observe(),
            quotas=self._quotas.observe(),
            spares=self._buffers.observe(),
            failed=failed or {},
            held=groups.held,
            machine_drain_rules=groups.machine_drain_rules,
        )
        malformed = [error for informer in (*self._informers, *self._optional) for error in informer.malformed.values()]
        odd = [error for notifying_sink in self._heard for error in notifying_sink.warnings.values()]
        reconciled_s = self._buffers.find_oldest_reconciled_s(self._clock.now_s())
        return ClusterObservation(observation, (*malformed, *odd, *groups.set_aside), refresh_s, reconciled_s)

    # Internals

    def _report_version(self, error: kube_errors.KubeError) -> None:
        self._version_trouble = error

    def _notify_on(self, sink: reflector.Sink[Any], kind: str) -> "_NotifyingSink":
        self._heard.append(_NotifyingSink(sink, kind, self._on_change))
        return self._heard[-1]

    def _index_controllers(self) -> Mapping[ControllerKey, facts.Controller]:
        """Return controllers by uid: the same object while nothing changes."""
        known = self._workloads
        now = (known.daemon_sets.all, *(kept.all for kept in known.controllers))
        before, found = self._controllers
        if len(now) != len(before) or any(item is not other for item, other in zip(now, before, strict=True)):
            daemons = [
                facts.Controller("DaemonSet", daemon_set.namespace, daemon_set.name, daemon_set.uid, 1)
                for daemon_set in known.daemon_sets.all
            ]
            every = [*daemons, *(controller for kept in known.controllers for controller in kept.all)]
            found = {(one.kind, one.namespace, one.name): one for one in every}
            self._controllers = now, found
        return found

    def _find_lacking(self, uids: Collection[str]) -> list[str]:
        """Return which controllers want more pods than they have and create all missing pods at once.

        While frozen, the previous answer.
        """
        if self._gate.is_frozen:
            return [uid for uid in self._lacking if uid in uids]
        self._lacking = self._count_lacking(uids)
        return self._lacking

    def _count_lacking(self, uids: Collection[str]) -> list[str]:
        every = self._index_controllers().values()
        desired = {
            controller.uid: controller.replicas
            for controller in every
            if controller.uid in uids and controller.creates_at_once
        }
        if not desired:
            return []
        have = proactive_pods.count_pods_by_owner(self.snapshot, desired)
        return [uid for uid, replicas in desired.items() if have.get(uid, 0) < replicas]

    def _follow(self, api: client.Client) -> Iterator[informers.Informer[Any]]:
        kept, known, behind = self.snapshot, self._workloads, self._gate

        def follow(
            resource: resources.Resource[Any], sink: informer_sinks.FactSink[Any, Any]
        ) -> informers.Informer[Any]:
            return informers.Informer(api, resource, self._notify_on(sink, resource.kind))

        # Nodes first: a pod that arrives before its node is counted when the node arrives.
        yield follow(resources.NODES, informer_sinks.node_sink(kept, behind))
        heard = _NotifyingPodSink(informer_sinks.pod_sink(kept, behind), self._on_change, self.unprocessed_pods)
        self._heard.append(heard)
        yield informers.Informer(api, resources.PODS, heard)
        yield follow(resources.NAMESPACES, informer_sinks.namespace_sink(kept, behind))
        yield follow(resources.POD_DISRUPTION_BUDGETS, informer_sinks.budget_sink(known.budgets, behind))
        yield follow(resources.DAEMON_SETS, informer_sinks.daemon_set_sink(known.daemon_sets, behind))
        for resource, read in _CONTROLLER_READERS.items():
            controllers: informer_sinks.FactCache[facts.Controller] = informer_sinks.FactCache()
            known.controllers.append(controllers)
            yield follow(resource, informer_sinks.plain_sink(controllers, read, behind))
        for resource, read_storage in _STORAGE_READERS.items():
            yield follow(resource, informer_sinks.storage_sink(kept, read_storage, behind))

    def _follow_devices(self, api: client.Client) -> Iterator[informers.Informer[Any]]:
        for resource, read in _DEVICE_READERS.items():
            sink = informer_sinks.device_sink(self.snapshot, read, self._gate)
            yield informers.Informer(api, resource, self._notify_on(sink, resource.kind))

    def _follow_taint_rules(self) -> informers.Informer[Any]:
        """Follow DeviceTaintRules only where they take effect: older servers do not serve them."""
        sink = informer_sinks.device_sink(self.snapshot, dra.read_taint_rule, self._gate)
        resource = resources.DEVICE_TAINT_RULES
        return informers.Informer(self._api, resource, self._notify_on(sink, resource.kind))

    def _follow_priorities(self, api: client.Client, namespace: str) -> Iterator[informers.Informer[Any]]:
        if namespace:
            only = request_builders.ListOptions(
                namespace=namespace, fields=f"metadata.name={options.PRIORITY_CONFIG_MAP}"
            )
            sink = informer_sinks.plain_sink(self._workloads.priorities, _read_priorities, self._gate)
            yield informers.Informer(api, resources.CONFIG_MAPS, self._notify_on(sink, "ConfigMap"), only)


def select_capacity_apis(settings: Settings) -> CapacityApis:
    """Return the capacity APIs that flags enable."""
    wanted = settings.injection
    follows_buffers = wanted.capacity_buffer_controller_enabled or wanted.capacity_buffer_pod_injection_enabled
    return CapacityApis(
        provisioning_requests.ProvisioningRequests()
        if settings.provisioning_requests.enable_provisioning_requests
        else None,
        capacity_quotas.CapacityQuotas() if settings.limits.capacity_quotas_enabled else None,
        capacity_buffers.CapacityBuffers() if follows_buffers else None,
    )


@contextlib.asynccontextmanager
async def run_status_controllers(
    api: client.Client,
    capacity_apis: CapacityApis,
    nodes_now: Callable[[], Sequence[facts.Node]],
    settings: Settings,
    time: clock.Clock,
) -> AsyncIterator[None]:
    """Run the status controllers of quotas and buffers. Not used by a process that changes nothing."""
    every_s, tasks = settings.scale_down.scan_interval_s, list[asyncio.Task[None]]()
    if capacity_apis.quotas is not None:
        tasks.append(
            asyncio.create_task(
                capacity_quotas.run_quota_controller(api, capacity_apis.quotas, nodes_now, time, every_s)
            )
        )
    if capacity_apis.buffers is not None and settings.injection.capacity_buffer_controller_enabled:
        buffers = capacity_buffers.run_buffer_controller(api, capacity_apis.buffers, settings.injection, time, every_s)
        tasks.append(asyncio.create_task(buffers))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
