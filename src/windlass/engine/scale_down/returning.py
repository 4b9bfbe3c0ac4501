"""Returning pods: pods that were evicted and will come back, whose room must not be given away meanwhile.

A pod that was evicted leaves a gap until its controller has made another. Where the controller tells how many it still
has to make, no more than that many are expected of those evicted; where nobody can tell, each is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from windlass.engine import facts, pod_traits
from windlass.engine.drain.context import ControllerKey

SOURCE = "kubernetes.io/config.source"
"""Set by the kubelet on what it runs: `api` where the API server told it to."""

_COUNTING = ("StatefulSet", "Job", "ReplicaSet", "ReplicationController")
"""Controllers that keep a number of pods."""


def find_returning(evicted: Iterable[facts.Pod], missing: Mapping[ControllerKey, int]) -> list[facts.Pod]:
    """Those of the evicted pods that are still to come back, as pods that wait for a place.

    `missing` tells how many pods a controller wants beyond those that it has.
    """
    left = dict(missing)
    return [_wait(pod) for pod in evicted if not _belongs_to_node(pod) and _is_missing(pod, left)]


def _belongs_to_node(pod: facts.Pod) -> bool:
    """Is it bound to its node, so that it does not come back elsewhere?"""
    is_static = pod.annotations.get(SOURCE, "api") != "api"
    return is_static or pod_traits.is_mirror(pod) or pod_traits.is_daemonset(pod)


def _is_missing(pod: facts.Pod, left: dict[ControllerKey, int]) -> bool:
    if pod.owner is None or pod.owner.kind not in _COUNTING:
        return True
    key = (pod.owner.kind, pod.namespace, pod.owner.name)
    if key not in left:
        return True
    left[key] -= 1
    return left[key] >= 0


def _wait(pod: facts.Pod) -> facts.Pod:
    """A pod like it that waits; not the pod itself, which may still be there, ending."""
    return replace(pod, uid=f"{pod.uid or pod.key} returning", node_name="", deleted_s=None)
