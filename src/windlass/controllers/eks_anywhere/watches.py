"""Watches: what is looked at, and which Clusters a change concerns."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers import controller, following
from windlass.controllers.eks_anywhere import facts, names, observe
from windlass.controllers.eks_anywhere.settings import Settings
from windlass.controllers.worker_pools import machine_deployments
from windlass.kube import prepare
from windlass.kube.resources import CLUSTERS, MACHINE_DEPLOYMENTS, Resource, Unstructured

CLUSTERS_OF_EKS = Resource(names.API_VERSION, "clusters", "Cluster", True, Unstructured)
_CONTROL_PLANES = "controlplane.cluster.x-k8s.io"
_ETCD = Resource("etcdcluster.cluster.x-k8s.io/v1beta1", "etcdadmclusters", "EtcdadmCluster", True, Unstructured)

Json = Mapping[str, Any]


class Watches:
    """What is known."""

    def __init__(
        self, site: controller.Site, settings: Settings, followed: following.Following, api_version: str
    ) -> None:
        self._site, self._settings, self._version = site, settings, api_version
        self._following = followed
        follow = followed.follow
        self._own = follow(
            site.api,
            CLUSTERS_OF_EKS,
            lambda each: [*_own_key(each), *self._keys(_name(each))],
            prepare.Selection(site.namespace),
            {"name": lambda each: [_name(each)], "made": _made_names},
        )
        within = prepare.Selection(settings.namespace)
        self._capi = follow(site.api, CLUSTERS.at(api_version).untyped(), lambda each: self._keys(_name(each)), within)
        self._deployments = follow(
            site.api,
            MACHINE_DEPLOYMENTS.at(api_version).untyped(),
            lambda each: [key for name in _cluster_names(each) for key in self._keys(name)],
            within,
            {"cluster": _cluster_names},
        )
        self._others: dict[str, following.Followed[Unstructured]] = {}

    def get(self, key: str) -> Json | None:
        return self._own.store.get(key)

    def observe(self, cluster: facts.Cluster) -> facts.Seen | None:
        """All that a decision needs; None as long as something is not known yet."""
        namespace = self._settings.namespace
        capi = self._capi.store.get(f"{namespace}/{cluster.name}")
        control_plane = etcd = None
        if capi is not None and observe.has_kubeadm(capi):
            if not (control_planes := self._other(self._control_planes())).informer.synced:
                return None
            name = capi["spec"]["controlPlaneRef"].get("name") or cluster.name
            control_plane = control_planes.store.get(f"{namespace}/{name}")
        if capi is not None and (reference := (capi.get("spec") or {}).get("managedExternalEtcdRef")):
            if not (etcds := self._other(_ETCD)).informer.synced:
                return None
            etcd = etcds.store.get(f"{namespace}/{reference.get('name')}")
        found = self._deployments.store.find("cluster", cluster.name)
        return facts.Seen(
            cluster,
            self._version,
            namespace,
            capi is not None,
            None if control_plane is None else observe.read_control_plane(control_plane),
            capi is not None and observe.is_initialized(capi),
            None if etcd is None else observe.read_etcd(etcd),
            self._rival(cluster),
            {each.machine_deployment: owner for each in cluster.groups if (owner := self._owner(cluster, each))},
            tuple(machine_deployments.read(each) for each in sorted(found, key=_name)),
        )

    def _control_planes(self) -> Resource[Unstructured]:
        version = f"{_CONTROL_PLANES}/{self._version.partition('/')[2]}"
        return Resource(version, "kubeadmcontrolplanes", "KubeadmControlPlane", True, Unstructured)

    def _other(self, resource: Resource[Unstructured]) -> following.Followed[Unstructured]:
        """A kind that not every server has: followed as soon as a Cluster refers to it."""
        if resource.kind not in self._others:
            self._others[resource.kind] = self._following.follow(
                self._site.api,
                resource,
                lambda each: [key for name in _cluster_names(each) or [_name(each)] for key in self._keys(name)],
                prepare.Selection(self._settings.namespace),
                required=False,
            )
        return self._others[resource.kind]

    def _rival(self, cluster: facts.Cluster) -> str:
        """All MachineDeployments are in one namespace: of Clusters of one name the oldest has them."""
        (oldest,) = _own_key(min(self._own.store.find("name", cluster.name), key=_age))
        return "" if oldest == f"{cluster.namespace}/{cluster.name}" else oldest

    def _owner(self, cluster: facts.Cluster, group: facts.Group) -> str:
        """The other Cluster that a group's MachineDeployment belongs to, if it does.

        Names are of a Cluster and a group: `a` and `b-c` make the same as `a-b` and `c`. Whose it is says the
        MachineDeployment itself; as long as there is none, the older Cluster makes it.
        """
        live = self._deployments.store.get(f"{self._settings.namespace}/{group.machine_deployment}")
        if live is not None:
            owner = machine_deployments.read(live).cluster
            return "" if owner == cluster.name else owner
        makers = sorted(self._own.store.find("made", group.machine_deployment), key=_seniority)
        return "" if not makers or _name(makers[0]) == cluster.name else _name(makers[0])

    def _keys(self, name: str) -> list[str]:
        return [_own_key(each)[0] for each in self._own.store.find("name", name)]


def _name(body: Json) -> str:
    name: str = body["metadata"]["name"]
    return name


def _own_key(body: Json) -> list[str]:
    return [f"{body['metadata'].get('namespace') or ''}/{_name(body)}"]


def _age(body: Json) -> tuple[str, str]:
    return body["metadata"].get("creationTimestamp") or "", body["metadata"].get("namespace") or ""


def _seniority(body: Json) -> tuple[str, str, str]:
    return (*_age(body), _name(body))


def _made_names(body: Json) -> list[str]:
    """What the MachineDeployments of a Cluster's groups are called."""
    return [group.machine_deployment for group in observe.read_cluster(body).groups]


def _cluster_names(body: Json) -> list[str]:
    name = (body["metadata"].get("labels") or {}).get(machine_deployments.CLUSTER_NAME_LABEL)
    return [name] if name else []
