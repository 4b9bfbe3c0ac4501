"""ClusterAutoscaler manifests: Deployment with flags, Service, ServiceMonitor, alerts, NetworkPolicies. Pure.

`autoscaler_args` gives the command line of a spec, in a fixed order. Network policies allow DNS and the API server
outbound, metrics and webhooks inbound.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import model
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings
from windlass.controllers.openshift.machine_apis import FeatureGates

AutoscalerSpec = Mapping[str, Any]

_EXPANDERS = {"LeastWaste": "least-waste", "Priority": "priority", "Random": "random"}

_SWITCH_VALUES = {"Enabled": "true", "Disabled": "false"}

_SCALE_DOWN_FLAGS = (
    ("delayAfterAdd", "scale-down-delay-after-add"),
    ("delayAfterDelete", "scale-down-delay-after-delete"),
    ("delayAfterFailure", "scale-down-delay-after-failure"),
    ("unneededTime", "scale-down-unneeded-time"),
    ("utilizationThreshold", "scale-down-utilization-threshold"),
)

_IGNORED_LABELS: Mapping[str, tuple[str, ...]] = {
    "AWS": (
        "topology.ebs.csi.aws.com/zone",
        "lifecycle",
        "k8s.amazonaws.com/eniConfig",
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "alpha.eksctl.io/instance-id",
        "topology.k8s.aws/zone-id",
    ),
    "Azure": ("topology.disk.csi.azure.com/zone", "agentpool", "kubernetes.azure.com/agentpool"),
    "GCP": ("topology.gke.io/zone",),
    "IBMCloud": (
        "ibm-cloud.kubernetes.io/worker-id",
        "vpc-block-csi-driver-labels",
        "ibm-cloud.kubernetes.io/vpc-instance-id",
    ),
    "Nutanix": (
        "nutanix.com/prism-element-name",
        "nutanix.com/prism-element-uuid",
        "nutanix.com/prism-host-name",
        "nutanix.com/prism-host-uuid",
    ),
}
"""Labels that differ between similar nodes, by platform."""


def autoscaler_args(spec: AutoscalerSpec, settings: ClusterAutoscalerSettings, gates: FeatureGates) -> list[str]:
    return [*_spec_args(spec, settings, gates), *([settings.extra_args] if settings.extra_args else [])]


def _spec_args(spec: AutoscalerSpec, settings: ClusterAutoscalerSettings, gates: FeatureGates) -> Iterator[str]:
    yield from _fixed_args(settings, gates)
    yield from (f"--startup-taint={taint}" for taint in spec.get("startupTaints") or ())
    yield from _optional_arg(spec, "maxPodGracePeriod", "max-graceful-termination-sec")
    if spec.get("maxNodeProvisionTime"):
        yield f"--max-node-provision-time={spec['maxNodeProvisionTime']}"
    yield from _optional_arg(spec, "podPriorityThreshold", "expendable-pods-priority-cutoff")
    yield from _resource_limit_args(spec.get("resourceLimits") or {})
    yield from _scale_down_args(spec.get("scaleDown"))
    yield from _optional_arg(spec.get("scaleUp") or {}, "newPodScaleUpDelay", "new-pod-scale-up-delay")
    yield from _balancing_args(spec, gates.platform)
    yield from _optional_arg(spec, "ignoreDaemonsetsUtilization", "ignore-daemonsets-utilization")
    yield from _optional_arg(spec, "skipNodesWithLocalStorage", "skip-nodes-with-local-storage")
    yield from (f"--balancing-ignore-label={label}" for label in spec.get("balancingIgnoredLabels") or ())
    verbosity = spec.get("logVerbosity")
    yield f"--v={settings.verbosity if verbosity is None else verbosity}"
    expanders = [_EXPANDERS[item] for item in spec.get("expanders") or () if item in _EXPANDERS]
    if expanders:
        yield f"--expander={','.join(expanders)}"
    if spec.get("enforceNodeGroupMinSize") in _SWITCH_VALUES:
        yield f"--enforce-node-group-min-size={_SWITCH_VALUES[spec['enforceNodeGroupMinSize']]}"


def _fixed_args(settings: ClusterAutoscalerSettings, gates: FeatureGates) -> Iterator[str]:
    """Arguments that do not depend on the spec. Lease durations follow OpenShift's conventions."""
    yield "--logtostderr"
    yield "--record-duplicated-events"
    yield f"--cloud-provider={settings.cloud_provider}"
    yield f"--namespace={settings.namespace}"
    yield "--leader-elect-lease-duration=137s"
    yield "--leader-elect-renew-deadline=107s"
    yield "--leader-elect-retry-period=26s"
    yield "--max-bulk-soft-taint-count=0"
    yield "--kube-api-content-type=application/json"
    if gates.scales_cluster_api:
        yield f"--node-group-auto-discovery=clusterapi:namespace={machine_apis.CLUSTER_API.namespace}"
    if gates.has_provisioning_requests:
        yield "--enable-provisioning-requests=true"


