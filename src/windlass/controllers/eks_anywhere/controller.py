"""EKS Anywhere controller: watches Clusters and what belongs to them, applies the plan, writes status.

EKS Anywhere's own controller may write the conditions of a Cluster as well. A change of status alone is therefore not
reconciled, but a status that was written is looked at again after a while. KubeadmControlPlanes and EtcdadmClusters are
watched once a Cluster refers to one, since not every server has them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.controllers import (
    controller_interface,
    controller_runtime,
    machine_deployment_applier,
    machine_deployments,
)
from windlass.controllers.eks_anywhere import model
from windlass.controllers.eks_anywhere.model import ClusterPlan, EksAnywhereSettings
from windlass.controllers.eks_anywhere.reconcile import group_deployments, reconcile_cluster
from windlass.kube import discovery, request_builders
from windlass.kube.resources import CLUSTERS, MACHINE_DEPLOYMENTS, Resource, Unstructured

_UNSYNCED_REQUEUE_S = 1.0

_WRITTEN_REQUEUE_S = 10.0
"""Requeue after writing the status of a Cluster that EKS Anywhere's own controller reconciles too."""


def new_controller(
    context: controller_runtime.ControllerContext, settings: EksAnywhereSettings
) -> "EksAnywhereController":
    return EksAnywhereController(context, settings)


EKS_ANYWHERE_CLUSTERS = Resource(model.API_VERSION, "clusters", "Cluster", True, Unstructured)

_CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"

_ETCDADM_CLUSTERS = Resource(
    "etcdcluster.cluster.x-k8s.io/v1beta1", "etcdadmclusters", "EtcdadmCluster", True, Unstructured
)

Json = Mapping[str, Any]


