"""The autoscaler of a Lattice cluster: what it is run as, and what it may do. Pure.

It runs in the cluster that it scales, and finds both its API server and Cluster API there: no kubeconfig, no secret.
Its rights are those that it uses, and no more; what belongs to itself alone it may touch in its own namespace alone.
"""

from typing import Any

from windlass.controllers.lattice import names
from windlass.controllers.lattice.settings import Settings
from windlass.kube.resources import DEPLOYMENTS, NAMESPACES, Resource, Unstructured

Json = dict[str, Any]
Wanted = tuple[Resource[Unstructured], Json]

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_GROUPS = ["machinedeployments", "machinesets", "machinepools"]
_LABELS = {"app": names.AUTOSCALER}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


RULES: tuple[Json, ...] = (
    _rule("cluster.x-k8s.io", _GROUPS, _READ),
    _rule("cluster.x-k8s.io", [f"{kind}/scale" for kind in _GROUPS], ["get", "patch", "update"]),
    _rule("cluster.x-k8s.io", ["machines"], [*_READ, "update", "delete"]),  # the mark of a machine that is to go
    _rule("infrastructure.cluster.x-k8s.io", ["*"], _READ),  # what nodes of an empty pool would be like
    _rule("", ["nodes"], [*_READ, "delete", "patch", "update"]),
    _rule("", ["pods"], _READ),
    _rule("", ["pods/eviction"], ["create"]),
    _rule(
        "", ["services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes", "namespaces"], _READ
    ),
    _rule("apps", ["daemonsets", "replicasets", "statefulsets"], _READ),
    _rule("batch", ["jobs"], _READ),
    _rule("policy", ["poddisruptionbudgets"], _READ),
    _rule(
        "storage.k8s.io",
        ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        _READ,
    ),
    _rule("resource.k8s.io", ["deviceclasses", "resourceclaims", "resourceslices"], _READ),
    _rule("", ["events"], ["create", "patch"]),
)
"""In the whole cluster."""

OWN_RULES: tuple[Json, ...] = (
    _rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
    _rule("", ["configmaps"], [*_READ, "create", "update", "delete"]),
)
"""In its own namespace."""


def flags(settings: Settings) -> list[str]:
    return [
        "--cloud-provider=clusterapi",
        f"--node-group-auto-discovery=clusterapi:namespace={settings.autoscaler_discovery}",
        "--scale-down-delay-after-add=5m",
        "--scale-down-unneeded-time=5m",
        "--skip-nodes-with-local-storage=false",
        f"--namespace={names.SYSTEM_NAMESPACE}",
    ]


def spell(settings: Settings) -> list[Wanted]:
    """Everything that it takes, in an order in which nothing has to wait for what comes after it."""
    subject = {"kind": "ServiceAccount", "name": names.AUTOSCALER, "namespace": names.SYSTEM_NAMESPACE}
    return [
        (NAMESPACES.untyped(), {"metadata": {"name": names.SYSTEM_NAMESPACE}}),
        _named("v1", "ServiceAccount", True),
        _named(f"{_RBAC}/v1", "ClusterRole", False, rules=list(RULES)),
        _bound("ClusterRole", subject, is_namespaced=False),
        _named(f"{_RBAC}/v1", "Role", True, rules=list(OWN_RULES)),
        _bound("Role", subject, is_namespaced=True),
        (DEPLOYMENTS.untyped(), {"metadata": _metadata(True), "spec": _spell_deployment(settings)}),
    ]


def _named(version: str, kind: str, is_namespaced: bool, **fields: Any) -> Wanted:
    resource = Resource(version, f"{kind.lower()}s", kind, is_namespaced, Unstructured)
    return resource, {"metadata": _metadata(is_namespaced), **fields}


def _bound(role: str, subject: Json, *, is_namespaced: bool) -> Wanted:
    reference = {"apiGroup": _RBAC, "kind": role, "name": names.AUTOSCALER}
    return _named(f"{_RBAC}/v1", f"{role}Binding", is_namespaced, roleRef=reference, subjects=[subject])


def _metadata(is_namespaced: bool) -> Json:
    named = {"name": names.AUTOSCALER, "labels": _LABELS}
    return {**named, "namespace": names.SYSTEM_NAMESPACE} if is_namespaced else named


def _spell_deployment(settings: Settings) -> Json:
    container = {
        "name": names.AUTOSCALER,
        "image": settings.autoscaler_image,
        "command": ["windlass", "autoscaler", *flags(settings)],
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}, "limits": {"memory": "600Mi"}},
    }
    pod = {
        "serviceAccountName": names.AUTOSCALER,
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
    }
    template = {"metadata": {"labels": _LABELS}, "spec": pod}
    return {"replicas": 1, "selector": {"matchLabels": _LABELS}, "template": template}
