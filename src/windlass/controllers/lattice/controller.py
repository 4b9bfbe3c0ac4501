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
"""No object's key: those have a slash."""


def new_controller(site: controller_runtime.ControllerContext, settings: LatticeSettings) -> "LatticeController":
    return LatticeController(site, settings)


LATTICE_CLUSTERS = Resource(model.API_VERSION, "latticeclusters", "LatticeCluster", True, Unstructured)

Json = Mapping[str, Any]


class LatticeWatches:
    """What is known."""

    def __init__(
        self, site: controller_runtime.ControllerContext, followed: controller_runtime.InformerSet, api_version: str
    ) -> None:
        self._version = api_version
        within = request_builders.ListOptions(site.namespace)
        self._own = followed.watch(site.api, LATTICE_CLUSTERS, _cluster_keys, within)
        deployments = MACHINE_DEPLOYMENTS.at(api_version).untyped()
        index = {"cluster": _owning_cluster_keys}
        self._deployments = followed.watch(site.api, deployments, _owning_cluster_keys, within, index)

    def get(self, key: str) -> Json | None:
        return self._own.store.get(key)

    def observe(self, cluster: model.LatticeCluster) -> model.ObservedLatticeCluster:
        found = self._deployments.store.find("cluster", f"{cluster.namespace}/{cluster.name}")
        read = [machine_deployments.parse_machine_deployment(each) for each in found]
        return model.ObservedLatticeCluster(cluster, self._version, {each.name: each for each in read})


class LatticeController:
    """Keeps the worker pools of LatticeClusters as they should be."""

    name = "lattice"

    def __init__(self, site: controller_runtime.ControllerContext, settings: LatticeSettings) -> None:
        self._context = site
        self._settings = settings
        self._api = site.api.with_field_manager(model.MANAGER)
        self._deployer = AutoscalerDeployer(site.api, settings)
        self._is_autoscaler_deployed = False
        self._loop = controller_runtime.ReconcileLoop(site, self.name)

    def check_ready(self) -> str:
        return self._loop.check_ready()

    async def run(self) -> None:
        """Until cancelled."""
        version = await controller_runtime.wait_served_version(
            self._context.api, machine_deployments.CLUSTER_API_GROUP, machine_deployments.CLUSTER_API_VERSIONS
        )
        watched = LatticeWatches(self._context, self._loop.informers, version)
        hands = machine_deployment_applier.MachineDeploymentApplier(self._context.api, version, model.MANAGER)
        recorder = events.EventRecorder(self._context.api, model.MANAGER, window_s=self._context.event_window_s)
        self._loop.informers.spawn(recorder.run())
        await self._loop.run(lambda key: self._reconcile(key, watched, hands, recorder))

    async def _reconcile(
        self,
        key: str,
        watched: LatticeWatches,
        hands: machine_deployment_applier.MachineDeploymentApplier,
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
        outcome = await hands.apply(plan.steps, cluster.namespace)
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
        """Say what is the case; whether it was said."""
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
    """Keeps the autoscaler as it should be. What is right already is read, and not written."""

    def __init__(self, api: client.Client, settings: LatticeSettings) -> None:
        self._api = api.with_field_manager(model.MANAGER)
        self._manifests = reconcile.autoscaler_manifests(settings)

    async def apply(self) -> list[str]:
        """What could not be done, in words."""
        failures = []
        for wanted in self._manifests:
            try:
                await self._apply_manifest(wanted)
            except errors.KubeError as error:
                failures.append(f"{wanted[0].kind} {wanted[1]['metadata']['name']}: {error}")
        return failures

    async def _apply_manifest(self, wanted: reconcile.Manifest) -> None:
        resource, body = wanted
        metadata = body["metadata"]
        try:
            live = await self._api.get(resource, metadata["name"], metadata.get("namespace", ""))
        except errors.NotFound:
            live = None
        if live is None or not machine_deployments.is_applied(live, body, model.MANAGER):
            await self._api.apply(resource, body, force=True)
