"""What several rooms ask of a pod: does a DaemonSet run it, is it a mirror, has it been going for too long?

The annotations are Cluster Autoscaler's, because users have set them; the answers are its answers.
"""

from windlass.engine import facts

DAEMONSET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
"""`true` makes a pod count as a DaemonSet's, whoever owns it."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""What the user says of evicting a pod: `true`, `false` or `on-completion`. Anything else says nothing."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Karpenter's: `true` keeps the pod's node."""

DRAIN_LABEL = "cluster.x-k8s.io/drain"
"""Cluster API's label of a pod: `skip` or `wait-completed`, in any case. Anything else says nothing."""

MIRROR = "kubernetes.io/config.mirror"
"""Set by the kubelet on the API's copy of a static pod; its value does not matter."""

SOURCE = "kubernetes.io/config.source"
"""Set by the kubelet on what it runs: `api` where the API server told it to."""

DEFAULT_GRACE_S = 30.0
"""The API server's default of spec.terminationGracePeriodSeconds."""

TERMINATING_EXTRA_S = 30.0
"""How long past its grace period a pod may still be going before it counts as gone."""


def is_daemonset(pod: facts.Pod) -> bool:
    """Is the pod run by a DaemonSet (of any API group), or annotated to be treated as if it were?"""
    owner = pod.owner
    if owner is not None and owner.kind == "DaemonSet":
        return True
    return pod.annotations.get(DAEMONSET_POD) == "true"


def is_mirror(pod: facts.Pod) -> bool:
    return MIRROR in pod.annotations


def is_recreatable(pod: facts.Pod) -> bool:
    """Does the pod come back elsewhere once it is evicted? Static, mirror and DaemonSet pods belong to their node."""
    is_static = pod.annotations.get(SOURCE, "api") != "api"
    return not (is_static or is_mirror(pod) or is_daemonset(pod))


def is_long_terminating(pod: facts.Pod, now_s: float) -> bool:
    """Did it outlive its deletion time by more than its grace period and 30 s? Exactly as long is not yet longer."""
    return pod.deleted_s is not None and gone_at_s(pod.deleted_s, pod.grace_s) < now_s


def gone_at_s(deleted_s: float, grace_s: float | None) -> float:
    """When a pod that is terminating counts as gone, even if it is still there then."""
    return deleted_s + (DEFAULT_GRACE_S if grace_s is None else grace_s) + TERMINATING_EXTRA_S
