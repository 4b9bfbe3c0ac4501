"""Lattice controller: watches LatticeClusters and MachineDeployments, applies the plan, deploys the autoscaler.

Which kinds of LatticeCluster there are is discovered: lattice.io, lattice.dev, or both.
"""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
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
from windlass.kube import client, discovery, errors, events, request_builders, unstructured
from windlass.kube.resources import DEPLOYMENTS, MACHINE_DEPLOYMENTS, Resource, Unstructured

AUTOSCALER_KEY = "the autoscaler"
"""Queue key of the autoscaler's manifests. Not the key of an object, since those contain a slash."""


def new_controller(context: controller_runtime.ControllerContext, settings: LatticeSettings) -> "LatticeController":
    return LatticeController(context, settings)


LATTICE_CLUSTERS = Resource(model.API_VERSION, "latticeclusters", "LatticeCluster", True, Unstructured)

ADOPTED_LATTICE_CLUSTERS = Resource(model.ADOPTED_API_VERSION, "latticeclusters", "LatticeCluster", False, Unstructured)

Json = Mapping[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LatticeApis:
    """What the server serves."""

    cluster_api_version: str
    has_own: bool
    """LatticeClusters of lattice.io."""
    has_adopted: bool
    """LatticeClusters of lattice.dev."""


async def discover_lattice_apis(api: client.Client) -> LatticeApis:
    """NotServedError while Cluster API or both kinds of LatticeCluster are not served."""
    version = await machine_deployment_applier.find_cluster_api_version(api)
    has_own = await discovery.has_resource(api, LATTICE_CLUSTERS)
    has_adopted = await discovery.has_resource(api, ADOPTED_LATTICE_CLUSTERS)
    if not (has_own or has_adopted):
        expected = f"{model.API_VERSION} or {model.ADOPTED_API_VERSION}"
        raise controller_interface.NotServedError(f"latticeclusters of {expected}: not served")
    return LatticeApis(version, has_own, has_adopted)


class LatticeWatches:
    """Informers of LatticeClusters of either kind and of MachineDeployments."""

    def __init__(
        self, context: controller_runtime.ControllerContext, followed: controller_runtime.InformerSet, apis: LatticeApis
    ) -> None:
        self._version = apis.cluster_api_version
        within = request_builders.ListOptions(context.namespace)
        self._own = self._adopted = None
        if apis.has_own:
            self._own = followed.watch(context.api, LATTICE_CLUSTERS, _cluster_keys, within)
        if apis.has_adopted:
            self._adopted = followed.watch(context.api, ADOPTED_LATTICE_CLUSTERS, _cluster_keys)
        deployments = MACHINE_DEPLOYMENTS.at(self._version).untyped()
        index = {"cluster": _owning_cluster_keys}
        self._deployments = followed.watch(context.api, deployments, _possible_cluster_keys, within, index)

    def get(self, key: str) -> tuple[Json, model.LatticeCluster] | None:
        """The LatticeCluster of a key: that of lattice.dev has no namespace."""
        watched, parse = self._own, model.parse_cluster
        namespace, _, name = key.rpartition("/")
        if not namespace:
            watched, parse = self._adopted, model.parse_adopted_cluster
        body = None if watched is None else watched.store.get(key if namespace else name)
        return None if body is None else (body, parse(body))

    def observe(self, cluster: model.LatticeCluster, discovered: frozenset[str] | None) -> model.ObservedLatticeCluster:
        found = self._deployments.store.find("cluster", f"{cluster.deployments_namespace}/{cluster.name}")
        read = [machine_deployments.parse_machine_deployment(item) for item in found]
        return model.ObservedLatticeCluster(
            cluster, self._version, {deployment.name: deployment for deployment in read}, discovered
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
        self._wanting_autoscaler: dict[str, events.InvolvedObject] = {}
        self._told: dict[str, frozenset[str]] = {}
        self._loop = controller_runtime.ReconcileLoop(context, self.name)
        self._served = controller_runtime.ServedApis(context.api.clock, lambda: discover_lattice_apis(context.api))

    def check_ready(self) -> str:
        return self._served.sync_error or self._loop.check_ready()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._served.run(self._run)

    async def _run(self, apis: LatticeApis) -> None:
        self._loop = controller_runtime.ReconcileLoop(self._context, self.name)
        self._is_autoscaler_deployed = False
        watched = LatticeWatches(self._context, self._loop.informers, apis)
        applier = machine_deployment_applier.MachineDeploymentApplier(
            self._context.api, apis.cluster_api_version, model.MANAGER
        )
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
            return await self._deploy_autoscaler(recorder)
        found = watched.get(key)
        if found is None or found[1].is_deleting:
            self._wanting_autoscaler.pop(key, None)
            return None
        body, cluster = found
        plan = reconcile_lattice_cluster(watched.observe(cluster, await self._find_discovered(cluster)))
        if plan.wants_autoscaler and self._settings.deploys_autoscaler:
            await self._want_autoscaler(key, cluster)
        self._record_events(cluster, plan, recorder)
        outcome = await applier.apply(plan.steps, cluster.deployments_namespace)
        is_written = cluster.is_adopted or await self._write_status(body, cluster, plan)
        if outcome.failures:
            raise controller_interface.RequeueError("; ".join(outcome.failures))
        if outcome.is_conflict or not is_written:
            return controller_runtime.CONFLICT_REQUEUE_S
        return self._settings.resync_s

    async def _find_discovered(self, cluster: model.LatticeCluster) -> frozenset[str] | None:
        """Where the autoscaler discovers pools; None if this controller is not to deploy one, and cannot know.

        Lattice's own operator runs an autoscaler too, which is looked at and left alone. Without one, ours is deployed
        for a cluster that manages itself.
        """
        if not self._settings.deploys_autoscaler:
            return None
        if not cluster.is_adopted:
            return frozenset({self._settings.autoscaler_discovery})
        try:
            live = await self._deployer.find()
        except errors.KubeError as error:
            _log.warning("failed to read the autoscaler's Deployment: cluster=%s error=%s", cluster.name, error)
            return None
        if live is not None:
            return reconcile.parse_discovered_namespaces(live, cluster.name)
        return frozenset({cluster.deployments_namespace} if cluster.is_pivoted else ())

    async def _want_autoscaler(self, key: str, cluster: model.LatticeCluster) -> None:
        """Deploy an autoscaler for the pools of a cluster, unless Lattice's own operator has deployed one."""
        self._wanting_autoscaler[key] = _involved_object(cluster)
        if cluster.is_adopted:
            if not cluster.is_pivoted or not await self._deployer.is_left_to_us():
                return
            self._deployer = AutoscalerDeployer(
                self._context.api,
                dataclasses.replace(self._settings, autoscaler_discovery=cluster.deployments_namespace),
                model.ADOPTION_MANAGER,
            )
        if not self._is_autoscaler_deployed:
            self._is_autoscaler_deployed = True
            self._loop.queue.add(AUTOSCALER_KEY)

    def _record_events(self, cluster: model.LatticeCluster, plan: LatticePlan, recorder: events.EventRecorder) -> None:
        """Record the events. Those of a cluster whose status is not ours are recorded when they are new."""
        told = self._told.get(cluster.uid, frozenset()) if cluster.is_adopted else frozenset()
        for event in plan.events:
            if event.message not in told:
                about = _involved_object(cluster)
                recorder.record(about, event.type, event.reason, event.message, by_message=True, action=event.action)
        if cluster.is_adopted:
            self._told[cluster.uid] = frozenset(event.message for event in plan.events)

    async def _write_status(self, body: Json, cluster: model.LatticeCluster, plan: LatticePlan) -> bool:
        """Write the status if it changed; False on a conflict."""
        patch = model.status_patch(cluster.status, plan.status)
        return await controller_runtime.patch_status(self._api, LATTICE_CLUSTERS, body, patch)

    async def _deploy_autoscaler(self, recorder: events.EventRecorder) -> float:
        failures = await self._deployer.apply()
        if failures:
            message = f"autoscaler is not deployed: {'; '.join(failures)}"
            for about in self._wanting_autoscaler.values():
                recorder.record(about, events.WARNING, model.AUTOSCALER_NOT_DEPLOYED, message, by_message=True)
            raise controller_interface.RequeueError("; ".join(failures))
        return self._settings.resync_s


def _involved_object(cluster: model.LatticeCluster) -> events.InvolvedObject:
    return events.InvolvedObject(cluster.api_version, "LatticeCluster", cluster.name, cluster.namespace, cluster.uid)


def _cluster_keys(body: Json) -> list[str]:
    """`namespace/name`; the namespace of a cluster-scoped object is empty."""
    return [f"{body['metadata'].get('namespace') or ''}/{body['metadata']['name']}"]


def _owning_cluster_keys(body: Json) -> list[str]:
    """Namespace of a MachineDeployment and name of its Cluster."""
    name = machine_deployments.parse_machine_deployment(body).cluster
    return [f"{body['metadata']['namespace']}/{name}"] if name else []


def _possible_cluster_keys(body: Json) -> list[str]:
    """The keys of both kinds of LatticeCluster that a MachineDeployment may belong to."""
    keys = _owning_cluster_keys(body)
    adopted = [
        f"/{name}" for key in keys for namespace, _, name in [key.partition("/")] if _is_adopted(namespace, name)
    ]
    return [*keys, *adopted]


def _is_adopted(namespace: str, cluster: str) -> bool:
    return namespace == model.adopted_namespace(cluster)


class AutoscalerDeployer:
    """Applies the autoscaler's manifests. Unchanged objects are read, but not written."""

    def __init__(self, api: client.Client, settings: LatticeSettings, manager: str = model.MANAGER) -> None:
        self._manager = manager
        self._api = api.with_field_manager(manager)
        self._manifests = reconcile.autoscaler_manifests(settings)

    async def find(self) -> Json | None:
        """The Deployment, whoever made it."""
        try:
            return await self._api.get(DEPLOYMENTS.untyped(), model.AUTOSCALER, model.SYSTEM_NAMESPACE)
        except errors.NotFound:
            return None

    async def is_left_to_us(self) -> bool:
        """True if nobody but this controller has applied the Deployment, beside Lattice's own operator."""
        live = await self.find()
        owners = unstructured.find_field_owners(live or {}, ("spec", "template", "spec", "priorityClassName"))
        return live is None or any(owner.manager == model.ADOPTION_MANAGER for owner in owners)

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
        if live is None or not machine_deployments.is_applied(live, body, self._manager):
            await self._api.apply(resource, body, force=True)
