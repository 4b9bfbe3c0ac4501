"""Flags: the command line that a ClusterAutoscaler's spec stands for, in order."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.controllers.openshift import apis
from windlass.controllers.openshift.cluster_autoscaler.settings import Settings
from windlass.controllers.openshift.gates import Gates

Json = Mapping[str, Any]

_EXPANDERS = {"LeastWaste": "least-waste", "Priority": "priority", "Random": "random"}
_MODES = {"Enabled": "true", "Disabled": "false"}
_SCALE_DOWN = (
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
"""Labels in which like nodes of a platform differ."""


def spell(spec: Json, settings: Settings, gates: Gates) -> list[str]:
    return [*_spell(spec, settings, gates), *([settings.extra_args] if settings.extra_args else [])]


def _spell(spec: Json, settings: Settings, gates: Gates) -> Iterator[str]:
    yield from _begin(settings, gates)
    yield from (f"--startup-taint={taint}" for taint in spec.get("startupTaints") or ())
    yield from _given(spec, "maxPodGracePeriod", "max-graceful-termination-sec")
    if spec.get("maxNodeProvisionTime"):
        yield f"--max-node-provision-time={spec['maxNodeProvisionTime']}"
    yield from _given(spec, "podPriorityThreshold", "expendable-pods-priority-cutoff")
    yield from _limit(spec.get("resourceLimits") or {})
    yield from _scale_down(spec.get("scaleDown"))
    yield from _given(spec.get("scaleUp") or {}, "newPodScaleUpDelay", "new-pod-scale-up-delay")
    yield from _balance(spec, gates.platform)
    yield from _given(spec, "ignoreDaemonsetsUtilization", "ignore-daemonsets-utilization")
    yield from _given(spec, "skipNodesWithLocalStorage", "skip-nodes-with-local-storage")
    yield from (f"--balancing-ignore-label={label}" for label in spec.get("balancingIgnoredLabels") or ())
    verbosity = spec.get("logVerbosity")
    yield f"--v={settings.verbosity if verbosity is None else verbosity}"
    expanders = [_EXPANDERS[each] for each in spec.get("expanders") or () if each in _EXPANDERS]
    if expanders:
        yield f"--expander={','.join(expanders)}"
    if spec.get("enforceNodeGroupMinSize") in _MODES:
        yield f"--enforce-node-group-min-size={_MODES[spec['enforceNodeGroupMinSize']]}"


def _begin(settings: Settings, gates: Gates) -> Iterator[str]:
    """What does not depend on the spec. Leases last as long as OpenShift's conventions ask for."""
    yield "--logtostderr"
    yield "--record-duplicated-events"
    yield f"--cloud-provider={settings.cloud_provider}"
    yield f"--namespace={settings.namespace}"
    yield "--leader-elect-lease-duration=137s"
    yield "--leader-elect-renew-deadline=107s"
    yield "--leader-elect-retry-period=26s"
    yield "--max-bulk-soft-taint-count=0"
    yield "--kube-api-content-type=application/json"
    if gates.has_cluster_api:
        yield f"--node-group-auto-discovery=clusterapi:namespace={apis.CLUSTER_API.namespace}"
    if gates.has_provisioning_requests:
        yield "--enable-provisioning-requests=true"


def _given(spec: Json, field: str, flag: str) -> Iterator[str]:
    """A field that is there, as it is; a switch that is off is there, too."""
    value = spec.get(field)
    if value is not None:
        yield f"--{flag}={str(value).lower() if isinstance(value, bool) else value}"


def _limit(limits: Json) -> Iterator[str]:
    yield from _given(limits, "maxNodesTotal", "max-nodes-total")
    for name in ("cores", "memory"):
        if limits.get(name) is not None:
            yield f"--{name}-total={_range(limits[name])}"
    yield from (f"--gpu-total={gpu.get('type') or ''}:{_range(gpu)}" for gpu in limits.get("gpus") or ())


def _range(given: Json) -> str:
    return f"{given.get('min') or 0}:{given.get('max') or 0}"


def _scale_down(given: Json | None) -> Iterator[str]:
    if given is None:
        return
    if not given.get("enabled"):
        yield "--scale-down-enabled=false"
        return
    yield "--scale-down-enabled=true"
    for field, flag in _SCALE_DOWN:
        yield from _given(given, field, flag)
    if given.get("cordonNodeBeforeTerminating") in _MODES:
        yield f"--cordon-node-before-terminating={_MODES[given['cordonNodeBeforeTerminating']]}"


def _balance(spec: Json, platform: str) -> Iterator[str]:
    if spec.get("balanceSimilarNodeGroups") is None:
        return
    yield from _given(spec, "balanceSimilarNodeGroups", "balance-similar-node-groups")
    yield from (f"--balancing-ignore-label={label}" for label in _IGNORED_LABELS.get(platform, ()))
