"""Watches: what is looked at, and which LatticeClusters a change concerns."""

from collections.abc import Mapping
from typing import Any

from windlass.controllers import controller, following
from windlass.controllers.lattice import facts, names
from windlass.controllers.worker_pools import machine_deployments
from windlass.kube import prepare
from windlass.kube.resources import MACHINE_DEPLOYMENTS, Resource, Unstructured

LATTICE_CLUSTERS = Resource(names.API_VERSION, "latticeclusters", "LatticeCluster", True, Unstructured)

Json = Mapping[str, Any]


class Watches:
    """What is known."""

    def __init__(self, site: controller.Site, followed: following.Following, api_version: str) -> None:
        self._version = api_version
        within = prepare.Selection(site.namespace)
        self._own = followed.follow(site.api, LATTICE_CLUSTERS, _own_key, within)
        deployments = MACHINE_DEPLOYMENTS.at(api_version).untyped()
        index = {"cluster": _cluster_key}
        self._deployments = followed.follow(site.api, deployments, _cluster_key, within, index)

    def get(self, key: str) -> Json | None:
        return self._own.store.get(key)

    def observe(self, cluster: facts.Cluster) -> facts.Seen:
        found = self._deployments.store.find("cluster", f"{cluster.namespace}/{cluster.name}")
        read = [machine_deployments.read(each) for each in found]
        return facts.Seen(cluster, self._version, {each.name: each for each in read})


def _own_key(body: Json) -> list[str]:
    return [f"{body['metadata']['namespace']}/{body['metadata']['name']}"]


def _cluster_key(body: Json) -> list[str]:
    name = (body["metadata"].get("labels") or {}).get(machine_deployments.CLUSTER_NAME_LABEL)
    return [f"{body['metadata']['namespace']}/{name}"] if name else []