def _optional_arg(spec: AutoscalerSpec, field: str, flag: str) -> Iterator[str]:
    """The argument of an optional field; False is passed explicitly."""
    value = spec.get(field)
    if value is not None:
        yield f"--{flag}={str(value).lower() if isinstance(value, bool) else value}"


def _resource_limit_args(limits: AutoscalerSpec) -> Iterator[str]:
    yield from _optional_arg(limits, "maxNodesTotal", "max-nodes-total")
    for name in ("cores", "memory"):
        if limits.get(name) is not None:
            yield f"--{name}-total={_format_range(limits[name])}"
    yield from (f"--gpu-total={gpu.get('type') or ''}:{_format_range(gpu)}" for gpu in limits.get("gpus") or ())


def _format_range(given: AutoscalerSpec) -> str:
    return f"{given.get('min') or 0}:{given.get('max') or 0}"


def _scale_down_args(given: AutoscalerSpec | None) -> Iterator[str]:
    if given is None:
        return
    if not given.get("enabled"):
        yield "--scale-down-enabled=false"
        return
    yield "--scale-down-enabled=true"
    for field, flag in _SCALE_DOWN_FLAGS:
        yield from _optional_arg(given, field, flag)
    if given.get("cordonNodeBeforeTerminating") in _SWITCH_VALUES:
        yield f"--cordon-node-before-terminating={_SWITCH_VALUES[given['cordonNodeBeforeTerminating']]}"


def _balancing_args(spec: AutoscalerSpec, platform: str) -> Iterator[str]:
    if spec.get("balanceSimilarNodeGroups") is None:
        return
    yield from _optional_arg(spec, "balanceSimilarNodeGroups", "balance-similar-node-groups")
    yield from (f"--balancing-ignore-label={label}" for label in _IGNORED_LABELS.get(platform, ()))


Json = dict[str, Any]

METRICS_PORT = 8085


def pod_labels(name: str) -> dict[str, str]:
    return {"cluster-autoscaler": name, "k8s-app": model.AUTOSCALER}


def version_annotations(settings: ClusterAutoscalerSettings) -> dict[str, str]:
    return {
        model.CRITICAL_ANNOTATION: "",
        model.VERSION_ANNOTATION: settings.version,
        model.WORKLOAD_ANNOTATION: '{"effect": "PreferredDuringScheduling"}',
    }


def build_deployment(
    autoscaler: model.ClusterAutoscaler, settings: ClusterAutoscalerSettings, gates: FeatureGates
) -> Json:
    chosen = pod_labels(autoscaler.name)
    template = {
        "metadata": {"labels": chosen, "annotations": version_annotations(settings)},
        "spec": _build_pod_spec(autoscaler, settings, gates),
    }
    return {
        "metadata": {
            "name": model.deployment_name(autoscaler.name),
            "namespace": settings.namespace,
            "annotations": version_annotations(settings),
        },
        "spec": {"replicas": settings.replicas, "selector": {"matchLabels": chosen}, "template": template},
    }


def _build_pod_spec(
    autoscaler: model.ClusterAutoscaler, settings: ClusterAutoscalerSettings, gates: FeatureGates
) -> Json:
    container = {
        "name": model.AUTOSCALER,
        "image": settings.image,
        "command": ["windlass", "autoscaler"],
        "args": autoscaler_args(autoscaler.spec, settings, gates),
        "env": [{"name": name, "value": value} for name, value in autoscaler_environment(settings, gates).items()],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
    }
    return {
        "serviceAccountName": model.AUTOSCALER,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"node-role.kubernetes.io/master": "", "kubernetes.io/os": "linux"},
        "containers": [container],
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"},
        ],
    }


