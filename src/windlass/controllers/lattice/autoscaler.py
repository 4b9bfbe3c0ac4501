"""The autoscaler of a Lattice cluster: what it is run as, and what it may do. Pure.

It runs in the cluster that it scales, and finds both its API server and Cluster API there: no kubeconfig, no secret.
Its rights are handed in: those that every autoscaler declares, and no more. What belongs to itself alone it may touch
in its own namespace alone.
"""

from typing import Any

from windlass.controllers.lattice import names
from windlass.controllers.lattice.settings import Settings
from windlass.kube import rights
from windlass.kube.resources import DEPLOYMENTS, NAMESPACES, Resource, Unstructured

Json = dict[str, Any]
Wanted = tuple[Resource[Unstructured], Json]

_LABELS = {"app": names.AUTOSCALER}


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
    handed = settings.autoscaler_rights
    subject = {"kind": "ServiceAccount", "name": names.AUTOSCALER, "namespace": names.SYSTEM_NAMESPACE}
    return [
        (NAMESPACES.untyped(), {"metadata": {"name": names.SYSTEM_NAMESPACE}}),
        _named("v1", "ServiceAccount", True),
        _named(rights.VERSION, "ClusterRole", False, rules=rights.spell_rules(handed.cluster)),
        _bound("ClusterRole", subject, is_namespaced=False),
        _named(rights.VERSION, "Role", True, rules=rights.spell_rules(handed.own)),
        _bound("Role", subject, is_namespaced=True),
        (DEPLOYMENTS.untyped(), {"metadata": _metadata(True), "spec": _spell_deployment(settings)}),
    ]


def _named(version: str, kind: str, is_namespaced: bool, **fields: Any) -> Wanted:
    resource = Resource(version, f"{kind.lower()}s", kind, is_namespaced, Unstructured)
    return resource, {"metadata": _metadata(is_namespaced), **fields}


def _bound(role: str, subject: Json, *, is_namespaced: bool) -> Wanted:
    reference = {"apiGroup": rights.GROUP, "kind": role, "name": names.AUTOSCALER}
    return _named(rights.VERSION, f"{role}Binding", is_namespaced, roleRef=reference, subjects=[subject])


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
