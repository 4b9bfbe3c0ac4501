"""Monitoring: how Prometheus finds the autoscaler, and what is worth an alert."""

from typing import Any

from windlass.controllers.openshift.cluster_autoscaler import names
from windlass.controllers.openshift.cluster_autoscaler.decide import deployment

Json = dict[str, Any]

_LABELS = {"k8s-app": names.AUTOSCALER}
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def spell_service(name: str, namespace: str) -> Json:
    port = {"name": "metrics", "port": deployment.METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}
    spec = {"type": "ClusterIP", "ports": [port], "selector": _LABELS, "sessionAffinity": "None"}
    return {"metadata": _metadata(name, namespace), "spec": spec}


def spell_service_monitor(name: str, namespace: str) -> Json:
    endpoint = {"port": "metrics", "scheme": "http", "interval": "30s", "bearerTokenFile": _TOKEN}
    spec = {
        "endpoints": [endpoint],
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": _LABELS},
    }
    return {"metadata": _metadata(name, namespace), "spec": spec}


def spell_rule(name: str, namespace: str) -> Json:
    metadata = {**_metadata(name, namespace), "labels": {"prometheus": "k8s", "role": "alert-rules"}}
    return {"metadata": metadata, "spec": {"groups": [{"name": "general.rules", "rules": _spell_alerts(name)}]}}


def _spell_alerts(name: str) -> list[Json]:
    selected = f'service="{names.deployment(name)}"'
    return [
        _alert(
            "UnschedulablePods",
            f"cluster_autoscaler_unschedulable_pods_count{{{selected}}} > 0",
            ("20m", "info"),
            "{{ $value }} pods have been waiting for a node for long",
            "The cluster autoscaler does not get nodes for pods that wait: a limit is reached, no MachineSet has nodes "
            "that would suit, or new nodes do not become ready. `windlass explain` says which.",
        ),
        _alert(
            "NotSafeToScale",
            f"cluster_autoscaler_cluster_safe_to_autoscale{{{selected}}} != 1",
            ("15m", "warning"),
            "The cluster autoscaler has stopped: too many nodes are not ready",
            "Neither adds the cluster autoscaler nodes nor removes any while more than three nodes and more than 45% "
            "of all are not ready. It goes on by itself as soon as fewer are.",
        ),
        *(
            _alert_limit(selected, *each)
            for each in (("CPU", "CpuResourceLimit", "cores"), ("Memory", "MemoryResourceLimit", "memory"))
        ),
    ]


def _alert_limit(selected: str, title: str, reason: str, field: str) -> Json:
    events = f'cluster_autoscaler_skipped_scale_events_count{{{selected},direction="up",reason="{reason}"}}'
    return _alert(
        f"UnableToScale{title}LimitReached",
        f"increase({events}[15m]) > 0",
        ("15m", "info"),
        f"The cluster autoscaler adds no node: the cluster has as much as it may ({field})",
        f"One more node would exceed spec.resourceLimits.{field}.max of the ClusterAutoscaler. Raise it if more nodes "
        "are wanted.",
    )


def _alert(name: str, expression: str, lasting: tuple[str, str], summary: str, description: str) -> Json:
    for_, severity = lasting
    return {
        "alert": f"ClusterAutoscaler{name}",
        "expr": expression,
        "for": for_,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }


def _metadata(name: str, namespace: str) -> Json:
    return {"name": names.deployment(name), "namespace": namespace, "labels": _LABELS}