def autoscaler_environment(settings: ClusterAutoscalerSettings, gates: FeatureGates) -> dict[str, str]:
    """Environment of the autoscaler.

    With Cluster API, paused mirrors are scaled too. Without, the provider uses Machine API in its single namespace.
    """
    common = {"CAPI_SCALE_ZERO_DEFAULT_ARCH": settings.architecture}
    if gates.scales_cluster_api:
        return {**common, "CAPI_MIRRORED_NAMESPACE": machine_apis.MACHINE_API.namespace}
    version = machine_apis.MACHINE_API.versions[0]
    spoken = {"CAPI_GROUP": machine_apis.MACHINE_API.group, "CAPI_VERSION": version}
    spoken |= {"CAPI_NAMESPACE": machine_apis.MACHINE_API.namespace}
    return {**common, **spoken, "OPENSHIFT_CLUSTERAPI_DISABLE": "true"}


def has_version(found: model.Json, version: str) -> bool:
    """True if an object has the version annotation of a version."""
    return ((found.get("metadata") or {}).get("annotations") or {}).get(model.VERSION_ANNOTATION) == version


def is_rolled_out(found: model.Json) -> bool:
    """True if all replicas of a Deployment have its newest generation and one is available."""
    status = found.get("status") or {}
    if (status.get("observedGeneration") or 0) < ((found.get("metadata") or {}).get("generation") or 0):
        return False
    if (status.get("updatedReplicas") or 0) != (status.get("replicas") or 0):
        return False
    return (status.get("availableReplicas") or 0) > 0


_MONITORING_LABELS = {"k8s-app": model.AUTOSCALER}

_TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def build_service(name: str, namespace: str) -> Json:
    port = {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}
    spec = {"type": "ClusterIP", "ports": [port], "selector": _MONITORING_LABELS, "sessionAffinity": "None"}
    return {"metadata": _metadata(name, namespace), "spec": spec}


def build_service_monitor(name: str, namespace: str) -> Json:
    endpoint = {"port": "metrics", "scheme": "http", "interval": "30s", "bearerTokenFile": _TOKEN_FILE}
    spec = {
        "endpoints": [endpoint],
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchLabels": _MONITORING_LABELS},
    }
    return {"metadata": _metadata(name, namespace), "spec": spec}


def build_prometheus_rule(name: str, namespace: str) -> Json:
    metadata = {**_metadata(name, namespace), "labels": {"prometheus": "k8s", "role": "alert-rules"}}
    return {"metadata": metadata, "spec": {"groups": [{"name": "general.rules", "rules": _build_alerts(name)}]}}


def _build_alerts(name: str) -> list[Json]:
    selected = f'service="{model.deployment_name(name)}"'
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
            _limit_alert(selected, *item)
            for item in (("CPU", "CpuResourceLimit", "cores"), ("Memory", "MemoryResourceLimit", "memory"))
        ),
    ]


def _limit_alert(selected: str, title: str, reason: str, field: str) -> Json:
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
    return {"name": model.deployment_name(name), "namespace": namespace, "labels": _MONITORING_LABELS}


_DNS_PORT, _API_PORT = 5353, 6443

_DNS_PEER = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
    "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
}


def build_network_policies(name: str, namespace: str, webhooks_port: int) -> list[Json]:
    to_dns = {"to": [_DNS_PEER], "ports": [_policy_port(_DNS_PORT), _policy_port(_DNS_PORT, "UDP")]}
    rules: list[tuple[str, Json]] = [
        ("default-deny", {"policyTypes": ["Egress", "Ingress"]}),
        ("allow-egress-to-dns", {"egress": [to_dns], "policyTypes": ["Egress"]}),
        ("allow-egress-to-api-server", {"egress": [{"ports": [_policy_port(_API_PORT)]}], "policyTypes": ["Egress"]}),
        (
            "allow-ingress-to-webhooks",
            {"ingress": [{"ports": [_policy_port(webhooks_port)]}], "policyTypes": ["Ingress"]},
        ),
        (
            "allow-ingress-to-metrics",
            {"ingress": [{"ports": [_policy_port(METRICS_PORT)]}], "policyTypes": ["Ingress"]},
        ),
    ]
    selected = {"podSelector": {"matchLabels": pod_labels(name)}}
    return [
        {
            "metadata": {"name": f"{model.deployment_name(name)}-{suffix}", "namespace": namespace},
            "spec": {**selected, **rule},
        }
        for suffix, rule in rules
    ]


def _policy_port(port: int, protocol: str = "TCP") -> Json:
    return {"protocol": protocol, "port": port}
