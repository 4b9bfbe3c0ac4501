"""Utilization: how much of a node its pods ask for.

    utilization = requests / (allocatable - set aside)

The larger of cpu and memory counts, memory where they are equal. On a node with a GPU only the GPU counts: it is what
the node is paid for. So it is on one with devices of its own: the pool counts of which most is allocated. Long
terminating pods count as gone. DaemonSet and mirror pods can be left out on request: what they ask for is then set
aside, as if the node were that much smaller.

Quotients are Cluster Autoscaler's to the last bit: it divides thousandths as floats, and so does this, also where
nothing is left to divide by (all of a node set aside gives infinity, or not-a-number where nothing is asked for).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windlass.engine import facts, gpus, pod_traits
from windlass.engine.dtypes import Amounts, Mask

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Options:
    """What of a node's pods is set aside."""

    skip_daemonset_pods: bool = False
    """--ignore-daemonsets-utilization"""
    skip_mirror_pods: bool = False
    """--ignore-mirror-pods-utilization"""


@dataclass(frozen=True, slots=True)
class Utilization:
    """How much of a node is asked for, as fractions; `utilization` is that of `resource`, which counts."""

    cpu: float
    memory: float
    gpu: float
    resource: str
    utilization: float
    devices: float = 0.0
    """Of the pool of devices that is used most, on a node that has pools of its own."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node does not say how much of a resource it has, or says 0: its utilization cannot be told."""

    node: str
    resource: str

    def __str__(self) -> str:
        return f"node {self.node}: status.allocatable[{self.resource}] is missing or 0"


def gpu_resource(node: facts.Node, label: str) -> str | None:
    """The GPU that counts on the node: the first that it shows, or Nvidia's where only the provider's label tells."""
    if not gpus.has_gpu(node, label):
        return None
    shown = dict(node.allocatable)
    return next((name for name in gpus.RESOURCES if shown.get(name, 0) != 0), gpus.RESOURCES[0])


def calculate(
    node: facts.Node, pods: Iterable[facts.Pod], options: Options, gpu: str | None, now_s: float
) -> Utilization | Unknown:
    """The utilization of one node. `gpu` names the GPU resource that counts there (`gpu_resource`); None for none.

    A GPU that the node does not show (yet) counts as unused, so that a node whose driver never came up can go.
    """
    counted, set_aside = _split(pods, options, now_s)
    if gpu is not None:
        used = _fraction(node, gpu, counted, set_aside) or 0.0
        return Utilization(0.0, 0.0, used, gpu, used)
    cpu = _fraction(node, facts.CPU, counted, set_aside)
    if cpu is None:
        return Unknown(node.name, facts.CPU)
    memory = _fraction(node, facts.MEMORY, counted, set_aside)
    if memory is None:
        return Unknown(node.name, facts.MEMORY)
    resource, utilization = (facts.CPU, cpu) if cpu > memory else (facts.MEMORY, memory)
    return Utilization(cpu, memory, 0.0, resource, utilization)


def _split(pods: Iterable[facts.Pod], options: Options, now_s: float) -> tuple[dict[str, int], dict[str, int]]:
    """Requests by resource: of the pods that count, and of those that are set aside."""
    counted: dict[str, int] = {}
    set_aside: dict[str, int] = {}
    for pod in pods:
        if is_set_aside(pod, options):
            total = set_aside
        elif pod_traits.is_long_terminating(pod, now_s):
            continue
        else:
            total = counted
        for resource, amount in pod.spec.requests:
            total[resource] = total.get(resource, 0) + amount
    return counted, set_aside


def is_set_aside(pod: facts.Pod, options: Options) -> bool:
    """Is the pod left out? Asked first: also a long terminating DaemonSet pod makes the node smaller."""
    if options.skip_daemonset_pods and pod_traits.is_daemonset(pod):
        return True
    return options.skip_mirror_pods and pod_traits.is_mirror(pod)


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


# ── All nodes at once ────────────────────────────────────────────────────────────────────────────────────────────

CPU, MEMORY, GPU = range(3)
"""Columns of the arrays below, and codes in `Utilizations.resource`."""


@dataclass(frozen=True, slots=True)
class Utilizations:
    """Utilization of n nodes."""

    fractions: Floats
    """float64 (n, 3): cpu, memory, GPU; 0 where it does not count."""
    resource: npt.NDArray[np.int8]
    """int8 (n,): the column that counts."""
    utilization: Floats
    """float64 (n,): the fraction that counts; 0 where it cannot be told."""
    known: Mask
    """bool (n,): False where a node shows no cpu or no memory, and its utilization cannot be told."""


def calculate_all(used: Amounts, allocatable: Amounts, set_aside: Amounts, has_gpu: Mask) -> Utilizations:
    """Utilization of n nodes from int64 (n, 3) amounts of cpu (millicores), memory (bytes) and GPU (pieces).

    `used` holds what the pods that count ask for, `set_aside` what those left out do (see `is_set_aside`), and the
    GPU column whichever GPU a node has; `has_gpu` is bool (n,). The same figures as `calculate`, node by node.
    """
    scale = np.array([1.0, 1000.0, 1000.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (used * scale) / ((allocatable - set_aside) * scale)
    shown = allocatable != 0
    known = has_gpu | (shown[:, CPU] & shown[:, MEMORY])
    counts = np.stack([~has_gpu & known, ~has_gpu & known, has_gpu], axis=1) & shown
    fractions = np.where(counts, fractions, 0.0)
    larger = np.where(fractions[:, CPU] > fractions[:, MEMORY], CPU, MEMORY)
    resource = np.where(has_gpu, GPU, larger).astype(np.int8)
    return Utilizations(fractions, resource, fractions[np.arange(len(used)), resource], known)