class EksAnywhereWatches:
    """Informers of Clusters, MachineDeployments and control planes."""

    def __init__(
        self,
        context: controller_runtime.ControllerContext,
        settings: EksAnywhereSettings,
        followed: controller_runtime.InformerSet,
        api_version: str,
    ) -> None:
        self._context, self._settings, self._version = context, settings, api_version
        self._informers = followed
        follow = followed.watch
        self._own = follow(
            context.api,
            EKS_ANYWHERE_CLUSTERS,
            lambda each: [*_cluster_keys(each), *self._keys_by_name(_object_name(each))],
            request_builders.ListOptions(context.namespace),
            {"name": lambda each: [_object_name(each)], "made": _machine_deployment_names},
            sees=_relevant_fields,
        )
        within = request_builders.ListOptions(settings.namespace)
        self._capi = follow(
            context.api, CLUSTERS.at(api_version).untyped(), lambda each: self._keys_by_name(_object_name(each)), within
        )
        self._deployments = follow(
            context.api,
            MACHINE_DEPLOYMENTS.at(api_version).untyped(),
            lambda each: [key for name in _owning_cluster_names(each) for key in self._keys_by_name(name)],
            within,
            {"cluster": _owning_cluster_names},
        )
        self._settled: dict[str, int] = {}
        self._others: dict[str, controller_runtime.WatchedResource[Unstructured]] = {}

    def get(self, key: str) -> Json | None:
        return self._own.store.get(key)

    @property
    def sync_error(self) -> str:
        """Why a kind that a Cluster refers to cannot be read: that Cluster is not reconciled; empty if all can be."""
        return "; ".join(error for watched in self._others.values() if (error := watched.sync_error))

    def observe(self, cluster: model.Cluster) -> model.ObservedCluster | None:
        """Facts for one reconcile; None while an informer has not synced."""
        namespace = self._settings.namespace
        capi = self._capi.store.get(f"{namespace}/{cluster.name}")
        control_plane = etcd = None
        if capi is not None and model.has_kubeadm_control_plane(capi):
            if not (control_planes := self._watch_optional(self._control_planes())).informer.synced:
                return None
            name = capi["spec"]["controlPlaneRef"].get("name") or cluster.name
            control_plane = control_planes.store.get(f"{namespace}/{name}")
        if capi is not None and (reference := (capi.get("spec") or {}).get("managedExternalEtcdRef")):
            if not (etcds := self._watch_optional(_ETCDADM_CLUSTERS)).informer.synced:
                return None
            etcd = etcds.store.get(f"{namespace}/{reference.get('name')}")
        found = self._deployments.store.find("cluster", cluster.name)
        deployments = [machine_deployments.parse_machine_deployment(item) for item in sorted(found, key=_object_name)]
        return model.ObservedCluster(
            cluster,
            self._version,
            namespace,
            capi is not None,
            None if control_plane is None else model.parse_control_plane(control_plane),
            capi is not None and model.is_initialized_by_other_provider(capi),
            None if etcd is None else model.parse_etcd(etcd),
            self._older_namesake(cluster),
            {
                worker_node_group.machine_deployment: owner
                for worker_node_group in cluster.groups
                if (owner := self._foreign_owner(cluster, worker_node_group))
            },
            tuple(deployments),
            self._remember_settled_replicas(cluster, deployments),
        )

    def _remember_settled_replicas(
        self, cluster: model.Cluster, deployments: Sequence[machine_deployments.MachineDeployment]
    ) -> dict[str, int]:
        """The last replicas that an autoscaler decided, by MachineDeployment. A group that is static forgets them."""
        grouped = group_deployments(cluster.groups, deployments)
        autoscaled = {each.name for group in cluster.groups if group.size.is_autoscaled for each in grouped[group.name]}
        settled = {}
        for deployment in deployments:
            uid = deployment.body["metadata"].get("uid") or ""
            before, found = self._settled.pop(uid, None), machine_deployments.find_settled_replicas(deployment)
            replicas = before if found is None else found
            if deployment.name in autoscaled and replicas is not None:
                settled[deployment.name] = self._settled[uid] = replicas
        return settled

    def _control_planes(self) -> Resource[Unstructured]:
        version = f"{_CONTROL_PLANE_GROUP}/{self._version.partition('/')[2]}"
        return Resource(version, "kubeadmcontrolplanes", "KubeadmControlPlane", True, Unstructured)

    def _watch_optional(self, resource: Resource[Unstructured]) -> controller_runtime.WatchedResource[Unstructured]:
        """Watch a kind that the server may lack, once a Cluster refers to it."""
        if resource.kind not in self._others:
            self._others[resource.kind] = self._informers.watch(
                self._context.api,
                resource,
                lambda each: [
                    key
                    for name in _label_cluster_names(each) or [_object_name(each)]
                    for key in self._keys_by_name(name)
                ],
                request_builders.ListOptions(self._settings.namespace),
                required=False,
            )
        return self._others[resource.kind]

    def _older_namesake(self, cluster: model.Cluster) -> str:
        """Key of an older Cluster of the same name.

        MachineDeployments share one namespace, so the oldest Cluster owns them.
        """
        (oldest,) = _cluster_keys(min(self._own.store.find("name", cluster.name), key=_creation_key))
        return "" if oldest == f"{cluster.namespace}/{cluster.name}" else oldest

    def _foreign_owner(self, cluster: model.Cluster, group: model.WorkerNodeGroup) -> str:
        """The other Cluster that owns a group's MachineDeployment; empty if none does.

        Names are built of Cluster and group, so `a` with `b-c` and `a-b` with `c` collide. The label of the
        MachineDeployment decides; if there is none, the older Cluster owns the name.
        """
        live = self._deployments.store.get(f"{self._settings.namespace}/{group.machine_deployment}")
        if live is not None:
            owner = machine_deployments.parse_machine_deployment(live).cluster
            return "" if owner == cluster.name else owner
        makers = sorted(self._own.store.find("made", group.machine_deployment), key=_creation_and_name_key)
        return "" if not makers or _object_name(makers[0]) == cluster.name else _object_name(makers[0])

    def _keys_by_name(self, name: str) -> list[str]:
        return [_cluster_keys(item)[0] for item in self._own.store.find("name", name)]


