"""Lattice controller: watches LatticeClusters and MachineDeployments, applies the plan, deploys the autoscaler."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers import (
    controller_interface,
    controller_runtime,
    machine_deployment_applier,
    machine_deployments,
)
from windlass.controllers.lattice import model, reconcile
from windlass.controllers.lattice.model import LatticePlan, LatticeSettings
from windlass.controllers.lattice.reconcile import reconcile_lattice_cluster
from windlass.kube import client, errors, events, request_builders
from windlass.kube.resources import MACHINE_DEPLOYMENTS, Resource, Unstructured

AUTOSCALER_KEY = "the autoscaler"
"""Queue key of the autoscaler's manifests. Not the key of an object, since those contain a slash."""


def new_controller(context: controller_runtime.ControllerContext, settings: LatticeSettings) -> "LatticeController":
    return LatticeController(context, settings)


LATTICE_CLUSTERS = Resource(model.API_VERSION, "latticeclusters", "LatticeCluster", True, Unstructured)

Json = Mapping[str, Any]


class LatticeWatches:
    """Informers of LatticeClusters and MachineDeployments."""

    def __init__(
        self, context: controller_runtime.ControllerContext, followed: controller_runtime.InformerSet, api_version: str
    ) -> None:
        self._version = api_version
        within = request_builders.ListOptions(context.namespace)
        self._own = followed.watch(context.api, LATTICE_CLUSTERS, _cluster_keys, within)
        deployments = MACHINE_DEPLOYMENTS.at(api_version).untyped()
        index = {"cluster": _owning_cluster_keys}
        self._deployments = followed.watch(context.api, deployments, _owning_cluster_keys, within, index)

    def get(self, key: str) -> Json | None:
        return self._own.store.get(key)

    def observe(self, cluster: model.LatticeCluster) -> model.ObservedLatticeCluster:
        found = self._deployments.store.find("cluster", f"{cluster.namespace}/{cluster.name}")
        read = [machine_deployments.parse_machine_deployment(item) for item in found]
        return model.ObservedLatticeCluster(
            cluster, self._version, {deployment.name: deployment for deployment in read}
        )


class LatticeController:
    """Reconciles LatticeClusters."""

    name = "lattice"

    def __init__(self, context: controller_runtime.ControllerContext, settings: LatticeSettings) -> None:
        self._context = context
        self._settings = settings
        self._api = context.api.with_field_manager(model.MANAGER)
        self._deployer = AutoscalerDeployer(context.api, settings)
        self._is_autoscaler_deployed = False
        self._loop = controller_runtime.ReconcileLoop(context, self.name)

    def check_ready(self) -> str:
        return self._loop.check_ready()

    async def run(self) -> None:
        """Run until cancelled."""
        version = await self._loop.wait_served_version(
            machine_deployments.CLUSTER_API_GROUP, machine_deployments.CLUSTER_API_VERSIONS
        )
        watched = LatticeWatches(self._context, self._loop.informers, version)
        applier = machine_deployment_applier.MachineDeploymentApplier(self._context.api, version, model.MANAGER)
        recorder = events.EventRecorder(self._context.api, model.MANAGER, window_s=self._context.event_window_s)
        self._loop.informers.spawn(recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched, applier, recorder))

    async def _reconcile(
        self,
        key: str,
        watched: LatticeWatches,
        applier: machine_deployment_applier.MachineDeploymentApplier,
        recorder: events.EventRecorder,
    ) -> float | None:
        if key == AUTOSCALER_KEY:
            return await self._deploy_autoscaler()
        body = watched.get(key)
        if body is None:
            return None
        cluster = model.parse_cluster(body)
        if cluster.is_deleting:
            return None
        plan = reconcile_lattice_cluster(watched.observe(cluster))
        if plan.wants_autoscaler and self._settings.deploys_autoscaler and not self._is_autoscaler_deployed:
            self._is_autoscaler_deployed = True
            self._loop.queue.add(AUTOSCALER_KEY)
        self._record_events(cluster, plan, recorder)
        outcome = await applier.apply(plan.steps, cluster.namespace)
        is_written = await self._write_status(body, cluster, plan)
        if outcome.failures:
            raise controller_interface.RequeueError("; ".join(outcome.failures))
        if outcome.is_conflict or not is_written:
            return controller_runtime.CONFLICT_REQUEUE_S
        return self._settings.resync_s

    def _record_events(self, cluster: model.LatticeCluster, plan: LatticePlan, recorder: events.EventRecorder) -> None:
        about = events.InvolvedObject(model.API_VERSION, "LatticeCluster", cluster.name, cluster.namespace, cluster.uid)
        for event in plan.events:
            recorder.record(about, event.type, event.reason, event.message, by_message=True, action=event.action)

    async def _write_status(self, body: Json, cluster: model.LatticeCluster, plan: LatticePlan) -> bool:
        """Write the status if it changed; False on a conflict."""
        patch = model.status_patch(cluster.status, plan.status)
        return await controller_runtime.patch_status(self._api, LATTICE_CLUSTERS, body, patch)

    async def _deploy_autoscaler(self) -> float:
        failures = await self._deployer.apply()
        if failures:
            raise controller_interface.RequeueError("; ".join(failures))
        return self._settings.resync_s


def _cluster_keys(body: Json) -> list[str]:
    return [f"{body['metadata']['namespace']}/{body['metadata']['name']}"]


def _owning_cluster_keys(body: Json) -> list[str]:
    name = (body["metadata"].get("labels") or {}).get(machine_deployments.CLUSTER_NAME_LABEL)
    return [f"{body['metadata']['namespace']}/{name}"] if name else []


class AutoscalerDeployer:
    """Applies the autoscaler's manifests. Unchanged objects are read, but not written."""

    def __init__(self, api: client.Client, settings: LatticeSettings) -> None:
        self._api = api.with_field_manager(model.MANAGER)
        self._manifests = reconcile.autoscaler_manifests(settings)

    async def apply(self) -> list[str]:
        """Apply all manifests; returns the errors."""
        failures = []
        for desired in self._manifests:
            try:
                await self._apply_manifest(desired)
            except errors.KubeError as error:
                failures.append(f"{desired[0].kind} {desired[1]['metadata']['name']}: {error}")
        return failures

    async def _apply_manifest(self, desired: reconcile.Manifest) -> None:
        resource, body = desired
        metadata = body["metadata"]
        try:
            live = await self._api.get(resource, metadata["name"], metadata.get("namespace", ""))
        except errors.NotFound:
            live = None
        if live is None or not machine_deployments.is_applied(live, body, model.MANAGER):
            await self._api.apply(resource, body, force=True)
