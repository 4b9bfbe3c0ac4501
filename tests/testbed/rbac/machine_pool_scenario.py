"""Stories of the operator's controllers: pools of each kind come, change and go."""

from pathlib import Path
from typing import Any

import yaml

from testbed import api, objects, openshift
from testbed.api import Object
from testbed.bed import Bed
from tests.controllers.machine_pool import management_cluster
from tests.testbed.rbac import service_accounts
from tools import source_analysis

EKS, LATTICE = "eksa-system", "capi-system"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
CONTROL_PLANES, ETCD = "controlplane.cluster.x-k8s.io", "etcdcluster.cluster.x-k8s.io"
_POOLS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools"
_INFRASTRUCTURE = f"/apis/{management_cluster.INFRASTRUCTURE}/v1beta1/namespaces/default/newpools/outside"
_KEPT = {"cluster.x-k8s.io/v1beta2": "v1beta1"}
_ETCD_REF = "managedExternalEtcdRef"
_AUTOSCALER = "/apis/apps/v1/namespaces/lattice-system/deployments/cluster-autoscaler"


def define(bed: Bed) -> None:
    """Kinds that are not on every bed, and the field by which EKS Anywhere's Cluster API names an etcd."""
    for name in ("anywhere.eks.amazonaws.com_clusters", "lattice.io_latticeclusters"):
        openshift.define(
            bed.api, yaml.safe_load((source_analysis.ROOT / "deploy" / "crds" / f"{name}.yaml").read_text())
        )
    adopted = management_cluster.definition("lattice.dev", "LatticeCluster", "v1alpha1")
    adopted["spec"]["scope"] = "Cluster"
    openshift.define(bed.api, adopted)
    openshift.define(
        bed.api, management_cluster.definition(management_cluster.INFRASTRUCTURE, "NewPool", "v1beta1", _KEPT)
    )
    openshift.define(bed.api, management_cluster.definition(BOOTSTRAP, "NewConfig", "v1beta1", _KEPT))
    openshift.define(bed.api, management_cluster.definition(CONTROL_PLANES, "KubeadmControlPlane", "v1beta2", _KEPT))
    openshift.define(bed.api, management_cluster.definition(ETCD, "EtcdadmCluster", "v1beta1"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.cluster.x-k8s.io"
    definition = bed.api.get(path)
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"][_ETCD_REF] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bed.api.call("PUT", path, definition)


# MachinePools


def add_outside(bed: Bed, kubeconfig: Path) -> None:
    """A pool whose node is in a cluster that a narrow kubeconfig is for, with a bootstrap config of its own."""
    for body in objects.cluster("second", kubeconfig.read_bytes()):
        if body["kind"] in ("Secret", "Cluster", "FakeCluster"):
            bed.api.add(body)
    node = management_cluster.node("outside")
    bed.api.add(management_cluster.without_status(node))
    bed.api.merge("/api/v1/nodes/outside/status", {"status": node["status"]})
    _add(
        bed,
        management_cluster.INFRASTRUCTURE,
        "NewPool",
        {"providerIDList": ["test:///outside"]},
        {"ready": True, "replicas": 1},
    )
    _add(bed, BOOTSTRAP, "NewConfig", {}, {"ready": True, "dataSecretName": "second-bootstrap"})
    references = {
        "bootstrap": {"configRef": {"apiGroup": BOOTSTRAP, "kind": "NewConfig", "name": "outside"}},
        "infrastructureRef": {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "NewPool", "name": "outside"},
    }
    template = {"spec": {"clusterName": "second", **references}}
    spec = {"clusterName": "second", "replicas": 1, "template": template}
    bed.api.add(objects.made("cluster.x-k8s.io/v1beta2", "MachinePool", "outside", "default", spec))


def _add(bed: Bed, group: str, kind: str, spec: Object, status: Object) -> None:
    made = objects.made(f"{group}/v1beta1", kind, "outside", "default", spec)
    bed.api.add(made)
    bed.api.merge(f"{api.path_of(made)}/outside/status", {"status": status})


def end_outside(bed: Bed) -> None:
    """It runs, is told twice of the same trouble, and goes with its Cluster, and with all that was made for it."""
    path = f"{_POOLS}/outside"
    api.wait_for("the pool runs", lambda: _status(bed, path).get("phase"), lambda phase: phase == "Running")
    for ids in (["test:///outside", ""], ["test:///outside"], ["test:///outside", ""]):
        bed.api.merge(_INFRASTRUCTURE, {"spec": {"providerIDList": ids}})
        wanted = len(ids) == 2
        api.wait_for("trouble is told", lambda: _has_trouble(bed, path), lambda now, wanted=wanted: now == wanted)  # type: ignore[misc]
    bed.api.delete("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/second")
    api.wait_for("the pool goes with its Cluster", lambda: bed.api.find(path) is None)
    api.wait_for("its node is gone", lambda: bed.api.find("/api/v1/nodes/outside") is None)


def _has_trouble(bed: Bed, path: str) -> bool:
    return any(item["type"] == "InputsValid" for item in _status(bed, path).get("conditions", ()))


def _status(bed: Bed, path: str) -> Object:
    found: Object = bed.api.get(path).get("status", {})
    return found


# Worker pools


def add_eks(bed: Bed) -> None:
    """A Cluster with a control plane of kubeadm's and an etcd of its own, and a worker group."""
    service_accounts.add_namespace(bed, EKS)
    control_plane = {"apiGroup": CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": "eks"}
    etcd = {"apiVersion": f"{ETCD}/v1beta1", "kind": "EtcdadmCluster", "name": "eks"}
    infrastructure = {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "FakeCluster", "name": "eks"}
    bed.api.add(objects.made(f"{ETCD}/v1beta1", "EtcdadmCluster", "eks", EKS, {}))
    bed.api.add(objects.made(f"{CONTROL_PLANES}/v1beta2", "KubeadmControlPlane", "eks", EKS, {"replicas": 1}))
    spec: Object = {"controlPlaneRef": control_plane, "infrastructureRef": infrastructure, _ETCD_REF: etcd}
    bed.api.add(objects.made("cluster.x-k8s.io/v1beta2", "Cluster", "eks", EKS, spec))
    group = {"name": "a", "count": 1, **_machine("eks")}
    spec = {"workerNodeGroupConfigurations": [group]}
    bed.api.add(objects.made("anywhere.eks.amazonaws.com/v1alpha1", "Cluster", "eks", EKS, spec))


def end_eks(bed: Bed) -> None:
    """The group is autoscaled, and goes."""
    path = f"/apis/anywhere.eks.amazonaws.com/v1alpha1/namespaces/{EKS}/clusters/eks"
    group = {"name": "a", "count": 1, "autoscalingConfiguration": {"minCount": 1, "maxCount": 2}, **_machine("eks")}
    _turn(bed, _deployment(EKS, "eks-a"), path, {"workerNodeGroupConfigurations": [group]})
    bed.api.merge(path, {"spec": {"workerNodeGroupConfigurations": None}})
    api.wait_for("it is gone", lambda: bed.api.find(_deployment(EKS, "eks-a")) is None)
    api.wait_for("it is told", lambda: bed.api.get(path).get("status"))


def add_lattice(bed: Bed) -> None:
    """A LatticeCluster with a pool."""
    service_accounts.add_namespace(bed, LATTICE)
    spec = {"nodes": {"worker_pools": {"a": {"replicas": 1, **_machine("lat")}}}}
    bed.api.add(objects.made("lattice.io/v1alpha1", "LatticeCluster", "lat", LATTICE, spec))


def end_lattice(bed: Bed) -> None:
    """The pool is autoscaled, which makes the operator run an autoscaler and tell that its replicas count no more. That
    is put right, and then wrong again."""
    path = f"/apis/lattice.io/v1alpha1/namespaces/{LATTICE}/latticeclusters/lat"
    pool = {"replicas": 1, "min": 2, "max": 3, **_machine("lat")}
    _turn(bed, _deployment(LATTICE, "lat-pool-a"), path, {"nodes": {"worker_pools": {"a": pool}}})
    api.wait_for("an autoscaler is run", lambda: bed.api.find(_AUTOSCALER) is not None)
    api.wait_for("it is told", lambda: bed.api.get(path).get("status"))
    _wait_warned(bed, path, True)
    for replicas in (2, 1):
        bed.api.merge(path, {"spec": {"nodes": {"worker_pools": {"a": {"replicas": replicas}}}}})
        _wait_warned(bed, path, replicas == 1)


def _wait_warned(bed: Bed, path: str, wanted: bool) -> None:
    def probe() -> bool:
        return bool(_status(bed, path).get("worker_pools", {}).get("a", {}).get("message"))

    api.wait_for("replicas are warned of", probe, lambda now: now == wanted)


def _turn(bed: Bed, deployment: str, path: str, spec: Object) -> None:
    api.wait_for("the pool is there", lambda: bed.api.find(deployment) is not None)
    bed.api.merge(path, {"spec": spec})
    low = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
    api.wait_for("it is autoscaled", lambda: low in bed.api.get(deployment)["metadata"].get("annotations", {}))


def _deployment(namespace: str, name: str) -> str:
    return f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedeployments/{name}"


def _machine(cluster: str) -> dict[str, Any]:
    reference = {"apiGroup": management_cluster.INFRASTRUCTURE, "kind": "FakeMachineTemplate", "name": "none"}
    return {"bootstrap": {"dataSecretName": f"{cluster}-bootstrap"}, "infrastructureRef": reference}