class EksAnywhereController:
    """Reconciles EKS Anywhere Clusters."""

    name = "eks_anywhere"

    def __init__(self, context: controller_runtime.ControllerContext, settings: EksAnywhereSettings) -> None:
        self._context = context
        self._settings = settings
        self._api = context.api.with_field_manager(model.MANAGER)
        self._adoption_api = context.api.with_field_manager(model.ADOPTION_MANAGER)
        self._loop = controller_runtime.ReconcileLoop(context, self.name, settings.namespace)
        self._served = controller_runtime.ServedApis(context.api.clock, self._discover)
        self._watches: EksAnywhereWatches | None = None

    def check_ready(self) -> str:
        found = (self._loop.check_ready(), self._watches.sync_error if self._watches else "")
        return self._served.sync_error or "; ".join(item for item in found if item)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._served.run(self._run)

    async def _discover(self) -> str:
        """The version of Cluster API. NotServedError while it or EKS Anywhere's Cluster is not served."""
        api = self._context.api
        version = await machine_deployment_applier.find_cluster_api_version(api)
        if not await discovery.has_resource(api, EKS_ANYWHERE_CLUSTERS):
            raise controller_interface.NotServedError(f"clusters of {model.API_VERSION}: not served")
        return version

    async def _run(self, version: str) -> None:
        self._loop = controller_runtime.ReconcileLoop(self._context, self.name, self._settings.namespace)
        watched = EksAnywhereWatches(self._context, self._settings, self._loop.informers, version)
        self._watches = watched
        applier = machine_deployment_applier.MachineDeploymentApplier(self._context.api, version, model.MANAGER)
        await self._loop.run(lambda key: self._reconcile(key, watched, applier))

    async def _reconcile(
        self, key: str, watched: EksAnywhereWatches, applier: machine_deployment_applier.MachineDeploymentApplier
    ) -> float | None:
        body = watched.get(key)
        if body is None:
            return None
        cluster = model.parse_cluster(body)
        if cluster.is_paused_or_deleting:
            return None
        observed = watched.observe(cluster)
        if observed is None:
            return _UNSYNCED_REQUEUE_S
        plan = reconcile_cluster(observed, self._context.api.clock.now_s())
        outcome = await applier.apply(plan.steps, observed.namespace)
        patch = _status_patch(cluster, plan, outcome)
        api = self._adoption_api if cluster.is_adopted else self._api
        is_written = await controller_runtime.patch_status(api, EKS_ANYWHERE_CLUSTERS, body, patch)
        if outcome.failures:
            raise controller_interface.RequeueError("; ".join(outcome.failures))
        if outcome.is_conflict or not is_written:
            return controller_runtime.CONFLICT_REQUEUE_S
        requeue_s = self._settings.resync_s if plan.requeue_after_s is None else plan.requeue_after_s
        return min(requeue_s, _WRITTEN_REQUEUE_S) if patch and cluster.is_adopted else requeue_s


def _status_patch(
    cluster: model.Cluster, plan: ClusterPlan, outcome: machine_deployment_applier.ApplyResult
) -> model.MergePatch:
    """The patch of the status. The reconciled generation does not advance if a group failed."""
    status = plan.status
    if not outcome.is_done:
        status = dataclasses.replace(status, reconciled_generation=cluster.status.reconciled_generation)
    return model.status_patch(cluster.status, status)


def _object_name(body: Json) -> str:
    name: str = body["metadata"]["name"]
    return name


def _cluster_keys(body: Json) -> list[str]:
    return [f"{body['metadata'].get('namespace') or ''}/{_object_name(body)}"]


def _creation_key(body: Json) -> tuple[str, str]:
    return body["metadata"].get("creationTimestamp") or "", body["metadata"].get("namespace") or ""


def _creation_and_name_key(body: Json) -> tuple[str, str, str]:
    return (*_creation_key(body), _object_name(body))


def _machine_deployment_names(body: Json) -> list[str]:
    """The names of the MachineDeployments of a Cluster's groups."""
    return [group.machine_deployment for group in model.parse_cluster(body).groups]


def _relevant_fields(body: Json) -> Json:
    """What is reconciled when it changes: all but the status of a Cluster that others reconcile too."""
    if not model.parse_cluster(body).is_adopted:
        return body
    metadata = {name: value for name, value in body["metadata"].items() if name not in _WRITTEN_BY_EACH_CHANGE}
    return {**body, "metadata": metadata, "status": None}


_WRITTEN_BY_EACH_CHANGE = ("resourceVersion", "managedFields")


def _owning_cluster_names(body: Json) -> list[str]:
    """The Cluster of a MachineDeployment, which may lack the label."""
    name = machine_deployments.parse_machine_deployment(body).cluster
    return [name] if name else []


def _label_cluster_names(body: Json) -> list[str]:
    name = (body["metadata"].get("labels") or {}).get(machine_deployments.CLUSTER_NAME_LABEL)
    return [name] if name else []
