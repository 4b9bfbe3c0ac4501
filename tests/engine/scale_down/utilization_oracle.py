"""Utilization of one node, pod by pod: what `utilization.measure` computes from columns, in plain terms."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from windlass.engine.model import facts, well_known
from windlass.engine.model.scale_down_state import NodeUtilization


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node does not say how much of a resource it has, or says 0: its utilization cannot be told."""

    node: str
    resource: str


@dataclass(frozen=True, slots=True)
class Options:
    """What of a node's pods is set aside."""

    skip_daemonset_pods: bool = False
    """--ignore-daemonsets-utilization"""
    skip_mirror_pods: bool = False
    """--ignore-mirror-pods-utilization"""


def calculate(
    node: facts.Node, pods: Iterable[facts.Pod], options: Options, gpu: str | None, now_s: float
) -> NodeUtilization | Unknown:
    """The utilization of one node. `gpu` names the GPU resource that counts there (`gpu_resource`); None for none.

    A GPU that the node does not show (yet) counts as unused, so that a node whose driver never came up can go.
    """
    counted, set_aside = _split(pods, options, now_s)
    if gpu is not None:
        used = _fraction(node, gpu, counted, set_aside) or 0.0
        return NodeUtilization(0.0, 0.0, used, gpu, used)
    cpu = _fraction(node, facts.CPU, counted, set_aside)
    if cpu is None:
        return Unknown(node.name, facts.CPU)
    memory = _fraction(node, facts.MEMORY, counted, set_aside)
    if memory is None:
        return Unknown(node.name, facts.MEMORY)
    resource, utilization = (facts.CPU, cpu) if cpu > memory else (facts.MEMORY, memory)
    return NodeUtilization(cpu, memory, 0.0, resource, utilization)


def _split(pods: Iterable[facts.Pod], options: Options, now_s: float) -> tuple[dict[str, int], dict[str, int]]:
    """Requests by resource: of the pods that count, and of those that are set aside."""
    counted: dict[str, int] = {}
    set_aside: dict[str, int] = {}
    for pod in pods:
        if is_set_aside(pod, options):
            total = set_aside
        elif well_known.is_long_terminating(pod, now_s):
            continue
        else:
            total = counted
        for resource, amount in pod.spec.requests:
            total[resource] = total.get(resource, 0) + amount
    return counted, set_aside


def is_set_aside(pod: facts.Pod, options: Options) -> bool:
    """Is the pod left out? Asked first: also a long terminating DaemonSet pod makes the node smaller."""
    if options.skip_daemonset_pods and well_known.is_daemonset(pod):
        return True
    return options.skip_mirror_pods and well_known.is_mirror(pod)


def _fraction(node: facts.Node, resource: str, counted: dict[str, int], set_aside: dict[str, int]) -> float | None:
    """None where the node shows nothing of the resource."""
    allocatable = dict(node.allocatable).get(resource, 0)
    if allocatable == 0:
        return None
    left = allocatable - set_aside.get(resource, 0)
    scale = _thousandths(resource)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(counted.get(resource, 0) * scale) / np.float64(left * scale))


def _thousandths(resource: str) -> int:
    """What makes an amount thousandths; cpu is kept in them. Tells only above 2^53, where floats begin to round."""
    return 1 if resource == facts.CPU else 1000
