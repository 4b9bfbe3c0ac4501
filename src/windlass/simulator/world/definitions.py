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


def every() -> list[Json]:
    return [
        _define(CLUSTER_API, "v1beta2", "Cluster"),
        _define(CLUSTER_API, "v1beta2", "MachineDeployment", is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "MachineSet", is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "MachinePool", is_scalable=True),
        _define(CLUSTER_API, "v1beta2", "Machine"),
        _define(INFRASTRUCTURE, "v1beta1", "SimulatedMachineTemplate"),
        _define(AUTOSCALING, "v1", "ProvisioningRequest"),
        _define(AUTOSCALING, "v1beta1", "CapacityBuffer"),
        _define(AUTOSCALING, "v1beta1", "CapacityQuota", scope="Cluster"),
    ]


def _define(group: str, version: str, kind: str, *, is_scalable: bool = False, scope: str = "Namespaced") -> Json:
    singular = kind.lower()
    names = {"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular}
    part = _COUNTED if is_scalable else _ANYTHING
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": _SCALE} if is_scalable else {})},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}", "labels": {"cluster.x-k8s.io/v1beta2": version}},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
    }
