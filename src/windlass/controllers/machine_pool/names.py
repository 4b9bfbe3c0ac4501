"""Names that Cluster API gives: labels, annotations, the finalizer, phases, condition types and reasons."""

import base64
import re

GROUP = "cluster.x-k8s.io"
V1BETA1 = f"{GROUP}/v1beta1"
V1BETA2 = f"{GROUP}/v1beta2"

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
POOL_NAME_LABEL = "cluster.x-k8s.io/pool-name"
FINALIZER = "machinepool.cluster.x-k8s.io"

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/replicas-managed-by"
CLUSTER_NAME_ANNOTATION = "cluster.x-k8s.io/cluster-name"
CLUSTER_NAMESPACE_ANNOTATION = "cluster.x-k8s.io/cluster-namespace"
OWNER_KIND_ANNOTATION = "cluster.x-k8s.io/owner-kind"
OWNER_NAME_ANNOTATION = "cluster.x-k8s.io/owner-name"
UNINITIALIZED_TAINT = "node.cluster.x-k8s.io/uninitialized"

MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

MACHINE_MANAGER = "machinepool-controller"
"""Who applies Machines, in managedFields, and who says so in events: Cluster API's own controller does it by this name,
so that either may take over from the other."""

PENDING = "Pending"
PROVISIONING = "Provisioning"
PROVISIONED = "Provisioned"
RUNNING = "Running"
SCALING_UP = "ScalingUp"
SCALING_DOWN = "ScalingDown"
SCALING = "Scaling"
FAILED = "Failed"
DELETING = "Deleting"

READY = "Ready"
BOOTSTRAP_READY = "BootstrapReady"
INFRASTRUCTURE_READY = "InfrastructureReady"
REPLICAS_READY = "ReplicasReady"
PAUSED = "Paused"
INPUTS_VALID = "InputsValid"
"""Ours, and there only while it is False: something that the pool was given cannot be used, and what."""

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE_BYTES = 63
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def is_label_value(text: str) -> bool:
    return len(text.encode()) <= _LABEL_VALUE_BYTES and _LABEL_VALUE.fullmatch(text) is not None


def label_value(name: str) -> str:
    """A name as a label's value: itself if it may be one, otherwise a hash of it (FNV-1a, 32 bits)."""
    if is_label_value(name):
        return name
    digest = _FNV_OFFSET
    for byte in name.encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    text = base64.urlsafe_b64encode(digest.to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{text}_z"
