"""Kinds that Cluster API and autoscalers bring along: their names, versions and subresources, without schemas."""

from typing import Any

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


def every() -> list[Json]:
    scalable = (_CLUSTER, *_REPLICAS, _PHASE)
    machine = (
        _CLUSTER,
        ("Node Name", "string", ".status.nodeRef.name"),
        ("Provider ID", "string", ".spec.providerID"),
        _PHASE,
    )
    class_name = ("ProvisioningClassName", "string", ".spec.provisioningClassName")
    return [
        _define(CLUSTER_API, "v1beta2", "Cluster", "cl", (_PHASE,)),
        _define(CLUSTER_API, "v1beta2", "MachineDeployment", "md", scalable, is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "MachineSet", "ms", scalable, is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "MachinePool", "mp", scalable, is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "Machine", "ma", machine),
        _define(CLUSTER_API, "v1beta2", "MachineDrainRule", columns=(("Behavior", "string", ".spec.drain.behavior"),)),
        _define(INFRASTRUCTURE, "v1beta1", "SimulatedMachineTemplate"),
        _define(AUTOSCALING, "v1", "ProvisioningRequest", "provreq", (class_name,)),
        _define(AUTOSCALING, "v1beta1", "CapacityBuffer", "cb", (("Replicas", "integer", ".status.replicas"),)),
        _define(AUTOSCALING, "v1beta1", "CapacityQuota", "cq", scope="Cluster"),
    ]


def _define(
    group: str,
    version: str,
    kind: str,
    short_name: str = "",
    columns: tuple[tuple[str, str, str], ...] = (),
    *,
    is_scalable: bool = False,
    scope: str = "Namespaced",
) -> Json:
    """A definition; columns are those that kubectl prints, each with its type and path, before the age."""
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
