"""Well-known annotations, labels and resources, and the properties of pods and nodes read from them.

DaemonSet, mirror and static pods, grace periods, safe-to-evict and do-not-disrupt; GPUs by resource and by label;
prices by annotation.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from windlass import product

if TYPE_CHECKING:
    from windlass.engine.model import facts

GPU_RESOURCES = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
"""Extended resources that are GPUs; the first of them that a node has is the one that counts."""

CLUSTER_API_GPU_LABEL = "cluster-api/accelerator"
"""The GPU label of Cluster API's nodes; its value is the type of the GPU, in the user's own words."""


def count_ready_gpus(node: "facts.Node") -> int:
    """How many GPUs of the node can be allocated now."""
    return _first_gpu_resource(node.allocatable)


def has_gpu(node: "facts.Node", label: str) -> bool:
    """Does the node have GPUs, ready or not?"""
    return label in node.labels or count_ready_gpus(node) != 0


def find_expected_gpus(node: "facts.Node", label: str, template: "facts.Node | None") -> tuple[str, int] | None:
    """Type and number of the GPUs that the node has or will have; None if it has none or the number is unknown.

    Until the device driver reports them, the number is that of the group's template.
    """
    gpu_type = node.labels.get(label)
    if not gpu_type:
        return None
    count = count_ready_gpus(node)
    if count == 0 and template is not None:
        count = _first_gpu_resource(template.capacity)
    return (gpu_type, count) if count > 0 else None


def is_gpu_count_unknown(node: "facts.Node", label: str, template: "facts.Node | None") -> bool:
    """Whether the GPU label is set, but neither the node nor a template of its group has the number of GPUs."""
    return label in node.labels and template is None and count_ready_gpus(node) == 0


def _first_gpu_resource(resources: "facts.Resources") -> int:
    amounts = dict(resources)
    return next((amounts[name] for name in GPU_RESOURCES if amounts.get(name, 0) != 0), 0)


SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DAEMONSET_POD_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"
"""`true`: the pod counts as a DaemonSet pod, regardless of its owner."""

SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Whether a pod may be evicted: `true`, `false` or `on-completion`. Other values are ignored."""

DO_NOT_DISRUPT_ANNOTATION = "karpenter.sh/do-not-disrupt"
"""Karpenter's: `true` keeps the pod's node."""

DRAIN_LABEL = "cluster.x-k8s.io/drain"
"""Cluster API's label of a pod: `skip` or `wait-completed`, in any case. Other values are ignored."""

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""Set by the kubelet on the API's copy of a static pod; its value does not matter."""

CONFIG_SOURCE_ANNOTATION = "kubernetes.io/config.source"
"""Set by the kubelet: the source of the pod; `api` for pods from the API server."""

DEFAULT_GRACE_S = 30.0
"""The API server's default of spec.terminationGracePeriodSeconds."""

TERMINATING_EXTRA_S = 30.0
"""Time after its grace period at which a terminating pod counts as gone."""


def is_daemonset(pod: "facts.Pod") -> bool:
    """Is the pod run by a DaemonSet (of any API group), or annotated to be treated as if it were?"""
    owner = pod.owner
    if owner is not None and owner.kind == "DaemonSet":
        return True
    return pod.annotations.get(DAEMONSET_POD_ANNOTATION) == "true"


def is_mirror(pod: "facts.Pod") -> bool:
    return MIRROR_ANNOTATION in pod.annotations


def is_recreatable(pod: "facts.Pod") -> bool:
    """Does the pod come back elsewhere once it is evicted? Static, mirror and DaemonSet pods belong to their node."""
    is_static = pod.annotations.get(CONFIG_SOURCE_ANNOTATION, "api") != "api"
    return not (is_static or is_mirror(pod) or is_daemonset(pod))


def is_long_terminating(pod: "facts.Pod", now_s: float) -> bool:
    """Did it outlive its deletion time by more than its grace period and 30 s? Exactly as long is not yet longer."""
    return pod.deleted_s is not None and gone_at_s(pod.deleted_s, pod.grace_s) < now_s


def gone_at_s(deleted_s: float, grace_s: float | None) -> float:
    """When a pod that is terminating counts as gone, even if it is still there then."""
    return deleted_s + (DEFAULT_GRACE_S if grace_s is None else grace_s) + TERMINATING_EXTRA_S


PRICE_ANNOTATIONS = (
    product.PRICE_ANNOTATION,
    product.FORMER_PRICE_ANNOTATION,
    "capacity.cluster-autoscaler.kubernetes.io/price",
    "cluster.x-k8s.io/machine-current-price",
)
"""Annotations that may hold a group's price; the first valid one counts. The last two were proposed for
karpenter-provider-cluster-api."""


def read_price(annotations: Mapping[str, str]) -> float | None:
    """The price that a group's annotations name; None if none of them can be read."""
    prices = (parse_price(annotations.get(key, "")) for key in PRICE_ANNOTATIONS)
    return next((price for price in prices if price is not None), None)


def parse_price(text: str) -> float | None:
    """A price as an annotation spells it: a plain number that is finite and not negative."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if math.isfinite(price) and price >= 0 else None


def has_scale_down_disabled(node: "facts.Node") -> bool:
    return node.annotations.get(SCALE_DOWN_DISABLED) == "true"
