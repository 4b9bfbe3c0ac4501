"""MachinePool controller: executes the plan in management and workload cluster, records events and metrics.

Steps are executed before the pool is written, so that its status is true when others read it. After a failed step the
finalizer stays, and observedGeneration is not advanced.
"""

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import prometheus_client

from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.machine_pool import api_types, cluster_cache, conversion, model, watches
from windlass.controllers.machine_pool.model import MachinePoolPlan, MachinePoolSettings
from windlass.controllers.machine_pool.reconcile import reconcile_cluster, reconcile_machine_pool
from windlass.kube import client, errors, events, request_builders
from windlass.kube.resources import NODES, Resource


def new_controller(
    context: controller_runtime.ControllerContext,
    settings: MachinePoolSettings,
    reach: cluster_cache.Dialer = cluster_cache.dial,
) -> "MachinePoolController":
    return MachinePoolController(context, settings, reach)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Outcome of applying a plan."""

    failures: tuple[str, ...] = ()
    is_conflict: bool = False
    """The plan was made from stale objects: the key is reconciled again."""
    is_written: bool = True
    """The pool was written, so its events may be recorded."""


class MachinePoolApplier:
    """Applies plans to the management cluster and to the workload cluster of a pool."""

    def __init__(self, api: client.Client, version: str) -> None:
        self._api = api.with_field_manager("windlass")
        self._applier = api.with_field_manager(model.MACHINE_MANAGER)
        self._version = version

    async def apply(
        self, plan: model.MachinePoolPlan, before: model.MachinePool, workload: client.Client | None
    ) -> ApplyResult:
        """Execute the steps, then write the pool, so that its status is true when it is read."""

        async def execute(step: model.MachinePoolStep) -> None:
            with contextlib.suppress(errors.NotFound):  # deleted meanwhile: the next reconcile observes it
                await self._execute(step, before, workload)

        async def write(after: model.MachinePool) -> None:
            with contextlib.suppress(errors.NotFound):
                await self._write(before, after)

        conflicts = (errors.Conflict,)
        done = await controller_runtime.execute_steps(plan.steps, execute, conflicts)
        after = _without_progress(plan.pool, before) if done.failures else plan.pool
        written = await controller_runtime.execute_steps((after,), write, conflicts)
        failures = tuple(str(error) for _, error in (*done.failures, *written.failures))
        is_written = not (written.failures or written.is_conflict)
        return ApplyResult(failures, done.is_conflict or written.is_conflict, is_written)

    @property
    def api_version(self) -> str:
        return f"{model.GROUP}/{self._version}"

    async def apply_to_cluster(self, plan: model.ClusterPlan, cluster: model.Cluster, namespace: str) -> ApplyResult:
        """Hold or release a Cluster, and delete its pools."""

        async def execute(step: model.ClusterPool | tuple[str, ...]) -> None:
            with contextlib.suppress(errors.NotFound):
                if isinstance(step, model.ClusterPool):
                    how = request_builders.DeleteOptions(uid=step.uid)
                    await self._api.delete(api_types.machine_pool_resource(self._version), step.name, namespace, how)
                else:
                    metadata = {"finalizers": list(step) or None, "resourceVersion": cluster.resource_version}
                    clusters = api_types.cluster_resource(self._version)
                    await self._api.merge_patch(clusters, cluster.name, {"metadata": metadata}, namespace)

        steps = (*plan.deleted_pools, *(() if plan.finalizers is None else (plan.finalizers,)))
        done = await controller_runtime.execute_steps(steps, execute, (errors.Conflict,))
        return ApplyResult(tuple(str(error) for _, error in done.failures), done.is_conflict)

    async def _write(self, before: model.MachinePool, after: model.MachinePool) -> None:
        main, status = conversion.merge_patches(before, after)
        resource = api_types.machine_pool_resource(self._version)
        version = before.resource_version
        is_going = before.is_deleting and model.FINALIZER not in after.finalizers
        if main:
            body = {**main, "metadata": {**main.get("metadata", {}), "resourceVersion": version}}
            written = await self._api.merge_patch(resource, before.name, body, before.namespace)
            version = written["metadata"]["resourceVersion"]
        if status and not is_going:
            body = {**status, "metadata": {"resourceVersion": version}}
            await self._api.merge_patch(resource, before.name, body, before.namespace, subresource="status")

    async def _execute(
        self, step: model.MachinePoolStep, pool: model.MachinePool, workload: client.Client | None
    ) -> None:
        match step:
            case model.AdoptProviderObject():
                await self._adopt(step, pool)
            case model.DeleteProviderObject(external):
                how = request_builders.DeleteOptions(uid=external.uid)
                await self._api.delete(_provider_resource(external), external.reference.name, pool.namespace, how)
            case model.ApplyMachine():
                await self._applier.apply(api_types.machine_resource(self._version), step.body, force=True)
            case model.SetMachineUpToDate():
                await self._set_machine_up_to_date(step, pool)
            case model.PatchNode() if workload is not None:
                await _patch_node(step, workload)
            case model.DeleteNode(name, uid) if workload is not None:
                await workload.delete(NODES, name, how=request_builders.DeleteOptions(uid=uid))

    async def _adopt(self, step: model.AdoptProviderObject, pool: model.MachinePool) -> None:
        external = step.external
        metadata: dict[str, Any] = {
            "resourceVersion": external.resource_version,
            "ownerReferences": [conversion.encode_owner(owner) for owner in step.owners],
        }
        if step.labels:
            metadata["labels"] = dict(step.labels)
        name = external.reference.name
        await self._api.merge_patch(_provider_resource(external), name, {"metadata": metadata}, pool.namespace)

    async def _set_machine_up_to_date(self, step: model.SetMachineUpToDate, pool: model.MachinePool) -> None:
        """Apply one condition by server-side apply: the Machine controller owns the others."""
        resource = api_types.machine_resource(self._version)
        now = self._api.clock.now_s()
        condition = dataclasses.replace(step.condition, last_transition_time=conversion.format_time(now))
        status: dict[str, Any] = {"conditions": conversion.encode_conditions([condition])}
        if resource.api_version == model.V1BETA1:
            status = {"v1beta2": status}
        body = {"metadata": {"name": step.name, "namespace": pool.namespace}, "status": status}
        await self._applier.apply(resource, body, subresource="status", force=True)


class MachinePoolController:
    """Reconciles MachinePools."""

    name = "machine_pool"

    def __init__(
        self, context: controller_runtime.ControllerContext, settings: MachinePoolSettings, reach: cluster_cache.Dialer
    ) -> None:
        self._context = context
        self._settings = settings
        self._dial = reach
        self._metrics = MachinePoolMetrics(context.metrics.registry)
        self._loop = controller_runtime.ReconcileLoop(context, self.name)
        self._served = controller_runtime.ServedApis(context.api.clock, self._discover)

    def check_ready(self) -> str:
        return self._served.sync_error or self._loop.check_ready()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._served.run(self._run)

    async def _discover(self) -> str:
        return await controller_runtime.find_served_version(self._context.api, model.GROUP, api_types.CONTRACT_VERSIONS)

    async def _run(self, served: str) -> None:
        version = served.removeprefix(f"{model.GROUP}/")
        self._loop = controller_runtime.ReconcileLoop(self._context, self.name)
        watched = watches.MachinePoolWatches(self._context, self._settings, self._loop, version, self._dial)
        applier = MachinePoolApplier(self._context.api, version)
        # A plan contains new events only, so that none needs correlation.
        recorder = events.EventRecorder(self._context.api, model.MACHINE_MANAGER, window_s=0.0)
        self._loop.informers.spawn(recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched, applier, recorder))

    async def _reconcile(
        self, key: str, watched: watches.MachinePoolWatches, applier: MachinePoolApplier, recorder: events.EventRecorder
    ) -> float | None:
        if key.startswith(watches.CLUSTER_KEY):
            return await self._reconcile_cluster(key.removeprefix(watches.CLUSTER_KEY), watched, applier, recorder)
        body = watched.pools.get(key)
        if body is None:
            self._metrics.delete_pool(key)
            watched.drop_unused_clusters()
            return None
        before = conversion.parse_machine_pool(body)
        try:
            observed = watched.observe(before)
        except watches.NotSynced as waiting:
            if waiting.has_error:
                raise
            return None
        if observed is None:
            return None
        plan = reconcile_machine_pool(observed, self._settings, self._context.api.clock.now_s())
        outcome = await applier.apply(plan, before, watched.workload_client(before))
        self._metrics.set_pool(plan.pool)
        return self._finish_reconcile(key, before, plan, outcome, recorder)

    async def _reconcile_cluster(
        self, key: str, watched: watches.MachinePoolWatches, applier: MachinePoolApplier, recorder: events.EventRecorder
    ) -> float | None:
        cluster = watched.cluster(key)
        if cluster is None:
            return None
        namespace = key.partition("/")[0]
        plan = reconcile_cluster(cluster, watched.cluster_pools(key))
        outcome = await applier.apply_to_cluster(plan, cluster, namespace)
        for pool in () if outcome.failures else plan.deleted_pools:
            about = events.InvolvedObject(applier.api_version, "MachinePool", pool.name, namespace, pool.uid)
            message = f"its Cluster {cluster.name} is being deleted"
            event = controller_interface.Event(events.NORMAL, "DeletedWithCluster", message)
            controller_runtime.record_event(recorder, about, event)
        if outcome.is_conflict:
            return controller_runtime.CONFLICT_REQUEUE_S
        if outcome.failures:
            raise controller_interface.RequeueError("; ".join(outcome.failures))
        return None

    def _finish_reconcile(
        self,
        key: str,
        before: model.MachinePool,
        plan: MachinePoolPlan,
        outcome: ApplyResult,
        recorder: events.EventRecorder,
    ) -> float | None:
        if plan.requeue_after_s is not None:
            self._loop.queue.add_after(key, plan.requeue_after_s)
        about = events.InvolvedObject(before.api_version, "MachinePool", before.name, before.namespace, before.uid)
        for event in plan.events if outcome.is_written else ():
            recorder.record(about, event.type, event.reason, event.message)
        if outcome.is_conflict:
            return controller_runtime.CONFLICT_REQUEUE_S
        if failures := (*plan.failures, *outcome.failures):
            raise controller_interface.RequeueError("; ".join(failures))
        return self._settings.resync_s


async def _patch_node(step: model.PatchNode, workload: client.Client) -> None:
    body: dict[str, Any] = (
        {"metadata": {"annotations": dict(step.annotations)}} if step.annotations else {"metadata": {}}
    )
    if step.taints is not None:
        # Taints are an atomic list: replace it only on the observed resourceVersion.
        body["spec"] = {"taints": [dict(taint.body) for taint in step.taints] or None}
        body["metadata"]["resourceVersion"] = step.node.resource_version
    await workload.merge_patch(NODES, step.node.name, body)


def _without_progress(after: model.MachinePool, before: model.MachinePool) -> model.MachinePool:
    """The pool of a failed plan: observedGeneration does not advance, and the finalizer stays."""
    status = dataclasses.replace(after.status, observed_generation=before.status.observed_generation)
    return dataclasses.replace(after, status=status, finalizers=before.finalizers or after.finalizers)


def _provider_resource(external: model.ProviderObject) -> Resource[dict[str, Any]]:
    return Resource(external.api_version, external.plural, external.reference.kind, True, dict[str, Any])


_PHASES = (
    model.PENDING,
    model.PROVISIONING,
    model.PROVISIONED,
    model.RUNNING,
    model.SCALING_UP,
    model.SCALING_DOWN,
    model.SCALING,
    model.FAILED,
    model.DELETING,
)

_COUNTS = ("wanted", "observed", "ready", "available")


class MachinePoolMetrics:
    """Prometheus metrics of MachinePools."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._replicas = prometheus_client.Gauge(
            "windlass_machine_pool_replicas",
            "Replicas of a MachinePool: wanted, observed by its infrastructure, and Nodes ready and available.",
            ["namespace", "name", "count"],
            registry=registry,
        )
        self._phase = prometheus_client.Gauge(
            "windlass_machine_pool_phase",
            "1 for the phase that a MachinePool is in.",
            ["namespace", "name", "phase"],
            registry=registry,
        )
        self._phases: dict[str, str] = {}

    def set_pool(self, pool: model.MachinePool) -> None:
        status = pool.status
        found = (pool.replicas or 0, status.replicas or 0, status.nodes.ready, status.nodes.available)
        for word, count in zip(_COUNTS, found, strict=True):
            self._replicas.labels(pool.namespace, pool.name, word).set(count)
        before = self._phases.get(pool.key)
        if before and before != status.phase:
            self._phase.remove(pool.namespace, pool.name, before)
        if status.phase in _PHASES:
            self._phase.labels(pool.namespace, pool.name, status.phase).set(1)
            self._phases[pool.key] = status.phase

    def delete_pool(self, key: str) -> None:
        """Remove the metrics of a deleted pool."""
        phase = self._phases.pop(key, None)
        if phase is None:
            return
        namespace, _, name = key.partition("/")
        self._phase.remove(namespace, name, phase)
        for word in _COUNTS:
            self._replicas.remove(namespace, name, word)
