"""The Deployment that runs the autoscaler."""

from typing import Any

from windlass.controllers.openshift import apis
from windlass.controllers.openshift.cluster_autoscaler import facts, names
from windlass.controllers.openshift.cluster_autoscaler.decide import flags
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.controllers.openshift.gates import Gates

Json = dict[str, Any]

METRICS_PORT = 8085


def labels(name: str) -> dict[str, str]:
    return {"cluster-autoscaler": name, "k8s-app": names.AUTOSCALER}


def annotations(settings: Settings) -> dict[str, str]:
    return {
        names.CRITICAL_ANNOTATION: "",
        names.VERSION_ANNOTATION: settings.version,
        names.WORKLOAD_ANNOTATION: '{"effect": "PreferredDuringScheduling"}',
    }


def spell(autoscaler: facts.Autoscaler, settings: Settings, gates: Gates) -> Json:
    chosen = labels(autoscaler.name)
    template = {
        "metadata": {"labels": chosen, "annotations": annotations(settings)},
        "spec": _spell_pod(autoscaler, settings, gates),
    }
    return {
        "metadata": {
            "name": names.deployment(autoscaler.name),
            "namespace": settings.namespace,
            "annotations": annotations(settings),
        },
        "spec": {"replicas": settings.replicas, "selector": {"matchLabels": chosen}, "template": template},
    }


def _spell_pod(autoscaler: facts.Autoscaler, settings: Settings, gates: Gates) -> Json:
    container = {
        "name": names.AUTOSCALER,
        "image": settings.image,
        "command": ["windlass", "autoscaler"],
        "args": flags.spell(autoscaler.spec, settings, gates),
        "env": [{"name": name, "value": value} for name, value in environment(settings, gates).items()],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
    return {
        "serviceAccountName": names.AUTOSCALER,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"node-role.kubernetes.io/master": "", "kubernetes.io/os": "linux"},
        "containers": [container],
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"},
        ],
    }


def environment(settings: Settings, gates: Gates) -> dict[str, str]:
    """With Cluster API: mirrors that are paused are scaled, too. Without: the same provider speaks Machine API, in the
    one namespace that Machine API's own controllers look at.
    """
    common = {"CAPI_SCALE_ZERO_DEFAULT_ARCH": settings.architecture}
    if gates.has_cluster_api:
        return {**common, "CAPI_MIRRORED_NAMESPACE": apis.MACHINE_API.namespace}
    version = apis.MACHINE_API.versions[0]
    spoken = {"CAPI_GROUP": apis.MACHINE_API.group, "CAPI_VERSION": version}
    spoken |= {"CAPI_NAMESPACE": apis.MACHINE_API.namespace}
    return {**common, **spoken, "OPENSHIFT_CLUSTERAPI_DISABLE": "true"}


def is_current(found: facts.Json, version: str) -> bool:
    """Whether an object is of a version."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(names.VERSION_ANNOTATION) == version


def is_rolled_out(found: facts.Json) -> bool:
    """Whether all of a Deployment's replicas are of its newest generation, and one is available."""
    status = found.get("status") or {}
    if (status.get("observedGeneration") or 0) < ((found.get("metadata") or {}).get("generation") or 0):
        return False
    if (status.get("updatedReplicas") or 0) != (status.get("replicas") or 0):
        return False
    return (status.get("availableReplicas") or 0) > 0
