"""API resources of the simulated cluster by API group and plural, and the CustomResourceDefinitions among them."""

from typing import Any

GroupResource = tuple[str, str]

PODS: GroupResource = ("", "pods")

NODES: GroupResource = ("", "nodes")

NAMESPACES: GroupResource = ("", "namespaces")

DEPLOYMENTS: GroupResource = ("apps", "deployments")

REPLICA_SETS: GroupResource = ("apps", "replicasets")

STATEFUL_SETS: GroupResource = ("apps", "statefulsets")

DAEMON_SETS: GroupResource = ("apps", "daemonsets")

JOBS: GroupResource = ("batch", "jobs")

BUDGETS: GroupResource = ("policy", "poddisruptionbudgets")

PRIORITY_CLASSES: GroupResource = ("scheduling.k8s.io", "priorityclasses")

CLUSTERS: GroupResource = ("cluster.x-k8s.io", "clusters")

MACHINE_DEPLOYMENTS: GroupResource = ("cluster.x-k8s.io", "machinedeployments")

MACHINE_SETS: GroupResource = ("cluster.x-k8s.io", "machinesets")

MACHINES: GroupResource = ("cluster.x-k8s.io", "machines")

MACHINE_POOLS: GroupResource = ("cluster.x-k8s.io", "machinepools")

MACHINE_TEMPLATES: GroupResource = ("infrastructure.cluster.x-k8s.io", "simulatedmachinetemplates")

POD_TEMPLATES: GroupResource = ("", "podtemplates")

PROVISIONING_REQUESTS: GroupResource = ("autoscaling.x-k8s.io", "provisioningrequests")

CAPACITY_BUFFERS: GroupResource = ("autoscaling.x-k8s.io", "capacitybuffers")

WATCHED = (
    PODS, NODES, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, BUDGETS, MACHINE_DEPLOYMENTS,
    MACHINE_SETS, MACHINES, PROVISIONING_REQUESTS,
)  # fmt: skip
"""Kinds whose changes are dispatched to components."""

Json = dict[str, Any]

CLUSTER_API = "cluster.x-k8s.io"

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"

AUTOSCALING = "autoscaling.x-k8s.io"

_ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_COUNTED: Json = {**_ANYTHING, "properties": {"replicas": {"type": "integer", "format": "int32"}}}

_SCALE: Json = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}

_CLUSTER = ("Cluster", "string", ".spec.clusterName")

_REPLICAS = (
    ("Desired", "integer", ".spec.replicas"),
    ("Current", "integer", ".status.replicas"),
    ("Ready", "integer", ".status.readyReplicas"),
)

_PHASE = ("Phase", "string", ".status.phase")

_AGE = ("Age", "date", ".metadata.creationTimestamp")


def list_crds() -> list[Json]:
    scalable = (_CLUSTER, *_REPLICAS, _PHASE)
    machine = (
        _CLUSTER,
        ("Node Name", "string", ".status.nodeRef.name"),
        ("Provider ID", "string", ".spec.providerID"),
        _PHASE,
    )
    class_name = ("ProvisioningClassName", "string", ".spec.provisioningClassName")
    return [
        _make_crd(CLUSTER_API, "v1beta2", "Cluster", "cl", (_PHASE,)),
        _make_crd(CLUSTER_API, "v1beta2", "MachineDeployment", "md", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "MachineSet", "ms", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "MachinePool", "mp", scalable, is_scalable=True),
        _make_crd(CLUSTER_API, "v1beta2", "Machine", "ma", machine),
        _make_crd(
            CLUSTER_API, "v1beta2", "MachineDrainRule", columns=(("Behavior", "string", ".spec.drain.behavior"),)
        ),
        _make_crd(INFRASTRUCTURE, "v1beta1", "SimulatedMachineTemplate"),
        _make_crd(AUTOSCALING, "v1", "ProvisioningRequest", "provreq", (class_name,)),
        _make_crd(AUTOSCALING, "v1beta1", "CapacityBuffer", "cb", (("Replicas", "integer", ".status.replicas"),)),
        _make_crd(AUTOSCALING, "v1beta1", "CapacityQuota", "cq", scope="Cluster"),
    ]


def _make_crd(
    group: str,
    version: str,
    kind: str,
    short_name: str = "",
    columns: tuple[tuple[str, str, str], ...] = (),
    *,
    is_scalable: bool = False,
    scope: str = "Namespaced",
) -> Json:
    """A definition; columns of kubectl, each with its type and path, before the age."""
    singular = kind.lower()
    names: Json = {"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular}
    if short_name:
        names |= {"shortNames": [short_name]}
    part = _COUNTED if is_scalable else _ANYTHING
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": _SCALE} if is_scalable else {})},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in (*columns, _AGE)
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}", "labels": {"cluster.x-k8s.io/v1beta2": version}},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
    }
