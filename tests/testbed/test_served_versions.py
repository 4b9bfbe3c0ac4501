"""`windlass operator` on a server whose versions of Cluster API come and go: it follows them without a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import api, fixtures, objects, openshift, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.controllers.machine_pool import management_cluster
from tests.e2e import operator_process
from tests.testbed.rbac import service_accounts
from tests.testbed.test_worker_pools import CRDS

GROUP = "cluster.x-k8s.io"
KINDS = ("Cluster", "Machine", "MachineDeployment", "MachinePool")
VERSIONS = ("v1beta1", "v1beta2")
FINALIZER = "machinepool.cluster.x-k8s.io"
TEMPLATES: Object = {
    "bootstrap": {"dataSecretName": "bootstrap"},
    "infrastructureRef": {"apiVersion": "example.test/v1", "kind": "FooMachineTemplate", "name": "workers"},
}
WITHIN_S = 180.0
CONTROLLERS = "machine_pool,eks_anywhere,lattice"


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """An API server alone, with the namespaces and the products' kinds, but nothing of Cluster API."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(Choice()) as found:
        for namespace in ("eksa-system", "capi-system"):
            service_accounts.add_namespace(found, namespace)
        for name in ("anywhere.eks.amazonaws.com_clusters", "lattice.io_latticeclusters"):
            openshift.define(found.api, yaml.safe_load((CRDS / f"{name}.yaml").read_text()))
        yield found


def _versions(kind: str, *served: str) -> list[Object]:
    """Both versions of a kind, of which these are served."""
    (version,) = management_cluster.definition(GROUP, kind, VERSIONS[0])["spec"]["versions"]
    return [{**version, "name": name, "served": name in served, "storage": name == VERSIONS[0]} for name in VERSIONS]


def _serve(bed: Bed, *served: str) -> None:
    for kind in KINDS:
        body = management_cluster.definition(GROUP, kind, VERSIONS[0])
        body["spec"]["versions"] = _versions(kind, *served)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{body['metadata']['name']}"
        if bed.api.find(path) is None:
            openshift.define(bed.api, body)
        else:
            bed.api.merge(path, {"spec": {"versions": body["spec"]["versions"]}})
    (version,) = served

    def listed() -> set[str]:
        return {each["version"] for each in bed.api.get(f"/apis/{GROUP}")["versions"]}

    api.wait_for(f"{version} is served", listed, lambda seen: seen == set(served))


def _expect(bed: Bed, version: str, count: int) -> None:
    """Each of the three controllers does its work: on a group, on a pool, and on a MachinePool that is new."""
    root = f"/apis/{GROUP}/{version}/namespaces"
    pool = f"pool-{count}"
    template = {"clusterName": "work", **TEMPLATES}
    spec: Object = {"clusterName": "work", "replicas": 1, "template": {"spec": template}}
    bed.api.add(objects.made(f"{GROUP}/{version}", "MachinePool", pool, "default", spec))

    def size(path: str) -> int | None:
        found: int | None = (bed.api.find(f"{root}/{path}") or {}).get("spec", {}).get("replicas")
        return found

    def finalizers() -> list[str]:
        found: list[str] = bed.api.get(f"{root}/default/machinepools/{pool}")["metadata"].get("finalizers", [])
        return found

    for path in ("eksa-system/machinedeployments/work-a", "capi-system/machinedeployments/lat-pool-a"):
        api.wait_for(path, lambda path=path: size(path), lambda seen: seen == count, WITHIN_S)  # type: ignore[misc]
    api.wait_for(f"{pool} is looked after", finalizers, lambda seen: FINALIZER in seen, WITHIN_S)


def test_versions_of_cluster_api_are_followed_without_a_restart(bed: Bed, tmp_path: Path) -> None:
    flags = ("--no-leader-elect", "--no-lattice-deploy-autoscaler")
    with operator_process.run(bed.kubeconfig, tmp_path / "log", CONTROLLERS, *flags):
        _serve(bed, "v1beta1")
        for name, namespace in (("work", "eksa-system"), ("work", "default"), ("lat", "capi-system")):
            bed.api.add(objects.made(f"{GROUP}/v1beta1", "Cluster", name, namespace, {}))
        group = {"name": "a", "count": 2, **TEMPLATES}
        eks, lattice = {"workerNodeGroupConfigurations": [group]}, {"nodes": {"worker_pools": {"a": {**TEMPLATES}}}}
        lattice["nodes"]["worker_pools"]["a"]["replicas"] = 2
        eks_path = _add(bed, "anywhere.eks.amazonaws.com/v1alpha1", "Cluster", "work", "eksa-system", eks)
        lattice_path = _add(bed, "lattice.io/v1alpha1", "LatticeCluster", "lat", "capi-system", lattice)
        _expect(bed, "v1beta1", 2)
        _serve(bed, "v1beta2")
        bed.api.merge(eks_path, {"spec": {"workerNodeGroupConfigurations": [{**group, "count": 3}]}})
        bed.api.merge(lattice_path, {"spec": {"nodes": {"worker_pools": {"a": {"replicas": 3}}}}})
        _expect(bed, "v1beta2", 3)


def _add(bed: Bed, version: str, kind: str, name: str, namespace: str, spec: Object) -> str:
    body = bed.api.add(objects.made(version, kind, name, namespace, spec))
    return f"{api.path_of(body)}/{name}"
